"""The report for people: as text for a terminal, and as Markdown for a pull request."""

from __future__ import annotations

import html

from .run import Report
from .verdict import CaseReport, Difference

__all__ = ["case_lines", "markdown", "text"]

SIGNS = {"failed": "FAIL", "better": "better", "equal": "equal", "same": "same"}
LONGEST_MARKDOWN = 900_000
"""Characters; GitHub takes a summary of up to 1 MiB."""


def text(report: Report) -> str:
    """A table with a line for each case, and below it what is to be said of those that are not the same."""
    width = max(len("case"), *(len(case.case) for case in report.cases))
    planners = max(len("planner"), *(len(case.planner) for case in report.cases))
    lines = [
        f"{'case':<{width}}  {'planner':<{planners}}  {'attainment':>20}  {'change, points':>19}  {'evaluations':>15}"
    ]
    for case in report.cases:
        first = case.differences[0] if case.differences else None
        lines.append(
            f"{case.case:<{width}}  {case.planner:<{planners}}  {_attainment(first):>20}  {_change(first):>19}  "
            f"{_evaluations(case):>15}  {SIGNS[case.status]}"
        )
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
    lines += ["", "| case | planner | attainment | change, points | evaluations | |", "|---|---|---:|---:|---:|---|"]
    for case in report.cases:
        first = case.differences[0] if case.differences else None
        cells = (case.case, case.planner, _attainment(first), _change(first), _evaluations(case), SIGNS[case.status])
        lines.append("| " + " | ".join(_escaped(cell) for cell in cells) + " |")
    whole = "\n".join(lines) + "\n"
    return whole if len(whole) <= LONGEST_MARKDOWN else whole[:LONGEST_MARKDOWN] + "…\n"


def _escaped(value: str) -> str:
    """Text that Markdown shows as it is."""
    plain = html.escape("".join(c if c.isprintable() else " " for c in value), quote=False)
    for sign in "\\`*_[]|~":
        plain = plain.replace(sign, f"\\{sign}")
    return plain


def _attainment(difference: Difference | None) -> str:
    return "—" if difference is None else f"{difference.before:.2%} → {difference.now:.2%}"


def _change(difference: Difference | None) -> str:
    if difference is None:
        return "—"
    change = difference.change
    return f"{100 * change.mean:+.2f} ± {100 * change.half_width:.2f}" if change.mean or change.half_width else "0"


def _evaluations(case: CaseReport) -> str:
    before, now = ("—" if n is None else str(n) for n in case.evaluations)
    return now if before == now else f"{before} → {now}"
