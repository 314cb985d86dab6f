"""`meshwright study`: a what-if question or a sweep, from a file that a person writes to a report that others read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InfeasibleError, InputError, RunError
from .study.answers import hopeless, not_answered
from .study.words import column, count
from .trace_io import print_json

if TYPE_CHECKING:
    import pandas as pd

    from ..studies import Session, Study

__all__ = ["study"]

STORE = "store.sqlite"
INTERRUPTED = 130


@dataclass(frozen=True)
class How:
    """Where and how a study runs: nothing here changes a result."""

    out: Path
    executor: str
    workers: int | None
    retry_failed: bool
    report: bool
    as_json: bool


def study(
    file: Annotated[
        Path | None, typer.Argument(metavar="STUDY", help="Study file (YAML); with --example, which example.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for store, tables and report; default STUDY-out.")
    ] = None,
    executor: Annotated[
        str, typer.Option(help="processes, dask://HOST:PORT, ray (here) or ray://HOST:PORT.")
    ] = "processes",
    workers: Annotated[int | None, typer.Option(min=1, help="Worker processes; default one per core.")] = None,
    planner: Annotated[
        list[str] | None, typer.Option(help="NAME or file.py:NAME instead of the file's planners; may be repeated.")
    ] = None,
    replications: Annotated[int | None, typer.Option(min=1, help="Replications instead of the file's.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Run even a design of more than 100,000 points.")] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Evaluate points again that failed earlier.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, say what would run, and stop.")] = False,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Write figures and the page.")] = True,
    example: Annotated[
        bool,
        typer.Option("--example", help="Print a study file to start from; the word before or after it says which."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Answer a what-if question or run a sweep, and write a report. The same command goes on from where it was."""
    if example:
        from .study.examples import example_text

        typer.echo(example_text(str(file or "")), nl=False)
        return
    if file is None:
        raise InputError("study: expected a study file; 'meshwright study --example > study.yaml' writes one")
    from .. import studies
    from .study.overrides import overridden

    chosen = overridden(studies.load(file), planner or [], replications)
    how = How(out or Path(f"{file.stem}-out"), executor, workers, retry_failed, report, as_json)
    if dry_run:
        _dry_run(chosen, how)
    else:
        chosen.check_size(yes)
        _run(chosen, how)


def _dry_run(chosen: Study, how: How) -> None:
    """Check all that can be checked without work."""
    from ..studies import Session
    from .study.words import describe

    with Session.open(chosen, None, executor=how.executor, workers=how.workers):
        if how.as_json:
            print_json({"study": chosen.name, "points": len(chosen), "questions": len(chosen.questions)})
            return
        typer.echo("\n".join(describe(chosen)))
        typer.echo("dry run: everything was checked, nothing was evaluated")


def _run(chosen: Study, how: How) -> None:
    """Run a study and leave its results in a folder.

    Raises
    ------
    RunError
        If points failed.
    InfeasibleError
        If the answer is that nothing will do.
    typer.Exit
        With 130 on Ctrl-C, after saying what was kept.
    """
    from ..files import check_target
    from ..studies import Session
    from .study.files import RUN, Run, now, write_outputs
    from .study.progress import Shower
    from .study.words import describe, print_results

    for name in (STORE, RUN, "report.html"):
        check_target(how.out / name)
    shower, began = Shower(chosen, how.executor, how.workers), now()
    try:
        with Session.open(
            chosen, how.out / STORE, executor=how.executor, workers=how.workers, retry_failed=how.retry_failed,
            progress=shower,
        ) as session:  # fmt: skip
            if not how.as_json:
                typer.echo("\n".join(describe(chosen)))
            with shower:
                session.run()
                shower.finished = True
                files = write_outputs(session, how.out, Run.of(began, session.facts), report=how.report)
            frame = session.frame()
            if how.as_json:
                print_json(_document(session, frame, files))
            else:
                print_results(session, files)
            _judge(session, frame)
    except KeyboardInterrupt:
        typer.echo(f"meshwright: {shower.interrupted()}", err=True)
        raise typer.Exit(INTERRUPTED) from None


def _document(session: Session, frame: pd.DataFrame, files: list[Path]) -> dict[str, Any]:
    """The results for machines."""
    answers = [
        {
            "question": a.question, "planner": a.planner, "quantity": a.quantity, "value": a.value, "low": a.low,
            "high": a.high, "target": a.target, "monotone": a.monotone, "sentence": a.sentence,
            "attainment": None if a.estimate is None else a.estimate.mean,
            "half_width": None if a.estimate is None else a.estimate.half_width,
        }
        for a in session.answers
    ]  # fmt: skip
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return {
        "study": session.study.name,
        "digest": session.study.digest,
        "points": len(frame),
        "failed": column(frame, "status").count("failed"),
        "answers": answers,
        "rows": rows,
        "files": [str(path) for path in files],
    }


def _judge(session: Session, frame: pd.DataFrame) -> None:
    """Raise what decides the exit code, once everything is written."""
    status, errors = column(frame, "status"), column(frame, "error")
    failed = [error for what, error in zip(status, errors, strict=True) if what == "failed"]
    if failed:
        raise RunError(
            f"{len(failed):,} of {count(len(status))} failed (first: {failed[0]}); "
            "the same command with --retry-failed tries them again"
        )
    if error := not_answered(session.answers):
        raise RunError(error)
    if sentence := hopeless(session.answers):
        raise InfeasibleError(sentence)
    if status and all(what == "infeasible" for what in status):
        raise InfeasibleError(f"no point has a feasible plan (first: {errors[0]})")
