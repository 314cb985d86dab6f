"""A study in words: what it will run, and what came out."""

from __future__ import annotations

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

__all__ = ["column", "count", "describe", "print_results", "warnings_of"]

MAX_ROWS = 40
MAX_ERRORS = 5
LINE = 118


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
    short = {axis.path: _last(axis.path, [a.path for a in study.axes]) for axis in study.axes}
    keys = [c for c in summary.columns if c in short]
    keys = [c for c in keys if len(set(map(str, summary[c]))) > 1] or keys
    metrics = [c for c in summary.columns if f"{c}_half_width" in summary.columns and c not in _dull(summary, study)]
    columns = {short[key]: [_value(v) for v in summary[key]] for key in keys}
    columns["planner"] = [str(p) for p in summary["planner"]]
    room = max(shutil.get_terminal_size((LINE, 40)).columns if sys.stdout.isatty() else LINE, 60)
    for name in metrics:
        head, cells = _metric(name, column(summary, name), column(summary, f"{name}_half_width"))
        if _width(columns | {head: cells}) > room:
            break
        columns[head] = cells
    rows = list(zip(*columns.values(), strict=True))
    left = len(rows) - MAX_ROWS
    widths = [max(len(head), *(len(row[i]) for row in rows)) for i, head in enumerate(columns)]
    named = len(keys) + 1
    lines = [_row(tuple(columns), widths, named), *(_row(row, widths, named) for row in rows[:MAX_ROWS])]
    if left > 0:
        lines.append(f"… {left:,} more rows in summary.csv")
    return "\n".join(lines)


def _width(columns: Mapping[str, list[str]]) -> int:
    return sum(max(len(head), *map(len, cells)) + 2 for head, cells in columns.items())


def _row(cells: tuple[str, ...], widths: list[int], named: int) -> str:
    """Planner to the left, figures to the right."""
    parts = [
        cell.ljust(w) if i == named - 1 else cell.rjust(w)
        for i, (cell, w) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(parts).rstrip()


def _last(path: str, paths: list[str]) -> str:
    """The last word of a path, where that is unique."""
    word = path.rpartition(".")[2]
    return word if sum(p.rpartition(".")[2] == word for p in paths) == 1 else path


def _dull(summary: pd.DataFrame, study: Study) -> set[str]:
    """Metrics that say what an axis says, or what nobody reads first."""
    return {"requests", "evaluations", "p50_latency"} | {axis.path.rpartition(".")[2] for axis in study.axes}


def _value(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else _flat(value)


def _metric(name: str, means: list[float], halves: list[float]) -> tuple[str, list[str]]:
    """Heading and cells of a metric: fractions in percent, latencies in milliseconds."""
    scale, unit, form = 1.0, "", ".4g"
    if name in ("attainment", "utilization"):
        scale, unit, form = 100.0, " %", ".2f"
    elif name.endswith("latency"):
        scale, unit, form = 1e3, " ms", ".1f"
    cells: list[str] = []
    for mean, half in zip(means, halves, strict=True):
        if mean != mean:  # NaN: refused, infeasible or failed
            cells.append("-")
        else:
            interval = "" if half != half else f" ± {scale * half:.2g}"
            cells.append(f"{scale * mean:{form}}{interval}")
    return f"{name}{unit}", cells


def warnings_of(session: Session, frame: pd.DataFrame) -> list[str]:
    """What a reader must know: notes of points, points that failed or have no plan, answers that are not monotone."""
    status, errors = column(frame, "status"), column(frame, "error")
    notes = [note for text in column(frame, "notes") for note in str(text).split("; ") if note]
    lines = [f"{n:,} of {count(len(status))}: {first}" for first, n in _kinds(notes)]
    for what, said in (("infeasible", "have no feasible plan"), ("failed", "failed")):
        kinds = _kinds([error for s, error in zip(status, errors, strict=True) if s == what])
        lines += [f"{n:,} of {count(len(status))} {said}: {first}" for first, n in kinds[:MAX_ERRORS]]
        if len(kinds) > MAX_ERRORS:
            lines.append(f"{len(kinds) - MAX_ERRORS} more kinds of points that {said}: see points.csv")
    return lines + [f"not monotone: {a.sentence}" for a in session.answers if not a.monotone]


def _kinds(texts: list[str]) -> list[tuple[str, int]]:
    """Texts that differ by numbers only are one kind: its first text and how many there are, most frequent first."""
    first: dict[str, str] = {}
    number: dict[str, int] = {}
    for text in texts:
        kind = re.sub(r"\d+(\.\d+)?(e[+-]?\d+)?", "#", text)
        first.setdefault(kind, text)
        number[kind] = number.get(kind, 0) + 1
    return [(_cut(first[kind], 200), n) for kind, n in sorted(number.items(), key=lambda kv: -kv[1])]
