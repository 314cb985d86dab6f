"""Measurements that the package's figures are held against, but not here: their predictions take minutes."""

from __future__ import annotations

from ..catalogue import FIGURES, PAPERS
from ..verdicts import Kept, last, load
from .line import Line

__all__ = ["lines"]

MEASURED = {
    "alpaserve/fig17": ("serving", "Li et al., on their testbed", "up to 64 V100", "2023"),
    "vllm/fig12": ("llm", "Kwon et al., on their testbed", "1 to 8 A100", "2023"),
    "vllm/fig14": ("llm", "Kwon et al., on their testbed", "1 A100-40GB", "2023"),
    "vllm/fig17": ("llm", "Kwon et al., on their testbed", "1 A100-40GB", "2023"),
    "alpa/fig07": ("training", "Zheng et al., on their testbed", "1 to 64 V100", "2022"),
    "graphpipe/fig06": ("training", "the thesis' author, on Summit", "4 to 32 V100", "see the thesis"),
}
"""Figure -> its world, who measured it, on what, and when."""


def lines(world: str) -> tuple[Line, ...]:
    """A line for each figure, without errors: what makes it, and how many of its claims held the last time."""
    kept = load()
    return tuple(
        Line(
            "published", world, f"{PAPERS[FIGURES[name].paper].title}: {FIGURES[name].title}", "see the figure's notes",
            who, on, date, "partly", "see the figure's notes", f"`meshwright reproduce {name}`",
            missing=f"not run (minutes): `meshwright reproduce {name}`; {_last(last(kept.get(name, {})))}",
        )
        for name, (its, who, on, date) in MEASURED.items()
        if its == world
    )  # fmt: skip


def _last(found: tuple[str, Kept] | None) -> str:
    """How it went the last time."""
    if found is None:
        return "no run is kept"
    mode, kept = found
    return f"claims, the last time: {kept} ({mode}, {kept.date})"
