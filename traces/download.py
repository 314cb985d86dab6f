"""`download`: fetch a file over HTTPS, completely or not at all, with a size limit and a checksum."""

from __future__ import annotations

import hashlib
import ipaddress
import re
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..errors import InputError, MeshwrightError
from ..files import whole_file

__all__ = ["LARGEST_BYTES", "WrongChecksumError", "check_digest", "digest_of", "download"]

BLOCK = 1 << 20  # bytes read at a time: often enough for a progress line, seldom enough to cost nothing
LARGEST_BYTES = 8 * 2**30
"""Most bytes of a download. Every public trace is smaller when packed; more is a wrong address or an attack."""


class WrongChecksumError(MeshwrightError):
    """The downloaded file does not have the expected checksum."""


def check_digest(sha256: str) -> str:
    """A checksum as `sha256sum` prints it, in lower case.

    Raises
    ------
    InputError
        If it is none.
    """
    if not re.fullmatch("[0-9a-fA-F]{64}", sha256):
        raise InputError(f"sha256: expected 64 hexadecimal digits (got {sha256[:80]!r})")
    return sha256.lower()


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _OnlyHttps(urllib.request.HTTPRedirectHandler):
    """Follows redirections, but only to addresses that a download may come from."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        try:
            _check_url(newurl)
        except InputError as error:
            raise urllib.error.URLError(str(error)) from None
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme == "http" and parts.hostname and _is_here(parts.hostname):
        return
    raise InputError(f"expected an address that begins with https:// (got {url[:200]!r})")


def _is_here(host: str) -> bool:
    """Whether a host is this machine: a mirror of one's own needs no certificate."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def download(
    url: str, target: Path, *, timeout: float, largest: int = LARGEST_BYTES, sha256: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> str:  # fmt: skip
    """Download a file.

    Parameters
    ----------
    url : str
        Where from: https, or this machine.
    target : Path
        Where to. Nothing is there unless all of it came, and is what it should be.
    timeout : float
        Seconds of silence after which the server is given up.
    largest : int
        Bytes above which it is given up.
    sha256 : str, optional
        The SHA-256 that the file must have.
    progress : callable, optional
        Called with bytes received and bytes in all (0 if the server does not say).

    Returns
    -------
    str
        The file's SHA-256.

    Raises
    ------
    InputError
        If the address is none that may be used.
    WrongChecksumError
        If it is another file.
    OSError, http.client.HTTPException, ValueError
        If it cannot be had.
    """
    _check_url(url)
    opener = urllib.request.build_opener(_OnlyHttps())
    with opener.open(url, timeout=timeout) as answer, whole_file(target) as temporary:
        total = int(answer.headers.get("Content-Length") or 0)
        if not 0 <= total <= largest:
            raise ConnectionError(f"says that it is {total} bytes, more than {largest}")
        digest, received = hashlib.sha256(), 0
        with open(temporary, "wb") as stream:
            while block := answer.read(BLOCK):
                received += len(block)
                if received > largest:
                    raise ConnectionError(f"is more than {largest} bytes")
                digest.update(block)
                stream.write(block)
                if progress is not None:
                    progress(received, total)
        if total and received != total:
            raise ConnectionError(f"broke off after {received} of {total} bytes")
        found = digest.hexdigest()
        if sha256 is not None and found != sha256:
            raise WrongChecksumError(
                f"{url}: its SHA-256 is {found}, expected {sha256}: another file, or a damaged one"
            )
        return found
