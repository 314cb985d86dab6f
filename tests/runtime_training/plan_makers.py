"""Plans by hand: which loop each mesh axis cuts, by simple rules, for tests that must not rest on planners."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from meshwright.profiles.graph import Graph, Operator
from meshwright.runtime.training.layout import Layout, natural
from meshwright.simulator.cluster import Cluster
from meshwright.simulator.plan_entries import PlannerEntry
from meshwright.simulator.training.plan import (
    MeshEntry,
    ModelEntry,
    OperatorEntry,
    StageEntry,
    TrainingPlan,
    TransferEntry,
)

Rule = Callable[[Operator], tuple[str, str]]


def batch_loop(op: Operator) -> str:
    """The loop of the samples, where the operator has one that can be cut."""
    return next((x.name for x in op.loops if x.batch and x.name in op.cuttable), "")


def data_parallel(op: Operator) -> tuple[str, str]:
    """Both axes cut the batch."""
    return batch_loop(op), batch_loop(op)


def tensor_parallel(op: Operator) -> tuple[str, str]:
    """Axis 0 cuts the batch, axis 1 what Megatron cuts: heads, the hidden loop of MLPs, the vocabulary, experts."""
    names = op.cuttable
    wanted = [x for x in ("e", "n", "f", "v", "k") if x in names]
    if op.name.endswith("layers.3") and "k" in wanted:
        wanted.remove("k")
    return batch_loop(op), wanted[0] if wanted else ""


def spec(layout: Layout) -> str:
    """As plans write it."""
    return "".join(f"S{''.join(map(str, cut))}" if cut else "R" for cut in layout)


RULES: dict[str, Rule] = {"dp": data_parallel, "tp": tensor_parallel}


def make_plan(
    graph: Graph, *, meshes: Sequence[tuple[int, int]], rules: str | Rule = "dp", microbatches: int = 2,
    global_batch: int = 8, schedule: str = "1f1b", stages_per_mesh: int = 1, zero: int = 0, recompute: str = "none",
    optimizer: str = "adam", cuts: Sequence[int] | None = None,
) -> TrainingPlan:  # fmt: skip
    """A plan of equal numbers of operators a stage, one logical mesh each.

    Parameters
    ----------
    meshes : sequence of (int, int)
        Logical shapes; the devices of each are a row of a node of their own size.
    rules : str or callable
        Operator -> loops that the axes cut.
    zero : {0, 2, 3}
        Whether gradients and states (2) and weights too (3) are cut over axis 0.
    """
    rule = RULES[rules] if isinstance(rules, str) else rules
    width = max(a * b for a, b in meshes)
    cluster = Cluster(nodes=len(meshes), devices_per_node=width, device="v100-16gb")
    n = len(meshes) * stages_per_mesh
    small = graph.with_batch(global_batch // microbatches)
    count = len(small.operators)
    bounds = list(cuts) if cuts is not None else [round(i * count / n) for i in range(n + 1)]
    homes = [s % len(meshes) for s in range(n)]
    if schedule == "zb_v":
        homes = [*range(len(meshes)), *reversed(range(len(meshes)))]
    stages: list[StageEntry] = []
    for s in range(n):
        shape = meshes[homes[s]]
        operators: dict[str, OperatorEntry] = {}
        parameters: dict[str, str] = {}
        states: dict[str, str] = {}
        for op in small.operators[bounds[s] : bounds[s + 1]]:
            axes = _dividing(op, rule(op), shape)
            dims = op.parsed
            operators[op.name] = OperatorEntry(
                axes=axes,
                result=spec(natural(dims.result, axes, shape)),
                operands=tuple(spec(natural(d, axes, shape)) for d in dims.operands),
            )
            for name, d in zip(op.inputs, dims.operands, strict=True):
                if name in {p.name for p in small.parameters} and name not in parameters:
                    layout = natural(d, axes, shape)
                    parameters[name] = spec(layout)
                    cut = _more(layout, small.tensors[name].shape, shape)
                    if zero == 3:
                        parameters[name] = spec(cut)
                    elif zero == 2 and cut != layout:
                        states[name] = spec(cut)
        stages.append(
            StageEntry(
                mesh=homes[s],
                logical=shape,
                first=bounds[s],
                last=bounds[s + 1],
                forward_s=1.0,
                backward_input_s=2.0,
                state_bytes=0.0,
                activation_bytes=0.0,
                recompute=recompute,
                operators=operators,
                parameters=parameters,
                optimizer_states=states,
            )
        )
    return TrainingPlan.of(
        cluster,
        model=ModelEntry(name=graph.name, digest=graph.digest, dtype="float32", optimizer=optimizer),
        global_batch=global_batch, microbatches=microbatches, schedule=schedule,
        meshes=tuple(MeshEntry(hosts=1, devices=a * b, first_host=m) for m, (a, b) in enumerate(meshes)),
        stages=tuple(stages), transfers=_transfers(small, stages),
        planner=PlannerEntry(name="by hand"),
    )  # fmt: skip


def _transfers(graph: Graph, stages: Sequence[StageEntry]) -> tuple[TransferEntry, ...]:
    found: list[TransferEntry] = []
    for t, stage in enumerate(stages):
        seen: set[str] = set()
        for op in graph.operators[stage.first : stage.last]:
            for name, text in zip(op.inputs, stage.operators[op.name].operands, strict=True):
                if name in graph.index and graph.index[name] < stage.first and name not in seen:
                    seen.add(name)
                    source = next(s for s, x in enumerate(stages) if x.first <= graph.index[name] < x.last)
                    found.append(
                        TransferEntry(
                            source=source,
                            target=t,
                            value=name,
                            bytes=float(graph.bytes_of(name)),
                            source_spec=stages[source].operators[name].result,
                            target_spec=text,
                        )
                    )
    return tuple(found)


def _dividing(op: Operator, axes: tuple[str, str], shape: tuple[int, int]) -> tuple[str, str]:
    """The axes' loops where they divide; one that does not is left out."""
    sizes = op.sizes
    kept = ["", ""]
    for axis in (0, 1):
        loop = axes[axis]
        if loop and sizes[loop] % shape[axis] == 0:
            kept[axis] = loop
            sizes[loop] //= shape[axis]
    return kept[0], kept[1]


def _more(layout: Layout, full: tuple[int, ...], shape: tuple[int, int]) -> Layout:
    """Axis 0 cuts the first dimension that it can, where it cuts none."""
    if shape[0] == 1 or any(0 in cut for cut in layout):
        return layout
    for d, cut in enumerate(layout):
        if not cut and full[d] % shape[0] == 0:
            return (*layout[:d], (0,), *layout[d + 1 :])
    return layout
