"""GraphPipe's lead over PipeDream as one assumption is moved over a range: memory, host time, small products."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ...simulator.palette import CYCLE
from ..report import Frame, Progress, quiet
from ..style import VERMILLION, canvas, outside_legend
from .lead import PAIR, Lead
from .points import measure
from .setting import USABLE_GIB, Setting

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = tuple(colour for colour in CYCLE if colour != VERMILLION)  # that is the paper's

__all__ = ["AXES", "Axis", "crossings", "draw_sweeps", "leads", "sweeps"]


@dataclass(frozen=True, slots=True)
class Axis:
    """An assumption that is moved over a range, the others as they are.

    Parameters
    ----------
    field : str
        The field of `Setting`.
    title, unit : str
        What it is, and the unit of what is shown.
    values : tuple of float
        From what the figures have on, in the field's unit.
    scale : float
        Shown is the field times this.
    short : tuple of int
        Which of the values the fast version has.
    """

    field: str
    title: str
    unit: str
    values: tuple[float, ...]
    scale: float
    short: tuple[int, ...]

    def of(self, fast: bool) -> tuple[float, ...]:
        """The values of a version."""
        return tuple(self.values[k] for k in self.short) if fast else self.values

    def shown(self, value: float) -> str:
        """A value in words."""
        return f"{value * self.scale:g} {self.unit}"


AXES: Mapping[str, Axis] = MappingProxyType(
    {
        a.field: a
        for a in (
            Axis(
                "usable_gib", "memory of a GPU", "GiB",
                (USABLE_GIB, 6.0, 3.0, 2.0, 1.5, 1.2, 1.0, 0.8, 0.6), 1.0, (0, 5),
            ),
            # Kernels of the case study take 30 to 500 µs; how slow the runtime was the chapter does not say.
            Axis(
                "host_s", "host time of a pass", "µs", (0.0, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3), 1e6,
                (0, 2, 3, 5),
            ),
            Axis(
                "half_rows", "half of a product's speed at", "rows",
                (0.0, 64.0, 128.0, 256.0, 512.0, 1024.0), 1.0, (0, 2, 3, 5),
            ),
        )
    }
)  # fmt: skip


def sweeps(lead: Lead, fast: bool, progress: Progress = quiet) -> Frame:
    """Both systems as each assumption is moved alone: a row for each system, case and value."""
    import pandas as pd

    jobs = [
        (axis, value, case, system)
        for axis in AXES.values() for value in axis.of(fast) for case in lead.cases for system in PAIR
    ]  # fmt: skip
    rows: list[dict[str, Any]] = []
    for k, (axis, value, case, system) in enumerate(jobs):
        progress(k, len(jobs), f"{case.title}, {axis.title} {axis.shown(value)}: {system}")
        row = measure(case.point(system, replace(Setting(), **{axis.field: value})))
        rows.append({"case": case.title, "axis": axis.field, "value": value} | row)
    progress(len(jobs), len(jobs), "")
    return pd.DataFrame(rows)


def leads(frame: Frame, axis: str) -> Iterator[tuple[str, dict[float, float]]]:
    """For each case of a sweep: value -> lead, from what the figures have on; where both systems have a plan."""
    part = frame[frame.axis == axis]
    for case in dict.fromkeys(part.case):
        table = part[part.case == case].pivot(index="value", columns="system", values="samples_per_s")
        found = (table["GraphPipe"] / table["PipeDream"]).dropna()
        order = sorted(found.index, key=AXES[axis].values.index)
        yield case, {float(v): float(found[v]) for v in order}


def crossings(frame: Frame, paper: float) -> str:
    """Between which values of each assumption the lead passes the paper's figure, in words."""
    said: list[str] = []
    for axis in AXES.values():
        each: list[str] = []
        for case, lead in leads(frame, axis.field):
            passed = ((a, b) for (a, x), (b, y) in pairwise(lead.items()) if x < paper <= y)
            at = next((f"{a * axis.scale:g} to {axis.shown(b)}" for a, b in passed), "")
            most = max(lead.values(), default=math.nan)
            each.append(f"{case} {at}" if at else f"{case} nowhere, {most:.2f}× at most")
        said.append(f"{axis.title}: {', '.join(each)}")
    return "; ".join(said)


def draw_sweep(frame: Frame, ax: Axes, axis: Axis, paper: float) -> Axes:
    """The lead over one assumption, a line for each case; dashed: the paper's. Lines end where PipeDream does."""
    swept = [v for v in axis.values if v in set(frame[frame.axis == axis.field].value)]
    for (case, lead), colour, marker in zip(leads(frame, axis.field), _COLOURS, "os^", strict=False):
        ax.plot([swept.index(v) for v in lead], list(lead.values()), color=colour, marker=marker, label=case)
    ax.axhline(paper, color=VERMILLION, lw=1, ls="--", label=f"paper, {paper:g}×")
    ax.axhline(1.0, color="0.6", lw=1, ls=":")
    ax.set_xticks(range(len(swept)), [f"{v * axis.scale:g}" for v in swept], fontsize=7)
    ax.set_xlim(-0.3, len(swept) - 0.7)
    ax.set_xlabel(f"{axis.title} ({axis.unit})", fontsize=8)
    return ax


def draw_sweeps(frame: Frame, paper: float) -> Figure:
    """A panel for each assumption: leftmost what the figures have, values side by side."""
    with canvas(1, len(AXES), width=3.4, height=2.7, sharey=True) as (figure, axes):
        for ax, axis in zip(axes[0], AXES.values(), strict=True):
            draw_sweep(frame, ax, axis, paper)
        axes[0, 0].set_ylabel("GraphPipe over PipeDream")
        outside_legend(figure, axes[0, 0])
    return figure
