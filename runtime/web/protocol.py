"""uvicorn's HTTP/1.1 protocol with what it lacks: time-outs of headers and of clients that do not read, and a bound."""

from __future__ import annotations

# uvicorn's and h11's classes are typed for themselves, not for who derives from them.
# pyright: standard
import asyncio
import json
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from .guard import plain_error
from .limits import Limits

__all__ = ["guarded_protocol"]

LINGER_S = 5.0
"""How long an upload that was refused is read and thrown away, so that its client gets to read why."""
READ_BYTES = 16 * 2**10
"""Most bytes of a connection that are taken in one turn of the loop: chunks of a byte each take long, asyncio's own
256 KiB of them would keep everybody else waiting for seconds."""
HEAD_BYTES = 64 * 2**10
"""Largest request line and headers."""
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_FRAMING = re.compile(rb"(?im)^(content-length|transfer-encoding)[ \t]*:")


class _Transport:
    """A transport whose `close` lets a client that still sends read the answer, and does not wait for ever."""

    def __init__(self, inner: asyncio.Transport, protocol: _Protocol) -> None:
        self._inner, self._protocol = inner, protocol

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def is_closing(self) -> bool:
        return self._protocol.lingering or self._inner.is_closing()

    def close(self) -> None:
        self._protocol.close()


class _Protocol(H11Protocol):
    limits: Limits
    error: Callable[[int, str], Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lingering = self.aborted = False
        self.since = 0.0
        self._raw: asyncio.Transport | None = None
        self._head = bytearray()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    # Timers -----------------------------------------------------------------------------------------------------------

    def _set(self, name: str, seconds: float, what: Callable[[], None]) -> None:
        if name not in self._timers:
            self._timers[name] = self.loop.call_later(seconds, what)

    def _unset(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    # A connection's life ----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._raw = transport
        if hasattr(transport, "max_size"):  # of plain sockets; TLS comes in records of 16 KiB
            setattr(transport, "max_size", READ_BYTES)  # noqa: B010
        super().connection_made(_Transport(transport, self))  # type: ignore[arg-type]
        self.since = self.loop.time()
        if len(self.connections) > self.limits.connections and not self._make_room():
            self._refuse(503, "too many connections at a time; try again")
            return
        self._set("head", self.limits.head_s, self._late)

    def _make_room(self) -> bool:
        """Close the connection that has waited longest for its headers; whether there was one."""
        others = [c for c in self.connections if isinstance(c, _Protocol) and c is not self]
        gone = sum(c.aborted for c in others)  # they leave the set in the loop's next turn
        idle = [c for c in others if not c.aborted and (c.lingering or c.waits_for_head)]
        if len(others) - gone >= self.limits.connections and idle:
            min(idle, key=lambda c: c.since).abort()
            gone += 1
        return len(others) - gone < self.limits.connections

    @property
    def waits_for_head(self) -> bool:
        return not self.lingering and self.conn.their_state is h11.IDLE

    def _late(self) -> None:
        self._timers.pop("head", None)
        self._refuse(408, f"expected a request's headers within {self.limits.head_s:g} s")

    def data_received(self, data: bytes) -> None:
        if self.lingering:
            return
        if self.waits_for_head and (wrong := self._wrong_head(data)) is not None:
            self._refuse(*wrong)
            return
        if self.waits_for_head and "head" not in self._timers:
            self.since = self.loop.time()
            self._set("head", self.limits.head_s, self._late)
        super().data_received(data)
        if not self.waits_for_head:
            self._unset("head")
            self._head.clear()

    def _wrong_head(self, data: bytes) -> tuple[int, str] | None:
        """What is wrong with the head that comes in, of what h11 lets pass: it takes two equal lengths for one."""
        self._head += data
        found = _HEAD_END.search(self._head)
        if (len(self._head) if found is None else found.start()) > HEAD_BYTES:
            return 431, f"expected headers up to {HEAD_BYTES} bytes"
        if found is not None and len(_FRAMING.findall(self._head, 0, found.start())) > 1:
            return 400, "expected one Content-Length or one Transfer-Encoding"
        return None

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "expected HTTP/1.1, as RFC 9112 has it")

    def _refuse(self, status: int, message: str) -> None:
        """Answer without asking the application, and close."""
        transport = self.transport
        if transport.is_closing():
            return
        if self.cycle is not None and not self.cycle.response_complete:  # the application must not answer, too
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = json.dumps(self.error(status, message)).encode("ascii")
            line = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: application/json\r\n"
            transport.write(f"{line}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
            if status == 408:  # it has said nothing for long
                self._shut()
            else:
                self.linger()
        else:
            self.abort()

    def close(self) -> None:
        """Close; if the client is still sending, when it has stopped."""
        if self.conn.their_state is h11.SEND_BODY:
            self.linger()
        elif not self.lingering:
            self._shut()

    def _shut(self) -> None:
        """Close when what was written is sent."""
        if self._raw is not None:
            self._raw.close()
            self._set("closing", self.limits.write_s, self.abort)

    def linger(self) -> None:
        """Read on for a while and throw away what comes: a reset would take the answer from the client."""
        raw = self._raw
        if self.lingering or raw is None or raw.is_closing():
            return
        self.lingering = True
        self._unset("head")
        self._unset_keepalive_if_required()
        if raw.can_write_eof():
            raw.write_eof()
        self.flow.resume_reading()
        self._set("linger", min(LINGER_S, self.limits.head_s), self.abort)

    def eof_received(self) -> None:
        if self.lingering:
            self._shut()

    def abort(self) -> None:
        """Close at once."""
        self.aborted = True
        if self._raw is not None:
            self._raw.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        for name in list(self._timers):
            self._unset(name)
        self.lingering = False
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self._unset("closing")

    def shutdown(self) -> None:
        if self.lingering or self.transport.is_closing():
            return
        if self.conn.our_state is h11.ERROR:
            self.abort()
            return
        super().shutdown()

    # Clients that do not read -----------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        super().pause_writing()
        self._set("write", self.limits.write_s, self.abort)

    def resume_writing(self) -> None:
        self._unset("write")
        super().resume_writing()


def guarded_protocol(limits: Limits, error: Callable[[int, str], Any] = plain_error) -> type[asyncio.Protocol]:
    """A protocol class for ``uvicorn.Config(http=…)``."""
    return type("GuardedProtocol", (_Protocol,), {"limits": limits, "error": staticmethod(error)})
