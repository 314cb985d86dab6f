"""`meshwright share --seeds`: policies over several draws of a workload, since one draw says little."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .status import status
from .trace_io import print_frame

if TYPE_CHECKING:
    from ..simulator.metrics import Estimate
    from ..simulator.sharing import SharingResult
    from ..worlds.sharing.file import LoadedWorld

__all__ = ["MOST_SEEDS", "estimates", "print_estimates"]

MOST_SEEDS = 1000

Figures = dict[str, dict[str, "Estimate"]]


def estimates(
    file: Path, changed: Mapping[Sequence[str], Any], options: Mapping[str, Any], seeds: int, policies: Sequence[str],
    run: Callable[[LoadedWorld, str], SharingResult],
) -> Figures:  # fmt: skip
    """Policy -> metric -> mean over the draws of seeds from the file's on, with a 95 % t-interval.

    Every policy has the same draws. A metric that a draw does not know (ρ where no app was completed) is left out.

    Raises
    ------
    InputError
        If the world is the same under every seed: its apps are listed.
    """
    from ..simulator.metrics import mean_interval
    from ..worlds.sharing.file import load_world
    from ..worlds.sharing.measures import measures

    base = load_world(file, dict(changed), options)
    if base.file.workload is None:
        raise InputError(f"{file}: --seeds: its apps are listed, and the same under every seed; give a workload")
    found: dict[str, list[dict[str, float]]] = {name: [] for name in policies}
    with status("sharing") as say:
        for r in range(seeds):
            loaded = load_world(file, {**changed, ("seed",): base.file.seed + r}, options)
            for name in policies:
                say(f"draw {r + 1} of {seeds}, {name}")
                found[name].append(measures(run(loaded, name)))
    return {
        name: {
            metric: mean_interval([row[metric] for row in rows])
            for metric in rows[0]
            if all(row[metric] == row[metric] for row in rows)
        }
        for name, rows in found.items()
    }


def print_estimates(figures: Figures) -> None:
    """A row for each policy: means with half their intervals."""
    import pandas as pd

    from .share_words import COLUMNS
    from .study_words import interval

    rows: list[dict[str, str]] = []
    for name, found in figures.items():
        row = {"policy": name}
        for metric, (column, unit) in COLUMNS.items():
            e = found.get(metric)
            row[column] = "-" if e is None else interval(e.mean / unit, e.half_width / unit)
        rows.append(row)
    table = pd.DataFrame(rows)
    if all("failed" in f and f["failed"].mean == 0 for f in figures.values()):
        table = table.drop(columns="failed")
    print_frame(table)
