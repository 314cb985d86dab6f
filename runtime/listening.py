"""Where a server listens and who may ask it: one rule for every listening socket of the project.

A server listens on this machine's loopback device unless it is told otherwise. It listens wider only with a bearer
token, which every request but those for its health then has to carry.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import contextlib
import errno
import hmac
import ipaddress
import os
import re
import socket
import ssl
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..files import readable

__all__ = [
    "LOOPBACK",
    "TOKEN_FILE_VARIABLE",
    "TOKEN_VARIABLE",
    "Listening",
    "add_listening_arguments",
    "bearer_header",
    "bearer_matches",
    "is_loopback",
    "listening_of",
    "listening_socket",
    "read_token",
    "token_of",
]

LOOPBACK = "127.0.0.1"
TOKEN_VARIABLE = "MESHWRIGHT_TOKEN"
"""Environment variable that holds the token where there is no file (a container's ``secretKeyRef``)."""
TOKEN_FILE_VARIABLE = "MESHWRIGHT_TOKEN_FILE"
"""Environment variable that names the token's file where no argument does."""
BACKLOG = 1024
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*", re.ASCII)  # what RFC 6750 lets a bearer token be
_MOST = 4096


@dataclass(frozen=True, slots=True)
class Listening:
    """An address to listen on, and what guards it.

    Parameters
    ----------
    host : str
        A name or address of this machine; an empty one is every address.
    port : int
        0 takes any that is free.
    token : str, optional
        What requests have to carry, as ``Authorization: Bearer TOKEN``.
    tls_cert, tls_key : Path, optional
        PEM files of the server's certificate chain and its private key: both or none.

    Raises
    ------
    InputError
        If the address is wider than loopback and there is no token; on a port, token or TLS file that cannot be one.
    """

    host: str = LOOPBACK
    port: int = 0
    token: str | None = field(default=None, repr=False)
    tls_cert: Path | None = None
    tls_key: Path | None = None

    def __post_init__(self) -> None:
        if isinstance(self.port, bool) or not 0 <= self.port <= 65535:
            raise InputError(f"port: expected an integer from 0 to 65535 (got {self.port!r})")
        if self.token is not None:
            _check_token(self.token, "token")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise InputError("tls: a certificate and its key go together; give --tls-cert and --tls-key, or neither")
        if self.tls_cert is not None and self.tls_key is not None:
            _check_tls(self.tls_cert, self.tls_key)
        if self.token is None and not is_loopback(self.host):
            raise InputError(
                f"host: {self.host or 'every address'} is reached from other machines, and without a token anybody "
                f"there may ask; give --token-file FILE (or {TOKEN_VARIABLE}), or listen on {LOOPBACK}"
            )

    @property
    def scheme(self) -> str:
        """``http`` or ``https``."""
        return "http" if self.tls_cert is None else "https"

    def url(self, port: int) -> str:
        """How clients call it at the port that it got."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{shown}:{port}"


def is_loopback(host: str) -> bool:
    """Whether only processes of this machine reach the address.

    Raises
    ------
    InputError
        If the name means no address.
    """
    return all(_inner(str(address[0])) for _, address in _resolved(host, 0))


def _inner(address: str) -> bool:
    found = ipaddress.ip_address(address.partition("%")[0])
    mapped = getattr(found, "ipv4_mapped", None)
    return (mapped or found).is_loopback


def _resolved(host: str, port: int) -> list[tuple[socket.AddressFamily, tuple[Any, ...]]]:
    """What a host means. Whatever `bind` takes for an address ("", "0", "127.1") is one here, too."""
    try:
        if "\0" in host:  # C would read up to there
            raise ValueError("a null character")
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError, ValueError) as error:
        raise InputError(f"host: expected a name or address of this machine (got {host!r:.80}: {error})") from None
    return [(family, address) for family, _, _, _, address in found if family in (socket.AF_INET, socket.AF_INET6)]


def listening_socket(where: Listening) -> socket.socket:
    """A socket that listens there.

    Raises
    ------
    InputError
        If the address cannot be bound.
    """
    family, address = min(_resolved(where.host, where.port), key=lambda one: one[0] != socket.AF_INET)
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        if where.token is None and not _inner(str(listener.getsockname()[0])):  # a name that changed its meaning
            raise InputError(f"host: {where.host!r} is not loopback any more; give --token-file FILE")
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        other = "--host, one of this machine" if error.errno == errno.EADDRNOTAVAIL else "--port"
        raise InputError(
            f"cannot listen on {where.host}:{where.port}: {error.strerror or error}; choose another {other}"
        ) from None
    except InputError:
        listener.close()
        raise
    return listener


def read_token(path: Path | str) -> str:
    """The bearer token in a file: its only line, white space around it dropped.

    Raises
    ------
    InputError
        If the file cannot be read, others than its owner may read it, or it holds no token.
    """
    try:
        with readable(path).open("rb") as file:
            status = os.fstat(file.fileno())
            if os.name == "posix" and status.st_mode & 0o077:
                raise InputError(
                    f"{path}: others than its owner may read this token (mode {stat.S_IMODE(status.st_mode):04o}); "
                    f"chmod 600 {path}"
                )
            raw = file.read(_MOST + 1)
    except InputError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        raise InputError(f"{path}: cannot read the token: {getattr(error, 'strerror', error)}") from None
    try:
        text = raw.decode("ascii").strip()
    except UnicodeDecodeError:
        raise InputError(f"{path}: expected a token of letters, digits and -._~+/= (got other bytes)") from None
    _check_token(text, str(path))
    return text


def _check_token(text: str, where: str) -> None:
    if not text:
        raise InputError(f"{where}: expected a token (got nothing); make one: openssl rand -hex 32")
    if len(text) > _MOST or not _TOKEN.fullmatch(text):
        raise InputError(f"{where}: expected one token of letters, digits and -._~+/=, at most {_MOST} characters")


def token_of(file: Path | str | None) -> str | None:
    """The token of a file, of the file that ``MESHWRIGHT_TOKEN_FILE`` names, or of ``MESHWRIGHT_TOKEN``; else None.

    Raises
    ------
    InputError
        If it is there and no token.
    """
    if file is not None:
        return read_token(file)
    named = os.environ.get(TOKEN_FILE_VARIABLE)
    if named is not None:
        if not named:
            raise InputError(f"{TOKEN_FILE_VARIABLE}: expected the path of a token's file (got nothing); or unset it")
        return read_token(named)
    said = os.environ.get(TOKEN_VARIABLE)
    if said is None:
        return None
    text = said.strip()
    _check_token(text, TOKEN_VARIABLE)
    return text


def bearer_matches(header: str | bytes | None, token: str | None) -> bool:
    """Whether the value of a request's ``Authorization`` header lets it in; without a token everything does.

    The token may also come as the password of ``Basic``: kube-scheduler sends no header of its own to an extender, but
    what its address says (``http://name:TOKEN@host``). Compared in a time that does not depend on where they differ.
    """
    if token is None:
        return True
    raw = header.encode("latin-1", "replace") if isinstance(header, str) else header or b""
    kind, _, said = raw.strip().partition(b" ")
    if kind.lower() == b"basic":
        with contextlib.suppress(binascii.Error):
            kind, said = b"bearer", base64.b64decode(said.strip(), validate=True).partition(b":")[2]
    same = hmac.compare_digest(said.strip(), token.encode("ascii"))
    return same and kind.lower() == b"bearer"


def bearer_header(token: str | None) -> dict[str, str]:
    """The header that a client sends to a server with this token."""
    return {} if token is None else {"Authorization": f"Bearer {token}"}


def _check_tls(cert: Path, key: Path) -> None:
    for path in (cert, key):
        try:
            readable(path).open("rb").close()
        except InputError:
            raise
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: cannot read it for TLS: {getattr(error, 'strerror', error)}") from None
    try:
        # No password is ever asked for on the terminal of a server.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password=lambda: b"")
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or str(error) or "no such pair"
        raise InputError(f"{cert}, {key}: expected a certificate and its private key in PEM ({reason})") from None


def add_listening_arguments(parser: argparse.ArgumentParser, port: int | None, host: str = LOOPBACK) -> None:
    """``--host``, ``--port``, ``--token-file``, ``--tls-cert`` and ``--tls-key`` for a program of ours."""
    shown = "the file's" if port is None else port
    parser.add_argument("--host", default=host, help=f"address to listen on ({host}); wider only with a token")
    parser.add_argument("--port", type=int, default=port, help=f"port to listen on ({shown})")
    parser.add_argument(
        "--token-file", type=Path, metavar="FILE",
        help=f"holds the bearer token that requests have to carry; only its owner may read it ({TOKEN_VARIABLE})",
    )  # fmt: skip
    parser.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate chain, PEM")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="its private key, PEM")


def listening_of(options: argparse.Namespace, port: int | None = None) -> Listening:
    """What the arguments of `add_listening_arguments` said; `port` where they said none.

    Raises
    ------
    InputError
        See `Listening`.
    """
    chosen = options.port if options.port is not None else port or 0
    return Listening(options.host, chosen, token_of(options.token_file), options.tls_cert, options.tls_key)
