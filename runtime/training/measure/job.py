"""`measure_job`: what one rank measures of a plan.

It times the passes of its stages with their collectives, the same passes without collectives, each collective by
itself, and messages. All ranks compute at the same time, as they do in a run: cores share caches and memory.
"""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ....profiles.graph import Graph
from ....profiles.graph.document import from_json
from ....simulator.training.plan.file import TrainingPlan
from ..optimizer import Optimizer
from ..single import make_input, make_parameter
from ..stage.layout import StageLayout
from ..stage.recompute import redone
from ..stage.runner import StageRunner
from ..wires.comm import Axes, Call, MeshComm, MuteComm
from ..wires.edges import edges_of, mesh_ranks
from ..wires.layout import local_shape

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["measure_job", "transfer_seconds"]

COLLECTIVE_REPEATS = 8
"""How often each collective is timed; the first does not count. A guess: enough for a lower quartile."""

TRANSFER_BYTES = (4096, 1 << 20)
"""A message so small that its time is the fixed cost, and one so large that its time is that of its bytes."""


def measure_job(job: dict[str, Any], *, rank: int, timeout: timedelta) -> dict[str, Any]:
    """Measure a plan on this rank.

    Returns
    -------
    dict
        ``stages``: stage -> ``times`` (pass -> [[seconds, CPU seconds, seconds in collectives], …]), ``muted`` (the
        same without collectives) and ``calls``: [[pass, kind, axes, bytes, number in a pass], …]; ``collectives``:
        [[mesh, logical, kind, axes, bytes, [seconds, …]], …]; ``transfers``: [[bytes, [seconds, …]], …] of messages
        between ranks 0 and 1.
    """
    import torch.distributed as dist

    plan = TrainingPlan.from_json(job["plan"])
    graph = from_json(job["graph"]).with_batch(plan.microbatch)
    ranks = mesh_ranks(plan)
    everyone: Any = dist.new_group(list(range(sum(map(len, ranks)))), timeout=timeout)
    comms = [MeshComm.create(ranks[s.mesh], s.logical, rank, timeout) for s in plan.stages]
    answer: dict[str, Any] = {"rank": rank, "stages": {}, "collectives": [], "transfers": []}
    calls: dict[int, Counter[Call]] = {}
    if any(comm is not None for comm in comms):
        for number in range(max(Counter(s.mesh for s in plan.stages).values())):
            mine = [s for s, comm in enumerate(comms) if comm is not None]
            dist.barrier(everyone)
            if number < len(mine):
                stage = mine[number]
                comm = comms[stage]
                assert comm is not None
                own = graph.with_batch(plan.microbatch_of(stage))
                times, calls[stage] = _stage(plan, own, stage, comm, job, everyone)
                mute = MuteComm(comm.ranks, comm.shape, rank)
                muted, _ = _stage(plan, own, stage, mute, job, everyone)
                listed = [[*call, n] for call, n in sorted(calls[stage].items())]
                answer["stages"][str(stage)] = {"times": times, "muted": muted, "calls": listed}
            else:  # others measure a further stage: take part in the barriers of their two rounds of repeats
                for _ in range(2 * job["repeats"]):
                    dist.barrier(everyone)
        dist.barrier(everyone)
        answer["collectives"] = _collectives(plan, comms, calls)
        dist.barrier(everyone)
        if sum(map(len, ranks)) > 1:
            answer["transfers"] = transfer_seconds(rank, job["repeats"])
        dist.barrier(everyone)
        dist.destroy_process_group(everyone)
    for comm in comms:
        if comm is not None:
            comm.destroy()
    return answer


def _stage(
    plan: TrainingPlan, graph: Graph, number: int, comm: MeshComm, job: dict[str, Any], everyone: Any
) -> tuple[dict[str, list[tuple[float, float, float]]], Counter[Call]]:
    """Times of every pass of a stage, repeat by repeat, and the collectives that one repeat of all passes makes."""
    import torch
    import torch.distributed as dist

    entry = plan.stages[number]
    dtype = getattr(torch, job["dtype"])
    layout = StageLayout.of(plan, graph, number, comm)
    inputs = {
        x.name: make_input(graph, x.name, job["seed"], 0, 0, job["dtype"])
        for x in graph.inputs
        if any(x.name in run.op.inputs for run in layout.operators)
    }
    runner = StageRunner(
        layout, comm, inputs=lambda name, _: inputs[name],
        parameter=lambda name: make_parameter(graph, name, job["seed"], job["dtype"]),
        optimizer=Optimizer(**job["optimizer"]), microbatches=plan.microbatches_of[number],
        loss=graph.operators[-1].name, redo=redone(layout, entry.recompute),
    )  # fmt: skip
    generator = torch.Generator().manual_seed(job["seed"])

    def shard(name: str) -> Tensor:
        full = graph.operators[graph.index[name]].shape
        shape = local_shape(full, layout.values[name], entry.logical, name)
        return torch.randn(shape, generator=generator, dtype=dtype)

    received = {name: shard(name) for name in layout.received}
    returned = {e.name for e in edges_of(plan, graph) if e.source == number and e.gradient}
    # Small, as gradients are, so that weights keep their size over all repeats; times do not depend on the values.
    gradients = {name: 1e-3 * shard(name) for name in returned}
    passes: list[tuple[str, Callable[[], object]]] = [
        ("forward", lambda: runner.forward(0, received)),
        ("backward", lambda: runner.backward(0, gradients, weights=not job["split"])),
    ]
    if job["split"]:
        passes.append(("weights", lambda: runner.backward_weights(0)))
    passes += [("reduce", runner.reduce), ("update", lambda: runner.update(0))]
    times: dict[str, list[tuple[float, float, float]]] = {name: [] for name, _ in passes}
    gc.collect()
    gc.disable()  # a collection would count as the time of the pass that it interrupts
    for repeat in range(job["repeats"] + 1):
        if repeat == 1:  # the first repeat only warms up
            comm.calls.clear()
        if repeat:
            dist.barrier(everyone)
        for name, work in passes:
            start, cpu, within = time.perf_counter(), time.thread_time(), comm.seconds
            work()
            if repeat:
                end = time.perf_counter()
                times[name].append((end - start, time.thread_time() - cpu, comm.seconds - within))
    gc.enable()
    calls = Counter({call: n // job["repeats"] for call, n in comm.calls.items()})
    comm.calls.clear()
    return times, calls


def _collectives(plan: TrainingPlan, comms: list[MeshComm | None], calls: dict[int, Counter[Call]]) -> list[list[Any]]:
    """Time every collective of this rank's stages by itself.

    They are taken in sorted order: all ranks of a mesh must call the same collectives in the same order.
    """
    import torch

    found: list[list[Any]] = []
    done: set[tuple[int, tuple[int, int], str, Axes, int]] = set()
    for number in sorted(calls):
        comm, entry = comms[number], plan.stages[number]
        assert comm is not None
        for _, kind, axes, n_bytes in sorted(calls[number]):
            key = entry.mesh, entry.logical, kind, axes, n_bytes
            if key in done:
                continue
            done.add(key)
            n = comm.size(axes)
            # float32 elements, rounded up so that both dimensions of x, (n, items / n), can be cut n ways.
            items = max(n * n, -(-n_bytes // 4 // (n * n)) * n * n)
            x = torch.zeros((n, items // n))
            run = {
                "all_reduce": lambda c=comm, a=axes, x=x: c.all_reduce(x, a),
                "all_gather": lambda c=comm, a=axes, x=x: c.all_gather(x[0], a, 0),
                "reduce_scatter": lambda c=comm, a=axes, x=x: c.reduce_scatter(x, a, 0),
                "all_to_all": lambda c=comm, a=axes, x=x: c.all_to_all(x, a, 1, 0),
            }[kind]
            seconds: list[float] = []
            for _ in range(COLLECTIVE_REPEATS):
                start = time.perf_counter()
                run()
                seconds.append(time.perf_counter() - start)
            found.append([entry.mesh, list(entry.logical), kind, list(axes), n_bytes, seconds[1:]])
    return found


def transfer_seconds(rank: int, repeats: int) -> list[list[Any]]:
    """Seconds of messages between ranks 0 and 1: half of a round trip, so that one rank's clock is enough."""
    import torch
    import torch.distributed as dist

    found: list[list[Any]] = []
    for n_bytes in TRANSFER_BYTES:
        x = torch.zeros(n_bytes // 4)
        seconds: list[float] = []
        for _ in range(4 * repeats):  # messages are short and vary more than passes do: more repeats
            start = time.perf_counter()
            if rank == 0:
                dist.send(x, 1)
                dist.recv(x, 1)
            elif rank == 1:
                dist.recv(x, 0)
                dist.send(x, 0)
            seconds.append((time.perf_counter() - start) / 2)
        found.append([n_bytes, seconds[1:]])
    return found
