"""The front as a figure: what is reached for what, with intervals."""

from __future__ import annotations

from collections.abc import Sequence

from ...look import INK, canvas, styles, svg
from .told import Row, Told

__all__ = ["front_svg"]


def front_svg(told: Told, model: str) -> str:
    """Share of good requests of one model against what its ways to be served count, as an ``<svg>`` element.

    Faint: everything that was tried to the end. Joined: those that nothing that counts less reaches. The answer has the
    other colour.
    """
    rows = [row for row in told.rows if row.model == model]
    look = styles(["front", "chosen"])
    with canvas(width=4.6, height=3.2) as (figure, (ax,)):
        ax.scatter(
            [r.amount for r in rows], [100 * r.attained.mean for r in rows], s=14, color=look["front"].colour,
            alpha=0.35, linewidths=0, zorder=2,
        )  # fmt: skip
        front = sorted((r for r in rows if r.front), key=lambda r: r.amount)
        for some, name in ((front, "front"), ([r for r in rows if r.chosen], "chosen")):
            ax.errorbar(
                [r.amount for r in some], [100 * r.attained.mean for r in some], yerr=_halves(some), fmt="-o",
                color=look[name].colour, markersize=4 if name == "front" else 8, capsize=2,
                zorder=3 if name == "front" else 4,
            )  # fmt: skip
        if told.target == told.target:
            ax.axhline(100 * told.target, color=INK, linewidth=0.8, linestyle=":")
        ax.set_xlabel(told.axis)
        ax.set_ylabel("good requests, %")
        ax.set_xlim(left=0)
        ax.set_ylim(0, 104)
        best = next((r for r in rows if r.chosen), None)
        said = f"; chosen: {best.what}, {100 * best.attained.mean:.2f} %" if best is not None else ""
        return svg(figure, f"front-{model}", f"{model}: good requests against {told.axis}{said}")


def _halves(rows: Sequence[Row]) -> list[float]:
    """Half intervals in percent; none where there is one seed, or no width."""
    return [0.0 if r.attained.n == 1 else 100 * r.attained.half_width for r in rows]
