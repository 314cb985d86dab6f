"""What one rank measures of token slices.

`measure_slices_job` times slices of any length and context of a part of a model; `measure_sliced_job` times the slices
of a plan's stages.
"""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ....profiles.graph import Graph
from ....profiles.graph.document import from_json
from ....profiles.graph.token_flow import token_flow
from ....simulator.training.plan.file import TrainingPlan
from ..hand_plan import hand_plan
from ..optimizer import Optimizer
from ..single import make_input, make_parameter
from ..slices.layout import SliceLayout
from ..slices.stage import SliceStage
from ..slices.turns import Turn, turns_of
from ..stage.recompute import redone
from ..wires.comm import MeshComm
from ..wires.edges import edges_of, mesh_ranks
from ..wires.layout import local_shape
from .job import transfer_seconds

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["measure_sliced_job", "measure_slices_job"]


def measure_slices_job(job: dict[str, Any], *, rank: int, timeout: timedelta) -> dict[str, Any]:
    """Measure slices of a part of a graph on this rank alone.

    Returns
    -------
    dict
        ``times``: [repeat][slice][forward, backward] -> [seconds, CPU seconds, seconds in collectives].
    """
    import torch.distributed as dist

    graph, cases = from_json(job["graph"]), [tuple(case) for case in job["cases"]]
    first, last = job["parts"][rank % len(job["parts"])]
    cuts = sorted({0, first, last, len(graph.operators)})
    plan = hand_plan(graph, meshes=[(1, 1)] * (len(cuts) - 1), cuts=cuts, global_batch=1, microbatches=1)
    # Each slice poses as the only one of a microbatch of its own, so that none depends on another.
    turns = [
        Turn(number, 0, number, samples, context, length, 1.0, True)
        for number, (samples, length, context) in enumerate(cases)
    ]
    dist.barrier()
    probe = _Probe(plan, graph, cuts.index(first), MeshComm((rank,), (1, 1), rank), turns, job)
    times: list[list[list[tuple[float, float, float]]]] = []
    gc.collect()
    gc.disable()
    for repeat in range(job["repeats"] + 1):
        dist.barrier()
        mine: list[list[tuple[float, float, float]]] = []
        for turn in range(len(turns)):
            probe.recall(turn)
            mine.append([probe.timed(probe.forward(turn)), probe.timed(probe.backward(turn))])
        if repeat:  # the first repeat only warms up
            times.append(mine)
    gc.enable()
    return {"times": times}


def measure_sliced_job(job: dict[str, Any], *, rank: int, timeout: timedelta) -> dict[str, Any]:
    """Measure the stages of a sliced plan on this rank: for each entry, one microbatch's slices forward and backward.

    Returns
    -------
    dict
        ``stages``: stage -> ``forward`` and ``backward`` (for each entry and slice), ``reduce`` and ``update``: lists
        of [seconds, CPU seconds, seconds in collectives], one for each repeat; ``transfers`` as in `measure_job`.
    """
    import torch.distributed as dist

    plan, graph = TrainingPlan.from_json(job["plan"]), from_json(job["graph"])
    ranks = mesh_ranks(plan)
    everyone: Any = dist.new_group(list(range(sum(map(len, ranks)))), timeout=timeout)
    comms = [MeshComm.create(ranks[s.mesh], s.logical, rank, timeout) for s in plan.stages]
    mine = [s for s, comm in enumerate(comms) if comm is not None]
    answer: dict[str, Any] = {"rank": rank, "stages": {}, "transfers": []}
    if mine:
        for number in range(max(Counter(s.mesh for s in plan.stages).values())):  # all meshes at once
            probe = None
            if number < len(mine):
                comm = comms[mine[number]]
                assert comm is not None
                probe = _Probe(plan, graph, mine[number], comm, _one_of_each(plan), job)
            for repeat in range(job["repeats"] + 1):
                dist.barrier(everyone)
                if probe is not None:
                    probe.iteration(keep=repeat > 0)  # the first repeat only warms up
            if probe is not None:
                answer["stages"][str(mine[number])] = probe.times
        dist.barrier(everyone)
        if sum(map(len, ranks)) > 1:
            answer["transfers"] = transfer_seconds(rank, job["repeats"])
        dist.barrier(everyone)
        dist.destroy_process_group(everyone)
    for comm in comms:
        if comm is not None:
            comm.destroy()
    return answer


def _one_of_each(plan: TrainingPlan) -> list[Turn]:
    """The slices of the first microbatch of each entry."""
    first = {t.entry: t.microbatch for t in reversed(turns_of(plan))}  # reversed: what is written last stays
    return [replace(t, microbatch=t.entry) for t in turns_of(plan) if t.microbatch == first[t.entry]]


class _Probe:
    """A stage that runs alone, on random values in place of what other stages would send it."""

    def __init__(
        self, plan: TrainingPlan, graph: Graph, number: int, comm: MeshComm, turns: Sequence[Turn], job: dict[str, Any]
    ) -> None:
        import torch

        self.comm, self.turns, self.graph = comm, turns, graph
        self.tokens = token_flow(graph)
        self.random = torch.Generator().manual_seed(job["seed"])
        self.dtype = getattr(torch, job["dtype"])
        self.slices = SliceLayout.of(plan, graph, number, comm, self.tokens, [t.samples for t in turns])
        read = {name for run in self.slices.any.operators for name in run.op.inputs}
        inputs = {
            (x.name, t.microbatch): make_input(
                graph.with_batch(t.samples), x.name, job["seed"], 0, t.microbatch, job["dtype"]
            )
            for t in turns for x in graph.inputs if x.name in read and t.slice == 0
        }  # fmt: skip
        self.stage = SliceStage(
            self.slices, turns, comm, inputs=lambda name, microbatch: inputs[name, microbatch],
            parameter=lambda name: make_parameter(graph, name, job["seed"], job["dtype"]),
            optimizer=Optimizer(**job.get("optimizer", {})), loss=graph.operators[-1].name,
            redo=redone(self.slices.any, plan.stages[number].recompute),
        )  # fmt: skip
        self.back = {e.name for e in edges_of(plan, graph) if e.source == number and e.gradient}
        n = max(t.entry for t in turns) + 1
        lengths = Counter(t.entry for t in turns)
        self.times: dict[str, Any] = {
            **{way: [[[] for _ in range(lengths[e])] for e in range(n)] for way in ("forward", "backward")},
            "reduce": [], "update": [],
        }  # fmt: skip

    def _random(self, name: str, turn: Turn, *, whole: bool = False) -> Tensor:
        """Random values in this rank's shape of a tensor, for one slice or for the whole sequence."""
        import torch

        graph = self.graph.with_batch(turn.samples)
        full = graph.operators[graph.index[name]].shape
        if not whole:
            full = self.tokens.shape(name, full, turn.offset, turn.length)
        stage = self.slices.stages[turn.samples]
        shape = local_shape(full, stage.values[name], self.comm.shape, name)
        return torch.randn(shape, generator=self.random, dtype=self.dtype)

    def recall(self, turn: int) -> None:
        """Put random keys and values of the whole sequence where a slice reads them, as if earlier slices had run."""
        stage = self.slices.stages[self.turns[turn].samples]
        names = self.tokens.carried & set(stage.values)
        self.stage.recall(turn, {name: self._random(name, self.turns[turn], whole=True) for name in sorted(names)})

    def forward(self, turn: int) -> Callable[[], object]:
        """The forward pass of a slice, ready to run."""
        received = {name: self._random(name, self.turns[turn]) for name in self.slices.any.received}
        return lambda: self.stage.forward(turn, received)

    def backward(self, turn: int) -> Callable[[], object]:
        """The backward pass of a slice, ready to run."""
        # Small, as gradients are, so that weights keep their size over all repeats; times do not depend on the values.
        gradients = {name: 1e-3 * self._random(name, self.turns[turn]) for name in self.back}
        return lambda: self.stage.backward(turn, gradients)

    def timed(self, work: Callable[[], object]) -> tuple[float, float, float]:
        """Run some work; returns its seconds, CPU seconds, and seconds in collectives."""
        start, cpu, within = time.perf_counter(), time.thread_time(), self.comm.seconds
        work()
        end = time.perf_counter()
        return end - start, time.thread_time() - cpu, self.comm.seconds - within

    def iteration(self, *, keep: bool) -> None:
        """Time all slices forward, all backward, then the gradient reduction and the update of an iteration."""
        found: list[tuple[str, Turn | None, tuple[float, float, float]]] = []
        gc.collect()
        gc.disable()
        for number, turn in enumerate(self.turns):
            found.append(("forward", turn, self.timed(self.forward(number))))
        for number in range(len(self.turns) - 1, -1, -1):
            found.append(("backward", self.turns[number], self.timed(self.backward(number))))
        found += [("reduce", None, self.timed(self.stage.reduce))]
        found += [("update", None, self.timed(lambda: self.stage.update(0)))]
        gc.enable()
        for name, turn, took in found if keep else ():
            (self.times[name] if turn is None else self.times[name][turn.entry][turn.slice]).append(took)
