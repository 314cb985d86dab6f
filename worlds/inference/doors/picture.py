"""A placement as a picture: its groups one after another, as long as they take, in the colour of their backend."""

from __future__ import annotations

import io
from typing import Any

from ..plan import InferencePlan

__all__ = ["draw", "picture"]

ROWS = 8
"""Rows in which a call is drawn, like lines of text."""


def draw(plan: InferencePlan, ax: Any) -> Any:
    """Draw a plan; returns `ax`."""
    from matplotlib.patches import Patch

    from ....simulator.palette import CYCLE

    spent: dict[str, float] = {}
    for group in plan.groups:
        spent[group.backend] = spent.get(group.backend, 0.0) + group.cost_ms
    total = sum(spent.values())
    colour = {name: CYCLE[k % len(CYCLE)] for k, name in enumerate(spent)}
    rows = min(ROWS, len(plan.groups))
    width, at = total / rows, 0.0
    for group in plan.groups:
        left, end = at, at + group.cost_ms
        while left < end - 1e-9 * total:
            row = min(int((left + 1e-9 * total) / width), rows - 1)
            stop = min(end, (row + 1) * width) if row < rows - 1 else end
            ax.barh(
                -row, stop - left, left=left - row * width, height=0.8, color=colour[group.backend],
                edgecolor="white", linewidth=0.5,
            )  # fmt: skip
            left = stop
        at = end
    ax.set(
        yticks=[-row for row in range(rows)], yticklabels=[f"{row * width:.3g}" for row in range(rows)],
        xlabel="CPU time since the row began (ms)", ylabel="row begins at (ms)", xlim=(0, width),
        title=f"{plan.model}, batch {plan.batch}: {len(plan.groups)} groups, {total:.4g} ms",
    )  # fmt: skip
    handles = [
        Patch(color=colour[name], label=f"{name}: {ms:.3g} ms ({ms / total:.0%})" if total else name)
        for name, ms in spent.items()
    ]
    ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(1, 1))
    return ax


def picture(plan: InferencePlan) -> bytes:
    """A PNG."""
    import matplotlib
    from matplotlib.figure import Figure

    from ....simulator.palette import SETTINGS

    settings: dict[Any, Any] = {**SETTINGS}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(9.0, 3.6), layout="constrained")
        draw(plan, figure.subplots())
        out = io.BytesIO()
        figure.savefig(out, format="png", dpi=150)
    return out.getvalue()
