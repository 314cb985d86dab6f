"""One suite of attacks on every HTTP server of the project: each is refused in one line, and nothing is left of it."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

import pytest
from meshwright.runtime.web import protocol as guard_protocol
from servers import LIMITS, PATIENCE_S, Served, open_files, own_threads, until, vanish

CRLF = b"\r\n"
HEADS = {
    "no HTTP": b"garbage\r\n\r\n",
    "TLS at a plain port": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64 + b"\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "null byte in a header": b"GET / HTTP/1.1\r\nHost: a\x00b\r\n\r\n",
    "folded header": b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
}
LENGTHS = {
    "superscript two": ["Content-Length: ²"],
    "Arabic digit": ["Content-Length: ٣"],
    "negative": ["Content-Length: -1"],
    "plus": ["Content-Length: +1"],
    "underscore": ["Content-Length: 1_0"],
    "hexadecimal": ["Content-Length: 0x10"],
    "float": ["Content-Length: 1e3"],
    "empty": ["Content-Length: "],
    "5000 digits": ["Content-Length: " + "9" * 5000],
    "two that differ": ["Content-Length: 2", "Content-Length: 3"],
    "two that agree": ["Content-Length: 2", "Content-Length: 2"],
    "list": ["Content-Length: 2, 3"],
    "length and chunks": ["Content-Length: 2", "Transfer-Encoding: chunked"],
    "chunks twice": ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
    "unknown encoding": ["Transfer-Encoding: gzip"],
}
BODIES = {
    "empty": b"",
    "no JSON": b"{",
    "deep lists": b"[" * 60_000,
    "deep lists that end": b"[" * 30_000 + b"]" * 30_000,
    "deep objects": b'{"a":' * 30_000,
    "NaN": b'{"prompt": NaN}',
    "Infinity": b'{"temperature": Infinity, "prompt": "a"}',
    "1e999": b'{"temperature": 1e999, "prompt": "a", "inputs": [{"shape": [1e999, 1]}]}',
    "as many lists as there is room for": b'{"prompt": "a", "x": [' + b"[]," * 300_000 + b"[]]}",
    "integer of 5000 digits": b'{"max_tokens": ' + b"9" * 5000 + b"}",
    "integer of 4000 digits": b'{"max_tokens": ' + b"9" * 4000 + b', "prompt": "a"}',
    "list": b"[]",
    "text": b'"text"',
    "null": b"null",
    "number": b"1",
    "broken UTF-8": b'{"prompt": "\xff\xfe"}',
    "UTF-16": '{"prompt": "a"}'.encode("utf-16"),
    "half a surrogate pair": b'{"prompt": "\\ud800", "name": "\\ud800"}',
    "half a pair in a name": b'{"\\udfff": 1, "prompt": "a"}',
}


def refused(answer: tuple[int, object], *statuses: int) -> None:
    """One error, in JSON, with a message."""
    status, body = answer
    assert status in statuses, answer
    assert isinstance(body, dict)
    assert len(body) == 1, body
    assert len(json.dumps(body)) < 2000, "what was sent does not come back in full"


@pytest.fixture(autouse=True)
def nothing_is_left(served: Served, capfd: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    """After each attack the server is as it was before: no connection, thread, file, gauge or traceback more."""
    assert until(lambda: served.server.connections == 0 and served.idle())
    assert served.healthy()
    assert until(lambda: served.server.connections == 0)
    threads, files = own_threads(), open_files()
    yield
    assert served.healthy()
    assert until(lambda: served.server.connections == 0), "connections stay open"
    assert until(served.idle), "something of a request is left"
    assert until(lambda: own_threads() <= threads and open_files() <= files), (threads, files)
    guard = served.server.guard
    assert until(lambda: (guard.in_flight, guard._buffered) == (0, 0)), (guard.in_flight, guard._buffered)
    said = capfd.readouterr()
    assert "Traceback" not in said.err + said.out


def test_a_good_request_is_answered(served: Served) -> None:
    status, _ = served.send(served.post(served.body))
    assert status in (200, 201)


@pytest.mark.parametrize("name", HEADS)
def test_heads_that_are_none(served: Served, name: str) -> None:
    refused(served.send(HEADS[name]), 400)


@pytest.mark.parametrize("name", LENGTHS)
def test_lengths_that_are_none(served: Served, name: str) -> None:
    refused(served.send(served.head(*LENGTHS[name]) + CRLF + b"{}"), 400)


def test_chunks_that_are_none(served: Served) -> None:
    for chunk in (b"zz\r\n", b"-1\r\n{}\r\n0\r\n\r\n", b"2\r\n{}XX0\r\n\r\n", b"fffffffffffffffffffff\r\n"):
        refused(served.send(served.head("Transfer-Encoding: chunked") + CRLF + chunk), 400, 413)


@pytest.mark.parametrize("name", BODIES)
def test_bodies_that_are_none(served: Served, name: str) -> None:
    refused(served.send(served.post(BODIES[name])), 400, 422)


def test_json_of_the_wrong_kind(served: Served) -> None:
    refused(served.send(served.post(served.wrong)), 400, 422)


def test_what_is_not_there(served: Served) -> None:
    for path in ("/", "/v2/models/nope/infer", "/v2/models/%ff/infer", "/%2e%2e/%2e%2e/etc/passwd", "/x" * 3000):
        refused(served.send(served.post(served.body, path=path)), 400, 404, 405)


def test_without_the_token_there_is_no_answer(served: Served) -> None:
    for field in ((), ("Authorization: Bearer wrong",), ("Authorization: Basic abc",), ("Authorization: é",)):
        said = served.head(f"Content-Length: {len(served.body)}", *field, token=None) + CRLF + served.body
        refused(served.send(said), 401)
    for path in ("/metrics", "/v2", "/", "/openapi.json", "/world", "/apps/0/command"):
        refused(served.send(f"GET {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode()), 401)


def test_too_much_is_refused_before_it_has_come(served: Served) -> None:
    most = served.server.limits.body_bytes
    refused(served.send(served.head(f"Content-Length: {most + 1}") + CRLF), 413)
    refused(served.send(served.head(f"Content-Length: {10**18}") + CRLF), 413)
    with served.connect() as line:  # chunks: it cannot know, and must not wait for the last one
        line.sendall(served.head("Transfer-Encoding: chunked") + CRLF)
        part = b"10000\r\n" + b"x" * 65536 + CRLF
        for _ in range(most // 65536 + 1):
            line.sendall(part)
        refused(served.answer(line), 413)


def test_a_client_that_sends_on_still_reads_why(served: Served) -> None:
    """Four times too much, as a client that reads only when all is sent."""
    with served.connect() as line:
        line.sendall(served.head("Transfer-Encoding: chunked") + CRLF)
        for _ in range(4 * served.server.limits.body_bytes // 65536 + 4):
            line.sendall(b"10000\r\n" + b"x" * 65536 + CRLF)
        line.sendall(b"0\r\n\r\n")
        refused(served.answer(line), 413)


def test_a_head_that_is_too_long(served: Served) -> None:
    for tail in (b"", b"\r\n\r\n"):
        refused(served.send(b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * 200_000 + tail), 431)


def test_a_long_head_in_pieces(served: Served) -> None:
    """Sixty thousand bytes are within the bound, however they come."""
    whole = served.post(served.body, "X-Long: " + "a" * 60_000)
    with served.connect() as line:
        for start in range(0, len(whole), 7000):
            line.sendall(whole[start : start + 7000])
        assert served.answer(line)[0] in (200, 201)


def test_half_open_connections_hurt_nobody(served: Served) -> None:
    """Fifty that say nothing, fifty within the head, fifty within the body: others are answered, they are closed."""
    starts = [b"", served.head()[:40], served.head("Content-Length: 50") + CRLF + b"{"]
    lines = [served.connect() for _ in range(150)]
    try:
        for k, line in enumerate(lines):
            line.sendall(starts[k % 3])
        assert served.healthy()
        assert served.send(served.post(served.body))[0] in (200, 201)
        for line in lines:
            refused(served.answer(line), 408)
    finally:
        for line in lines:
            line.close()


def test_more_connections_than_allowed_make_room(served: Served) -> None:
    lines = [served.connect() for _ in range(LIMITS.connections + 60)]
    try:
        assert served.healthy()
        assert until(lambda: served.server.connections <= LIMITS.connections)
    finally:
        for line in lines:
            line.close()


@pytest.mark.parametrize("inside", ["head", "body"])
def test_a_byte_at_a_time_does_not_hold_a_connection(served: Served, inside: str) -> None:
    """Each byte comes long before the time-out, which is of the whole."""
    with served.connect() as line:
        if inside == "body":
            line.sendall(served.head("Content-Length: 100000") + CRLF)
        try:
            begun = time.monotonic()
            while time.monotonic() - begun < PATIENCE_S:
                line.sendall(b"X")
                time.sleep(LIMITS.head_s / 20)
        except OSError:
            return
    pytest.fail("it is still served")


def test_chunks_of_a_byte_keep_nobody_waiting(served: Served) -> None:
    """What a connection has sent is taken in pieces, so that others get their turns between them."""
    turns: list[int] = []
    take = guard_protocol._Protocol.data_received

    def noted(self: Any, data: bytes) -> None:
        turns.append(len(data))
        take(self, data)

    with pytest.MonkeyPatch.context() as patch, served.connect() as line:
        patch.setattr(guard_protocol._Protocol, "data_received", noted)
        line.sendall(served.head("Transfer-Encoding: chunked") + CRLF + b"1\r\n \r\n" * 20_000 + b"0\r\n\r\n")
        line.settimeout(PATIENCE_S)
        assert line.recv(65536).startswith(b"HTTP/1.1 4")
    assert sum(turns) > 120_000
    assert max(turns) <= guard_protocol.READ_BYTES


def test_clients_that_vanish_take_their_requests_along(served: Served) -> None:
    long = json.dumps({"prompt": "long", "max_tokens": 4000, "ignore_eos": True, "stream": True}).encode()
    bodies = (long, long.replace(b'"stream": true', b'"stream": false')) if b"prompt" in served.body else (served.body,)
    for body in bodies:
        lines: list[socket.socket] = []
        for k in range(30):
            line = served.connect()
            whole = served.post(body)
            line.sendall(whole if k % 3 else whole[: len(whole) - 5])
            lines.append(line)
        if body is long:
            assert lines[1].recv(1), "it has begun"
        for line in lines:
            vanish(line)


def test_requests_one_after_the_other_on_a_connection(served: Served) -> None:
    """Two at once in one packet, then one that is wrong: three answers, in order, then the end."""
    whole = served.head(f"Content-Length: {len(served.body)}") + CRLF + served.body
    with served.connect() as line:
        line.sendall(whole + whole + b"garbage\r\n\r\n")
        said = b""
        while part := line.recv(65536):
            said += part
    statuses = [int(piece[:3]) for piece in said.split(b"HTTP/1.1 ")[1:]]
    assert len(statuses) == 3
    assert statuses[0] in (200, 201)
    assert statuses[2] == 400
