"""`profile_graph`: a serving profile of any graph, planned instead of measured or fitted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from ....errors import InputError
from ....profiles import CommModel, LayerTable, ModelProfile, ParallelConfig, ProfileSet, Provenance, StageProfile
from ....profiles.compose import compose_stage
from ....profiles.graph import CostModel, Graph, roofline
from ....profiles.hardware import DeviceSpec
from ....profiles.hardware import device as device_by_name
from .forward import forward_graph
from .options import InferenceOptions
from .solve import ForwardPlan, Scaled, plan_forward
from .units import Plans, Unit, comm_of, table_of, units

__all__ = ["Planned", "plan_model", "profile_graph", "profile_set"]

Progress = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Planned:
    """A model's plans, and the layer table and communication model that they make.

    Parameters
    ----------
    table : LayerTable
        Units of the graph as layers.
    comm : CommModel
        Planned collectives, and links between stages.
    units : tuple of Unit
        Operators of each layer of the table.
    plans : mapping
        Intra-op degree -> batch size -> plan.
    options : InferenceOptions
        What was planned with.
    """

    table: LayerTable
    comm: CommModel
    units: tuple[Unit, ...]
    plans: Plans
    options: InferenceOptions

    def stage(self, config: ParallelConfig) -> StageProfile:
        """One configuration, its memory exact: weights that a stage reads, and the most that it holds at once."""
        found = compose_stage(self.table, self.comm, config, partition=self.options.partition, source="planned")
        by_batch = self.plans[config.op]
        plan = by_batch[min(by_batch)]
        cuts = [*(self.units[k].first for k in found.partition), self.units[-1].last]
        return replace(
            found,
            weight_bytes=tuple(plan.weight_bytes(a, b) for a, b in pairwise(cuts)),
            activation_bytes={b: float(p.live_bytes.max()) for b, p in by_batch.items()},
        )


def plan_model(
    graph: Graph,
    device: str | DeviceSpec = "v100-16gb",
    options: InferenceOptions | None = None,
    *,
    costs: CostModel | None = None,
    progress: Progress | None = None,
) -> Planned:
    """Shard a model for every intra-op degree and batch size; `profile_graph` makes its profile of that.

    Parameters
    ----------
    graph : Graph
        A training graph (of the zoo, or `from_torch`); its loss is left out.
    device : str or DeviceSpec
        Type of device: links, and the default costs.
    options : InferenceOptions, optional
        Degrees, batch sizes, and what the planner may choose from.
    costs : CostModel, optional
        Seconds of operators on one device; by default a roofline of the device.
    progress : callable, optional
        Called with a line of text per plan.

    Raises
    ------
    InputError
        On what is no graph, an unknown device, or a batch size that the graph cannot be scaled to.
    """
    if not isinstance(graph, Graph):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"inference: graph: expected a Graph (got {type(graph).__name__})")
    chosen = options or InferenceOptions()
    spec = device_by_name(device) if isinstance(device, str) else device
    forward = {b: forward_graph(graph.with_batch(b)) for b in chosen.batches}
    least = forward[chosen.batches[0]]
    used = costs or roofline(spec)
    if chosen.single_s is not None:
        alone = sum(used.times(op, {}).forward_s for op in forward_graph(graph.with_batch(1)).operators)
        used = Scaled(used, chosen.single_s / alone)
    plans: dict[int, dict[int, ForwardPlan]] = {}
    for op in chosen.ops:
        for b, scaled in forward.items():
            if progress is not None:
                progress(f"{graph.name}: op {op}, batch {b}")
            first = plans[op][chosen.batches[0]] if op in plans else None
            plans.setdefault(op, {})[b] = plan_forward(scaled, op, spec, used, chosen, fixed=first)
    cut = units(least)
    notes = f"batch {', '.join(map(str, chosen.batches))}; {used.source}; no measurement"
    if chosen.data_parallel:
        notes += "; samples and tokens may be cut"
    provenance = Provenance("planned by Alpa's intra-operator ILP for inference", spec.name, notes=notes)
    return Planned(
        table_of(least, cut, plans, provenance), comm_of(cut, plans, spec, chosen), cut, plans, chosen
    )  # fmt: skip


def profile_graph(
    graph: Graph,
    device: str | DeviceSpec = "v100-16gb",
    options: InferenceOptions | None = None,
    *,
    costs: CostModel | None = None,
    name: str | None = None,
    progress: Progress | None = None,
) -> ModelProfile:
    """The serving profile of a graph, every op × pp of the options.

    The intra-op pass shards the whole model for each op (Alpa's ILP, forward only, without data parallelism); a unit of
    operators then takes its computation and its collectives, a stage the sum of its units and its send, and the stage
    programme takes the cuts with the least slowest stage (AlpaServe §4.1). Nothing here asks whether a stage fits into
    a device: who places models does.

    Parameters
    ----------
    graph, device, options, costs, progress
        As for `plan_model`.
    name : str, optional
        Name of the profile; the graph's if left out.

    Raises
    ------
    InputError
        As for `plan_model`.
    """
    planned = plan_model(graph, device, options, costs=costs, progress=progress)
    configs = planned.options.configs(_most_stages(planned))
    stages = {config: planned.stage(config) for config in configs}
    old = planned.table.provenance
    notes = f"{old.notes}; {planned.options.partition} partition; {planned.comm.source}"
    return ModelProfile(name or graph.name, stages, replace(old, notes=notes))


def _most_stages(planned: Planned) -> int:
    if planned.options.partition == "equal":
        return max(planned.table.n_blocks, 1)
    return len(planned.table)


def profile_set(
    graphs: Mapping[str, Graph],
    device: str | DeviceSpec = "v100-16gb",
    options: InferenceOptions | None = None,
    *,
    name: str = "planned",
    progress: Progress | None = None,
) -> ProfileSet:
    """Profiles of several graphs as a set, which `meshwright.profiles.save` writes and the serving world reads.

    Parameters
    ----------
    graphs : mapping of str to Graph
        Name in the set -> graph.
    device, options, progress
        As for `profile_graph`.
    name : str
        Name of the set.

    Raises
    ------
    InputError
        If there is no graph, or as for `profile_graph`.
    """
    if not graphs:
        raise InputError("inference: graphs: expected one at least (got none)")
    models = {key: profile_graph(graph, device, options, name=key, progress=progress) for key, graph in graphs.items()}
    notes = "; ".join(sorted({profile.provenance.notes for profile in models.values()}))
    spec = device_by_name(device).name if isinstance(device, str) else device.name
    return ProfileSet(
        name, spec, models, Provenance("planned by Alpa's intra-operator ILP for inference", spec, notes=notes)
    )
