"""One HTTP call from the router to a group, on the event loop: no thread waits for it."""

from __future__ import annotations

# h11's events are typed in part.
# pyright: standard
import asyncio
import ssl
from collections.abc import Mapping

__all__ = ["ANSWER_BYTES", "GroupError", "post"]

ANSWER_BYTES = 256 * 2**20
"""Largest answer of a group."""


class GroupError(Exception):
    """A group did not answer, or not in HTTP. The router makes a status of it."""


async def post(
    host: str,
    port: int,
    path: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    timeout_s: float,
    tls: ssl.SSLContext | None = None,
) -> tuple[int, bytes]:
    """Call a server over a connection of its own; its status and body.

    Raises
    ------
    GroupError
        If it does not answer in time, or with no HTTP, or too much.
    """
    import h11

    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(host, port, ssl=tls)
            try:
                connection = h11.Connection(h11.CLIENT)
                shown = f"[{host}]" if ":" in host else host
                fields = [("Host", f"{shown}:{port}"), ("Content-Length", str(len(body))), ("Connection", "close")]
                for event in (
                    h11.Request(method="POST", target=path, headers=[*fields, *headers.items()]),
                    h11.Data(data=body),
                    h11.EndOfMessage(),
                ):
                    writer.write(connection.send(event) or b"")
                await writer.drain()
                return await _answer(connection, reader)
            finally:
                writer.close()
    except TimeoutError:
        raise GroupError(f"no answer within {timeout_s:g} s") from None
    except (OSError, h11.RemoteProtocolError, ssl.SSLError) as error:
        raise GroupError(str(error) or type(error).__name__) from None


async def _answer(connection: object, reader: asyncio.StreamReader) -> tuple[int, bytes]:
    import h11

    assert isinstance(connection, h11.Connection)
    status, parts, size = 0, list[bytes](), 0
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(2**16))
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            size += len(event.data)
            if size > ANSWER_BYTES:
                raise GroupError(f"an answer of more than {ANSWER_BYTES} bytes")
            parts.append(bytes(event.data))
        elif isinstance(event, h11.EndOfMessage):
            return status, b"".join(parts)
        elif isinstance(event, h11.ConnectionClosed):
            raise GroupError("it closed the connection")
