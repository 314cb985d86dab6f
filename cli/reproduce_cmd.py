"""`meshwright reproduce`: the papers' figures and tables, a verdict on each of their claims, and the accuracy page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError

__all__ = ["reproduce"]

ACCURACY = "accuracy"
"""The word that stands for the accuracy page."""


def _words(incomplete: str) -> list[tuple[str, str]]:
    """What can be completed: all, papers, figures, their numbers in the thesis, and the accuracy page."""
    from ..reproduce.catalogue import completions

    words = [*completions(), (ACCURACY, "every kind of prediction beside something measured, as a page")]
    return [(word, says) for word, says in words if word.startswith(incomplete)]


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Figures and tables by the paper's number (vllm/fig12, alpaserve/table1) or the thesis' (vllm/5.12, "
            "alpaserve/table4.1), papers (vllm), all; or accuracy: the page that says how wrong predictions are.",
            autocompletion=_words,
        ),
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="List papers, figures, costs and last verdicts, of NAMES or all; make none.")
    ] = False,
    fast: Annotated[bool, typer.Option("--fast", help="Seconds for each instead of minutes: shorter traces.")] = False,
    out: Annotated[
        Path, typer.Option(help="Folder for CSV, PNG and JSON; of accuracy also the page itself, FILE.md.")
    ] = Path("reproduce-out"),
    seed: Annotated[int, typer.Option(help="Seed, >= 0.")] = 0,
    trace: Annotated[
        list[Path] | None,
        typer.Option(
            help="Your download of an Azure Functions trace (file or folder; may be given twice: 2019, 2021)."
        ),
    ] = None,
    fits: Annotated[
        Path | None,
        typer.Option(help="Your download of fitted iteration times of OPT on A100s: vLLM's figures run on them."),
    ] = None,
    gallery: Annotated[
        Path | None,
        typer.Option(help="Folder: make what it lacks of NAMES (or all) there, then a page over it, index.html."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Exit 1, with the differences, if a finding's verdict is not the one kept.")
    ] = False,
    workers: Annotated[int, typer.Option(help="Processes, with --gallery or --check.")] = 2,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 unless every finding holds.")] = False,
    remember: Annotated[
        bool, typer.Option("--remember", help="Keep cost and verdicts with the package, for --list.")
    ] = False,
    here: Annotated[
        bool, typer.Option("--here/--no-here", help="accuracy: measure this machine's part, two minutes.")
    ] = True,
    silicon: Annotated[
        Path | None, typer.Option(help="accuracy: table of measured engines, as compare llm takes it.")
    ] = None,
    kernels: Annotated[Path | None, typer.Option(help="accuracy: folder of kernel tables for it.")] = None,
    vllm_run: Annotated[Path | None, typer.Option(help="accuracy: folder of a recorded run of vLLM.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> int:
    """Make the papers' figures and tables and check their claims; or the accuracy page."""
    if names == [ACCURACY]:
        if list_ or fast or strict or remember or check or gallery is not None or trace or fits is not None:
            raise InputError(
                "reproduce: accuracy: --list, --fast, --strict, --remember, --trace, --fits, --gallery and "
                "--check are of figures; leave them out"
            )
        return _accuracy(out, here, (silicon, kernels, vllm_run), seed, json_)
    if ACCURACY in (names or []):
        raise InputError(f"reproduce: accuracy is made by itself; leave the others out (got {', '.join(names or [])})")
    if not here or any(path is not None for path in (silicon, kernels, vllm_run)):
        raise InputError("reproduce: --no-here, --silicon, --kernels and --vllm-run go with accuracy")
    from ..reproduce.catalogue import resolve

    if not names and not list_ and gallery is None:
        raise InputError("reproduce: name a figure or table (vllm/fig12), a paper (vllm), or all; --list shows them")
    wanted = resolve(names or ["all"])
    if list_:
        typer.echo(_listing(wanted, json_))
        return 0
    if (trace or fits is not None) and (remember or check or gallery is not None):
        given = "--trace" if trace else "--fits"
        raise InputError(f"reproduce: {given}: what is kept and checked is without it; leave the others out")
    if gallery is not None or check:
        if strict or remember or (gallery is not None and (check or json_)):
            raise InputError("reproduce: --gallery and --check go without each other, --strict and --remember")
        from ..reproduce.batch import Batch
        from . import batches

        batch = Batch(wanted, fast, out if gallery is None else gallery, seed, workers)
        return batches.check(batch, json_) if gallery is None else batches.gallery(batch)

    from ..files import check_target
    from ..reproduce import Report, verdict_table
    from ..reproduce import reproduce as make
    from ..reproduce.figures import check_takes
    from ..reproduce.verdicts import KEPT
    from ..reproduce.verdicts import remember as keep
    from .status import status

    check_takes(wanted, trace or (), fits)
    for name in wanted:  # hours of work must not end at a folder that nothing can be written to
        check_target(out / f"{name}.json")
    if remember:
        check_target(KEPT)
    reports: list[Report] = []
    for name in wanted:
        with status(name) as say:
            report = make(
                name,
                fast=fast,
                out=out,
                seed=seed,
                progress=lambda done, total, what, say=say: say(f"{done} of {total} {what}".rstrip()),
                trace=trace or (),
                fits=fits,
            )
        reports.append(report)
        if remember:  # at once: what was made before an interruption stays
            keep([report])
        if not json_:
            typer.echo(f"{name}: {report.title} ({report.seconds:.1f} s)")
    if json_:
        typer.echo(json.dumps([report.to_json() for report in reports], indent=1, ensure_ascii=False))
    else:
        _print(reports, verdict_table(reports), out)
    held = all(claim.verdict == "holds" for report in reports for claim in report.claims if claim.counts)
    return 1 if strict and not held else 0


def _accuracy(out: Path, here: bool, given: tuple[Path | None, ...], seed: int, as_json: bool) -> int:
    """Make the accuracy page; a folder gets it as accuracy.md and accuracy.json."""
    from ..files import check_target, write_text
    from ..reproduce.accuracy import Given, Options, make, markdown, text
    from .status import status

    options = Options(here, given=Given(*given), seed=seed)
    page = out if out.suffix == ".md" else out / "accuracy.md"
    check_target(page)
    with status(ACCURACY) as say:
        found = make(options, say)
    write_text(page, markdown(found))
    document = json.dumps(found.to_dict(), indent=1, ensure_ascii=False)
    if out.suffix != ".md":
        write_text(out / "accuracy.json", document + "\n")
    if as_json:
        typer.echo(document)
        return 0
    typer.echo(f"{text(found)}\nWritten: {page}")
    return 0


def _listing(wanted: tuple[str, ...], as_json: bool) -> str:
    """Paper, figure, cost, last verdict and title: lines for a person, or JSON."""
    from dataclasses import asdict

    from ..reproduce.verdicts import listed

    rows = listed(wanted)
    if as_json:
        return json.dumps([asdict(row) for row in rows], indent=1, ensure_ascii=False)
    table = [("name", "or, by the thesis", "fast", "full", "last verdict", "title")]
    table += [(row.name, row.thesis or "", row.fast, row.full, row.verdict, row.title) for row in rows]
    widths = [max(len(line[k]) for line in table) for k in range(len(table[0]))]
    shown = ["  " + "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in table]
    lines, paper = shown[:1], None
    for row, line in zip(rows, shown[1:], strict=True):
        if row.paper != paper:
            paper = row.paper
            lines += ["", paper]
        lines.append(line)
    lines += ["", "fast and full: processor seconds as measured; seconds, minutes or hours in words are classes."]
    return "\n".join(lines)


def _print(reports: list, table: object, out: Path) -> None:
    """The verdicts, the assumptions, and the sum."""
    from rich.console import Console

    from ..reproduce.claims import VERDICTS, Verdict, tally

    console = Console()
    console.print(table)
    for report in reports:
        for note in report.notes:
            console.print(f"[dim]{report.name}: {note}[/dim]", highlight=False)
    counts: dict[Verdict, int] = {v: sum(r.count(v) for r in reports) for v in VERDICTS}
    others = sum(report.others for report in reports)
    said = f"findings: {tally(counts, others)}; data, pictures and verdicts in {out}/"
    console.print(said, highlight=False, soft_wrap=True)
