"""`training_planner`: the planners of training by name, each called as `planners.alpa.plan` is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import InputError
from ..wording import nearest

if TYPE_CHECKING:
    from .alpa.baselines import Baseline

__all__ = ["TRAINING_PLANNERS", "training_planner"]

TRAINING_PLANNERS = (
    "alpa", "intra-only", "inter-only", "equal-operator", "equal-layer", "pp-dp", "megatron", "deepspeed-moe", "data",
    "zero2", "zero3", "heuristic",
)  # fmt: skip
"""Names: Alpa, and what it is compared with (`planners.alpa.baselines`). They stand here so that asking for them does
not import a search."""


def training_planner(name: str) -> Baseline:
    """A planner of training.

    Raises
    ------
    InputError
        If there is none of this name; the nearest is named.
    """
    if name not in TRAINING_PLANNERS:
        near = nearest(name, TRAINING_PLANNERS)
        hint = f"did you mean {near!r}?" if near else f"those of training are {', '.join(TRAINING_PLANNERS)}"
        raise InputError(f"planner: {name!r} plans no training; {hint}")
    from .alpa import plan
    from .alpa.baselines import BASELINES

    return plan if name == "alpa" else BASELINES[name]
