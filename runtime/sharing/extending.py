"""`serve_extender`: the extender as an HTTP service (FastAPI under uvicorn), with its lease clock.

==============================  ====================================================================================
``POST /filter``                kube-scheduler: on which nodes does a pod fit?
``POST /apps``                  an app arrives: an `App` as JSON (its arrival is now)
``POST /apps/{name}/report``    phase, and GPU seconds left of each job; answered by where its jobs may run
``GET /apps/{name}``            the same answer
``DELETE /apps/{name}``         an app is done
``POST /apps/{name}/view``      what the exported plugin's `estimates` answers: see `remote_views`
``GET /lapsed``                 pods whose GPUs are others' by now: whoever evicts pods has them save, and deletes them
``POST /pods/gone``             a pod has ended
``GET /``                       who holds which GPUs, for people
==============================  ====================================================================================

Status 404: no such app or pod. 422: what is said cannot be.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from ...errors import InputError, RunError
from ...simulator.sharing.agent import AppView
from .documents import from_document, read_document, to_document
from .extender import Extender
from .extender_task import ExtenderTask
from .messages import PodGone, Report, ViewAsked
from .service import listen

__all__ = ["extender_application", "remote_views", "serve_extender"]


def extender_application(extender: Extender, clock: Callable[[], float]) -> Any:
    """The HTTP application around an extender; `clock` gives seconds since it began."""
    from fastapi import FastAPI, Request
    from fastapi.responses import JSONResponse

    app = FastAPI(title="Meshwright extender", docs_url=None, redoc_url=None)

    def wrong(request: Any, error: Exception) -> Any:
        status = 404 if "not registered" in str(error) or "never placed" in str(error) else 422
        return JSONResponse({"detail": str(error)}, status)

    app.add_exception_handler(InputError, wrong)

    async def body(request: Request) -> Any:
        try:
            return json.loads(await request.body())
        except ValueError as error:
            raise InputError(f"body: no JSON: {error}") from None

    async def fits(request: Request) -> Any:
        return JSONResponse(extender.filter(await body(request), clock()))

    async def register(request: Request) -> Any:
        said = await body(request)
        number = extender.register(said, clock())
        return JSONResponse({"number": number, **extender.standing(said["name"])}, 201)

    async def report(name: str, message: Report) -> dict[str, Any]:
        extender.report(name, message, clock())
        return extender.standing(name)

    async def standing(name: str) -> dict[str, Any]:
        extender.decide(clock())
        return extender.standing(name)

    async def leave(name: str) -> dict[str, bool]:
        extender.leave(name, clock())
        return {"ok": True}

    async def view(name: str, message: ViewAsked) -> Any:
        return to_document(extender.view(name, message.number, message.held, message.lapsed, clock()))

    async def lapsed() -> dict[str, list[str]]:
        return {"pods": extender.lapsed(clock())}

    async def pod_gone(message: PodGone) -> dict[str, bool]:
        extender.pod_gone(message.pod)
        return {"ok": True}

    async def books() -> dict[str, Any]:
        names = {number: name for name, number in extender.numbers.items()}
        return {
            "now_s": clock(),
            "policy": extender.policy.name,
            "gpus": [names.get(owner) for owner in extender.ledger.owner],
            "apps": {name: extender.standing(name) for name in extender.numbers},
            "pods": {pod: {"app": a, "node": n, "gpus": g} for pod, (a, n, g) in extender.pods.items()},
        }

    # Routes of Starlette's own: they are handed the request, whose body is theirs to read.
    app.add_route("/filter", fits, methods=["POST"])
    app.add_route("/apps", register, methods=["POST"])
    app.post("/apps/{name}/report")(report)
    app.get("/apps/{name}")(standing)
    app.delete("/apps/{name}")(leave)
    app.post("/apps/{name}/view")(view)
    app.get("/lapsed")(lapsed)
    app.post("/pods/gone")(pod_gone)
    app.get("/")(books)
    return app


def serve_extender(about: Path, host: str = "127.0.0.1", port: int | None = None, *, decides: bool = True) -> None:
    """Be the extender until told to end (Ctrl-C, SIGTERM).

    Parameters
    ----------
    about : Path
        arbiter.json of `meshwright export --to scheduler-plugin`.
    host : str
        Address to listen on.
    port : int, optional
        Instead of the file's.
    decides : bool
        Whether it is the arbiter, or only answers views for one.

    Raises
    ------
    InputError
        If the file is not one of these, or the port cannot be had.
    RunError
        If the policy fails.
    """
    import uvicorn

    task = from_document(ExtenderTask, read_document(about), str(about))
    extender = Extender(task, decides=decides)
    listener = listen(task.port if port is None else port, host)
    began = time.monotonic()
    failures: list[BaseException] = []

    def clock() -> float:
        return time.monotonic() - began

    config = uvicorn.Config(
        extender_application(extender, clock), log_level="warning", access_log=False, lifespan="off", log_config=None
    )
    server = uvicorn.Server(config)

    async def whole() -> None:
        ticking = asyncio.create_task(_lease_clock(extender, clock))

        def failed(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and task.exception() is not None:
                failures.append(task.exception() or RunError("extender: its clock stopped"))
                server.should_exit = True

        ticking.add_done_callback(failed)
        await server.serve([listener])
        ticking.cancel()

    print(
        f"extender at {host}:{listener.getsockname()[1]}, policy {extender.policy.name}, {extender.cluster}",
        file=sys.stderr, flush=True,
    )  # fmt: skip
    try:
        asyncio.run(whole())
    finally:
        listener.close()
    if failures:
        raise failures[0]


async def _lease_clock(extender: Extender, clock: Callable[[], float]) -> None:
    """Decide when leases are over, though nobody asks."""
    while True:
        next_s = extender.ledger.next_lease_s()
        if next_s <= clock():
            extender.decide(clock())
        await asyncio.sleep(min(1.0, max(0.01, next_s - clock())) if math.isfinite(next_s) else 1.0)


def remote_views(url: str) -> Callable[[str, int, float, tuple[int, ...], tuple[int, ...]], AppView]:
    """`estimates` of the exported plugin: what the agents told a service of this module, at `url`.

    Raises
    ------
    InputError
        If it is no ``http://host:port``.
    """
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname or parts.port is None:
        raise InputError(f"agents: expected http://host:port (got {url!r})")
    host, port = parts.hostname, parts.port

    def view(app: str, number: int, now_s: float, held: tuple[int, ...], lapsed: tuple[int, ...]) -> AppView:
        connection = http.client.HTTPConnection(host, port, timeout=10)
        try:
            asked = ViewAsked(number=number, held=held, lapsed=lapsed).model_dump_json()
            connection.request("POST", f"/apps/{quote(app, safe='')}/view", asked, {"Content-Type": "application/json"})
            response = connection.getresponse()
            said = json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise RunError(f"agents: {url} does not answer: {error}") from None
        finally:
            connection.close()
        if response.status != 200:
            raise RunError(f"agents: {url} refused: {response.status} {said}")
        return from_document(AppView, said, "view")

    return view
