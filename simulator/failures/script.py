"""A failure script: what fails when, and for how long, as YAML or CSV.

In YAML a list, in CSV the same words as columns::

    - {at: 12, device: 3, for: 20}
    - {at: 1 min, node: 0, for: 2 min}
    - {at: 90, group: 1}               # for good

Times are seconds from the beginning, or text such as "2 min".
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from ...errors import InputError
from ...files import readable
from ...reprs import Shown

__all__ = ["KINDS", "ScriptedFailure", "events_of", "read_script"]

Kind = Literal["device", "node", "group"]
KINDS: tuple[Kind, ...] = ("device", "node", "group")
WORDS = ("at", *KINDS, "for")
TIMES = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True, slots=True, repr=False)
class ScriptedFailure(Shown):
    """Something fails at a known time.

    Parameters
    ----------
    at_s : float
        Time of the failure, seconds, >= 0.
    kind : {"device", "node", "group"}
        What fails: a device, a node with all of its devices, or a group of a placement with all of its devices.
    number : int
        Which one, from 0.
    repair_s : float
        Seconds until it is repaired; infinite if never. What comes back then still has to load its weights.

    Raises
    ------
    InputError
        On a value out of its range.
    """

    at_s: float
    kind: Kind
    number: int
    repair_s: float = math.inf

    def __post_init__(self) -> None:
        number: Any = self.number
        if self.kind not in KINDS:
            raise InputError(f"failure: kind: expected one of {', '.join(KINDS)} (got {self.kind!r})")
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise InputError(f"failure: {self.kind}: expected an integer >= 0 (got {number!r})")
        if not (math.isfinite(self.at_s) and self.at_s >= 0):
            raise InputError(f"failure: at: expected finite seconds >= 0 (got {self.at_s})")
        if not self.repair_s > 0:
            raise InputError(f"failure: for: expected seconds > 0 (got {self.repair_s})")

    def __str__(self) -> str:
        length = "for good" if self.repair_s == math.inf else f"for {self.repair_s:g} s"
        return f"at {self.at_s:g} s {self.kind} {self.number} {length}"


def read_script(path: str | Path) -> tuple[ScriptedFailure, ...]:
    """Read a script from a YAML or (by its name) CSV file.

    Raises
    ------
    InputError
        If it cannot be read, or names nothing that fails; says which entry.
    """
    file = Path(path)
    try:
        text = readable(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "is no UTF-8 text"
        raise InputError(f"{file}: cannot be read: {why}") from None
    if file.suffix == ".csv":
        found: Any = [
            {k: v for k, v in row.items() if v not in (None, "")} for row in csv.DictReader(io.StringIO(text))
        ]
    else:
        import yaml

        try:
            found = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise InputError(f"{file}: is no YAML: {' '.join(str(error).split())}") from None
    return events_of(found, str(file))


def events_of(entries: object, where: str = "script") -> tuple[ScriptedFailure, ...]:
    """A script that was read already: a list of mappings.

    Raises
    ------
    InputError
        On an entry that says not one thing that fails, or when; begins with `where`.
    """
    listed: Any = entries
    if not isinstance(listed, Sequence) or isinstance(listed, str) or not listed:
        raise InputError(
            f"{where}: expected a list of failures such as {{at: 12, device: 3, for: 20}} (got {entries!r})"
        )
    return tuple(_event(entry, f"{where}: failure {k}") for k, entry in enumerate(cast("Sequence[object]", listed)))


def _event(entry: object, where: str) -> ScriptedFailure:
    if not isinstance(entry, Mapping):
        raise InputError(f"{where}: expected words such as {{at: 12, device: 3, for: 20}} (got {entry!r})")
    said = cast("Mapping[str, Any]", entry)
    unknown = [word for word in said if word not in WORDS]
    if unknown:
        raise InputError(f"{where}: unknown word {unknown[0]!r}; expected {', '.join(WORDS)}")
    named: list[Kind] = [kind for kind in KINDS if kind in said]
    if len(named) != 1:
        raise InputError(f"{where}: names no device; give one of device, node and group (got {dict(said)})")
    if "at" not in said:
        raise InputError(f"{where}: says no time; give at, in seconds")
    kind = named[0]
    try:
        return ScriptedFailure(
            _seconds(said["at"], "at"), kind, _whole(said[kind], kind), _seconds(said.get("for", math.inf), "for")
        )
    except InputError as error:
        raise InputError(f"{where}: {str(error).removeprefix('failure: ')}") from None


def _seconds(value: object, word: str) -> float:
    wrong = InputError(f"{word}: expected seconds, or a time such as 90 s or 2 min (got {value!r})")
    if isinstance(value, str):
        number, _, unit = value.strip().partition(" ")
        try:
            return float(number) * TIMES[unit.strip() or "s"]
        except (ValueError, KeyError):
            raise wrong from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong
    return float(value)


def _whole(value: object, word: str) -> int:
    if isinstance(value, str) and value.strip().isdecimal():  # CSV has text alone
        return int(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and float(value).is_integer():
        return int(value)
    raise InputError(f"{word}: expected an integer >= 0 (got {value!r})")
