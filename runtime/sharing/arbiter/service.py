"""`serve`: the arbiter as an HTTP service (FastAPI under uvicorn) that agents talk to, on this machine's loopback.

===========================  =======================================================================
``POST /apps/{app}/hello``   an agent is ready
``GET /apps/{app}/command``  the next command after number ``after``; kept open until there is one. An agent whose
                             connection breaks here, and who is not back soon, is gone
``POST /apps/{app}/answer``  the answer to a command
``POST /apps/{app}/state``   an app arrives, or jobs of it have ended
``POST /apps/{app}/gone``    whoever started an agent says that its process has ended, and how
``GET /world``               the world and how it is run: what an agent is started with
``GET /``                    who has which GPU, for people
===========================  =======================================================================

Status 404: no such app. 409: not this app's agent. 410: the arbiter has given this agent up; it has to end.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import nullcontext
from importlib.util import find_spec
from typing import Any, cast

from ....errors import InputError, install_hint
from ...listening import LOOPBACK, Listening, listening_socket
from ...web import Guard, JsonRefusal, Limits
from ..asked import detail, number_of, told
from ..documents import to_document
from ..messages import Answer, Gone, Hello, State
from .checks import check_state
from .lease_clock import Arbiter

__all__ = ["application", "check_installed", "listen", "serve_until"]

LIMITS = Limits(head_s=10.0, body_s=10.0, idle_s=3600.0, connections=4000, body_bytes=16 * 2**20)
"""Limits of the service. Agents keep a connection open that is quiet for long, and send all of their pauses at their
end. Two connections for each of some thousand agents are room enough; the numbers are guesses."""


def check_installed() -> None:
    """See that FastAPI, uvicorn and torch are there.

    Raises
    ------
    InputError
        If not; with the command that installs them.
    """
    missing = [name for name in ("fastapi", "uvicorn", "torch") if find_spec(name) is None]
    if missing:
        raise InputError(f"run_sharing: {' and '.join(missing)} not installed; {install_hint('serve', 'torch')}")


def listen(port: int = 0) -> socket.socket:
    """A socket that listens on the loopback device: agents are on this machine, whose clock is theirs. Port 0 takes any
    that is free.

    Raises
    ------
    InputError
        If the port cannot be had.
    """
    return listening_socket(Listening(LOOPBACK, port))


def application(arbiter: Arbiter) -> Any:
    """The HTTP application around an arbiter."""
    from fastapi import FastAPI, HTTPException
    from fastapi.responses import JSONResponse

    app = FastAPI(title="Meshwright arbiter", docs_url=None, redoc_url=None, openapi_url=None)
    app.router.redirect_slashes = False  # to whatever host a client names

    def known(number: int) -> int:
        if not 0 <= number < len(arbiter.agents):
            raise HTTPException(404, f"app: there are {len(arbiter.agents)} (got {number})")
        return number

    def wanted(number: int) -> int:
        why = arbiter.agents[known(number)].gone
        if why:
            raise HTTPException(410, why)
        return number

    def number_in(request: Any) -> int:
        return number_of(request.path_params["number"], "app: expected the number of an app")

    def stands(number: int, state: State) -> None:
        try:
            check_state(arbiter.world, number, state)
        except InputError as error:
            raise HTTPException(422, str(error)) from None

    # Routes of Starlette's own: they are handed the request, read its body strictly, and know when its caller has gone.
    async def hello(request: Any) -> Any:
        number = wanted(number_in(request))
        try:
            arbiter.hello(number, await told(request, Hello))
        except InputError as error:
            raise HTTPException(409, str(error)) from None
        return JSONResponse({"ok": True})

    async def command(request: Any) -> Any:
        number = known(number_in(request))
        after = number_of(request.query_params.get("after", "0"), "after: expected the number of a command")
        answer = asyncio.ensure_future(arbiter.roster.command(number, after))
        left = asyncio.ensure_future(_left(request))
        await asyncio.wait((answer, left), return_when=asyncio.FIRST_COMPLETED)
        left.cancel()
        if not answer.done():
            answer.cancel()
            arbiter.roster.left(number)
            return JSONResponse({})  # to nobody
        next_one = answer.result()
        if next_one is None:
            raise HTTPException(410, arbiter.agents[number].gone or "the run is over")
        return JSONResponse(next_one.model_dump())

    async def answer(request: Any) -> Any:
        number, message = wanted(number_in(request)), await told(request, Answer)
        stands(number, message.state)
        arbiter.answered(number, message)
        return JSONResponse({"ok": True})

    async def state(request: Any) -> Any:
        number, message = wanted(number_in(request)), await told(request, State)
        stands(number, message)
        arbiter.happened(number, message)
        return JSONResponse({"ok": True})

    async def gone(request: Any) -> Any:
        arbiter.gone(known(number_in(request)), (await told(request, Gone)).why)
        return JSONResponse({"ok": True})

    async def world() -> dict[str, Any]:
        return {"world": to_document(arbiter.world), "options": to_document(arbiter.options)}

    async def books() -> dict[str, Any]:
        ledger = arbiter.ledger
        names = [a.name for a in arbiter.world.apps]
        return {
            "now_s": ledger.now_s,
            "gpus": [names[o] if o >= 0 else None for o in ledger.owner],
            "apps": {names[a]: sorted(book.gpus) for a, book in sorted(ledger.active.items())},
            "done": [names[a] for a in sorted(ledger.records)],
            "rounds": arbiter.rounds,
            "awaited": [n for n, a in zip(names, arbiter.agents, strict=True) if not (a.hello or a.gone or a.polls)],
            "lost": [str(lost) for lost in arbiter.lost],
        }

    async def refused(_: Any, error: Exception) -> Any:
        status = getattr(error, "status", 500)
        return JSONResponse(detail(status, str(error)), status)

    app.add_exception_handler(JsonRefusal, refused)
    for what, method, does in (
        ("hello", "POST", hello), ("command", "GET", command), ("answer", "POST", answer), ("state", "POST", state),
        ("gone", "POST", gone),
    ):  # fmt: skip
        app.add_route(f"/apps/{{number}}/{what}", cast("Any", does), methods=[method])
    app.get("/world")(world)
    app.get("/")(books)
    return app


async def _left(request: Any) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def serve_until(arbiter: Arbiter, listener: socket.socket, work: Any, token: str | None = None) -> None:
    """Serve while `work` (a coroutine) goes on; whatever it raises is raised.

    Parameters
    ----------
    arbiter : Arbiter
        The arbiter that answers requests.
    listener : socket
        The listening socket.
    work : coroutine
        Serve until it ends.
    token : str, optional
        Token that every request must carry.
    """
    import uvicorn

    from ...web.protocol import guarded_protocol

    limits = LIMITS.fitting()
    config = uvicorn.Config(
        Guard(application(arbiter), token=token, limits=limits, error=detail), http=guarded_protocol(limits, detail),
        ws="none", log_level="critical", access_log=False, lifespan="off", timeout_keep_alive=round(limits.idle_s),
        timeout_graceful_shutdown=1, log_config=None,  # uvicorn's own would replace the handlers of the whole process
    )  # fmt: skip

    class Server(uvicorn.Server):
        def capture_signals(self) -> Any:
            return nullcontext()  # signals are the caller's

    server = Server(config)
    serving = asyncio.create_task(server.serve([listener]))
    working = asyncio.create_task(work)
    try:
        await asyncio.wait([serving, working], return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            working.cancel()
            raise InputError("run_sharing: the arbiter's server ended before the run")
        working.result()
    finally:
        working.cancel()
        arbiter.close()
        server.should_exit = True
        await asyncio.wait([serving], timeout=5.0)
