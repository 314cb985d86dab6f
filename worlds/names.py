"""What a world calls its metrics: names that nothing else in a study's tables has, checked when the world registers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..errors import InputError

if TYPE_CHECKING:
    from .world import Case, World

__all__ = ["COLUMNS", "check_declared", "check_metrics", "check_names"]

COLUMNS = ("planner", "replication", "status", "notes", "decision", "error")
"""Columns of a study's frame that are neither fields that vary nor metrics."""

RESERVED = (
    *COLUMNS, "point", "replications", "infeasible", "failed", "reason", "baseline", "metric", "difference",
    "half_width", "low", "high", "differs", "pairs", "left_out", "variance_reduction",
)  # fmt: skip
"""Columns of points, summaries and paired differences that no world may use for a metric or a field."""

HALF = "_half_width"
"""What a summary puts behind a metric's name for half its interval."""


def check_names(world: World) -> None:
    """Refuse a world whose metrics, fields and the columns of a study's tables cannot be told apart.

    A metric has the name of no field, neither its path nor its last word, which axes are called by; and of no column
    that tables have anyway. A field at the top of a case has the name of no key of study files and of no such column.

    Raises
    ------
    InputError
        All clashes, each with both names.
    """
    from ..studies.file.document import StudyDocument

    metrics = getattr(world, "metrics", None)
    if not metrics:
        raise InputError(
            f"world {world.name!r}: declares no metrics; give it metrics = {{name: what it says, …}} with every metric "
            "that evaluate can give"
        )
    wrong = _clashes(world.name, world.case, metrics)
    for field in world.case.model_fields:
        if field in StudyDocument.model_fields and field != "seed":
            wrong.append(f"world {world.name!r}: field {field!r} is a key of every study file; rename it")
        elif field in RESERVED and field != "planner":
            wrong.append(f"world {world.name!r}: field {field!r} is a column of every study's tables; rename it")
    if wrong:
        raise InputError("\n".join(wrong))


def check_declared(world: World, names: Iterable[str]) -> None:
    """Refuse metrics that a world gives and does not declare; of a world that declares none, those that clash.

    Raises
    ------
    InputError
        Naming them.
    """
    declared = getattr(world, "metrics", None)
    if declared is None:
        check_metrics(world, names)
    elif unknown := [name for name in names if name not in declared]:
        raise InputError(f"world {world.name!r}: evaluate gave the metric {unknown[0]!r}, which it does not declare")


def check_metrics(world: World, names: Iterable[str]) -> None:
    """Refuse metrics that have the name of a field or of a column.

    Raises
    ------
    InputError
        Naming them.
    """
    wrong = _clashes(world.name, world.case, names)
    if wrong:
        raise InputError("; ".join(wrong))


def _clashes(world: str, case: type[Case], metrics: Iterable[str]) -> list[str]:
    from .fields import paths

    fields: dict[str, str] = {}
    for path in paths(case):
        fields.setdefault(path.rpartition(".")[2], path)
        fields[path] = path
    wrong: list[str] = []
    for name in metrics:
        if not name.isidentifier() or name.endswith(HALF):
            wrong.append(f"world {world!r}: metric {name!r}: expected a plain name, which does not end in {HALF}")
        elif name in fields:
            wrong.append(f"world {world!r}: metric {name!r} has the name of the field {fields[name]!r}; rename one")
        elif name in RESERVED:
            wrong.append(f"world {world!r}: metric {name!r} is a column of every study's tables; rename it")
    return wrong
