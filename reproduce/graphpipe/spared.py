"""Stages that our Piper need not price, and the published one does: why ours completes what the paper's does not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from .counted import task_of
from .systems import GPUS, MODELS, PIPER_GIB, PIPER_STATES

__all__ = ["STAGE_BYTES", "Spared", "differences", "spared", "why_completed"]

STAGE_BYTES = 116
"""Bytes of a stage in our Piper: 16 of the pair of downsets, some hundred when it is priced (`piper.downsets`)."""
FEWER = 5
"""Branches with which each saving is left out: with seven, listing takes minutes."""


@dataclass(frozen=True, slots=True)
class Spared:
    """Numbers of stages that are priced at one microbatch size.

    Parameters
    ----------
    branches : int
        Of the model.
    all : int
        Differences of two downsets: what the published programme prices.
    alike : int
        Those left if branches that are alike count once.
    fast : int
        Those left if stages slower than PipeDream's best are not looked at.
    both : int
        What our Piper prices.
    """

    branches: int
    all: int
    alike: int
    fast: int
    both: int

    def told(self, title: str, branches: int, all_of_them: int) -> str:
        """In words, with the number of all of them for the figure's number of branches."""
        return (
            f"the published programme prices every difference of two downsets, for {title} with {branches} branches "
            f"{all_of_them:,}: {all_of_them * STAGE_BYTES / 2**30:,.0f} GiB as ours holds them, beside the "
            f"{PIPER_GIB:g} that it may take. Ours counts branches that are alike once, and leaves out stages slower "
            f"than PipeDream's best: tested alone, with {self.branches} branches, {self.alike:,} and {self.fast:,} of "
            f"{self.all:,} are left, and {self.both:,} by both"
        )


@cache
def spared(model: str, gpus: int, branches: int) -> Spared:
    """Count at the middle microbatch size, with each saving alone."""
    from ...planners.pipedream.planner import runs
    from ...planners.piper.downsets import downsets
    from ...planners.piper.planner import twins
    from ...planners.stages.sequential.search import least_bottleneck

    task = task_of(model, gpus, branches)
    costs = task.costs
    size = costs.microbatches[len(costs.microbatches) // 2]
    degrees = [d for d in costs.devices if d <= gpus and costs.column(size, d) >= 0]
    each = costs.seconds.sum(axis=0)[:, [costs.column(size, d) for d in degrees]] / size
    work = (each * np.array(degrees, float)).min(axis=1)
    chain = least_bottleneck(costs, runs(costs), size, task.memory_bytes, gpus)
    best = math.inf if chain is None else chain.bottleneck_s

    def priced(*, alike: bool, fast: bool) -> int:
        groups = twins(costs, task.edges) if alike else ()
        states = downsets(costs.n_units, task.edges, PIPER_STATES, MODELS[model].title, groups)
        return len(states.pairs(each, work, degrees, best if fast else math.inf, gpus)[0])

    return Spared(
        branches, priced(alike=False, fast=False), priced(alike=True, fast=False), priced(alike=False, fast=True),
        priced(alike=True, fast=True),
    )  # fmt: skip


def why_completed() -> str:
    """Why our Piper plans CANDLE-Uno and the chapter's does not."""
    uno, gpus = MODELS["candle-uno"], GPUS[0]
    found = spared(uno.name, gpus, FEWER)
    layers = (task_of(uno.name, gpus, FEWER).costs.n_units - 1) // FEWER  # the last unit joins the branches
    return found.told(uno.title, uno.branches, differences(uno.branches, layers))


def differences(branches: int, layers: int) -> int:
    """Pairs of two different downsets of which one holds the other: so many chains, and a unit that joins them.

    A chain has (layers + 1)(layers + 2)/2 nested pairs, equal ones among them. Those of the empty downset, below the
    unit that joins, are as many as there are pairs of equals to leave out.
    """
    return ((layers + 1) * (layers + 2) // 2) ** branches
