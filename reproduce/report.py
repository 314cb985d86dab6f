"""What reproducing a figure leaves behind: its data as CSV, its picture as PNG, its verdicts as JSON and as a table."""

from __future__ import annotations

import io
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..files import write_bytes, write_text
from ..reprs import Shown
from .catalogue import FIGURES
from .claims import Claim, Verdict
from .sensitivity import Sensitivity, tornado

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from rich.table import Table

__all__ = ["Frame", "Progress", "Report", "Session", "quiet", "verdict_table"]

Frame = Any
"""A pandas frame or series. Untyped, for pandas' annotations make a union of half the library of every cell."""

Progress = Callable[[int, int, str], None]
"""Called with steps done, steps in all, and what is under way."""

VERDICT_STYLES = {
    "holds": "green",
    "beyond": "cyan",
    "partly": "yellow",
    "does not hold": "red",
    "needs a GPU": "dim",
}


def cpu_seconds() -> float:
    """Processor seconds so far, of this process and of children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def quiet(done: int, total: int, what: str) -> None:
    """A `Progress` that says nothing."""


@dataclass(frozen=True, repr=False)
class Report(Shown):
    """One reproduced figure or table.

    Parameters
    ----------
    name, title : str
        Key of `FIGURES`, such as vllm/fig12, and what it shows.
    fast : bool
        Whether it was the short version.
    seed : int
        Seed of everything random in it.
    claims : tuple of Claim
        The paper's claims, each with our figure and verdict.
    tables : Mapping[str, DataFrame]
        Path below `out` without its ending, such as vllm/fig12 -> the figure's data, tidy.
    files : tuple of Path
        The files that were written.
    notes : tuple of str
        Assumptions that the paper leaves open.
    seconds : float
        How long it took.
    cpu_s : float
        Processor seconds of this process and of workers that have ended.
    sensitivity : tuple of Sensitivity
        Headlines, each beside the assumptions that move it most.
    """

    name: str
    title: str
    fast: bool
    seed: int
    claims: tuple[Claim, ...]
    tables: Mapping[str, pd.DataFrame]
    files: tuple[Path, ...]
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    cpu_s: float = 0.0
    sensitivity: tuple[Sensitivity, ...] = ()

    def _headline(self) -> str:
        counts = Counter(claim.verdict for claim in self.claims)
        said = ", ".join(f"{n} {verdict}" for verdict, n in counts.items())
        return f"{self.name}, {self.title}: {len(self.claims)} claims ({said}), {len(self.tables)} tables"

    def shown_rows(self) -> Iterable[tuple[str, object]]:
        return [(claim.text, claim.verdict) for claim in self.claims]

    def count(self, verdict: Verdict) -> int:
        """Number of findings with this verdict: what is given, arithmetic or calibrated is not counted."""
        return sum(claim.verdict == verdict for claim in self.claims if claim.kind == "finding")

    @property
    def others(self) -> int:
        """Number of claims that are no findings."""
        return sum(claim.kind != "finding" for claim in self.claims)

    def to_json(self) -> dict[str, Any]:
        """The report without its tables, as plain values."""
        return {
            "name": self.name,
            "title": self.title,
            "mode": "fast" if self.fast else "full",
            "seed": self.seed,
            "meshwright": __version__,
            "seconds": round(self.seconds, 3),
            "cpu_seconds": round(self.cpu_s, 3),
            "notes": list(self.notes),
            "claims": [claim.to_json() for claim in self.claims],
            "sensitivity": [one.to_json() for one in self.sensitivity],
            "files": [path.name for path in self.files],
        }


@dataclass
class Session:
    """Collects what one figure produces, and writes it; `finish` gives the `Report`.

    Parameters
    ----------
    name : str
        Key of `FIGURES`, which has the title.
    fast : bool
        Whether it is the short version.
    out : Path
        Folder to write to; files go to the paper's folder in it.
    seed : int
        Seed of everything random in it.
    """

    name: str
    fast: bool
    out: Path
    seed: int
    _started: float = field(default_factory=time.perf_counter)
    _cpu_started: float = field(default_factory=lambda: cpu_seconds())
    _tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    _files: list[Path] = field(default_factory=list)

    @property
    def title(self) -> str:
        """What it shows."""
        return FIGURES[self.name].title

    def table(self, frame: Frame, suffix: str = "") -> Frame:
        """Save a figure's data as ``<name><suffix>.csv``; returns it."""
        stem = self.name + suffix
        self._tables[stem] = frame
        self._files.append(write_text(self.out / f"{stem}.csv", frame.to_csv(index=False, float_format="%.8g")))
        return frame

    def figure(self, figure: Figure, suffix: str = "") -> None:
        """Save a picture as ``<name><suffix>.png``, the same bytes for the same picture."""
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=150, metadata={"Software": None})
        self._files.append(write_bytes(self.out / f"{self.name}{suffix}.png", buffer.getvalue()))

    def finish(
        self, claims: Iterable[Claim], notes: Sequence[str] = (), sensitivity: Sequence[Sensitivity] = ()
    ) -> Report:
        """Write ``<name>.json`` with the verdicts, ``<name>_sensitivity.png`` where there is one; close the report."""
        if sensitivity:
            self.figure(tornado(sensitivity), "_sensitivity")
        path = self.out / f"{self.name}.json"
        report = Report(
            name=self.name,
            title=self.title,
            fast=self.fast,
            seed=self.seed,
            claims=tuple(claims),
            tables=self._tables,
            files=(*self._files, path),
            notes=tuple(notes),
            seconds=time.perf_counter() - self._started,
            cpu_s=cpu_seconds() - self._cpu_started,
            sensitivity=tuple(sensitivity),
        )
        write_text(path, json.dumps(report.to_json(), indent=1, ensure_ascii=False) + "\n")
        return report


def verdict_table(reports: Iterable[Report]) -> Table:
    """Every claim of the reports, a row each, for a terminal."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False)
    table.add_column("figure", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("claim", ratio=1)
    table.add_column("paper", max_width=18)
    table.add_column("ours", max_width=26)
    for report in reports:
        for i, claim in enumerate(report.claims):
            style = VERDICT_STYLES[claim.verdict]
            kind = "" if claim.kind == "finding" else f"{claim.kind}, not counted; "
            text = f"{claim.text} ({claim.where}) [dim]{kind}rule: {claim.rule}[/dim]"
            if claim.why:
                text += f"\n[italic]{'on a GPU' if claim.verdict == 'needs a GPU' else 'why'}: {claim.why}[/italic]"
            name = report.name if i == 0 else ""
            table.add_row(name, f"[{style}]{claim.verdict}[/{style}]", text, claim.paper, claim.ours)
        table.add_section()
    return table
