"""Cost tables and kept costs as JSON files: written whole, read with a check of every part."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

from ...errors import InputError
from ...files import readable, taking_turns, write_text
from .costs import CostTable

__all__ = ["Kept", "costs_document", "load_costs", "load_kept", "made", "merge_kept", "read_costs", "save_costs"]

COSTS = "meshwright-backend-costs"
KEPT = "meshwright-kept-costs"
VERSION = 1
REMEDY = "profile the network again"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Kept:
    """What is known of one unit on one backend of one version on one machine.

    Parameters
    ----------
    cost_ms, spread, rounds, error
        As of `Match`; `None` where it was refused.
    reason : str
        Why it was refused; empty if it was not.
    """

    cost_ms: float | None = None
    spread: float | None = None
    rounds: int | None = None
    error: float | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        if not self.reason and None in (self.cost_ms, self.spread, self.rounds, self.error):
            raise InputError("a kept cost: expected cost_ms, spread, rounds and error, or a reason")


def save_costs(table: CostTable, path: str | Path) -> Path:
    """Write a table, whole or not at all; returns the path."""
    return write_text(path, json.dumps(costs_document(table), allow_nan=False, separators=(",", ":")))


def costs_document(table: CostTable) -> dict[str, Any]:
    """A table as JSON has it: what `read_costs` reads, and `save_costs` writes."""
    return {"format": COSTS, "version": VERSION, **json.loads(json.dumps(asdict(table), allow_nan=False))}


def load_costs(path: str | Path) -> CostTable:
    """Read a table.

    Raises
    ------
    InputError
        If it is no table, of another version, or damaged; one line that names the file and what is wrong.
    """
    return made(CostTable, _document(path, COSTS, REMEDY), str(path), REMEDY)


def read_costs(document: Any, where: str) -> CostTable:
    """A table from what JSON has of it, such as a part of a plan; `where` names it in errors.

    Raises
    ------
    InputError
        As `load_costs`.
    """
    return made(CostTable, _checked(document, where, COSTS, REMEDY), where, REMEDY)


def load_kept(path: str | Path) -> dict[str, Kept]:
    """Costs that are kept in a file, by `keys.cost_key`; none if there is no file.

    Raises
    ------
    InputError
        If it is damaged.
    """
    if not Path(path).exists():
        return {}
    entries = _document(path, KEPT, "delete it, and costs are measured anew").get("entries")
    if not isinstance(entries, dict):
        raise InputError(f"{path}: damaged: entries: expected an object; delete it, and costs are measured anew")
    return {key: made(Kept, entry, f"{path}: {key[:12]}", "delete the file") for key, entry in entries.items()}


def merge_kept(path: str | Path, new: Mapping[str, Kept]) -> None:
    """Add costs to a file; what others added meanwhile stays."""
    with taking_turns(path):
        entries = load_kept(path) | dict(new)
        document = {"format": KEPT, "version": VERSION, "entries": {k: asdict(entries[k]) for k in sorted(entries)}}
        write_text(path, json.dumps(document, allow_nan=False, separators=(",", ":")))


def _document(path: str | Path, form: str, remedy: str) -> dict[str, Any]:
    try:
        found = json.loads(readable(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise InputError(f"{path}: damaged: not JSON ({str(error)[:80]}); {remedy}") from None
    return _checked(found, str(path), form, remedy)


def _checked(found: Any, where: str, form: str, remedy: str) -> dict[str, Any]:
    if not isinstance(found, dict) or found.get("format") != form:
        raise InputError(f"{where}: expected what says the format {form!r}; {remedy}")
    if found.get("version") != VERSION:
        raise InputError(f"{where}: expected version {VERSION} (got {found.get('version')!r}); {remedy}")
    return found


def made(kind: type[T], document: object, where: str, remedy: str) -> T:
    """A record of a dataclass from what JSON has of it; keys that the class does not have are passed over.

    Raises
    ------
    InputError
        If a part is missing or of another type; one line that names `where`, the part, and the remedy.
    """
    try:
        return _read(kind, document, "")
    except (TypeError, ValueError, KeyError, RecursionError) as error:
        raise InputError(f"{where}: damaged: {str(error)[:200]}; {remedy}") from None


def _read(kind: Any, found: Any, at: str) -> Any:
    """A value of a type, from JSON; every part is checked."""
    if isinstance(kind, type) and is_dataclass(kind):
        if not isinstance(found, dict):
            raise TypeError(f"{at or 'document'}: expected an object (got {type(found).__name__})")
        hints = typing.get_type_hints(kind)
        needed = [field.name for field in fields(kind)]
        missing = [name for name in needed if name not in found]
        if missing:
            raise TypeError(f"{at}: {missing[0]!r} is missing")
        return kind(**{name: _read(hints[name], found[name], f"{at}.{name}".lstrip(".")) for name in needed})
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        if not isinstance(found, list):
            raise TypeError(f"{at}: expected a list (got {type(found).__name__})")
        kinds = [inner[0]] * len(found) if inner[-1] is Ellipsis else list(inner)
        if len(kinds) != len(found):
            raise TypeError(f"{at}: expected {len(kinds)} items (got {len(found)})")
        return tuple(_read(one, item, f"{at}[{k}]") for k, (one, item) in enumerate(zip(kinds, found, strict=True)))
    if kind is Any:
        return tuple(_read(Any, item, at) for item in found) if isinstance(found, list) else found
    if origin in (types.UnionType, typing.Union):
        if found is None and type(None) in inner:
            return None
        return _read(next(one for one in inner if one is not type(None)), found, at)
    wanted = (int, float) if kind is float else kind
    if not isinstance(found, wanted) or (isinstance(found, bool) and kind is not bool):
        raise TypeError(f"{at}: expected {kind.__name__} (got {found!r:.60})")
    return found
