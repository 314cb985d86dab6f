"""Point-to-point and all-reduce, measured between real worker processes and fitted with a latency-bandwidth line."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from .comm import CommModel, fit_line
from .hardware import DeviceSpec
from .measure_pool import Worker, WorkerPool

__all__ = ["LinkSamples", "measure_comm"]

WARMUP = 5


@dataclass(frozen=True, slots=True)
class LinkSamples:
    """Median seconds per message size of one kind of message.

    Parameters
    ----------
    n_bytes : tuple[int, ...]
        Message sizes, bytes.
    seconds : tuple[float, ...]
        Median of each, same length.
    """

    n_bytes: tuple[int, ...]
    seconds: tuple[float, ...]


def measure_comm(
    pool: WorkerPool,
    n_bytes: Sequence[int],
    ops: Sequence[int],
    spec: DeviceSpec,
    *,
    repeats: int = 40,
    budget_s: float = 2.0,
) -> tuple[CommModel, dict[str, LinkSamples]]:
    """Measure the links between the workers of `pool`.

    Parameters
    ----------
    pool : WorkerPool
        Two or more workers; with only one, the links are those of `spec`, and the model's source says so.
    n_bytes : sequence of int
        Message sizes, bytes, at least two.
    ops : sequence of int
        Intra-op degrees; those above 1 get an all-reduce line.
    spec : DeviceSpec
        Where link figures come from if they cannot be measured.
    repeats : int
        Messages per size.
    budget_s : float
        Seconds to spend on each kind of message.

    Returns
    -------
    CommModel
        The fitted lines. A transfer is a hop, not part of a stage: the receiver gets it while it computes.
    dict of str to LinkSamples
        What was measured: ``p2p`` and ``allreduce 2``, ….
    """
    if pool.size == 1:
        return CommModel(
            spec.intra_node,
            {op: spec.intra_node for op in ops if op > 1},
            p2p_occupies_stage=False,
            source=f"not measured (one device present); {spec.name}: {spec.source}",
        ), {}
    sizes = sorted(set(n_bytes))
    budget = budget_s / len(sizes)
    samples = {
        "p2p": LinkSamples(tuple(sizes), tuple(pool.call(_p2p, sizes=sizes, repeats=repeats, budget_s=budget)[0]))
    }
    for op in ops:
        if op > 1:
            seconds = pool.call(_allreduce, op=op, sizes=sizes, repeats=repeats, budget_s=budget)[0]
            samples[f"allreduce {op}"] = LinkSamples(tuple(sizes), tuple(seconds))
    lines = {name: fit_line(s.n_bytes, s.seconds) for name, s in samples.items()}
    model = CommModel(
        lines["p2p"],
        {op: lines[f"allreduce {op}"] for op in ops if op > 1},
        p2p_occupies_stage=False,
        source=f"measured between {pool.size} workers, {len(sizes)} message sizes of {sizes[0]} to {sizes[-1]} B",
    )
    return model, samples


def _p2p(worker: Worker, *, sizes: Sequence[int], repeats: int, budget_s: float) -> list[float]:
    """Half a round trip between workers 0 and 1 for each size; median seconds on worker 0, [] elsewhere."""
    import torch
    import torch.distributed as dist

    medians: list[float] = []
    for size in sizes:
        message = torch.zeros(size, dtype=torch.uint8, device=worker.device)
        samples: list[float] = []
        worker.barrier()
        start, more = time.perf_counter(), 1
        while more:
            began = time.perf_counter()
            if worker.rank == 0:
                dist.send(message, 1)
                dist.recv(message, 1)
            elif worker.rank == 1:
                dist.recv(message, 0)
                dist.send(message, 0)
            _wait(worker)
            samples.append(0.5 * (time.perf_counter() - began))
            more = worker.agree(int(_more(samples, start, repeats, budget_s)))
        medians.append(statistics.median(samples[WARMUP:]))
    return medians if worker.rank == 0 else []


def _allreduce(worker: Worker, *, op: int, sizes: Sequence[int], repeats: int, budget_s: float) -> list[float]:
    """All-reduce among the first `op` workers for each size; median seconds of the slowest of them on each."""
    import torch
    import torch.distributed as dist

    group = worker.group(tuple(range(op)))
    medians: list[float] = []
    for size in sizes:
        buffer = torch.zeros(max(1, size // 4), dtype=torch.float32, device=worker.device)
        samples: list[float] = []
        start, more = time.perf_counter(), 1
        while more:
            worker.barrier()
            began = time.perf_counter()
            if worker.rank < op:
                dist.all_reduce(buffer, group=group)
            _wait(worker)
            samples.append(time.perf_counter() - began)
            more = worker.agree(int(_more(samples, start, repeats, budget_s)))
        medians.append(statistics.median(samples[WARMUP:]))
    return medians


def _wait(worker: Worker) -> None:
    from ..kernels.timing import synchronize

    synchronize(worker.device)


def _more(samples: Sequence[float], start: float, repeats: int, budget_s: float) -> bool:
    if len(samples) < 2 * WARMUP:
        return True
    return len(samples) < repeats + WARMUP and time.perf_counter() - start < budget_s
