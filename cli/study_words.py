"""A study in words: what it will run, and what came out."""

from __future__ import annotations

import math
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    import pandas as pd

    from ..studies import Session, Study

__all__ = ["column", "count", "describe", "kinds", "print_results", "warnings_of"]

MAX_ROWS = 40
MAX_ERRORS = 5
LINE = 118
DULL = ("requests", "rejected", "evaluations", "p50_latency", "devices")
"""Metrics that stay in the files: nobody reads them first."""


def count(number: int, what: str = "point") -> str:
    """``1,024 points``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def describe(study: Study) -> list[str]:
    """A study in a few lines: the base case, what varies, what is asked, how many points that makes."""
    said = study.base.model_dump(mode="json", exclude_unset=True)
    lines = [f"{study.name} ({study.world.name} world)"]
    for name, value in said.items():
        if name not in ("planner", "seed"):
            lines += _entry(name, _flat(value))
    lines += _entry("planners", ", ".join(study.planners))
    lines += _entry("axes", *(f"{axis.path}: {_listed(axis.values)}" for axis in study.axes))
    lines += _entry("questions", *(_asked(question) for question in study.questions))
    factors = [
        count(len(study.design), "combination"), count(len(study.planners), "planner"),
        count(study.replications, "replication"),
    ]  # fmt: skip
    more = ", and the questions' own points" if study.questions else ""
    lines += _entry("points", f"{' x '.join(factors)} = {count(len(study))}{more}")
    return lines


def _entry(label: str, *texts: str) -> list[str]:
    return [f"  {label if i == 0 else '':<11}{_cut(text, LINE - 13)}" for i, text in enumerate(texts)]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _flat(value: Any) -> str:
    """Nested fields on one line: ``devices 8, device v100-16gb``."""
    if isinstance(value, Mapping):
        parts = [f"{k} {{{_flat(v)}}}" if isinstance(v, Mapping) else f"{k} {_flat(v)}" for k, v in value.items()]
        return ", ".join(parts)
    if isinstance(value, list | tuple):
        return _listed(tuple(value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _listed(values: tuple[Any, ...]) -> str:
    words = [_flat(v) for v in values]
    if len(words) > 12:
        words = [*words[:6], f"… ({len(words):,} values)", *words[-2:]]
    return ", ".join(words)


def _asked(question: Any) -> str:
    """A question in words."""
    fields = question.model_dump(mode="json", exclude_defaults=True)
    return _flat({"find": fields.pop("find"), **fields}) if "find" in fields else _flat(fields) or str(question)


def column(frame: pd.DataFrame, name: str) -> list[Any]:
    """A column as a list; an empty frame has none."""
    return frame[name].tolist() if len(frame) else []


def print_results(session: Session, frame: pd.DataFrame, files: list[Path]) -> None:
    """The table, the answers, what must be known with them, and where the rest is."""
    from ..studies.summary import summarise

    if len(frame):
        typer.echo("")
        typer.echo(table(summarise(frame, session.study), session.study))
    if session.answers:
        typer.echo("")
    for answer in session.answers:
        typer.echo(answer.sentence)
    for warning in warnings_of(session, frame):
        typer.echo(f"warning: {warning}", err=True)
    shown = [path for path in files if path.name in ("report.html", "summary.csv", "store.sqlite")] or files
    typer.echo("\nwritten: " + ", ".join(str(path) for path in shown[:3]))


def table(summary: pd.DataFrame, study: Study) -> str:
    """The summary as text: values, planner, and as many metrics with intervals as the line holds."""
    from ..studies.report.words import plain, short_names

    short = short_names([axis.path for axis in study.axes])
    keys = [c for c in summary.columns if c in short]
    keys = [c for c in keys if len(set(map(str, summary[c]))) > 1] or keys
    columns = {short[key]: [plain(v) for v in column(summary, key)] for key in keys}
    columns["planner"] = [str(p) for p in column(summary, "planner")]
    room = max(shutil.get_terminal_size((LINE, 40)).columns if sys.stdout.isatty() else LINE, 60)
    for name in summary.columns:
        if f"{name}_half_width" not in summary.columns or name in DULL or name in short.values():
            continue
        head, cells = _metric(name, column(summary, name), column(summary, f"{name}_half_width"))
        if _width(columns | {head: cells}) <= room:
            columns[head] = cells
    rows = list(zip(*columns.values(), strict=True))
    widths = [max(map(len, (head, *cells))) for head, cells in columns.items()]
    lines = [_row(row, widths, len(keys)) for row in (tuple(columns), *rows[:MAX_ROWS])]
    if len(rows) > MAX_ROWS:
        lines.append(f"… {len(rows) - MAX_ROWS:,} more rows in summary.csv")
    return "\n".join(lines)


def _width(columns: Mapping[str, list[str]]) -> int:
    return sum(max(map(len, (head, *cells))) + 2 for head, cells in columns.items()) - 2


def _row(cells: tuple[str, ...], widths: list[int], planner: int) -> str:
    """Planner to the left, figures to the right."""
    return "  ".join(
        cell.ljust(width) if i == planner else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ).rstrip()


def _metric(name: str, means: list[float], halves: list[float]) -> tuple[str, list[str]]:
    """Heading and cells of a metric; ``-`` where it was refused, or no point has it."""
    from ..studies.report.words import label, number, scale

    factor, cells = scale(name), list[str]()
    for mean, half in zip(means, halves, strict=True):
        interval = f" ± {number(half * factor, 2)}" if math.isfinite(half) else ""
        cells.append(f"{number(mean * factor)}{interval}" if math.isfinite(mean) else "-")
    return label(name), cells


def warnings_of(session: Session, frame: pd.DataFrame) -> list[str]:
    """What a reader must know: notes of points, points that failed or have no plan, answers that are not monotone."""
    status, errors = column(frame, "status"), column(frame, "error")
    notes = [note for text in column(frame, "notes") for note in str(text).split("; ") if note]
    lines = [f"{n:,} of {count(len(status))}: {first}" for first, n in kinds(notes)]
    for what, said in (("infeasible", "have no feasible plan"), ("failed", "failed")):
        kinds = kinds([error for s, error in zip(status, errors, strict=True) if s == what])
        lines += [f"{n:,} of {count(len(status))} {said}: {first}" for first, n in kinds[:MAX_ERRORS]]
        if len(kinds) > MAX_ERRORS:
            lines.append(f"{len(kinds) - MAX_ERRORS} more kinds of points that {said}: see points.csv")
    return lines + [f"not monotone: {a.sentence}" for a in session.answers if not a.monotone]


def kinds(texts: list[str]) -> list[tuple[str, int]]:
    """Texts that differ by numbers only are one kind: its first text and how many there are, most frequent first."""
    first: dict[str, str] = {}
    number: dict[str, int] = {}
    for text in texts:
        kind = re.sub(r"\d+(\.\d+)?(e[+-]?\d+)?", "#", text)
        first.setdefault(kind, text)
        number[kind] = number.get(kind, 0) + 1
    return [(_cut(first[kind], 200), n) for kind, n in sorted(number.items(), key=lambda kv: -kv[1])]
