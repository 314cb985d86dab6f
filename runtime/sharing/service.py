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
from importlib.util import find_spec
from typing import Any

from ...errors import InputError, install_hint
from .arbiter import Arbiter
from .documents import to_document
from .messages import Answer, Gone, Hello, State

__all__ = ["application", "check_installed", "listen", "serve_until"]


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


def listen(port: int = 0, host: str = "127.0.0.1") -> socket.socket:
    """A socket that listens, of the loopback device unless told otherwise; port 0 takes any that is free.

    Raises
    ------
    InputError
        If the port cannot be had.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(1024)
    except (OSError, OverflowError) as error:
        listener.close()
        raise InputError(f"run_sharing: cannot listen on {host}:{port}: {error}; choose another port") from None
    return listener


def application(arbiter: Arbiter) -> Any:
    """The HTTP application around an arbiter."""
    from fastapi import FastAPI, HTTPException
    from fastapi.responses import JSONResponse

    app = FastAPI(title="Meshwright arbiter", docs_url=None, redoc_url=None)

    def known(number: int) -> int:
        if not 0 <= number < len(arbiter.agents):
            raise HTTPException(404, f"app: there are {len(arbiter.agents)} (got {number})")
        return number

    def wanted(number: int) -> int:
        why = arbiter.agents[known(number)].gone
        if why:
            raise HTTPException(410, why)
        return number

    # FastAPI reads the annotations: under `from __future__ import annotations` they must be names of this module.
    async def hello(number: int, message: Hello) -> dict[str, bool]:
        try:
            arbiter.hello(wanted(number), message)
        except InputError as error:
            raise HTTPException(409, str(error)) from None
        return {"ok": True}

    async def command(request: Any) -> Any:
        # A route of Starlette's own: it hands on the request, which knows when its caller has gone.
        number, after = known(request.path_params["number"]), request.query_params.get("after", "0")
        if not after.isdigit():
            raise HTTPException(422, f"after: expected the number of a command (got {after[:40]!r})")
        answer = asyncio.ensure_future(arbiter.roster.command(number, int(after)))
        left = asyncio.ensure_future(_left(request))
        await asyncio.wait((answer, left), return_when=asyncio.FIRST_COMPLETED)
        left.cancel()
        if not answer.done():
            answer.cancel()
            arbiter.roster.left(number)
            return JSONResponse({})  # to nobody
        told = answer.result()
        if told is None:
            raise HTTPException(410, arbiter.agents[number].gone or "the run is over")
        return JSONResponse(told.model_dump())

    async def answer(number: int, message: Answer) -> dict[str, bool]:
        arbiter.answered(wanted(number), message)
        return {"ok": True}

    async def state(number: int, message: State) -> dict[str, bool]:
        arbiter.happened(wanted(number), message)
        return {"ok": True}

    async def gone(number: int, message: Gone) -> dict[str, bool]:
        arbiter.gone(known(number), message.why)
        return {"ok": True}

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

    app.post("/apps/{number}/hello")(hello)
    app.add_route("/apps/{number:int}/command", command)
    app.post("/apps/{number}/answer")(answer)
    app.post("/apps/{number}/state")(state)
    app.post("/apps/{number}/gone")(gone)
    app.get("/world")(world)
    app.get("/")(books)
    return app


async def _left(request: Any) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def serve_until(arbiter: Arbiter, listener: socket.socket, work: Any) -> None:
    """Serve while `work` (a coroutine) goes on; whatever it raises is raised.

    Not on the main thread: uvicorn would take this process's signals.
    """
    import uvicorn

    config = uvicorn.Config(
        application(arbiter), log_level="warning", access_log=False, lifespan="off", timeout_keep_alive=3600,
        timeout_graceful_shutdown=1, log_config=None,  # uvicorn's own would replace the handlers of the whole process
    )  # fmt: skip
    server = uvicorn.Server(config)
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
