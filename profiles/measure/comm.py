"""Messages between workers, timed as a real run sends them: after work on the cores, not in a tight loop.

A tight loop of messages keeps the receiving thread awake and the caches warm; between two stages of a
pipeline there are milliseconds of computation. So every timed message here follows a layer's worth of work on
all workers. All workers read one clock, so that a message is timed from the moment when both ends are there.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ...kernels.timing import Lap
from ..comm import CommModel, fit_line
from ..hardware import DeviceSpec, LinkSpec
from .pool import Worker

__all__ = ["LinkSamples", "Span", "allreduce_laps", "fit_comm", "p2p_spans"]

Span = tuple[float, float]
"""When one end of a message was ready and when it was done, on the clock that all workers share, seconds."""

P2P_REPEATS = 3  # in each round, and there are several: medians are over all of them
ALLREDUCE_REPEATS = 8  # more, because an all-reduce waits for the slowest worker and so varies more
CALM = 0.98
"""A lap counts as undisturbed if its worker had this share of its core."""
AT_LEAST = 3
"""Laps that a figure is taken from."""


@dataclass(frozen=True, slots=True)
class LinkSamples:
    """Seconds per message size of one kind of message.

    Parameters
    ----------
    n_bytes : tuple[int, ...]
        Message sizes, bytes.
    seconds : tuple[float, ...]
        How long one takes, same length: the median for point-to-point messages, of which a request meets one
        per stage; the mean for all-reduces, of which a stage adds up many: now and then one takes ten times
        as long (a core must wake up), which the median would not count at all.
    """

    n_bytes: tuple[int, ...]
    seconds: tuple[float, ...]


def p2p_spans(worker: Worker, n_bytes: int, work: Callable[[], object]) -> list[Span]:
    """Send `n_bytes` from every even worker to the next, `P2P_REPEATS` times, each after ``work()``."""
    import torch
    import torch.distributed as dist

    from ...kernels.timing import synchronize

    buffer = torch.zeros(n_bytes, dtype=torch.uint8, device=worker.device)
    partner = worker.rank ^ 1
    spans: list[Span] = []
    for _ in range(P2P_REPEATS):
        work()
        synchronize(worker.device)
        began = time.perf_counter()
        if partner < worker.size:
            if worker.rank < partner:
                dist.send(buffer, partner)
            else:
                dist.recv(buffer, partner)
            synchronize(worker.device)
            spans.append((began, time.perf_counter()))
    return spans


def allreduce_laps(worker: Worker, op: int, n_bytes: int, work: Callable[[], object]) -> list[Lap]:
    """All-reduce `n_bytes` among every `op` workers, `ALLREDUCE_REPEATS` times, each after ``work()``.

    Returns
    -------
    list of Lap
        Seconds from when this worker was there to when it had the sum, and its share of its core during ``work()``.
    """
    import torch

    from ...kernels.collective import all_reduce_over
    from ...kernels.timing import synchronize

    buffer = torch.zeros(n_bytes // 4, dtype=torch.float32, device=worker.device)
    mine = worker.groups_of(op)
    add_up = all_reduce_over(mine)
    laps: list[Lap] = []
    for _ in range(ALLREDUCE_REPEATS):
        start, had = time.perf_counter(), time.thread_time()
        work()
        synchronize(worker.device)
        began, had = time.perf_counter(), time.thread_time() - had
        if mine is not None:
            add_up(buffer)
            synchronize(worker.device)
            share = 1.0 if worker.device.startswith("cuda") else min(1.0, had / (began - start))
            laps.append(Lap(time.perf_counter() - began, share))
    return laps


def fit_comm(
    p2p: Sequence[dict[int, list[Span]]],
    allreduce: Sequence[dict[tuple[int, int], list[Lap]]],
    ops: Iterable[int],
    cited: DeviceSpec,
) -> tuple[CommModel, dict[str, LinkSamples]]:
    """Latency-bandwidth lines through the measured messages.

    Parameters
    ----------
    p2p : sequence of dict
        For each worker: message bytes -> spans.
    allreduce : sequence of dict
        For each worker: (op degree, message bytes) -> laps.
    ops : iterable of int
        Intra-op degrees; those above 1 get a line.
    cited : DeviceSpec
        Where the lines come from if there was only one worker; the model's source then says so.

    Returns
    -------
    CommModel
        A transfer is a hop, not part of a stage: while a message is under way both ends go on computing.
    dict of str to LinkSamples
        What each line goes through: ``p2p`` and ``allreduce 2``, ….
    """
    degrees = sorted(op for op in ops if op > 1)
    if len(p2p) == 1:
        source = f"not measured (one device present); {cited.name}: {cited.source}"
        lines = dict.fromkeys(degrees, cited.intra_node)
        return CommModel(cited.intra_node, lines, p2p_occupies_stage=False, source=source), {}
    samples = {"p2p": _summary({n: _one_way(p2p, n) for n in p2p[0]}, statistics.median)}
    for op in degrees:
        sizes = [n for degree, n in allreduce[0] if degree == op]
        samples[f"allreduce {op}"] = _summary({n: _waits(allreduce, op, n) for n in sizes}, statistics.fmean)
    fitted = {name: _line(row) for name, row in samples.items()}
    told = "; ".join(f"{name} {_told(line)}" for name, line in fitted.items())
    lines = {op: fitted[f"allreduce {op}"] for op in degrees}
    return CommModel(fitted["p2p"], lines, p2p_occupies_stage=False, source=f"measured: {told}"), samples


def _line(samples: LinkSamples) -> LinkSpec:
    line = fit_line(samples.n_bytes, samples.seconds)
    return LinkSpec(float(line.bandwidth_bytes_per_s), float(line.latency_s))


def _told(line: LinkSpec) -> str:
    latency = f"{line.latency_s * 1e6:.0f} us"
    if math.isinf(line.bandwidth_bytes_per_s):
        return f"{latency} at all sizes measured"
    return f"{latency} + bytes / {line.bandwidth_bytes_per_s / 1e9:.2g} GB/s"


def _summary(seconds: dict[int, list[float]], of: Callable[[Sequence[float]], float]) -> LinkSamples:
    sizes = sorted(seconds)
    return LinkSamples(tuple(sizes), tuple(of(seconds[n]) for n in sizes))


def _one_way(p2p: Sequence[dict[int, list[Span]]], n_bytes: int) -> list[float]:
    """Seconds from the moment when sender and receiver are both ready until the receiver has the message."""
    pairs = [(p2p[r][n_bytes], p2p[r + 1][n_bytes]) for r in range(0, len(p2p) - 1, 2)]
    return [
        got - max(sent, ready)
        for sends, receives in pairs
        for (sent, _), (ready, got) in zip(sends, receives, strict=True)
    ]


def _waits(allreduce: Sequence[dict[tuple[int, int], list[Lap]]], op: int, n_bytes: int) -> list[float]:
    """Seconds from the moment when a worker is ready until it has the sum.

    The others did the same work before it, but not in exactly the same time: waiting for them is part of the cost.
    Waiting for a worker that lost its core to another process is no such cost; such rounds are left out, if any
    others remain.
    """
    rounds = [
        laps
        for base in range(0, len(allreduce) - op + 1, op)
        for laps in zip(*(allreduce[base + r][op, n_bytes] for r in range(op)), strict=True)
    ]
    # A round is as disturbed as its most disturbed worker, for whom all others wait.
    best = sorted(rounds, key=lambda laps: -min(lap.share for lap in laps))
    kept = [laps for i, laps in enumerate(best) if i < AT_LEAST or min(lap.share for lap in laps) >= CALM]
    return [lap.seconds for laps in kept for lap in laps]
