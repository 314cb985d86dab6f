"""`run_job`: what one rank of a training run does: build its stages, run the iterations, save its arrays."""

from __future__ import annotations

import gc
import json
import os
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...profiles.graph import Graph
from ...profiles.graph.document import from_json
from ...profiles.graph.operator import Operator
from ...profiles.graph.running import running_buffers
from ...simulator.training.plan.file import TrainingPlan
from ...simulator.training.program.actions import Action, Op
from .executor import Executor
from .graphs.job import SampleInputs, graph_executor, graph_stages
from .graphs.microbatch_parts import is_uneven
from .module_values import load_values
from .optimizer import Optimizer, Stepping
from .own.clipping import Clipping
from .own.inputs import FiledInputs, RowInputs
from .own.optimizer import TorchOptimizer
from .recovery.saving import Saving
from .shards import shards_of
from .single import make_input, make_parameter
from .slices.job import slice_executor, slice_stages
from .slices.turns import microbatch_samples
from .stage.formats import floats_are
from .stage.layout import StageLayout
from .stage.precision import Precision
from .stage.recompute import redone
from .stage.runner import StageRunner
from .wires.comm import MeshComm
from .wires.edges import edges_of, mesh_ranks, signals_of, tied_edges
from .wires.mailbox import Mailbox

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Brought", "run_job"]


@dataclass(eq=False)
class _Inputs:
    """Inputs of one iteration at a time, made before it starts, so that drawing them is not timed."""

    graph: Graph
    seed: int
    dtype: str
    samples: tuple[int, ...]
    """Samples of each microbatch."""

    def __post_init__(self) -> None:
        self._graphs = {n: self.graph.with_batch(n) for n in set(self.samples)}
        self._made: dict[tuple[str, int], Tensor] = {}

    def prepare(self, iteration: int, names: set[str]) -> None:
        """Make the named inputs for all microbatches of an iteration."""
        self._made = {
            (name, m): make_input(self._graphs[n], name, self.seed, iteration, m, self.dtype)
            for name in names
            for m, n in enumerate(self.samples)
        }

    def begun(self, iteration: int) -> None:
        """All ranks have theirs: there is nothing to make room for."""

    def __call__(self, name: str, microbatch: int) -> Tensor:
        return self._made[name, microbatch]


@dataclass(frozen=True, eq=False)
class Brought:
    """What a program on each rank brings itself, instead of naming files in the job.

    Parameters
    ----------
    inputs : RowInputs, optional
        Where inputs come from; by default the files that the job names, or the seed.
    values : mapping
        Parameter or buffer -> first value; others are drawn from the seed.
    """

    inputs: RowInputs | None = None
    values: Mapping[str, Tensor] = field(default_factory=dict[str, "Tensor"])

    def values_of(self, names: Collection[str], dtype: str) -> dict[str, Tensor]:
        """The values of these names, floating-point ones in the run's dtype."""
        import torch

        mine = {name: x for name, x in self.values.items() if name in names}
        return {name: x.to(getattr(torch, dtype)) if x.is_floating_point() else x for name, x in mine.items()}


def run_job(
    job: dict[str, Any], *, rank: int, timeout: timedelta, brought: Brought | None = None
) -> dict[str, Any]:  # fmt: skip
    """Train by a plan on this rank.

    Parameters
    ----------
    job : dict
        The fields that `run.training_job` sets.
    rank : int
        This rank; ranks beyond the plan's devices only take part in making process groups.
    timeout : timedelta
        Longest wait for another rank.
    brought : Brought, optional
        Data and weights that the job does not name.

    Returns
    -------
    dict
        Losses, seconds and spans of each iteration, counted collectives, and where this rank's arrays are (its
        shards themselves, if `keep` is "shards").
    """
    with floats_are(job["dtype"]):
        return _run_job(job, rank, timeout, brought or Brought())


def _run_job(job: dict[str, Any], rank: int, timeout: timedelta, own: Brought) -> dict[str, Any]:
    import torch
    import torch.distributed as dist

    plan = TrainingPlan.from_json(job["plan"])
    graph = from_json(job["graph"]).with_batch(plan.microbatch)
    ranks = mesh_ranks(plan)
    optimizer = stepping(job["optimizer"])
    # torch.distributed wants every rank to make every group, in one order, whether or not the rank is in it.
    every = [MeshComm.create(ranks[s.mesh], s.logical, rank, timeout) for s in plan.stages]
    comms = {number: comm for number, comm in enumerate(every) if comm is not None}
    inputs: Any = own.inputs or _inputs(job, plan, graph, rank)
    here = [op for number in comms for op in _operators(plan, graph, number)]
    mine = {name for op in here for name in op.inputs} | running_buffers(here).keys()
    values = load_values(job["values"], job["dtype"], mine) if "values" in job else own.values_of(mine, job["dtype"])

    def parameter(name: str) -> Tensor:
        return values[name] if name in values else make_parameter(graph, name, job["seed"], job["dtype"])

    mesh = next((m for m, mine in enumerate(ranks) if rank in mine), -1)
    everyone: Any = dist.new_group(list(range(sum(map(len, ranks)))), timeout=timeout)
    answer: dict[str, Any] = {"rank": rank, "mesh": mesh, "seconds": [], "spans": [], "losses": [], "began": []}
    answer["cores"] = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if mesh < 0:
        return answer
    actions = [Action(Op(op), *rest) for op, *rest in job["program"][mesh]]
    if job.get("clip_norm"):  # a norm is of all gradients: no stage of this rank steps before the others are reduced
        actions.sort(key=lambda action: action.op == Op.UPDATE)
    precision = Precision.of(job.get("precision", "full"), graph)
    dtype = precision.half if precision.low else getattr(torch, job["dtype"])
    if plan.slices:
        stages = slice_stages(plan, graph, comms, inputs=inputs, parameter=parameter, optimizer=optimizer)
        runners: Mapping[int, StageRunner] = stages
        executor: Executor = slice_executor(plan, graph, stages, actions, rank, dtype)
    elif is_uneven(plan):
        if "data" not in job and own.inputs is None:
            inputs = SampleInputs(plan, graph, job["seed"], job["dtype"], [plan.microbatch_of(s) for s in comms])
        runners = graph_stages(plan, graph, comms, inputs=inputs, parameter=parameter, optimizer=optimizer)
        executor = graph_executor(plan, graph, runners, actions, rank, dtype)
    else:
        runners = _stages(plan, graph, comms, inputs, parameter, optimizer, precision)
        edges = [*precision.sent(edges_of(plan, graph), graph), *signals_of(plan, graph)]
        executor = Executor(
            runners, actions, edges, precision.tied(tied_edges(plan, graph)), plan, rank,
            Mailbox(dtype, plan.microbatches), dtype.itemsize,
        )  # fmt: skip
    if job.get("clip_norm"):
        executor.clipping = Clipping.of(plan, graph, job["clip_norm"], everyone)
    names = {
        name for runner in runners.values() for run in runner.layout.operators for name in run.op.inputs
        if name in {x.name for x in graph.inputs}
    }  # fmt: skip
    saving, done = None, 0
    if "saving" in job:
        saved = job["saving"]
        saving = Saving(Path(saved["folder"]), saved["every"], job["iterations"], rank, runners, everyone)
        done = saving.load()
    gc.collect()
    gc.disable()  # a collection would count as the time of the action that it interrupts
    if saving is not None:
        dist.barrier(everyone)
        saving.begins(done)
    for iteration in range(done, job["iterations"]):
        inputs.prepare(iteration, names)
        dist.barrier(everyone)
        inputs.begun(iteration)
        for runner in runners.values():
            runner.begin(job["seed"], iteration)
        if job["audit"]:
            from torch.distributed.tensor.debug import CommDebugMode

            with CommDebugMode() as heard:
                spans = executor.run(iteration)
            answer.setdefault("heard", Counter()).update({str(op): n for op, n in heard.get_comm_counts().items()})
        else:
            spans = executor.run(iteration)
        answer["spans"].append(spans)
        answer["began"].append(executor.began)
        answer["seconds"].append(max((span.end for span in spans), default=0.0))
        losses = [x * runner.weight(m) for runner in runners.values() for m, x in runner.losses.items()]
        answer["losses"].append(sum(losses) if losses else None)
        if saving is not None:
            saving.after(iteration + 1, answer["losses"][-1])
    dist.barrier(everyone)  # nobody leaves while another still reads
    gc.enable()
    answer["counts"] = {str(number): dict(runner.counts) for number, runner in runners.items()}
    if job["keep"] == "shards":
        answer["shards"] = [shard for shard in shards_of(runners, rank) if shard.first]
    elif job["keep"]:
        answer["arrays"] = _save(Path(job["arrays"]), rank, runners)
    dist.destroy_process_group(everyone)
    for comm in comms.values():
        comm.destroy()
    return answer


def stepping(document: Mapping[str, Any]) -> Optimizer | TorchOptimizer:
    """The optimiser that a job names."""
    return TorchOptimizer.read(document) if "torch" in document else Optimizer(**document)


def _inputs(job: dict[str, Any], plan: TrainingPlan, graph: Graph, rank: int) -> Any:
    """Inputs of the files that a job names, or of its seed."""
    if "data" in job:
        return FiledInputs(graph, microbatch_samples(plan), job["dtype"], Path(job["data"]), rank)
    return _Inputs(graph, job["seed"], job["dtype"], microbatch_samples(plan))


def _operators(plan: TrainingPlan, graph: Graph, number: int) -> tuple[Operator, ...]:
    return graph.operators[plan.stages[number].first : plan.stages[number].last]


def _stages(
    plan: TrainingPlan, graph: Graph, comms: Mapping[int, MeshComm], inputs: Any,
    parameter: Callable[[str], Tensor], optimizer: Stepping, precision: Precision,
) -> dict[int, StageRunner]:  # fmt: skip
    """Make the runners of this rank's stages."""
    made: dict[int, StageRunner] = {}
    for number, comm in comms.items():
        layout = StageLayout.of(plan, graph, number, comm)
        made[number] = StageRunner(
            layout, comm, inputs=inputs, parameter=parameter, optimizer=optimizer, microbatches=plan.microbatches,
            loss=graph.operators[-1].name, redo=redone(layout, plan.stages[number].recompute), precision=precision,
        )  # fmt: skip
    return made


def _save(folder: Path, rank: int, runners: Mapping[int, StageRunner]) -> str:
    """Save this rank's shards of gradients and weights, each with its place in the whole array."""
    import numpy as np

    arrays: dict[str, Any] = {}
    index: list[dict[str, Any]] = []
    for k, shard in enumerate(shards_of(runners, rank)):
        arrays[f"a{k}"] = shard.values.numpy()
        about = {"what": shard.what, "name": shard.name, "stage": shard.stage, "part": shard.part}
        index.append({"key": f"a{k}", **about})
    path = folder / f"rank-{rank}.npz"
    np.savez(path, index=np.array(json.dumps(index)), **arrays)
    return str(path)
