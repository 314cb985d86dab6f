"""The case that a training plan was made for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ....simulator.cluster import Cluster
from ....simulator.plan.file import PlanFile
from ....simulator.training.plan.file import TrainingPlan

__all__ = ["case_of"]


def _said(cluster: Cluster) -> str:
    return f"{cluster.nodes}x{cluster.devices_per_node}x{cluster.spec.name}"


def case_of(plans: Mapping[str, PlanFile], said: Mapping[str, Any]) -> Mapping[str, Any]:
    """Model, cluster and batch of the first plan; without one, a core and one sample."""
    if not plans:
        return {"cluster": {"devices": 1, "device": "cpu-core"}, "workload": {"global_batch": 1}}
    plan = cast(TrainingPlan, next(iter(plans.values())))
    cluster = plan.cluster_spec
    return {
        "model": plan.model.name,
        "cluster": {
            "devices": cluster.n_devices, "devices_per_node": cluster.devices_per_node,
            "device": plan.cluster.device.name,
            **({"also": ",".join(map(_said, plan.clusters[1:]))} if plan.further_clusters else {}),
        },
        "workload": {"global_batch": plan.global_batch},
    }  # fmt: skip
