"""`meshwright reproduce`: the paper's figures and tables, and a verdict on each of its claims."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError

__all__ = ["reproduce"]


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(help="Figures and tables, such as figure02 table1, or all.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List what there is, and stop.")] = False,
    fast: Annotated[bool, typer.Option("--fast", help="Seconds for each instead of minutes: shorter traces.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for CSV, PNG and JSON.")] = Path("reproduce-out"),
    seed: Annotated[int, typer.Option(help="Seed, >= 0.")] = 0,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 unless every claim holds.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> int:
    """Make the papers' figures and tables and check their claims."""
    from ..reproduce import FIGURES, Report, titles, verdict_table
    from ..reproduce import reproduce as make
    from .status import status

    if list_:
        for name, title in titles().items():
            typer.echo(f"{name:9}  {title}")
        return 0
    if not names:
        raise InputError("reproduce: name a figure or table, or all; --list shows them")
    wanted = list(FIGURES) if "all" in names else list(dict.fromkeys(names))
    unknown = [name for name in wanted if name not in FIGURES]
    if unknown:
        make(unknown[0])  # raises, naming the nearest
    reports: list[Report] = []
    for name in wanted:
        with status(name) as say:
            report = make(
                name,
                fast=fast,
                out=out,
                seed=seed,
                progress=lambda done, total, what, say=say: say(f"{done} of {total} {what}".rstrip()),
            )
        reports.append(report)
        if not json_:
            typer.echo(f"{name}: {report.title} ({report.seconds:.1f} s)")
    if json_:
        typer.echo(json.dumps([report.to_json() for report in reports], indent=1, ensure_ascii=False))
    else:
        _print(reports, verdict_table(reports), out)
    kept = all(claim.verdict == "holds" for report in reports for claim in report.claims)
    return 1 if strict and not kept else 0


def _print(reports: list, table: object, out: Path) -> None:
    """The verdicts, the assumptions, and the sum."""
    from rich.console import Console

    console = Console()
    console.print(table)
    for report in reports:
        for note in report.notes:
            console.print(f"[dim]{report.name}: {note}[/dim]", highlight=False)
    counts = {verdict: sum(r.count(verdict) for r in reports) for verdict in ("holds", "partly", "does not hold")}
    total = sum(counts.values())
    console.print(
        f"{total} claims: {counts['holds']} hold, {counts['partly']} hold partly, {counts['does not hold']} do not; "
        f"data, pictures and verdicts in {out}/",
        highlight=False,
        soft_wrap=True,
    )
