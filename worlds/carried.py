"""What a plan carries of the case that it was made for: it is scored on the same traffic without saying it again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from .world import Case

__all__ = ["carried", "said_by"]


def said_by(case: Case) -> dict[str, Any]:
    """A case as a file says it: the fields that somebody set, without the planner, which the plan file names itself."""
    return json.loads(case.model_dump_json(exclude_unset=True, exclude={"planner"}))


def carried(
    case: Mapping[str, Any],
    keep: Sequence[str],
    said: Mapping[str, Any],
    against: Mapping[str, Sequence[str]],
    never: Sequence[str] = (),
) -> dict[str, Any]:
    """What holds of a plan's case where something else is said now.

    Parameters
    ----------
    case : mapping
        As `said_by` gave it; nested.
    keep : sequence of str
        Its sections, or fields of no section, that count.
    said : mapping of str to value
        Path -> value that is said now.
    against : mapping of str to sequence of str
        Path -> paths whose values say the same thing in another way: a trace says the rate, too. Where one is said, the
        others are left out.
    never : sequence of str
        Paths that are left out in any case.
    """
    out = {*never, *said}.union(*(against.get(path, ()) for path in said))
    found: dict[str, Any] = {}
    for name in keep:
        value = case.get(name)
        if isinstance(value, Mapping):
            inside = cast("Mapping[str, Any]", value).items()
            found[name] = {key: inner for key, inner in inside if f"{name}.{key}" not in out}
        elif value is not None and name not in out:
            found[name] = value
    return found
