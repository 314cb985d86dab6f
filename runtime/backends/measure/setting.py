"""The backends that are measured: found, and made ready for another process."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

from ....errors import InputError
from ....profiles.backends import Backend
from ..registry import backends as usable

__all__ = ["chosen_backends", "pickled"]


def chosen_backends(backends: Sequence[str | Backend]) -> tuple[Backend, ...]:
    """Backends by name, or as they are; each can be used here, and its name is no other's.

    Raises
    ------
    InputError
        If not.
    """
    out = list[Backend]()
    if not backends:
        usable(())
    for one in backends:
        if isinstance(one, str):
            out += usable((one,))
            continue
        reason = one.available()
        if reason:
            raise InputError(f"backend {one.name!r}: {reason}")
        out.append(one)
    named = [one.name for one in out]
    twice = [name for name in named if named.count(name) > 1]
    if twice:
        raise InputError(f"backends: {twice[0]!r} is named twice")
    return tuple(out)


def pickled(chosen: Sequence[Backend]) -> dict[str, bytes]:
    """Backends by name, as they are sent to a process.

    Raises
    ------
    InputError
        If one cannot be sent.
    """
    out = dict[str, bytes]()
    for one in chosen:
        try:
            out[one.name] = pickle.dumps(one)
        except Exception as error:
            raise InputError(
                f"backend {one.name!r}: it is measured in a process of its own, to which it cannot be sent: {error}; "
                "define its class at the top of a module"
            ) from error
    return out
