"""A study in words: what it will run, and what came out."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from .answers import answer_lines

if TYPE_CHECKING:
    import pandas as pd

    from ...studies import Session, Study
    from ...studies.design.axes import Axis
    from ...studies.design.designs import Design
    from ...studies.report.results import Results

__all__ = ["aligned", "column", "count", "describe", "interval", "print_results", "table"]

MAX_ROWS = 40
LINE = 118
TITLE = ("find", "field", "target", "metric", "at_most", "at_least", "given")
"""Fields of a question that its title says."""
DULL = ("n_requests", "rejected", "evaluations", "p50_latency", "n_devices", "fair_share")
"""Metrics that stay in the files: nobody reads them first."""


def count(number: int, what: str = "point", several: str = "") -> str:
    """``1,024 points``."""
    return f"{number:,} {what if number == 1 else several or what + 's'}"


def describe(study: Study) -> list[str]:
    """A study in a few lines: the base case, what varies, what is asked, how many points that makes."""
    said = study.base.model_dump(mode="json", exclude_unset=True)
    lines = [f"{study.name} ({study.world.name} world)"]
    for name, value in said.items():
        if name not in ("planner", "seed"):
            lines += _entry(name, _flat(value))
    lines += _entry("planners", ", ".join(study.planners))
    lines += _entry("axes", *(f"{axis.path}: {_varied(axis, study.design)}" for axis in study.axes))
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
        from ...studies.report.words import sized

        parts = [
            f"{k} {{{_flat(v)}}}" if isinstance(v, Mapping) else f"{k} {_flat(sized(str(k), v))}"
            for k, v in value.items()
        ]
        return ", ".join(parts)
    if isinstance(value, list | tuple):
        return f"[{_listed(value)}]"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _varied(axis: Axis, design: Design) -> str:
    """What an axis takes: its values, or the range that a sample is drawn from."""
    from ...studies.design.designs import LatinHypercube
    from ...studies.design.ranges import Range
    from ...studies.report.words import sized

    if isinstance(axis.values, Range) and isinstance(design, LatinHypercube):
        log = ", on a log scale" if axis.values.scale == "log" else ""
        low, high = (_flat(sized(axis.path, end)) for end in (axis.values.low, axis.values.high))
        return f"{low} to {high}, sampled{log}"
    return _listed([sized(axis.path, value) for value in axis.values] if len(axis.values) <= 12 else axis.values)


def _listed(values: Sequence[Any]) -> str:
    if len(values) <= 12:
        return ", ".join(map(_flat, values))
    return f"{', '.join(map(_flat, values[:6]))}, …, {_flat(values[-1])} ({len(values):,} values)"


def _asked(question: Any) -> str:
    """A question in words, with its range where one was said."""
    from ...studies.questions.words import title

    said = question.model_dump(mode="json", exclude_unset=True)
    rest = {name: value for name, value in said.items() if name not in TITLE}
    asked = title(question, " ".join(said[name] for name in ("find", "field") if name in said))
    return f"{asked}, {_flat(rest)}" if rest else asked


def column(frame: pd.DataFrame, name: str) -> list[Any]:
    """A column as a list; an empty frame has none."""
    return frame[name].tolist() if len(frame) else []


def print_results(session: Session, files: list[Path]) -> None:
    """The table, the answers, what must be known with them, and where the rest is."""
    from ...studies.report.notes import warnings_of
    from ...studies.report.results import gather

    results = gather(session)
    if len(results.points) and (session.study.axes or not session.study.questions):
        typer.echo("")
        typer.echo(table(results))
    for line in answer_lines(session):
        typer.echo(line)
    typer.echo("")
    for warning in warnings_of(results):
        typer.echo(f"note: {_cut(warning, 400)}", err=True)
    by_name = {path.name: str(path) for path in files}
    shown = [by_name[name] for name in ("report.html", "summary.csv", "points.csv", "store.sqlite") if name in by_name]
    typer.echo(f"written: {', '.join(shown)}")


def table(results: Results) -> str:
    """The design's rows: values, planner, and as many metrics with intervals as the line holds."""
    from ...studies.report.words import plain, sized

    axes = [axis.path for axis in results.study.axes]
    most = len(results.study.design) * len(results.study.planners)  # questions' points stand after them
    design = results.design.head(most)
    rows = design.head(MAX_ROWS)
    columns = {results.names[path]: [plain(sized(path, value)) for value in column(rows, path)] for path in axes}
    columns["planner"] = [str(planner) for planner in column(rows, "planner")]
    room = max(shutil.get_terminal_size((LINE, 40)).columns if sys.stdout.isatty() else LINE, 60)
    for name in results.metrics:
        if name in DULL or name in columns:
            continue
        head, cells = _metric(name, column(rows, name), column(rows, f"{name}_half_width"))
        wider = aligned([(*columns, head), *zip(*columns.values(), cells, strict=True)], len(axes))
        if max(map(len, wider)) <= room:
            columns[head] = cells
    lines = aligned([tuple(columns), *zip(*columns.values(), strict=True)], len(axes))
    more = len(design) - len(rows)
    return "\n".join([*lines, *([f"… {more:,} more rows in summary.csv"] if more > 0 else [])])


def _metric(name: str, means: list[float], halves: list[float]) -> tuple[str, list[str]]:
    """Heading and cells of a metric; ``-`` where it was refused, or no point has it."""
    from ...studies.report.words import label, scale

    factor = scale(name)
    return label(name), [interval(m * factor, h * factor) for m, h in zip(means, halves, strict=True)]


def interval(mean: float, half_width: float) -> str:
    """A mean with half its interval, with as many decimals as two digits of that need: ``99.22 ± 0.48``."""
    from ...studies.report.words import number

    if not math.isfinite(mean):
        return "-"
    if not math.isfinite(half_width):
        return number(mean)
    places = 2 if half_width <= 0 else min(max(1 - math.floor(math.log10(half_width)), 0), 4)
    return f"{mean:.{places}f} ± {half_width:.{places}f}"


def aligned(rows: Sequence[Sequence[str]], left: int = -1) -> list[str]:
    """Rows as lines of equal columns: the column `left` to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if i == left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
