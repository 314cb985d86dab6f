"""The report for people: as text for a terminal, and as Markdown for a pull request."""

from __future__ import annotations

import html

from .run import Report
from .verdict import CaseReport, Difference

__all__ = ["case_lines", "markdown", "text"]

SIGNS = {"failed": "FAIL", "better": "better", "equal": "equal", "same": "same"}
LONGEST_MARKDOWN = 900_000
"""Characters; GitHub takes a summary of up to 1 MiB."""


HEADS = ("case", "planner", "judged by", "score", "change", "evaluations")


def text(report: Report) -> str:
    """A table with a line for each case, and below it what is to be said of those that are not the same."""
    rows = [HEADS, *(_cells(case) for case in report.cases)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADS))]
    ends = ["", *(SIGNS[case.status] for case in report.cases)]
    lines: list[str] = []
    for row, end in zip(rows, ends, strict=True):
        left = [cell.ljust(width) for cell, width in zip(row[:3], widths[:3], strict=True)]
        right = [cell.rjust(width) for cell, width in zip(row[3:], widths[3:], strict=True)]
        lines.append("  ".join([*left, *right, end]).rstrip())
    for case in report.cases:
        said = case_lines(case)
        if said:
            lines += ["", f"{SIGNS[case.status]} {case.case}", *(f"  {line}" for line in said)]
    return "\n".join([*lines, "", report.counts()])


def case_lines(case: CaseReport) -> list[str]:
    """What is to be said of a case: why it fails, what else is new, and how its plans differ."""
    plans = [f"plans: {case.plans}"] if case.plans else []
    return [*(finding.text for finding in case.findings), *case.notes, *plans]


def markdown(report: Report) -> str:
    """The report as Markdown: failures first, then the table."""
    failed = report.failed
    head = f"{len(failed)} of {len(report.cases)} cases failed" if failed else "passed"
    lines = [f"## Planner gate: {head}", "", f"Suite {_escaped(report.suite.name)}. {report.counts()}.", ""]
    for case in report.cases:
        said = case_lines(case)
        if said:
            lines += [f"- **{_escaped(case.case)}** ({SIGNS[case.status]}, {_escaped(case.planner)})"]
            lines += [f"  - {_escaped(line)}" for line in said]
    lines += ["", f"| {' | '.join(HEADS)} | |", "|---|---|---|---:|---:|---:|---|"]
    for case in report.cases:
        cells = (*_cells(case), SIGNS[case.status])
        lines.append("| " + " | ".join(_escaped(cell) for cell in cells) + " |")
    whole = "\n".join(lines) + "\n"
    return whole if len(whole) <= LONGEST_MARKDOWN else whole[:LONGEST_MARKDOWN] + "…\n"


def _escaped(value: str) -> str:
    """Text that Markdown shows as it is."""
    plain = html.escape("".join(c if c.isprintable() else " " for c in value), quote=False)
    for sign in "\\`*_[]|~":
        plain = plain.replace(sign, f"\\{sign}")
    return plain


def _cells(case: CaseReport) -> tuple[str, ...]:
    first = case.differences[0] if case.differences else None
    metric = "—" if first is None else first.metric.replace("_", " ")
    return (case.case, case.planner, metric, _score(first), _change(first), _evaluations(case))


def _score(difference: Difference | None) -> str:
    if difference is None:
        return "—"
    m = difference.measure
    return f"{m.told(difference.before)} → {m.told(difference.now)}{m.shown}"


def _change(difference: Difference | None) -> str:
    if difference is None:
        return "—"
    m, change = difference.measure, difference.change
    if not (change.mean or change.half_width):
        return "0"
    width = f" ± {m.told(change.half_width)}" if change.n > 1 else ""
    return f"{m.told(change.mean, '+')}{width}{' points' if m.share else ''}"


def _evaluations(case: CaseReport) -> str:
    before, now = ("—" if n is None else str(n) for n in case.evaluations)
    return now if before == now else f"{before} → {now}"
