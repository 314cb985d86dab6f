"""`collective_laps`: what one worker does to measure collectives, as plans run them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ....kernels.timing import synchronize
from ..comm import Span, p2p_spans
from ..pool import Worker

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["collective_laps", "message_spans"]

Curve = tuple[str, int, int]
"""Collective, devices of a group, bytes of a device's larger side."""


def collective_laps(
    worker: Worker, *, kinds: Sequence[str], groups: Sequence[int], sizes: Sequence[int], rounds: int
) -> dict[Curve, list[float]]:
    """Seconds from when the workers are there until this one has its result, groups of neighbours all at once.

    Every round goes through everything, after a barrier each. On GPUs the barrier and the end are waited for, so that a
    launch is part of the time.
    """
    import torch

    # The runtime calls them by these names, which newer torch has others for.
    warnings.simplefilter("ignore", FutureWarning)
    found: dict[Curve, list[float]] = {}
    work = torch.randn(64, 64, device=worker.device)
    for turn in range(rounds + 1):  # the first round opens connections
        for devices in groups:
            mine = worker.groups_of(devices)
            for kind in kinds:
                for n_bytes in sizes:
                    call = None if mine is None else _ready(kind, n_bytes // 4, devices, mine, worker.device)
                    worker.barrier()
                    torch.mm(work, work)  # a core that has waited is awake again
                    synchronize(worker.device)
                    start = time.perf_counter()
                    if call is not None:
                        call()
                        synchronize(worker.device)
                        if turn:
                            found.setdefault((kind, devices, n_bytes), []).append(time.perf_counter() - start)
    return found


def _ready(kind: str, elements: int, devices: int, group: object, device: str) -> Callable[[], object]:
    """A collective on new buffers, with the copies that the runtime makes before and after it."""
    import torch
    import torch.distributed as dist

    whole = torch.zeros((devices, max(1, elements // devices)), device=device)
    flat = whole.view(-1)
    if kind == "all_reduce":

        def all_reduce() -> Tensor:
            total = flat.clone()
            dist.all_reduce(total, group=group)
            return total

        return all_reduce
    if kind == "all_gather":
        shard = whole[0].clone()

        def all_gather() -> Tensor:
            into = torch.empty_like(flat)
            dist.all_gather_into_tensor(into, shard, group=group)
            return into.clone()

        return all_gather
    if kind == "reduce_scatter":

        def reduce_scatter() -> Tensor:
            parts, mine = flat.clone(), torch.empty_like(whole[0])
            dist.reduce_scatter_tensor(mine, parts, group=group)
            return mine

        return reduce_scatter

    def all_to_all() -> Tensor:
        parts, got = flat.clone(), torch.empty_like(flat)
        dist.all_to_all_single(got, parts, group=group)
        return got.clone()

    return all_to_all


def message_spans(worker: Worker, *, sizes: Sequence[int], rounds: int) -> dict[int, list[Span]]:
    """Bytes -> when the ends of messages between neighbours were ready and done."""
    import torch

    work = torch.randn(256, 256, device=worker.device)
    found: dict[int, list[Span]] = {}
    for turn in range(rounds + 1):
        for n_bytes in sizes:
            worker.barrier()
            spans = p2p_spans(worker, n_bytes, lambda: torch.mm(work, work))
            if turn:
                found.setdefault(n_bytes, []).extend(spans)
    return found
