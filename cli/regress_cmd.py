"""`meshwright regress`: hold planners against a baseline."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError, RunError
from .status import status
from .trace_io import print_json

if TYPE_CHECKING:
    from ..gate import Baseline, CaseReport, Report, Suite

__all__ = ["regress"]


def regress(
    suite: Annotated[str, typer.Argument(help="Suite file (YAML), or standard for the shipped one.")],
    baseline: Annotated[
        Path | None, typer.Option(help="Baseline file; default SUITE.baseline.json, or the shipped suite's own.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Run only cases of this name (with * and ?); may be repeated.")
    ] = None,
    planner: Annotated[
        str | None,
        typer.Option(help="Plan with this planner the cases whose world has it: a name, or path/to/file.py:name."),
    ] = None,
    update: Annotated[bool, typer.Option("--update", help="Make what was planned now the baseline.")] = False,
    reason: Annotated[str | None, typer.Option(help="Why the baseline is updated; kept in it.")] = None,
    workers: Annotated[int, typer.Option(help="Processes; 0 for as many as there are cores.")] = 1,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML here.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the report as Markdown here.")] = None,
    annotations: Annotated[
        bool | None,
        typer.Option("--annotations/--no-annotations", help="Print GitHub annotations; default: on GitHub Actions."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Hold planners against a baseline; exit 1 where one got worse, needs over 1.5 times the evaluations, or fails."""
    from .. import gate
    from ..files import check_target, write_text

    if update != bool((reason or "").strip()):
        wrong = (
            '--update: say why with --reason "…"; it is kept in the baseline'
            if update
            else "--reason: goes with --update"
        )
        raise InputError(wrong)
    if workers < 0:
        raise InputError(f"--workers: expected >= 0 (got {workers})")
    cases = gate.load_suite(suite)
    file = baseline or gate.default_baseline(cases)
    if update and baseline is None and not cases.where:
        raise InputError("--update: name the --baseline to write; the shipped suite's own is part of the package")
    for target in (junit, markdown, file if update else None):
        if target is not None:
            check_target(target)
    old = None if update and not file.exists() else gate.read_baseline(file, cases)
    chosen = cases.only(only or [])
    with status("regress") as say:
        runs = gate.run_suite(
            chosen, old, planner=planner, workers=workers or os.cpu_count() or 1,
            progress=lambda done, total, name: say(f"{done} of {total} cases, {name}"),
        )  # fmt: skip
    report = None if old is None else gate.held_against(cases, runs, old, only or [])
    if report is not None:
        if junit is not None:
            write_text(junit, gate.junit(report))
        if markdown is not None:
            write_text(markdown, gate.markdown(report))
        _tell_github(report, annotations, as_json)
    new = (
        gate.updated(old, cases, runs, str(reason).strip(), whole=not only and len(runs) == len(cases.cases))
        if update
        else None
    )
    if as_json:
        print_json(_document(cases, report, new, file))
    elif report is not None:
        typer.echo(gate.text(report))
    if new is not None:
        new.save(file)
        if not as_json:
            typer.echo(_updated(new, file))
    elif report is not None and not report.ok:
        names = [case.case for case in report.failed]
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        raise RunError(f"regress: {len(names)} of {len(report.cases)} cases failed: {shown}")


def _tell_github(report: Report, wanted: bool | None, to_stderr: bool) -> None:
    """Annotations, and the summary of the job where GitHub asks for one."""
    from .. import gate

    if wanted if wanted is not None else os.environ.get("GITHUB_ACTIONS") == "true":
        root = os.environ.get("GITHUB_WORKSPACE")
        for line in gate.github_annotations(report, Path(root) if root else None):
            typer.echo(line, err=to_stderr)
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        try:
            with Path(summary).open("a", encoding="utf-8") as stream:
                stream.write(gate.markdown(report))
        except OSError as error:
            typer.echo(f"warning: GITHUB_STEP_SUMMARY: {summary}: {error.strerror}", err=True)


def _updated(new: Baseline, file: Path) -> str:
    last = new.updates[-1]
    parts = [(len(last.added), "added"), (len(last.changed), "changed"), (len(last.removed), "removed")]
    said = ", ".join(f"{n} {what}" for n, what in parts if n) or "nothing changed"
    return f"baseline written: {file} ({len(new.cases)} cases: {said}; {last.reason})"


def _document(suite: Suite, report: Report | None, new: Baseline | None, file: Path) -> dict[str, Any]:
    document: dict[str, Any] = {"suite": suite.name, "baseline": str(file)}
    if report is not None:
        document |= {"ok": report.ok, "failed": [c.case for c in report.failed], "cases": [*map(_case, report.cases)]}
    if new is not None:
        document["updated"] = new.updates[-1].model_dump(mode="json")
    return document


def _case(case: CaseReport) -> dict[str, Any]:
    return {
        "case": case.case,
        "planner": case.planner,
        "status": case.status,
        "findings": [{"kind": f.kind, "text": f.text} for f in case.findings],
        "notes": list(case.notes),
        "plans": case.plans,
        "evaluations": {"baseline": case.evaluations[0], "now": case.evaluations[1]},
        "differences": [
            {
                "metric": d.metric, "baseline": d.before, "now": d.now, "change": d.change.mean, "low": d.change.low,
                "high": d.change.high, "pairs": d.change.n, "confidence": d.change.confidence, "tolerance": d.allowed,
                "verdict": d.verdict,
            }
            for d in case.differences
        ],
    }  # fmt: skip
