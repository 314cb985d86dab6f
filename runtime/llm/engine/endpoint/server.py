"""An OpenAI-compatible endpoint in front of the engine: `/v1/completions`, `/v1/models`, `/health`, `/metrics`.

Needs the extra ``serve`` (FastAPI and uvicorn). The engine steps in a thread of its own, so that the event loop only
passes tokens on; a client that goes away takes its requests with it.
"""

from __future__ import annotations

# FastAPI is imported where it is used; its annotations are no types of ours.
# pyright: standard
import asyncio
import json
import sys
import threading
import time
import traceback
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from .....errors import InputError, RunError, install_hint
from ....listening import LOOPBACK, Listening
from ....web import JsonRefusal, Limits, WebServer, read_json, serve
from ..engine import LLMEngine
from .answers import Answer
from .completions import ApiError, Completion, read_completion
from .metrics import prometheus
from .thread import EngineThread
from .tokenizer import ByteTokenizer

__all__ = ["Endpoint", "body_limit", "check_installed", "serve_http"]

OPEN_PATHS = ("/health",)
"""What a probe may ask for without the token."""
SMALL_BYTES = 64 * 2**10
"""Bodies up to this are read on the event loop; a larger one in a thread, so that nobody waits for it."""


def body_limit(max_model_len: int) -> int:
    """Largest body that a call may have: a batch of 64 full prompts of escaped characters, from 1 MiB to 16 MiB.

    A character that JSON escapes as a surrogate pair takes 12 bytes. 64 prompts and both ends are guesses.
    """
    return max(2**20, min(16 * 2**20, 64 * 12 * max_model_len))


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
        self._answers: weakref.WeakSet[Answer] = weakref.WeakSet()

    def app(self) -> Any:
        """The FastAPI application."""
        from fastapi import FastAPI, Request
        from fastapi.responses import PlainTextResponse, Response

        @asynccontextmanager
        async def lifespan(_: FastAPI) -> AsyncIterator[None]:
            self.thread = EngineThread(self.engine, asyncio.get_running_loop())
            try:
                yield
            finally:
                await asyncio.to_thread(self.thread.stop)

        app = FastAPI(title="Meshwright LLM engine", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
        app.router.redirect_slashes = False  # to whatever host a client names

        def answered(error: ApiError, headers: dict[str, str] | None = None) -> Response:
            # All in ASCII: what a client sent, and what comes back in a message, may be no text at all.
            return Response(json.dumps(error.body()), error.status, headers, media_type="application/json")

        async def refused(_: Request, error: Exception) -> Response:
            found = error if isinstance(error, ApiError) else ApiError(500, f"{type(error).__name__}: {error}")
            if found is not error:
                print("".join(traceback.format_exception(error)), file=sys.stderr, end="", flush=True)
            return answered(found)

        async def unknown(request: Request, _: Exception) -> Response:
            return answered(ApiError(404, f"no such resource: {request.url.path[:80]}"))

        async def not_allowed(request: Request, error: Any) -> Response:
            return answered(ApiError(405, f"{request.method:.20}: not for {request.url.path[:80]}"), error.headers)

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

        body = await request.body()  # there already, and of a size that was checked
        if len(body) <= SMALL_BYTES:
            asked = self._read(body)
        else:
            asked = await asyncio.to_thread(self._read, body)
        answer = Answer(asked, self.model, self._started(), self.tokenizer)
        self._answers.add(answer)
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

    def _read(self, body: bytes) -> Completion:
        """A body, checked."""
        try:
            said = read_json(body)
        except JsonRefusal as error:
            raise ApiError(400, str(error)) from None
        return read_completion(said, self.model, self.tokenizer, self.engine.memory.longest)

    def server(self, where: Listening, limits: Limits | None = None) -> WebServer:
        """The endpoint at an address; a body is bounded by what the model can take, too."""
        bounds = limits or Limits()
        bounds = replace(bounds, body_bytes=min(bounds.body_bytes, body_limit(self.engine.memory.longest)))
        return WebServer(
            self.app(), where, bounds, lifespan=True, open_paths=OPEN_PATHS, on_end=self.end_streams,
            error=lambda status, message: ApiError(status, message).body(),
        )  # fmt: skip

    def end_streams(self) -> None:
        """Whoever still waits hears that the server ends; its requests leave the engine."""
        for answer in list(self._answers):
            answer.end("the server is shutting down")


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
    host: str = LOOPBACK,
    port: int = 8000,
    *,
    model_name: str | None = None,
    where: Listening | None = None,
    limits: Limits | None = None,
    ready: Callable[[str], None] | None = None,
    stop: threading.Event | None = None,
) -> None:
    """Serve until told to end: SIGTERM, Ctrl-C, or `stop`. What is under way then is finished, within a grace.

    Parameters
    ----------
    engine : LLMEngine
        The engine.
    host, port : str, int
        Where to listen; port 0 takes any free one.
    model_name : str, optional
        What clients call the model.
    where : Listening, optional
        Instead of `host` and `port`, with a token or TLS.
    limits : Limits, optional
        Time-outs and bounds; a body is bounded by what the model can take, too.
    ready : callable, optional
        Called with the URL when the socket listens.
    stop : threading.Event, optional
        Ends the server when it is set, for those who run it in a thread.

    Raises
    ------
    InputError
        If FastAPI or uvicorn are missing, the address cannot be bound or is wider than loopback without a token, or
        the vocabulary is too small for bytes.
    RunError
        If the engine failed while it served.
    """
    where = where or Listening(host, port)
    endpoint = Endpoint(engine, model_name)

    def listens(server: WebServer) -> None:
        if ready is not None:
            ready(server.url)

    serve(endpoint.server(where, limits), ready=listens, stop=stop)
    if endpoint.thread is not None and endpoint.thread.failure is not None:
        raise RunError(f"serve: the engine stopped: {endpoint.thread.failure}")
