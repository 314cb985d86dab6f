"""How long and how much a server waits for and takes."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, fields, replace

from ...errors import InputError

__all__ = ["Limits", "add_limit_arguments", "limits_of"]

SPARE_FILES = 64
"""File descriptors that are left for everything that is no connection."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a server.

    Parameters
    ----------
    head_s : float
        From the first moment of a connection, or the first byte of its next request, to the end of the request's
        headers, seconds.
    body_s : float
        From there to the end of its body, seconds.
    idle_s : float
        How long a connection may stay open between requests, seconds.
    write_s : float
        How long a client may leave an answer unread, seconds.
    grace_s : float
        How long requests under way may go on when the server has been told to end, seconds.
    connections : int
        At one time. When there are more, the one that has waited longest for its headers makes room.
    body_bytes : int
        Largest body of a request.
    buffered_bytes : int
        Bodies of all requests under way together.

    Raises
    ------
    InputError
        On a bound that is none.
    """

    head_s: float = 10.0
    body_s: float = 60.0
    idle_s: float = 15.0
    write_s: float = 60.0
    grace_s: float = 20.0
    connections: int = 1000
    body_bytes: int = 64 * 2**20
    buffered_bytes: int = 512 * 2**20

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            least = 0.0 if one.name == "grace_s" else None
            good = math.isfinite(value) and (value > 0 or value == least)
            if isinstance(value, bool) or not good:
                raise InputError(f"{one.name}: expected a number > 0 (got {value!r})")

    def fitting(self) -> Limits:
        """The same with no more connections than this process may open files; a router opens two for each."""
        try:
            import resource
        except ImportError:  # not POSIX: no such limit
            return self
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft == resource.RLIM_INFINITY:
            return self
        return replace(self, connections=min(self.connections, max(1, (soft - SPARE_FILES) // 2)))


_OPTIONS = {
    "head_s": "seconds for a request's headers",
    "body_s": "seconds for its body",
    "grace_s": "seconds that requests under way get at the end",
    "connections": "most connections at a time",
}


def add_limit_arguments(parser: argparse.ArgumentParser) -> None:
    """``--head-s``, ``--body-s``, ``--grace-s`` and ``--connections`` for a program of ours."""
    default = Limits()
    for name, text in _OPTIONS.items():
        value = getattr(default, name)
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=type(value), default=value, metavar="N", help=f"{text} ({value:g})"
        )


def limits_of(options: argparse.Namespace, body_bytes: int | None = None) -> Limits:
    """What the arguments of `add_limit_arguments` said.

    Raises
    ------
    InputError
        On a bound that is none.
    """
    said = Limits(**{name: getattr(options, name) for name in _OPTIONS})
    return said if body_bytes is None else replace(said, body_bytes=body_bytes)
