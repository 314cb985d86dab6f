"""The baselines that Alpa is compared with (§8.1, §8.3), on the same cost model: parts of Alpa, and fixed shardings.

Each is called like `planners.alpa.plan`, and returns a `TrainingPlan` that can be simulated, exported and run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol

from ...profiles.graph import CostModel, Graph, roofline
from ...simulator.cluster import Cluster
from ...simulator.training.plan.file import TrainingPlan
from .baseline_megatron import megatron
from .fixed import data_parallel, expert_parallel, heuristic
from .inter.pricing.fixed_pricer import FixedPricer
from .inter.pricing.intra_pricer import intra_options
from .options import AlpaOptions
from .planner import plan

__all__ = [
    "BASELINES", "Baseline", "deepspeed_moe", "equal_layer", "equal_operator", "inter_only", "intra_only", "megatron",
    "one_mesh", "pp_dp",
]  # fmt: skip

Options = AlpaOptions | Mapping[str, Any] | None
Progress = Callable[[str], None]


class Baseline(Protocol):
    """A planner that is called as `planners.alpa.plan` is."""

    def __call__(
        self, graph: Graph, cluster: Cluster, *, global_batch: int, microbatches: int | None = None,
        options: Options = None, costs: CostModel | None = None, progress: Progress | None = None,
    ) -> TrainingPlan:  # fmt: skip
        """The baseline's plan."""
        ...


def _part(
    graph: Graph,
    cluster: Cluster,
    *,
    global_batch: int,
    microbatches: int | None = None,
    options: Options = None,
    costs: CostModel | None = None,
    progress: Progress | None = None,
    name: str,
    changes: Mapping[str, Any],
) -> TrainingPlan:
    return plan(
        graph, cluster, global_batch=global_batch, microbatches=microbatches,
        options=replace(AlpaOptions.of(options), **changes), costs=costs, planner=name, progress=progress,
    )  # fmt: skip


equal_operator: Baseline = partial(_part, name="alpa-equal-operator", changes={"clustering": "equal_operator"})
"""§8.3: layers of equally many operators instead of the clustering."""

equal_layer: Baseline = partial(_part, name="alpa-equal-layer", changes={"stages": "equal_layer"})
"""§8.3: the same number of layers in all stages."""

inter_only: Baseline = partial(_part, name="alpa-inter-only", changes={"stages": "one_device"})
"""§8.1: pipeline stages of one device each."""

intra_only: Baseline = partial(_part, name="alpa-intra-only", changes={"stages": "one"})
"""§8.1: one stage on all devices."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """How a baseline shards every stage: its method, the options that it changes, and whether meshes must be flat."""

    method: Callable[..., Any]
    changes: Mapping[str, Any]
    flat: bool


def _fixed(
    graph: Graph,
    cluster: Cluster,
    *,
    global_batch: int,
    microbatches: int | None = None,
    options: Options = None,
    costs: CostModel | None = None,
    progress: Progress | None = None,
    name: str,
    rule: _Rule,
) -> TrainingPlan:
    chosen = replace(AlpaOptions.of(options), **rule.changes)
    pricer = FixedPricer(
        costs or roofline(cluster.spec),
        intra_options(chosen),
        rule.method,
        (lambda s: s[0] == 1) if rule.flat else _any,
        batch_only=rule.method is data_parallel and chosen.zero == 0,
    )
    return plan(
        graph, cluster, global_batch=global_batch, microbatches=microbatches, options=chosen, pricer=pricer,
        planner=name, progress=progress,
    )  # fmt: skip


def _any(_shape: tuple[int, int]) -> bool:
    return True


pp_dp: Baseline = partial(_fixed, name="alpa-pp-dp", rule=_Rule(data_parallel, {"zero": 0}, flat=True))
"""§8.1: pipeline stages with data parallelism alone, the space of PipeDream and Dapple."""

deepspeed_moe: Baseline = partial(
    _fixed, name="deepspeed-moe", rule=_Rule(expert_parallel, {"zero": 2, "stages": "one"}, flat=False)
)
"""§8.1: experts dealt to devices, data parallelism for the rest, ZeRO-2; no pipeline. The expert-parallel degree is
searched with the logical mesh."""


def one_mesh(method: str) -> Baseline:
    """§8.2: one stage on all devices, sharded by ``data``, ``zero2``, ``zero3`` or ``heuristic``.

    Raises
    ------
    KeyError
        If there is no such method.
    """
    zero = {"data": 0, "zero2": 2, "zero3": 3, "heuristic": 2}[method]
    rule = heuristic if method == "heuristic" else data_parallel
    return partial(_fixed, name=method, rule=_Rule(rule, {"zero": zero, "stages": "one"}, flat=True))


BASELINES: Mapping[str, Baseline] = MappingProxyType(
    {
        "equal-operator": equal_operator,
        "equal-layer": equal_layer,
        "inter-only": inter_only,
        "intra-only": intra_only,
        "pp-dp": pp_dp,
        "megatron": megatron,
        "deepspeed-moe": deepspeed_moe,
        **{name: one_mesh(name) for name in ("data", "zero2", "zero3", "heuristic")},
    }
)
"""Name -> baseline."""
