"""Measurements that the package's figures are held against, but not here: their predictions take minutes."""

from __future__ import annotations

from ..catalogue import FIGURES, PAPERS
from ..verdicts import Kept, last, load
from .line import Line

__all__ = ["lines"]

FIGURES_OF = {
    "serving": (("alpaserve/fig17",), "16 V100", "2023"),
    "llm": (("vllm/fig12", "vllm/fig14", "vllm/fig17"), "1 to 8 A100", "2023"),
    "training": (("alpa/fig07", "graphpipe/fig06"), "1 to 64 V100", "2022 to 2025"),
}
"""World -> figures that were measured and whose full versions take minutes, on what, and when."""


def lines(world: str) -> tuple[Line, ...]:
    """A line for each figure, without errors: what makes it, and how many of its claims held the last time."""
    names, on, date = FIGURES_OF.get(world, ((), "", ""))
    kept = load()
    return tuple(
        Line(
            "published", world, FIGURES[name].title, "see the figure's notes", PAPERS[FIGURES[name].paper].title,
            on, date, "partly", "see the figure's notes", f"`meshwright reproduce {name}`",
            missing=f"not run, for it takes minutes; {_last(last(kept.get(name, {})))}",
        )
        for name in names
    )  # fmt: skip


def _last(found: tuple[str, Kept] | None) -> str:
    """How it went the last time."""
    if found is None:
        return "no run is kept"
    mode, kept = found
    return f"the last time {kept} of its claims ({mode}, {kept.date})"
