"""Backends that installed packages bring, by entry point of the group ``meshwright.backends``."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from ...errors import InputError
from .contract import KINDS, Backend
from .pattern import check_pattern

__all__ = ["GROUP", "checked", "installed", "names"]

GROUP = "meshwright.backends"


def names() -> list[str]:
    """Names of the installed backends, sorted."""
    return sorted({entry.name for entry in entry_points(group=GROUP)})


def installed(name: str) -> Backend:
    """The backend of an entry point: what it names, called if it is a class.

    Raises
    ------
    InputError
        If two packages bring it, it cannot be loaded, or it is no backend.
    """
    found = {(_who(entry), entry.value): entry for entry in entry_points(group=GROUP, name=name)}
    if not found:
        raise InputError(f"backend {name!r}: no installed package brings it")
    if len(found) > 1:
        who = " and ".join(who for who, _ in found)
        raise InputError(f"backend {name!r}: two installed packages bring one of this name ({who}); uninstall one")
    entry = next(iter(found.values()))
    try:
        brought = entry.load()
        backend = brought() if isinstance(brought, type) else brought
    except (Exception, SystemExit) as error:
        raise InputError(
            f"backend {name!r}: the entry point {entry.value!r} of {_who(entry)} cannot be loaded: "
            f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}; "
            "mend or reinstall that package"
        ) from error
    return checked(backend, f"backend {name!r} of {_who(entry)}")


def checked(backend: object, where: str) -> Backend:
    """A backend that keeps the contract.

    Raises
    ------
    InputError
        If it does not derive from `Backend`, has no name, another kind, takes nothing, or has a malformed pattern.
    """
    if not isinstance(backend, Backend):
        raise InputError(f"{where}: expected a subclass of meshwright.profiles.backends.Backend (got {backend!r})")
    if not isinstance(backend.name, str) or not backend.name:
        raise InputError(f"{where}: expected a name (got {backend.name!r})")
    if backend.kind not in KINDS:
        raise InputError(f"{where}: expected kind {' or '.join(map(repr, KINDS))} (got {backend.kind!r})")
    for pattern in backend.patterns:
        check_pattern(pattern, where)
    if not backend.patterns and backend.rule is None:
        raise InputError(f"{where}: it takes nothing; give it patterns or a rule")
    return backend


def _who(entry: EntryPoint) -> str:
    return "an unknown package" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
