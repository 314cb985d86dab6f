"""An OpenAI-compatible endpoint in front of the engine: `/v1/completions`, `/v1/models`, `/health`, `/metrics`.

Needs the extra ``serve`` (FastAPI and uvicorn). The engine steps in a thread of its own, so that the event loop only
passes tokens on; a client that goes away takes its requests with it.
"""

from __future__ import annotations

# FastAPI is imported where it is used; its annotations are no types of ours.
# pyright: standard
import asyncio
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import Any

from ....errors import InputError, RunError, install_hint
from .answers import Answer
from .completions import ApiError, read_completion
from .engine import LLMEngine
from .engine_thread import EngineThread
from .metrics import prometheus
from .tokenizer import ByteTokenizer

__all__ = ["Endpoint", "check_installed", "serve_http"]

LIMIT_BYTES = 64 * 2**20
"""Largest request body."""


def check_installed() -> None:
    """See that FastAPI and uvicorn are there.

    Raises
    ------
    InputError
        If not; with the command that installs them.
    """
    missing = [name for name in ("fastapi", "uvicorn") if find_spec(name) is None]
    if missing:
        raise InputError(f"serve: {' and '.join(missing)} not installed; {install_hint('serve')}")


class Endpoint:
    """The HTTP application around one engine.

    Parameters
    ----------
    engine : LLMEngine
        Used by nobody else from now on.
    model_name : str, optional
        What clients call the model; its shape's name without it.
    """

    def __init__(self, engine: LLMEngine, model_name: str | None = None) -> None:
        check_installed()
        self.engine, self.model = engine, model_name or engine.spec.name
        self.tokenizer = ByteTokenizer(engine.spec.vocab)
        self.thread: EngineThread | None = None
        self.created = int(time.time())

    def app(self) -> Any:
        """The FastAPI application."""
        from fastapi import FastAPI, Request
        from fastapi.responses import JSONResponse, PlainTextResponse

        @asynccontextmanager
        async def lifespan(_: FastAPI) -> AsyncIterator[None]:
            self.thread = EngineThread(self.engine, asyncio.get_running_loop())
            try:
                yield
            finally:
                await asyncio.to_thread(self.thread.stop)

        app = FastAPI(title="Meshwright LLM engine", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)

        async def refused(_: Request, error: Exception) -> JSONResponse:
            found = error if isinstance(error, ApiError) else ApiError(500, f"{type(error).__name__}: {error}")
            return JSONResponse(found.body(), found.status)

        async def unknown(request: Request, _: Exception) -> JSONResponse:
            return JSONResponse(ApiError(404, f"no such resource: {request.url.path[:80]}").body(), 404)

        async def not_allowed(request: Request, _: Exception) -> JSONResponse:
            return JSONResponse(ApiError(405, f"{request.method}: not for {request.url.path[:80]}").body(), 405)

        app.add_exception_handler(ApiError, refused)
        app.add_exception_handler(404, unknown)
        app.add_exception_handler(405, not_allowed)
        app.add_api_route("/health", self.health, methods=["GET"], response_model=None)
        app.add_api_route("/v1/models", self.models, methods=["GET"], response_model=None)

        async def metrics() -> PlainTextResponse:
            return PlainTextResponse(self.metrics(), media_type="text/plain; version=0.0.4")

        async def completions(request: Request) -> Any:
            return await self.completions(request)

        # Annotations are strings here and FastAPI looks them up in the module: it is told what they are.
        completions.__annotations__ = {"request": Request}
        app.add_api_route("/metrics", metrics, methods=["GET"], response_model=None)
        app.add_api_route("/v1/completions", completions, methods=["POST"], response_model=None)
        return app

    async def health(self) -> dict[str, str]:
        """200 for as long as the engine lives."""
        if self.thread is None or self.thread.failure is not None:
            raise ApiError(503, f"the engine has stopped: {self.thread.failure if self.thread else 'not started'}")
        return {}

    async def models(self) -> dict[str, Any]:
        """The one model."""
        longest = self.engine.memory.longest
        card = {"id": self.model, "object": "model", "created": self.created, "owned_by": "meshwright"}
        return {"object": "list", "data": [{**card, "root": self.engine.spec.name, "max_model_len": longest}]}

    def metrics(self) -> str:
        """Prometheus text."""
        thread = self._started()
        work = thread.work
        return prometheus(thread.counters, self.model, work.running, work.waiting, thread.usage)

    def _started(self) -> EngineThread:
        if self.thread is None:
            raise ApiError(503, "the engine has not started yet")
        return self.thread

    async def completions(self, request: Any) -> Any:
        """Generate: the whole answer, or a stream of events."""
        from fastapi.responses import JSONResponse, StreamingResponse

        body = await request.body()
        if len(body) > LIMIT_BYTES:
            raise ApiError(413, f"expected a body up to {LIMIT_BYTES} bytes (got {len(body)})")
        try:
            said = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise ApiError(400, f"expected JSON ({str(error)[:80]})") from None
        asked = read_completion(said, self.model, self.tokenizer)
        answer = Answer(asked, self.model, self._started(), self.tokenizer)
        gone = asyncio.ensure_future(_disconnected(request))
        gone.add_done_callback(answer.leave)
        if asked.stream:
            return StreamingResponse(_streamed(answer, gone), media_type="text/event-stream")
        try:
            whole = await answer.whole()
            return JSONResponse(whole, 499 if answer.open else 200)  # 499: nobody reads it
        finally:
            gone.cancel()
            answer.abandon()


async def _disconnected(request: Any) -> None:
    """Return when the client is gone; the body has been read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _streamed(answer: Answer, gone: asyncio.Future[None]) -> AsyncIterator[str]:
    """The stream's events; however it ends, nothing of it stays in the engine."""
    try:
        async for text in answer.stream():
            yield text
    finally:
        gone.cancel()
        answer.abandon()


def serve_http(
    engine: LLMEngine,
    host: str = "127.0.0.1",
    port: int = 8000,
    *,
    model_name: str | None = None,
    ready: Callable[[str], None] | None = None,
    stop: threading.Event | None = None,
) -> None:
    """Serve until interrupted.

    Parameters
    ----------
    engine : LLMEngine
        The engine.
    host, port : str, int
        Where to listen; port 0 takes any free one.
    model_name : str, optional
        What clients call the model.
    ready : callable, optional
        Called with the URL when the socket listens.
    stop : threading.Event, optional
        Ends the server when it is set, for those who run it in a thread.

    Raises
    ------
    InputError
        If FastAPI or uvicorn are missing, the address cannot be bound, or the vocabulary is too small for bytes.
    RunError
        If the engine failed while it served.
    """
    endpoint = Endpoint(engine, model_name)
    import uvicorn

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2048)
    except (OSError, OverflowError) as error:
        listener.close()
        raise InputError(f"cannot listen on {host}:{port}: {error}; choose another --port") from None
    config = uvicorn.Config(
        endpoint.app(), log_level="warning", access_log=False, timeout_graceful_shutdown=5, lifespan="on",
        log_config=None,  # uvicorn's own would replace the handlers of the whole process
    )  # fmt: skip
    server = uvicorn.Server(config)
    if stop is not None:
        threading.Thread(target=_stop_when, args=(stop, server), daemon=True).start()
    if ready is not None:
        shown = f"[{host}]" if ":" in host else host
        ready(f"http://{shown}:{listener.getsockname()[1]}")
    server.run(sockets=[listener])
    if endpoint.thread is not None and endpoint.thread.failure is not None:
        raise RunError(f"serve: the engine stopped: {endpoint.thread.failure}")


def _stop_when(stop: threading.Event, server: Any) -> None:
    stop.wait()
    server.should_exit = True
