"""A training case's profile: operators and collectives that were measured, for its planner."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...errors import InputError
from ...profiles.graph.costs.measured.model import MeasuredCosts, Origin
from ...profiles.graph.costs.measured.profile import TrainingProfile
from ...profiles.hardware import device
from ...simulator.cluster import Cluster
from ...simulator.collective_tables import CollectiveTables
from ...simulator.training.plan.graph import in_plan_order
from .case import TrainingCase

if TYPE_CHECKING:
    from ...profiles.graph import Graph
    from ...simulator.training import TrainingPlan

__all__ = ["load_profile", "measured_cluster", "with_origins"]


def load_profile(case: TrainingCase, folder: Path) -> TrainingProfile:
    """The profile that a case names.

    Raises
    ------
    InputError
        If it is no profile, or not that of the case's devices.
    """
    found = TrainingProfile.load(folder / str(case.profile))
    wanted = device(case.cluster.device).name
    if found.device.name != wanted:
        raise InputError(
            f"{case.profile}: was measured on {found.device.name} ({found.machine}), the cluster's devices are "
            f"{wanted}; measure there, or give cluster.device {found.device.name}"
        )
    return found


def measured_cluster(cluster: Cluster, case: TrainingCase, profile: TrainingProfile) -> Cluster:
    """A case's cluster with measured rates, links and collectives; what the case says itself stays."""
    spec, found = cluster.spec, profile.device
    # Planners of graphs take the cluster's memory for optimizer steps alone; operators have the profile's costs.
    memory = profile.update_bytes_per_s or found.memory_bandwidth_bytes_per_s
    changed = replace(spec, peak_flops=found.peak_flops, memory_bandwidth_bytes_per_s=memory, source=profile.about)
    if case.cluster.intra_node_bandwidth is not None or case.cluster.link_scale != 1.0:
        return replace(cluster, device=changed)  # what was measured went over other links
    changed = replace(changed, intra_node=found.intra_node)
    curves = {
        # A larger message is never faster: noise of small ones.
        (one.collective, one.devices): (np.array(one.n_bytes, float), np.maximum.accumulate(np.array(one.seconds)))
        for one in profile.collectives
    }
    return replace(cluster, device=changed, collectives=CollectiveTables(curves, profile.about))


def with_origins(plan: TrainingPlan, graph: Graph, costs: MeasuredCosts) -> TrainingPlan:
    """The plan, whose `cost_source` says of how many of its operators the seconds were measured, and of how many
    scaled."""
    count: Counter[Origin] = Counter()
    for stage in plan.stages:
        here = in_plan_order(plan, graph.with_batch(stage.microbatch or plan.microbatch))
        for op in here.operators[stage.first : stage.last]:
            parts: dict[str, int] = {}
            how = stage.operators.get(op.name)
            for loop, n in zip(how.axes if how is not None else ("", ""), stage.logical, strict=True):
                if loop:
                    parts[loop] = parts.get(loop, 1) * n
            count[costs.origin(op, parts)] += 1
    said = f"{costs.profile.about}: {count['measured']} operators measured, {count['scaled']} scaled"
    return plan.model_copy(update={"cost_source": said})
