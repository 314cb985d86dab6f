"""Eight equal stages as one chain, as two chains of four, and as two chains that meet: rounds of an iteration."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ...profiles.hardware import DeviceSpec, LinkSpec
from ...simulator.cluster import Cluster
from ...simulator.plan.entries import PlannerEntry

__all__ = ["IDEAL_MICROBATCHES", "SHAPES", "ideal_rounds"]

STAGES, IDEAL_MICROBATCHES = 8, 32
SHAPES: Mapping[str, tuple[tuple[int, int], ...]] = MappingProxyType(
    {
        "one chain": tuple((s, s + 1) for s in range(STAGES - 1)),
        "two chains": tuple((s, s + 1) for s in range(STAGES - 1) if s != STAGES // 2 - 1),
        "two chains that meet": (
            *((s, s + 1) for s in range(STAGES - 1) if s != STAGES // 2 - 1),
            (STAGES // 2 - 1, STAGES - 1),
        ),
    }
)
"""Which stage hands which other one something. The last: the second chain's last stage holds the concatenation."""

_FORWARD_S, _BACKWARD_S = 1 / 3, 2 / 3  # a backward pass has twice the products of a forward pass; a round is 1


def ideal_rounds(*edges: tuple[int, int]) -> float:
    """Simulated time of an iteration of 32 microbatches under 1F1B, in rounds of a stage's forward and backward pass.

    Nothing is sent: the closed form is microbatches + depth - 1.

    Parameters
    ----------
    *edges : (int, int)
        Between the eight stages.
    """
    from ...simulator.training import simulate_training
    from ...simulator.training.plan.file import MeshEntry, ModelEntry, StageEntry, TrainingPlan, TransferEntry

    free = LinkSpec(1e18, 0.0)
    cluster = Cluster(1, STAGES, DeviceSpec("ideal", 2**40, 2**40, 1e15, 1e15, free, free, "no communication"))
    plan = TrainingPlan.of(
        cluster,
        model=ModelEntry(name="eight equal stages"),
        global_batch=2 * IDEAL_MICROBATCHES,
        microbatches=IDEAL_MICROBATCHES,
        schedule="1f1b",
        meshes=tuple(MeshEntry(hosts=1, devices=1, first_device=s) for s in range(STAGES)),
        stages=tuple(
            StageEntry(
                mesh=s, logical=(1, 1), first=s, last=s + 1, forward_s=_FORWARD_S, backward_input_s=_BACKWARD_S,
                state_bytes=0, activation_bytes=0,
            )
            for s in range(STAGES)
        ),
        transfers=tuple(TransferEntry(source=a, target=b, value=f"x{a}", bytes=0) for a, b in edges),
        planner=PlannerEntry(name="by hand"),
    )  # fmt: skip
    return simulate_training(plan).seconds / (_FORWARD_S + _BACKWARD_S)
