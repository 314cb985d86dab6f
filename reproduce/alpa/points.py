"""Points of Alpa's figures: plans of each system, simulated, as rows of a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ...errors import InfeasibleError
from ..report import Frame, Progress, quiet
from .systems import AS_SAID, FAMILIES, SYSTEMS, Assumed, plan_of

if TYPE_CHECKING:
    from ...simulator.training import TrainingResult
    from ...simulator.training.plan.file import TrainingPlan
    from ...simulator.training.resharding.crossing import Method

__all__ = ["FAST", "RESHARDINGS", "measure", "measure_all", "measure_reshardings", "resharded"]

RESHARDINGS: Mapping[str, Method] = MappingProxyType(
    {
        "signal send/recv": "send_recv",
        "w/o local all-gather": "first_holder",
        "w/o, senders balanced": "send_recv",
        "w/ local all-gather": "local_all_gather",
    }
)
"""Ways of moving tensors between meshes -> how; of the first only a byte is sent."""


NO_COUNTS: Mapping[int, tuple[int, ...]] = MappingProxyType({})
FAST: Mapping[int, tuple[int, ...]] = MappingProxyType({4: (32,), 8: (24,), 16: (32,), 32: (32,)})
"""GPUs -> numbers of microbatches in fast versions, those that full versions choose up to 16."""


def measure(
    family: str, system: str, gpus: int, assumed: Assumed = AS_SAID, counts: tuple[int, ...] = ()
) -> dict[str, Any]:
    """One point: the plan's iteration, simulated with its transfers; NaN where it runs out of memory."""
    from ...simulator.training import simulate_training

    row: dict[str, Any] = {"family": family, "system": system, "gpus": gpus, "model": FAMILIES[family].models[gpus]}
    try:
        plan = plan_of(family, system, gpus, assumed, counts)
    except InfeasibleError as error:
        return row | dict.fromkeys(_MEASURED, math.nan) | {"note": " ".join(str(error).split())}
    result = simulate_training(plan)
    devices = [plan.mesh(s).n_devices for s in range(len(plan.stages))]
    flops = [stage.flops for stage in plan.stages]
    share = max(f / n for f, n in zip(flops, devices, strict=True))
    return row | {
        "pflops": plan.predicted["pflops"] * plan.predicted["seconds"] / result.seconds,
        "seconds": result.seconds,
        "bubble": result.bubble,
        "microbatches": plan.microbatches,
        "stages": len(plan.stages),
        "largest_stage": share * sum(devices) / sum(flops),
        "tensor_parallel": max(stage.logical[1] for stage in plan.stages),
        "planning_s": plan.planner.seconds,
        "note": _shape(plan),
    }


_MEASURED = (
    *("pflops", "seconds", "bubble", "microbatches", "stages", "largest_stage", "tensor_parallel", "planning_s"),
)  # fmt: skip


def _shape(plan: TrainingPlan) -> str:
    """Stages by devices and logical mesh, such as ``4 stages of 2 x 4``."""
    shapes = [f"{a} x {b}" for a, b in (stage.logical for stage in plan.stages)]
    runs: list[tuple[str, int]] = []
    for shape in shapes:
        if runs and runs[-1][0] == shape:
            runs[-1] = (shape, runs[-1][1] + 1)
        else:
            runs.append((shape, 1))
    return ", ".join(f"{n} of {shape}" for shape, n in runs)


def measure_all(
    families: Sequence[str],
    sizes: Sequence[int],
    progress: Progress = quiet,
    *,
    systems: Sequence[str] | None = None,
    counts: Mapping[int, tuple[int, ...]] = NO_COUNTS,
) -> Frame:
    """One row for each family, number of GPUs and system (by default those of Fig. 7).

    `counts` restricts the numbers of microbatches on so many GPUs.
    """
    import pandas as pd

    jobs = [(f, n, s) for f in families for n in sizes for s in (systems or SYSTEMS[f])]
    rows: list[dict[str, Any]] = []
    for k, (family, gpus, system) in enumerate(jobs):
        progress(k, len(jobs), f"{FAMILIES[family].models[gpus]} on {gpus} GPUs, {system}")
        rows.append(measure(family, system, gpus, counts=counts.get(gpus, ())))
    progress(len(jobs), len(jobs), "")
    return pd.DataFrame(rows)


def measure_reshardings(
    sizes: Sequence[int], progress: Progress = quiet, *, counts: Mapping[int, tuple[int, ...]] = NO_COUNTS
) -> Frame:
    """Alpa's plans of Wide-ResNet, simulated with each way of moving tensors between meshes.

    `counts` restricts the numbers of microbatches on so many GPUs.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for k, gpus in enumerate(sizes):
        progress(k, len(sizes), f"{FAMILIES['resnet'].models[gpus]} on {gpus} GPUs")
        plan = plan_of("resnet", "Alpa", gpus, counts=counts.get(gpus, ()))
        flops = plan.predicted["pflops"] * plan.predicted["seconds"]
        for name in RESHARDINGS:
            result = resharded(plan, name)
            rows.append(
                {
                    "gpus": gpus,
                    "system": name,
                    "pflops": flops / result.seconds,
                    "seconds": result.seconds,
                    "stages": len(plan.stages),
                    "note": _shape(plan),
                }
            )
    progress(len(sizes), len(sizes), "")
    return pd.DataFrame(rows)


def resharded(plan: TrainingPlan, way: str, *, overlap: bool = False) -> TrainingResult:
    """The plan's iteration with one of `RESHARDINGS`."""
    from ...simulator.training import simulate_training

    if way == "signal send/recv":
        plan = plan.model_copy(update={"transfers": tuple(_signal(t) for t in plan.transfers)})
    return simulate_training(plan, resharding=RESHARDINGS[way], overlap=overlap)


def _signal(transfer: Any) -> Any:
    """Replace a transfer by one byte between the same devices: "signal", the figure's bound on what transfers cost."""
    return transfer.model_copy(update={"bytes": 1.0, "source_spec": "", "target_spec": ""})
