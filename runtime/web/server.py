"""`serve_app`: an ASGI application under uvicorn, guarded, until it is told to end; then it drains."""

from __future__ import annotations

# uvicorn is typed in part.
# pyright: standard
import asyncio
import contextlib
import functools
import signal
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ...errors import InputError, install_hint
from ..listening import Listening, listening_socket
from .guard import Application, Guard, plain_error
from .limits import Limits

if TYPE_CHECKING:
    import uvicorn

__all__ = ["WebServer", "check_uvicorn", "serve", "serve_app"]

LAST_WORDS_S = 2.0
"""What is still open after the grace gets so long to say that it ends."""


def check_uvicorn(who: str) -> None:
    """See that uvicorn is there.

    Raises
    ------
    InputError
        If not; with the command that installs it.
    """
    if find_spec("uvicorn") is None:
        raise InputError(f"{who}: uvicorn not installed; {install_hint('serve')}")


class WebServer:
    """One application at one address.

    The first SIGTERM or Ctrl-C begins the end, a second one ends at once. Signals are taken where it runs on the main
    thread only.

    Parameters
    ----------
    app : ASGI application
        What answers.
    where : Listening
        Address, token and TLS.
    limits : Limits, optional
        Bounds.
    open_paths : collection of str
        Paths that need no token.
    error : callable, optional
        (status, message) -> JSON body of an error.
    on_end : callable, optional
        Called in the event loop when the grace is over and requests are still under way.
    lifespan : bool
        Whether the application wants to know when it starts and ends.

    Raises
    ------
    InputError
        If uvicorn is missing, or the address cannot be bound.
    """

    def __init__(
        self,
        app: Application,
        where: Listening,
        limits: Limits | None = None,
        *,
        open_paths: Collection[str] = (),
        error: Callable[[int, str], Any] = plain_error,
        on_end: Callable[[], None] | None = None,
        lifespan: bool = False,
    ) -> None:
        check_uvicorn("serve")
        import uvicorn

        from .protocol import HEAD_BYTES, READ_BYTES, guarded_protocol

        self.limits = (limits or Limits()).fitting()
        self.guard = Guard(app, token=where.token, limits=self.limits, open_paths=open_paths, error=error)
        self.listener: socket.socket = listening_socket(where)
        self.port = int(self.listener.getsockname()[1])
        self.url = where.url(self.port)
        self._tls = where.tls_cert is not None
        self._on_end = on_end
        self._deadline = self._last = float("inf")
        self._told = False
        config = uvicorn.Config(
            self.guard, http=guarded_protocol(self.limits, error), ws="none", log_level="critical", access_log=False,
            log_config=None,  # uvicorn's own would replace the handlers of the whole process; the guard says what fails
            lifespan="on" if lifespan else "off", timeout_keep_alive=max(1, round(self.limits.idle_s)),
            timeout_graceful_shutdown=2, server_header=False, proxy_headers=False,
            h11_max_incomplete_event_size=HEAD_BYTES + READ_BYTES,  # the protocol refuses longer heads by itself
            ssl_certfile=where.tls_cert, ssl_keyfile=where.tls_key,
        )  # fmt: skip
        self._server = _uvicorn_server(config, self)

    @property
    def connections(self) -> int:
        """Open ones."""
        return len(self._server.server_state.connections)

    def drain(self) -> None:
        """Begin the end: new requests get 503, those under way go on; asked again, end at once. From any thread."""
        if self.guard.draining:
            self._server.force_exit = self._server.should_exit = True
        self._deadline = min(self._deadline, time.monotonic() + self.limits.grace_s)
        self.guard.draining = True

    def tick(self) -> None:
        """Every tenth of a second, from uvicorn's loop: is the end there?"""
        if not self.guard.draining:
            return
        now = time.monotonic()
        if self.guard.in_flight == 0 or now >= self._last:
            self._server.should_exit = True
        elif now >= self._deadline and not self._told:
            self._told, self._last = True, now + LAST_WORDS_S
            if self._on_end is not None:
                self._on_end()

    async def serve(self) -> None:
        """Serve to the end, in an event loop."""
        try:
            await self._server.serve([self.listener])
        finally:
            self.listener.close()

    def run(self) -> None:
        """Serve to the end."""
        with asyncio.Runner(loop_factory=self._loop) as runner:
            runner.run(self.serve())

    def _loop(self) -> asyncio.AbstractEventLoop:
        """A loop whose servers give a TLS handshake as long as a request's headers; uvicorn has no setting for it."""
        loop = asyncio.new_event_loop()
        if self._tls:
            create = functools.partial(loop.create_server, ssl_handshake_timeout=self.limits.head_s)
            setattr(loop, "create_server", create)  # noqa: B010
        return loop

    @contextlib.contextmanager
    def signals(self) -> Iterator[None]:
        """SIGTERM and SIGINT begin the end. They are not raised again: a server that was told to end has succeeded."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {one: signal.signal(one, lambda *_: self.drain()) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)


def _uvicorn_server(config: uvicorn.Config, owner: WebServer) -> uvicorn.Server:
    import uvicorn

    class Server(uvicorn.Server):
        def capture_signals(self) -> Any:
            return owner.signals()

        async def on_tick(self, counter: int) -> bool:
            owner.tick()
            return await super().on_tick(counter)

    return Server(config)


def serve(
    server: WebServer, *, ready: Callable[[WebServer], None] | None = None, stop: threading.Event | None = None
) -> None:
    """Serve until SIGTERM, Ctrl-C or `stop`; return when what was under way is done.

    Parameters
    ----------
    server : WebServer
        Listens already.
    ready : callable, optional
        Called with the server before it begins.
    stop : threading.Event, optional
        Ends the server when it is set, for those who run it in a thread.
    """
    if stop is not None:
        threading.Thread(target=_drain_when, args=(stop, server), daemon=True, name="stop").start()
    if ready is not None:
        ready(server)
    server.run()


def serve_app(
    app: Application,
    where: Listening,
    limits: Limits | None = None,
    *,
    ready: Callable[[WebServer], None] | None = None,
    stop: threading.Event | None = None,
    **how: Any,
) -> None:
    """`serve` of a `WebServer` of an application.

    Raises
    ------
    InputError
        If uvicorn is missing, or the address cannot be bound.
    """
    serve(WebServer(app, where, limits, **how), ready=ready, stop=stop)


def _drain_when(stop: threading.Event, server: WebServer) -> None:
    stop.wait()
    server.drain()
