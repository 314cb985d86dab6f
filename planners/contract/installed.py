"""Planners that installed packages bring, by entry point of the group ``meshwright.planners``."""

from __future__ import annotations

import hashlib
import importlib.util
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from ...errors import InputError
from .file import line_of

__all__ = ["GROUP", "digest_of", "function_of", "names"]

GROUP = "meshwright.planners"


def names() -> list[str]:
    """Names of the installed planners, sorted."""
    return sorted({entry.name for entry in entry_points(group=GROUP)})


def digest_of(name: str) -> str:
    """SHA-256 of who brings a planner: distribution, version, and the text of the module where that is a file.

    Raises
    ------
    InputError
        If two distributions bring it, or its module cannot be found.
    """
    entry = _entry(name)
    held = hashlib.sha256("\0".join([*_who(entry), entry.value]).encode())
    try:
        spec = importlib.util.find_spec(entry.module)
    except Exception as error:
        raise _broken(entry, error) from error
    if spec is not None and spec.origin is not None and Path(spec.origin).is_file():
        held.update(Path(spec.origin).read_bytes())
    return held.hexdigest()


@lru_cache(maxsize=64)
def function_of(name: str, digest: str) -> object:
    """The planner of an entry point, as it was when it had that digest.

    Raises
    ------
    InputError
        If it is not installed here, not the same, or cannot be imported.
    """
    if name not in names():
        raise InputError(f"planner {name!r}: not installed here (a worker?); install the package that brings it")
    if digest_of(name) != digest:
        raise InputError(
            f"planner {name!r}: the one that is installed here is not the one that the study was begun with "
            f"({' '.join(_who(_entry(name)))} here); install the same version everywhere"
        )
    entry = _entry(name)
    try:
        found = entry.load()
    except (Exception, SystemExit) as error:
        raise _broken(entry, error) from error
    if not callable(found):
        raise InputError(
            f"planner {name!r}: the entry point {entry.value!r} of {' '.join(_who(entry))} is a "
            f"value of type {type(found).__name__}; expected a function plan(problem)"
        )
    return found


def _entry(name: str) -> EntryPoint:
    found = {(_who(entry), entry.value): entry for entry in entry_points(group=GROUP, name=name)}
    if len(found) > 1:
        who = " and ".join(" ".join(who) for who, _ in found)
        raise InputError(f"planner {name!r}: two installed packages bring one of this name ({who}); uninstall one")
    return next(iter(found.values()))


def _who(entry: EntryPoint) -> tuple[str, str]:
    return ("an unknown package", "") if entry.dist is None else (entry.dist.name, entry.dist.version)


def _broken(entry: EntryPoint, error: BaseException) -> InputError:
    where = f" ({line_of(error, '')})" if error.__traceback__ and not isinstance(error, ImportError) else ""
    return InputError(
        f"planner {entry.name!r}: the entry point {entry.value!r} of {' '.join(_who(entry))} cannot be loaded: "
        f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}{where}; "
        "mend or reinstall that package"
    )
