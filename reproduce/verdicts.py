"""How many claims held the last time a figure was made, and what that cost: kept as JSON with the package."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from .. import __version__
from ..errors import InputError
from ..files import readable, write_text
from .catalogue import FIGURES, PAPERS, Figure

if TYPE_CHECKING:
    from .report import Report

__all__ = ["KEPT", "Kept", "Listed", "cost", "last", "listed", "load", "remember"]

KEPT = Path(__file__).parent / "data" / "verdicts.json"
"""What the package ships, written by ``meshwright reproduce --remember``."""

MODES = ("fast", "full")


@dataclass(frozen=True)
class Kept:
    """What is kept of one run of one figure.

    Parameters
    ----------
    date : str
        Day of the run, as 2026-11-23.
    meshwright : str
        Version that ran.
    seed : int
        Seed of the run, >= 0.
    holds, partly, fails : int
        Claims that hold, hold partly and do not hold, >= 0.
    source : str
        Where the numbers are from: ``run``, with the commit that ran where there was a checkout; or a page that told of
        a run, with the commit that wrote it.
    cpu_s : float or None
        Processor seconds of the run and its workers, compilation included where nothing was cached; None where they
        were not measured.
    """

    date: str
    meshwright: str
    seed: int
    holds: int
    partly: int
    fails: int
    source: str
    cpu_s: float | None = None

    def __post_init__(self) -> None:
        date.fromisoformat(self.date)
        if min(self.seed, self.holds, self.partly, self.fails) < 0 or (self.cpu_s is not None and not self.cpu_s >= 0):
            raise ValueError(f"numbers of a verdict are >= 0 (got {self})")
        if not self.source:
            raise ValueError("a verdict says where it is from: run, or a page")

    def __str__(self) -> str:
        total = self.holds + self.partly + self.fails
        some = f", {self.partly} partly" if self.partly else ""
        return f"{self.holds} of {total} hold{some}"


def load(path: Path = KEPT) -> dict[str, dict[str, Kept]]:
    """Figure -> "fast" or "full" -> what is kept of its last run; empty if the file is missing.

    Raises
    ------
    InputError
        If the file is not what `remember` writes.
    """
    try:
        held = json.loads(readable(path).read_text(encoding="utf-8"))
        return {name: {mode: Kept(**one) for mode, one in runs.items() if mode in MODES} for name, runs in held.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: expected verdicts as --remember writes them ({error}); delete the file") from None


def remember(reports: Iterable[Report], path: Path = KEPT) -> Path:
    """Keep what reports found; other figures' and other modes' entries stay. Returns the file written."""
    found = load(path)
    for report in reports:
        counts = [report.count(verdict) for verdict in ("holds", "partly", "does not hold")]
        mode = "fast" if report.fast else "full"
        today = date.today().isoformat()
        kept = Kept(today, __version__, report.seed, *counts, source=_here(), cpu_s=round(report.cpu_s, 1))
        found.setdefault(report.name, {})[mode] = kept
    ordered = {
        name: {mode: asdict(found[name][mode]) for mode in MODES if mode in found[name]}
        for name in FIGURES
        if name in found
    }
    return write_text(path, json.dumps(ordered, indent=1) + "\n")


def _here() -> str:
    """What ran: the commit of a checkout; of a package that was installed the version alone is known, and said."""
    root = Path(__file__).parents[1]
    if not (root / ".git").exists():
        return "run"
    asked = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=root, capture_output=True, text=True, check=False
    )
    return f"run at {asked.stdout.strip()}" if asked.returncode == 0 else "run"


def last(runs: Mapping[str, Kept]) -> tuple[str, Kept] | None:
    """The mode and the record of the latest run, the full one of two on one day; None if there is none."""
    if not runs:
        return None
    return max(runs.items(), key=lambda run: (run[1].date, run[0] == "full"))


def cost(figure: Figure, mode: str, runs: Mapping[str, Kept]) -> str:
    """What a run costs: processor seconds as measured, otherwise the class that is stated."""
    kept = runs.get(mode)
    if kept is None or kept.cpu_s is None:
        return "seconds" if mode == "fast" else figure.full
    if kept.cpu_s < 90:
        return f"{max(kept.cpu_s, 1):.0f} s"
    return f"{kept.cpu_s / 60:.0f} min" if kept.cpu_s < 5400 else f"{kept.cpu_s / 3600:.1f} h"


@dataclass(frozen=True)
class Listed:
    """A row of ``meshwright reproduce --list``.

    Parameters
    ----------
    name, paper, title : str
        What the figure is called, whose it is, what it shows.
    thesis : str or None
        Its name by the thesis' number, None if no thesis has it.
    fast, full : str
        What either version costs, as `cost` says it.
    verdict : str
        How many claims held the last time, in which version of the figure, on which day, with which meshwright; and
        where that is from: a run, or a page that told of one.
    """

    name: str
    paper: str
    thesis: str | None
    title: str
    fast: str
    full: str
    verdict: str


def listed(names: Iterable[str]) -> tuple[Listed, ...]:
    """A row for each of some keys of `FIGURES`; none of their modules is loaded."""
    kept = load()
    rows: list[Listed] = []
    for name in names:
        figure, runs = FIGURES[name], kept.get(name, {})
        latest = last(runs)
        verdict = "not run"
        if latest is not None:
            mode, found = latest
            verdict = f"{found} ({mode}, {found.date}, {found.meshwright}; {found.source})"
        costs = cost(figure, "fast", runs), cost(figure, "full", runs)
        rows.append(Listed(name, PAPERS[figure.paper].title, figure.alias, figure.title, *costs, verdict))
    return tuple(rows)
