"""Where a server may listen, and what a token is."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from meshwright.errors import InputError
from meshwright.runtime.listening import (
    TOKEN_FILE_VARIABLE,
    TOKEN_VARIABLE,
    Listening,
    bearer_matches,
    is_loopback,
    listening_socket,
    read_token,
    token_of,
)
from meshwright.runtime.web import Limits, WebServer, send_json
from servers import PATIENCE_S, running, until


def token_file(folder: Path, text: bytes = b"secret\n", mode: int = 0o600) -> Path:
    path = folder / "token"
    path.write_bytes(text)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "localhost", "::1", "::ffff:127.0.0.1", "127.1"])
def test_loopback_needs_no_token(host: str) -> None:
    assert is_loopback(host)
    assert Listening(host).token is None


@pytest.mark.parametrize("host", ["0.0.0.0", "", "0", "::", "10.0.0.1", "::ffff:10.0.0.1", "0x0", "00"])
def test_wider_than_loopback_needs_a_token(host: str) -> None:
    with pytest.raises(InputError, match="give --token-file FILE") as caught:
        Listening(host)
    assert "\n" not in str(caught.value)
    assert Listening(host, token="secret").token == "secret"


def test_a_token_is_not_shown() -> None:
    assert "secret" not in repr(Listening(token="secret"))


@pytest.mark.parametrize("host", ["\ud800", "x" * 300, "127.0.0.1\0"])
def test_hosts_that_are_none(host: str) -> None:
    with pytest.raises(InputError, match="host: expected"):
        Listening(host)


@pytest.mark.parametrize("port", [-1, 65536, True])
def test_ports_that_are_none(port: int) -> None:
    with pytest.raises(InputError, match="port: expected"):
        Listening(port=port)


def test_a_port_that_is_taken_says_so() -> None:
    with listening_socket(Listening()) as first, pytest.raises(InputError, match="cannot listen on 127"):
        listening_socket(Listening(port=first.getsockname()[1]))


def test_a_name_that_changes_its_meaning_is_not_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    where = Listening("localhost")
    wide = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("0.0.0.0", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: wide)
    with pytest.raises(InputError, match="not loopback any more"):
        listening_socket(where)


def test_the_file_of_a_token(tmp_path: Path) -> None:
    assert read_token(token_file(tmp_path, b"  abc-._~+/123==\r\n")) == "abc-._~+/123=="
    assert read_token(token_file(tmp_path, mode=0o400)) == "secret"


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o666, 0o601])
def test_a_token_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(InputError, match=rf"mode 0{mode:o}\); chmod 600"):
        read_token(token_file(tmp_path, mode=mode))


@pytest.mark.parametrize(
    "text", [b"", b" \n\t\n", b"two words", b"two\nlines", b"\xff\xfe", "é".encode(), b"a" * 5000, b"a\0b"]
)
def test_files_that_hold_no_token(tmp_path: Path, text: bytes) -> None:
    with pytest.raises(InputError, match="expected") as caught:
        read_token(token_file(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing", tmp_path):
        with pytest.raises(InputError, match="token"):
            read_token(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_or_a_device_is_no_file_of_a_server(tmp_path: Path) -> None:
    """Nobody writes to it: whoever opened it would wait for ever."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    for path in (pipe, Path("/dev/zero")):
        with pytest.raises(InputError, match="expected a file"):
            read_token(path)
        with pytest.raises(InputError, match="expected a file"):
            Listening(tls_cert=path, tls_key=path)
    for read in (read_token, lambda path: Listening(tls_cert=Path(path), tls_key=Path(path))):
        with pytest.raises(InputError, match="null"):
            read("a\0b")


def test_an_address_of_another_machine_says_so() -> None:
    with pytest.raises(InputError, match="choose another --host, one of this machine"):
        listening_socket(Listening("192.0.2.1", token="secret"))


def test_where_a_token_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (TOKEN_VARIABLE, TOKEN_FILE_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    assert token_of(None) is None
    monkeypatch.setenv(TOKEN_VARIABLE, " from-the-environment\n")
    assert token_of(None) == "from-the-environment"
    monkeypatch.setenv(TOKEN_FILE_VARIABLE, str(token_file(tmp_path)))
    assert token_of(None) == "secret"
    (tmp_path / "other").mkdir()
    assert token_of(token_file(tmp_path / "other", b"told")) == "told"
    monkeypatch.delenv(TOKEN_FILE_VARIABLE)
    monkeypatch.setenv(TOKEN_VARIABLE, "")
    with pytest.raises(InputError, match="MESHWRIGHT_TOKEN: expected a token"):
        token_of(None)


def test_headers() -> None:
    assert bearer_matches(None, None)
    for good in ("Bearer secret", "bearer secret", b"BEARER  secret "):
        assert bearer_matches(good, "secret")
    for bad in (
        *(None, "", "secret", "Bearer", "Bearer ", "Bearer secre", "Bearer secrets", "Basic secret", "Bearersecret"),
        *("Bearer \xe9", "Bearer \u20ac", "Bearer secret secret"),
    ):
        assert not bearer_matches(bad, "secret")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of this machine's loopback, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    command = [
        *(
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "1",
        ),
        *("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert),
    ]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl makes the certificate")
    return cert, key


def test_tls_wants_both_files_and_good_ones(pair: tuple[Path, Path], tmp_path: Path) -> None:
    cert, key = pair
    (tmp_path / "junk").write_text("junk")
    for wrong, said in (
        ((cert, None), "go together"),
        ((None, key), "go together"),
        ((cert, tmp_path / "no"), "cannot read"),
        ((cert, tmp_path / "junk"), "expected a certificate and its private key"),
        ((key, cert), "expected a certificate and its private key"),
    ):
        with pytest.raises(InputError, match=said) as caught:
            Listening(tls_cert=wrong[0], tls_key=wrong[1])
        assert "\n" not in str(caught.value)


def test_tls_is_spoken(pair: tuple[Path, Path]) -> None:
    async def app(scope: object, receive: object, send: object) -> None:
        await send_json(send, 200, {"said": "hello"})  # type: ignore[arg-type]

    server = WebServer(app, Listening(tls_cert=pair[0], tls_key=pair[1]), Limits(head_s=1.0, idle_s=1.0))
    trust = ssl.create_default_context(cafile=str(pair[0]))
    with running(server):
        assert server.url.startswith("https://127.0.0.1:")
        with trust.wrap_socket(
            socket.create_connection(("127.0.0.1", server.port), PATIENCE_S), server_hostname="127.0.0.1"
        ) as line:
            line.sendall(b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
            said = b""
            while part := line.recv(4096):
                said += part
        assert said.endswith(b'{"said": "hello"}')
        with socket.create_connection(("127.0.0.1", server.port), PATIENCE_S) as plain:  # no handshake: it is closed
            plain.sendall(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
            assert b"200" not in plain.recv(4096)
        assert until(lambda: server.connections == 0)


def test_a_tls_handshake_that_does_not_go_on_is_ended(pair: tuple[Path, Path]) -> None:
    """Within the time of a head, not asyncio's 60 s: for who says nothing, and for who begins."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send_json(send, 200, {})

    limits = Limits(head_s=0.3)
    with running(WebServer(app, Listening(tls_cert=pair[0], tls_key=pair[1]), limits)) as server:
        for said in (b"", b"\x16\x03\x01\x02\x00\x01"):
            with socket.create_connection(("127.0.0.1", server.port), timeout=20) as line:
                line.sendall(said)
                with contextlib.suppress(ConnectionError):
                    assert line.recv(1) == b""


def test_limits_that_are_none() -> None:
    for wrong in (
        {"head_s": 0.0},
        {"body_s": -1.0},
        {"connections": 0},
        {"write_s": float("nan")},
        {"idle_s": float("inf")},
    ):
        with pytest.raises(InputError, match=f"{next(iter(wrong))}: expected"):
            Limits(**wrong)  # type: ignore[arg-type]


class Streaming:
    """An application that streams for as long as it is let, and counts what is under way."""

    def __init__(self, parts: int, part: bytes, wait_s: float = 0.0) -> None:
        self.parts, self.part, self.wait_s = parts, part, wait_s
        self.under_way = 0

    async def __call__(self, scope: object, receive: object, send: object) -> None:
        import asyncio

        self.under_way += 1
        try:
            await send({"type": "http.response.start", "status": 200, "headers": []})  # type: ignore[operator]
            for _ in range(self.parts):
                await send({"type": "http.response.body", "body": self.part, "more_body": True})  # type: ignore[operator]
                await asyncio.sleep(self.wait_s)
            await send({"type": "http.response.body", "body": b"end"})  # type: ignore[operator]
        finally:
            self.under_way -= 1


def test_a_client_that_does_not_read_is_left() -> None:
    """A gigabyte for one who takes nothing of it: the connection is closed, and what wrote to it has ended."""
    app = Streaming(16_000, b"x" * 65536)
    server = WebServer(app, Listening(), Limits(write_s=0.5))
    with running(server), socket.create_connection(("127.0.0.1", server.port), PATIENCE_S) as line:
        line.sendall(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
        assert until(lambda: app.under_way == 1)
        assert until(lambda: server.connections == 0)
        assert until(lambda: app.under_way == 0)


def get(server: WebServer) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE_S) as line:
        line.sendall(b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
        said = b""
        while part := line.recv(65536):
            said += part
    return said


def test_the_end_waits_for_what_is_under_way_and_takes_nothing_more() -> None:
    app = Streaming(20, b"x", 0.05)
    server = WebServer(app, Listening(), Limits(grace_s=PATIENCE_S))
    serving = threading.Thread(target=server.run)
    serving.start()
    answers: list[bytes] = []
    first = threading.Thread(target=lambda: answers.append(get(server)))
    first.start()
    assert until(lambda: app.under_way == 1)
    idle = socket.create_connection(("127.0.0.1", server.port), PATIENCE_S)  # waits for nobody
    server.drain()
    assert get(server).startswith(b"HTTP/1.1 503")
    first.join(PATIENCE_S)
    serving.join(PATIENCE_S)
    idle.close()
    assert not serving.is_alive()
    assert answers[0].count(b"x") == 20
    assert b"end" in answers[0]


@pytest.mark.parametrize("asked_again", [False, True])
def test_after_the_grace_or_when_asked_again_it_ends_all_the_same(asked_again: bool) -> None:
    app = Streaming(10**6, b"x", 0.05)
    told: list[str] = []
    grace_s = 1000.0 if asked_again else 0.2
    server = WebServer(app, Listening(), Limits(grace_s=grace_s), on_end=lambda: told.append("end"))
    serving = threading.Thread(target=server.run)
    serving.start()
    line = socket.create_connection(("127.0.0.1", server.port), PATIENCE_S)
    line.sendall(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
    assert until(lambda: app.under_way == 1)
    server.drain()
    if asked_again:
        server.drain()
    serving.join(PATIENCE_S)
    line.close()
    assert not serving.is_alive()
    assert (told, app.under_way) == ([] if asked_again else ["end"], 0)
