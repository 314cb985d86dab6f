"""Four models of 104 B parameters on 64 devices (§6.3, Fig. 13): the load, AlpaServe's answer, and what moves it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .... import planners, traces
from ....profiles import ModelProfile, ParallelConfig, ProfileSet
from ....simulator import Cluster, Placement, simulate
from ...sensitivity import Sensitivity, Swing
from .planned import largest

__all__ = [
    "CV", "DEVICES", "RATE", "RELEASED", "SLO_SCALE", "WINNER", "Answer", "answer_of", "memory", "swings", "workload",
]  # fmt: skip

DEVICES = 64
"""§6.3: the whole testbed for the four largest models (S4)."""
RATE, CV, SPLIT = 8.0, 4.0, {"power_law": 0.5}
"""§6.3: 8 requests/s, CV 4, a power law with exponent 0.5."""
SLO_SCALE = 2.0
"""Default of the authors' artifact (alpa-projects/mms, equal_model_suite.py); the paper does not print it."""
TRIED_SLO = (0.2, 4.0)
"""Moved for the sensitivity: 0.2 is 0.92 s, little more than one request takes on (4,8); 4 is as loose as Fig. 13."""
WINNER = (ParallelConfig(op=8, pp=4), ParallelConfig(op=8, pp=4))
RELEASED = {"max_op": 4, "max_pp": 8}
"""What the authors' released search tries at most: it cannot answer (4,8), which has op 8."""


@dataclass(frozen=True)
class Answer:
    """AlpaServe's answer at one setting.

    Parameters
    ----------
    placement : Placement
        What it places.
    attainment, two_groups : float
        What that attains, and what the best selection on two groups of (4,8) does.
    """

    placement: Placement
    attainment: float
    two_groups: float

    @property
    def winners(self) -> int:
        """Groups of (4,8); 1 at most if there are others or more than two."""
        same = sum(group.config in WINNER for group in self.placement.groups)
        return same if len(self.placement.groups) == 2 else min(same, 1)

    @property
    def short(self) -> float:
        """Percentage points that two groups of (4,8) fall short of it by."""
        return 100 * (self.attainment - self.two_groups)


def workload(
    profiles: Mapping[str, ModelProfile], duration: float, seed: int, rate: float = RATE, cv: float = CV,
    slo: float = SLO_SCALE,
) -> traces.Trace:  # fmt: skip
    """The offered load of §6.3, one setting changed."""
    bare = traces.gamma(rate, cv, duration, list(profiles), split=SPLIT, seed=seed)
    return bare.with_slo_scale(slo, profiles)


def answer_of(
    duration: float, seed: int, profiles: ProfileSet, *, slo: float = SLO_SCALE, limits: Mapping[str, int] | None = None
) -> Answer:
    """AlpaServe's placement at the default setting, and the best selection on two groups of (4,8).

    The search has the planner's own limits unless `limits` are given (`max_op`, `max_pp`).
    """
    trace = workload(profiles, duration, seed, slo=slo)
    options: dict[str, Any] = dict(limits) if limits else {"max_pp": None}
    plan = planners.alpaserve.plan(Cluster.of(DEVICES), None, trace, profiles, **options)
    two = planners.greedy_no_partition(Cluster.of(DEVICES), None, trace, profiles, config=WINNER[0], selection="greedy")
    attained = [simulate(p.placement, trace, profiles).attainment for p in (plan, two)]
    return Answer(plan.placement, attained[0], attained[1])


def swings(duration: float, seed: int, profiles: ProfileSet) -> Sensitivity:
    """How far two groups of (4,8) stay behind AlpaServe's answer, planned latencies, one assumption moved at a time."""
    moved = {
        f"SLO scale, {SLO_SCALE:g}": {f"{slo:g}": answer_of(duration, seed, profiles, slo=slo) for slo in TRIED_SLO},
        "seconds of collectives": {
            name: answer_of(duration, seed, largest(collectives=x)) for name, x in (("half", 0.5), ("twice", 2.0))
        },
        "seconds of sends between nodes": {
            name: answer_of(duration, seed, largest(across=x)) for name, x in (("half", 0.5), ("twice", 2.0))
        },
    }
    won = [f"{what}: {end}" for what, ends in moved.items() for end, a in ends.items() if a.winners == 2]
    return Sensitivity(
        "planned: two groups of (4,8), behind the answer",
        0.0,
        answer_of(duration, seed, profiles).short,
        "points",
        tuple(_swing(what, ends) for what, ends in moved.items()),
        f"the answer is two groups of (4,8) at {'; '.join(won)}" if won else "none of these makes them the answer",
    )


def _swing(what: str, ends: Mapping[str, Answer]) -> Swing:
    (low, at_low), (high, at_high) = ends.items()
    return Swing(what, low, high, at_low.short, at_high.short)


def memory(profiles: ProfileSet) -> str:
    """What two models weigh on the fullest device of a group of (4,8), against what is usable."""
    profile = next(iter(profiles.values()))
    each = max(profile.weight_bytes(WINNER[0])) / 2**30
    usable = Cluster.of(DEVICES).memory_bytes / 2**30
    fits = "fit" if 2 * each <= usable else "do not fit"
    return f"two models {fits} on (4,8): {2 * each:.2f} GiB on the fullest device, {usable:g} usable"
