"""How many claims held the last time a figure was made, and what that cost: kept as JSON with the package."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..errors import InputError
from ..files import readable, taking_turns, write_text
from .catalogue import FIGURES, PAPERS, Figure
from .claims import KINDS, VERDICTS, Claim, Kind, Verdict, tally

if TYPE_CHECKING:
    from .report import Report

__all__ = ["KEPT", "Judged", "Kept", "Listed", "changes", "cost", "last", "listed", "load", "remember"]

KEPT = Path(__file__).parent / "data" / "verdicts.json"
"""What the package ships, written by ``meshwright reproduce --remember``."""

MODES = ("fast", "full")


@dataclass(frozen=True)
class Judged:
    """What is kept of a claim: its text, what it is, its verdict, and our figure as it was printed."""

    claim: str
    kind: Kind
    verdict: Verdict
    ours: str

    def __post_init__(self) -> None:
        if self.kind not in KINDS or self.verdict not in VERDICTS:
            raise ValueError(f"{self.claim!r}: unknown kind or verdict (got {self.kind!r}, {self.verdict!r})")


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
    claims : tuple of Judged
        All of its claims.
    source : str
        ``run``, with the commit that ran where there was a checkout.
    cpu_s : float or None
        Processor seconds of the run and its workers, compilation included where nothing was cached; None where they
        were not measured.
    """

    date: str
    meshwright: str
    seed: int
    claims: tuple[Judged, ...]
    source: str
    cpu_s: float | None = None

    def __post_init__(self) -> None:
        date.fromisoformat(self.date)
        if self.seed < 0 or (self.cpu_s is not None and not self.cpu_s >= 0):
            raise ValueError(f"numbers of a verdict are >= 0 (got {self.seed}, {self.cpu_s})")
        if not self.source:
            raise ValueError("a verdict says where it is from")

    @property
    def verdicts(self) -> Mapping[str, Verdict]:
        """Finding -> its verdict."""
        return {one.claim: one.verdict for one in self.claims if one.kind == "finding"}

    def __str__(self) -> str:
        return tally(Counter(self.verdicts.values()), len(self.claims) - len(self.verdicts))


def load(path: Path = KEPT) -> dict[str, dict[str, Kept]]:
    """Figure -> "fast" or "full" -> what is kept of its last run; empty if the file is missing.

    Raises
    ------
    InputError
        If the file is not what `remember` writes.
    """
    try:
        held = json.loads(readable(path).read_text(encoding="utf-8"))
        return {name: {mode: _read(one) for mode, one in runs.items() if mode in MODES} for name, runs in held.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise InputError(f"{path}: expected verdicts as --remember writes them ({error}); delete the file") from None


def _read(one: dict[str, Any]) -> Kept:
    return Kept(**{**one, "claims": tuple(Judged(**claim) for claim in one["claims"])})


def remember(reports: Iterable[Report], path: Path = KEPT) -> Path:
    """Keep what reports found; other figures' and other modes' entries stay, those of a run beside this one, too.

    Returns the file written.
    """
    now = {(report.name, "fast" if report.fast else "full"): _kept(report) for report in reports}
    with taking_turns(path):  # what another run keeps between our reading and our writing would be lost
        found = load(path)
        for (name, mode), kept in now.items():
            found.setdefault(name, {})[mode] = kept
        ordered = {
            name: {mode: asdict(found[name][mode]) for mode in MODES if mode in found[name]}
            for name in FIGURES
            if name in found
        }
        return write_text(path, json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")


def _kept(report: Report) -> Kept:
    return Kept(
        date.today().isoformat(),
        __version__,
        report.seed,
        tuple(Judged(claim.text, claim.kind, claim.verdict, claim.ours) for claim in report.claims),
        source=_here(),
        cpu_s=round(report.cpu_s, 1),
    )


def changes(name: str, claims: Sequence[Claim], kept: Kept | None) -> tuple[str, ...]:
    """What differs from the run that is kept: a line for each finding whose verdict is another, new or gone.

    Verdicts on seconds of a machine may differ on another one: of those, only new and gone ones are told.
    """
    before: Mapping[str, str] = {} if kept is None else kept.verdicts
    now = {claim.text: claim for claim in claims if claim.kind == "finding"}
    lines = [
        f"{name}: {before.get(text, 'new')} -> {claim.verdict}: {text} (paper {claim.paper}, ours {claim.ours})"
        for text, claim in now.items()
        if before.get(text) != claim.verdict and not (claim.timed and text in before)
    ]
    lines += [f"{name}: {verdict} -> gone: {text}" for text, verdict in before.items() if text not in now]
    return tuple(lines)


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
