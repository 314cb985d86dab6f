"""`Guard`: stands before an ASGI application: tokens, sizes, time-outs of bodies, and the shutdown that drains."""

from __future__ import annotations

import asyncio
import json
import math
import re
import sys
import traceback
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any, TypeVar

from ...errors import MeshwrightError
from ..listening import bearer_matches
from .limits import Limits

__all__ = ["Application", "Guard", "JsonRefusal", "Receive", "Scope", "Send", "read_json", "send_json", "unless_gone"]

Answer = TypeVar("Answer")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

LONGEST_MESSAGE = 600
"""Characters of an error's message: what a client sent must not come back in full."""
MOST_CONTAINERS = 2**18
"""Lists and objects in a body: json makes them in one go, and nothing else of the process runs meanwhile."""
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class JsonRefusal(MeshwrightError):
    """A request that gets an answer other than 200.

    Parameters
    ----------
    status : int
        HTTP status.
    message : str
        What was expected, and what came.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def read_json(body: bytes) -> Any:
    """A request's body as JSON, by the letter of its standard.

    Raises
    ------
    JsonRefusal
        400 if it is none, is nested too deep, has too many lists and objects, or holds what no number and no text is:
        ``NaN``, ``1e999``, half of a surrogate pair.
    """
    if body.count(b"[") + body.count(b"{") > MOST_CONTAINERS:
        raise JsonRefusal(400, f"expected JSON with at most {MOST_CONTAINERS} opening brackets")
    try:
        text = body.decode("utf-8")
        found = json.loads(text, parse_constant=_no_number, parse_float=_finite)
        if _SURROGATE.search(text):
            json.dumps(found, ensure_ascii=False).encode("utf-8")
    except RecursionError:
        raise JsonRefusal(400, "expected JSON (it is nested too deep)") from None
    except ValueError as error:
        raise JsonRefusal(400, f"expected JSON ({str(error)[:120]})") from None
    return found


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is too large for a number")
    return value


async def send_json(send: Send, status: int, body: Any, headers: Collection[tuple[bytes, bytes]] = ()) -> None:
    """Answer with JSON; whatever text is in it can be sent."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode("ascii")
    length = (b"content-length", str(len(raw)).encode())
    start = [(b"content-type", b"application/json"), length, *headers]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": raw})


async def unless_gone(receive: Receive, work: Awaitable[Answer]) -> Answer | None:
    """What `work` gives; None, with `work` cancelled, if the client leaves before."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)  # nothing of it goes on when this returns


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def plain_error(status: int, message: str) -> Any:
    """The body of an error where the application has no form of its own."""
    return {"error": message}


class Guard:
    """An ASGI application around another.

    Parameters
    ----------
    app : ASGI application
        Gets requests whose body has come in whole.
    token : str, optional
        Bearer token that requests have to carry.
    limits : Limits
        Bounds of bodies.
    open_paths : collection of str
        Paths that a GET may ask for without the token: health, for probes.
    error : callable
        (status, message) -> JSON body of an error.
    """

    def __init__(
        self,
        app: Application,
        *,
        token: str | None,
        limits: Limits,
        open_paths: Collection[str] = (),
        error: Callable[[int, str], Any] = plain_error,
    ) -> None:
        self.app, self.token, self.limits = app, token, limits
        self.open_paths, self.error = frozenset(open_paths), error
        self.draining = False
        self.in_flight = 0
        self._buffered = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        started = False

        async def noted(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        self.in_flight += 1
        kept: list[int] = []
        try:
            self._admit(scope)
            body = await self._body(scope, receive, kept)
            if body is not None:
                await self.app(scope, _replay(body, receive), noted)
        except JsonRefusal as refusal:
            if not started:
                await self._refuse(send, refusal.status, str(refusal))
        except Exception as error:
            # A fault of ours: the client hears of it, and whoever runs the server sees where it was.
            print("".join(traceback.format_exception(error)), file=sys.stderr, end="", flush=True)
            if started:
                raise  # the connection breaks: half an answer must not look whole
            await self._refuse(send, 500, f"{type(error).__name__}: {error}")
        finally:
            self._buffered -= sum(kept)
            self.in_flight -= 1

    def _admit(self, scope: Scope) -> None:
        """Refuse what can be refused by its headers."""
        if self.draining:
            raise JsonRefusal(503, "the server is shutting down")
        headers: dict[bytes, bytes] = dict(scope["headers"])
        is_open = scope["method"] == "GET" and scope["path"] in self.open_paths
        if not is_open and not bearer_matches(headers.get(b"authorization"), self.token):
            raise JsonRefusal(401, "expected the header Authorization: Bearer TOKEN, with this server's token")
        length = headers.get(b"content-length")
        if length is not None and int(length) > self.limits.body_bytes:
            raise JsonRefusal(413, f"expected a body up to {self.limits.body_bytes} bytes (got {length.decode()})")

    async def _body(self, scope: Scope, receive: Receive, kept: list[int]) -> bytes | None:
        """The whole body; None if its client left before."""
        parts: list[bytes] = []
        size, limits = 0, self.limits
        try:
            async with asyncio.timeout(limits.body_s):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    part: bytes = message.get("body", b"")
                    size += len(part)
                    kept.append(len(part))
                    self._buffered += len(part)
                    if size > limits.body_bytes:
                        raise JsonRefusal(413, f"expected a body up to {limits.body_bytes} bytes (got more)")
                    if self._buffered > limits.buffered_bytes:
                        raise JsonRefusal(503, "too many large requests at a time; try again")
                    parts.append(part)
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            raise JsonRefusal(408, f"expected the body within {limits.body_s:g} s") from None

    async def _refuse(self, send: Send, status: int, message: str) -> None:
        more = [(b"connection", b"close")] if status in (408, 413, 500, 503) else []
        if status == 401:
            more = [(b"www-authenticate", b"Bearer"), (b"connection", b"close")]
        if status == 503:
            more.append((b"retry-after", b"1"))
        await send_json(send, status, self.error(status, message[:LONGEST_MESSAGE]), more)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Gives the body once, and then what comes after it."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
