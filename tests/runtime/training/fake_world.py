"""One rank of a large world, alone: torch's fake process group moves nothing, and every collective is heard."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["Heard", "rank_of"]

KINDS = {
    "allreduce_": "all_reduce",
    "_allgather_base_": "all_gather",
    "_reduce_scatter_base_": "reduce_scatter",
    "alltoall_base_": "all_to_all",
}
"""Name of torch's operator -> collective."""
NONE = {"barrier", "send", "recv_"}
"""Operators of torch.distributed that are no collectives of tensors."""


class Heard(TorchDispatchMode):
    """Counts collectives by what they are, the bytes of the larger of input and output, and their group's size."""

    def __init__(self) -> None:
        super().__init__()
        self.collectives: Counter[tuple[str, int, int]] = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace == "c10d":
            name = func._schema.name.removeprefix("c10d::")
            if name in KINDS:
                tensors = [x for arg in args for x in (arg if isinstance(arg, list) else [arg])]
                n_bytes = max(x.nbytes for x in tensors if isinstance(x, torch.Tensor))
                group = next(x for x in args if isinstance(x, torch.ScriptObject) and "ProcessGroup" in str(x._type()))
                self.collectives[KINDS[name], n_bytes, dist.ProcessGroup.unbox(group).size()] += 1
            else:
                assert name in NONE, name
        return func(*args, **(kwargs or {}))


@contextmanager
def rank_of(world: int, rank: int):
    """This process as one rank of a world of so many; the others are not there."""
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world, timeout=timedelta(seconds=60))
    try:
        yield
    finally:
        dist.destroy_process_group()
