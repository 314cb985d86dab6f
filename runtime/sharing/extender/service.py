"""`serve_extender`: the extender as an HTTP service (FastAPI under uvicorn), with its lease clock.

==============================  ====================================================================================
``POST /filter``                kube-scheduler: on which nodes does a pod fit?
``POST /apps?namespace=…``      an app arrives: an `App` as JSON (its arrival is now); the answer holds its key
``POST /apps/{name}/report``    phase, and GPU seconds left of each job; answered by where its jobs may run (key)
``GET /apps/{name}``            the same answer
``DELETE /apps/{name}``         an app is done (key)
``POST /apps/{name}/view``      what the exported plugin's `estimates` answers: see `remote_views`
``GET /lapsed``                 pods whose GPUs are others' by now: whoever evicts pods has them save, and deletes them
``POST /pods/gone``             a pod has ended, by namespace/name and uid
``GET /``                       who holds which GPUs, for people
==============================  ====================================================================================

(key): the header `KEY_HEADER` carries the key of the app. Status 400: no JSON. 403: another's. 404: no such app or pod.
422: what is said cannot be.
"""

from __future__ import annotations

import asyncio
import http.client
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, urlsplit

from ....errors import InputError, MeshwrightError, RunError
from ....simulator.sharing.policy.agent import AppView
from ...listening import Listening, bearer_header, token_of
from ...web import JsonRefusal, Limits, WebServer, read_json
from ..asked import detail, told
from ..choice import check_named
from ..documents import from_document, read_document, to_document
from ..messages import PodGone, Report, ViewAsked
from ..tenants import Forbidden, Unknown
from .pods_arbiter import Extender
from .task import ExtenderTask

__all__ = ["KEY_HEADER", "extender_application", "remote_views", "serve_extender"]

KEY_HEADER = "X-Meshwright-App-Key"
OPEN_PATHS = ("/health",)
"""What a probe may ask for without the token."""
LARGEST = 2**20
"""Bytes of a request, and of an answer that is read."""


def extender_application(extender: Extender, clock: Callable[[], float]) -> Any:
    """The HTTP application around an extender; `clock` gives seconds since it began."""
    from fastapi import FastAPI
    from fastapi.responses import JSONResponse

    app = FastAPI(title="Meshwright extender", docs_url=None, redoc_url=None, openapi_url=None)
    app.router.redirect_slashes = False  # to whatever host a client names

    def wrong(_: Any, error: Exception) -> Any:
        status = 422 if isinstance(error, InputError) else 500
        for kind, its in ((JsonRefusal, getattr(error, "status", 500)), (Unknown, 404), (Forbidden, 403)):
            status = its if isinstance(error, kind) else status
        if status == 500:
            print(f"extender: {error}", file=sys.stderr, flush=True)
        return JSONResponse(detail(status, str(error)), status)

    app.add_exception_handler(MeshwrightError, wrong)

    def named(request: Any) -> str:
        return request.path_params["name"]

    def owned(request: Any) -> str:
        name = named(request)
        extender.standing(name)  # there is one of this name
        extender.tenants.check(name, request.headers.get(KEY_HEADER))
        return name

    # Routes of Starlette's own: they are handed the request, and read its body strictly.
    async def fits(request: Any) -> Any:
        return JSONResponse(extender.filter(read_json(await request.body()), clock()))

    async def register(request: Any) -> Any:
        said = read_json(await request.body())
        namespace = request.query_params.get("namespace", "default")
        number = extender.register(said, clock(), namespace=namespace, key=request.headers.get(KEY_HEADER))
        name = said["name"]
        answer = {"number": number, "key": extender.tenants.key(name), **extender.standing(name)}
        return JSONResponse(answer, 201)

    async def report(request: Any) -> Any:
        name = owned(request)
        extender.report(name, await told(request, Report), clock())
        return JSONResponse(extender.standing(name))

    async def standing(request: Any) -> Any:
        extender.decide(clock())
        return JSONResponse(extender.standing(named(request)))

    async def leave(request: Any) -> Any:
        extender.leave(owned(request), clock())
        return JSONResponse({"ok": True})

    async def view(request: Any) -> Any:
        said = await told(request, ViewAsked)
        return JSONResponse(to_document(extender.view(named(request), said.number, said.held, said.lapsed, clock())))

    async def lapsed(_: Any) -> Any:
        return JSONResponse({"pods": extender.lapsed(clock())})

    async def pod_gone(request: Any) -> Any:
        said = await told(request, PodGone)
        extender.pod_gone(said.pod, said.uid, request.headers.get(KEY_HEADER))
        return JSONResponse({"ok": True})

    async def health(_: Any) -> Any:
        return JSONResponse({})

    async def books(_: Any) -> Any:
        names = {number: name for name, number in extender.numbers.items()}
        return JSONResponse({
            "now_s": clock(),
            "policy": extender.policy.name,
            "gpus": [names.get(owner) for owner in extender.ledger.owner],
            "apps": {name: extender.standing(name) for name in extender.numbers},
            "pods": {pod: {"app": u.app, "node": u.node, "gpus": u.gpus} for pod, u in extender.pods.items()},
        })  # fmt: skip

    for path, method, does in (
        ("/filter", "POST", fits), ("/apps", "POST", register), ("/apps/{name}/report", "POST", report),
        ("/apps/{name}", "GET", standing), ("/apps/{name}", "DELETE", leave), ("/apps/{name}/view", "POST", view),
        ("/lapsed", "GET", lapsed), ("/pods/gone", "POST", pod_gone), ("/", "GET", books), ("/health", "GET", health),
    ):  # fmt: skip
        app.add_route(path, cast("Any", does), methods=[method])
    return app


def serve_extender(
    about: Path, host: str = "127.0.0.1", port: int | None = None, *, decides: bool = True,
    where: Listening | None = None, limits: Limits | None = None, admin_key: str | None = None,
    policy: str | None = None,
) -> None:  # fmt: skip
    """Run the extender's service in this process until it is told to end (Ctrl-C, SIGTERM).

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
    where : Listening, optional
        Instead of `host` and `port`, with a token or TLS.
    limits : Limits, optional
        Time-outs and bounds.
    admin_key : str, optional
        Opens every app, for who runs the cluster.
    policy : str, optional
        The policy that the file has to name; a ``module:factory`` of it is called only if this says the same.

    Raises
    ------
    InputError
        If the file is not one of these, the port cannot be had, or the address is wider than loopback without a token.
    RunError
        If the policy fails.
    """
    task = from_document(ExtenderTask, read_document(about), str(about))
    check_named(task.policy, policy, str(about))
    extender = Extender(task, decides=decides, admin_key=admin_key)
    if where is None:
        where = Listening(host, task.port if port is None else port, token_of(None))
    began = time.monotonic()
    failures: list[BaseException] = []

    def clock() -> float:
        return time.monotonic() - began

    server = WebServer(
        extender_application(extender, clock), where, limits or Limits(body_bytes=LARGEST), error=detail,
        open_paths=OPEN_PATHS,
    )  # fmt: skip

    async def whole() -> None:
        ticking = asyncio.create_task(_lease_clock(extender, clock))

        def failed(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and task.exception() is not None:
                failures.append(task.exception() or RunError("extender: its clock stopped"))
                server.drain()

        ticking.add_done_callback(failed)
        await server.serve()
        ticking.cancel()

    print(
        f"extender at {where.host}:{server.port}, policy {extender.policy.name}, {extender.cluster}",
        file=sys.stderr, flush=True,
    )  # fmt: skip
    asyncio.run(whole())
    if failures:
        raise failures[0]


async def _lease_clock(extender: Extender, clock: Callable[[], float]) -> None:
    """Decide when leases are over, though nobody asks."""
    while True:
        next_s = extender.ledger.next_lease_s()
        if next_s <= clock():
            extender.decide(clock())
        # At most a second: a lease that is granted meanwhile may end sooner. At least 10 ms: no spinning on rounding.
        await asyncio.sleep(min(1.0, max(0.01, next_s - clock())) if math.isfinite(next_s) else 1.0)


def remote_views(
    url: str, token: str | None = None
) -> Callable[[str, int, float, tuple[int, ...], tuple[int, ...]], AppView]:
    """Make the exported plugin's `estimates`: it asks an extender service at `url` for what agents told it.

    Parameters
    ----------
    url : str
        ``http://host:port`` or ``https://host:port``.
    token : str, optional
        The service's; by default what the environment's MESHWRIGHT_TOKEN says, if anything.

    Raises
    ------
    InputError
        If the address or the token is none.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise InputError(f"agents: expected http://host:port (got {url!r})") from None
    if parts.scheme not in ("http", "https") or not host or port is None:
        raise InputError(f"agents: expected http://host:port (got {url!r})")
    kind = http.client.HTTPConnection if parts.scheme == "http" else http.client.HTTPSConnection
    headers = {"Content-Type": "application/json"} | bearer_header(token or token_of(None))

    def view(app: str, number: int, now_s: float, held: tuple[int, ...], lapsed: tuple[int, ...]) -> AppView:
        connection = kind(host, port, timeout=10)
        try:
            asked = ViewAsked(number=number, held=held, lapsed=lapsed).model_dump_json()
            connection.request("POST", f"/apps/{quote(app, safe='')}/view", asked, headers)
            response = connection.getresponse()
            said = read_json(response.read(LARGEST))
        except (OSError, http.client.HTTPException, JsonRefusal) as error:
            raise RunError(f"agents: {url} does not answer: {error}") from None
        finally:
            connection.close()
        if response.status != 200:
            raise RunError(f"agents: {url} refused: {response.status} {said}")
        return from_document(AppView, said, "view")

    return view
