"""What the serving world needs of a machine."""

from __future__ import annotations

from ...profiles.config import ParallelConfig
from ...profiles.profile import ModelProfile
from ...simulator.cluster import Cluster
from ...simulator.placement import Group, Placement
from ...simulator.serving.plan.file import Plan, PlannerEntry
from ..need import Need

__all__ = ["NEEDS"]


def _plan() -> Plan:
    one = ParallelConfig(1, 1)
    profiles = {"m": ModelProfile.from_stages("m", {one: {1: [0.5]}}, weight_bytes={one: [1e9]})}
    return Plan.of(Cluster(1, 1), Placement([Group(one, ["m"])]), profiles, planner=PlannerEntry(name="doctor"))


def _plans() -> str:
    plan = _plan()
    if Plan.from_json(plan.to_json()) != plan:
        raise ValueError("a plan does not read back as it was written")
    return "written and read back"


def _simulation() -> str:
    from ...simulator import simulate
    from ...traces.trace import Trace

    plan = _plan()
    trace = Trace(arrival=[0.0, 0.1], model=[0, 0], models=("m",), slo=2.0)
    finishes = [
        simulate(plan.placement, trace, plan.planned_profiles(), engine=engine).finish.tolist()
        for engine in ("compiled", "simpy")
    ]
    if finishes != [[0.5, 1.0]] * 2:
        raise ValueError(f"expected finishes [0.5, 1.0] from both engines (got {finishes})")
    return "both engines agree"


def _running() -> str:
    import torch

    backends = [name for name in ("gloo", "nccl") if getattr(torch.distributed, f"is_{name}_available")()]
    if not backends:
        raise RuntimeError("torch has no distributed backend")
    return f"torch.distributed with {', '.join(backends)}"


NEEDS = (
    Need("plans", _plans, must=True),
    Need("simulation", _simulation, must=True),
    Need("measuring and running for real", _running),
)
