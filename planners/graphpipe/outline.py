"""`outline`: a plan with only the times and messages of its stages.

It is quick to make. The planner simulates it to rank plans, and throws it away.
"""

from __future__ import annotations

import numpy as np

from ...simulator.plan.entries import PlannerEntry
from ...simulator.training.plan.entries import ModelEntry, StageEntry, TransferEntry
from ...simulator.training.plan.file import TrainingPlan
from ..stages.costs import StageCosts
from ..stages.plan import ChosenStage, place_stages
from .schedule.stage_graph import StageGraph

__all__ = ["outline"]

_CUT, _WHOLE = "S0", "R"


def outline(
    costs: StageCosts, stages: StageGraph, chosen: list[ChosenStage], schedule: str, sequential: bool
) -> TrainingPlan:
    """Make the plan that `stage_plan` would make of these stages, without operators.

    The simulated seconds are the same.

    Parameters
    ----------
    costs : StageCosts
        Costs of stages.
    stages : StageGraph
        The stages.
    chosen : list of ChosenStage
        The same stages as entries of a plan.
    schedule : str
        Name of the plan's schedule.
    sequential : bool
        Whether each stage waits for the one before it.
    """
    masks = np.zeros((len(chosen), costs.n_units), bool)
    for row, stage in enumerate(chosen):
        masks[row, list(stage.units)] = True
    sets = costs.of_sets(masks)
    most = max(s.microbatch for s in chosen)
    entries: list[StageEntry] = []
    for s, stage in enumerate(chosen):
        column, one = costs.column(stage.microbatch, stage.devices), sets.at(slice(s, s + 1))
        reduce, update = costs.iteration_s(one, stage.devices)
        entries.append(
            StageEntry(
                mesh=s, logical=(stage.devices, 1), first=s, last=s + 1,
                forward_s=float(one.forward_s[0, column]), backward_input_s=float(one.backward_input_s[0, column]),
                backward_weight_s=float(one.backward_weight_s[0, column]), reduce_s=float(reduce[0]),
                update_s=float(update[0]), state_bytes=0.0, activation_bytes=0.0,
                microbatch=0 if stage.microbatch == most else stage.microbatch, k=stage.k, warmup=stage.warmup,
                order=stage.order,
            )
        )  # fmt: skip
    return TrainingPlan.of(
        costs.cluster,
        model=ModelEntry(name=costs.graph.name),
        global_batch=costs.global_batch,
        microbatches=costs.global_batch // most,
        schedule=schedule,
        overlap=costs.overlap,
        meshes=place_stages(costs.cluster, [s.devices for s in chosen]),
        stages=tuple(entries),
        transfers=_transfers(costs, chosen, masks, sequential),
        planner=PlannerEntry(name="outline", seconds=0.0, evaluations=0),
    )


def _transfers(
    costs: StageCosts, chosen: list[ChosenStage], masks: np.ndarray, sequential: bool
) -> tuple[TransferEntry, ...]:
    makes, reads = masks @ costs.makers.T, masks @ costs.readers.T
    found: list[TransferEntry] = []
    for r in range(len(costs.makers)):
        x = int(makes[:, r].argmax())
        for y in np.flatnonzero(reads[:, r]).tolist():
            if y != x:
                found.append(
                    TransferEntry(
                        source=x, target=y, value=str(r), bytes=costs.result_sizes[0, r] * chosen[x].microbatch,
                        source_spec=_CUT if chosen[x].devices > 1 else _WHOLE,
                        target_spec=_CUT if chosen[y].devices > 1 else _WHOLE,
                        gradient=bool(costs.result_sizes[1, r] > 0),
                    )
                )  # fmt: skip
    joined = {(t.source, t.target) for t in found if t.gradient}
    for s in range(len(chosen) - 1 if sequential else 0):
        if (s, s + 1) not in joined:
            found.append(TransferEntry(source=s, target=s + 1, value=f"after {s}", bytes=0.0))
    return tuple(found)
