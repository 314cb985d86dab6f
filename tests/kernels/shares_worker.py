"""One process of cache-parallel attentions: takes its shares of caches, meets the others, saves what it found.

Argument: the folder; rank and processes as torchrun says them. Of each ``case-*.npz`` in the folder the first `size`
processes make results ``<case>-<rank>.npz``. All cases in one go, since starting a process takes longer than they do.
"""

import os
import sys
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from meshwright.kernels.llm import kernels_for
from meshwright.kernels.llm.cache_parallel import Share, cache_parallel_decode, spread_decode

BLOCK_SIZE = 4
folder, rank, processes = Path(sys.argv[1]), int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.set_num_threads(1)
kernels = kernels_for("cpu", "torch")
sent = 0


def cache_of(share, lens, k, v):
    """Tables, lengths and blocks of this process, every token that is here written by its slot."""
    held = share.lens(lens)
    table_width = max(1, int((-(-held // BLOCK_SIZE)).max()))
    tables = torch.randperm(len(lens) * table_width, generator=torch.Generator().manual_seed(rank))
    tables = tables.view(len(lens), table_width).int()
    cache = torch.full((2, len(lens) * table_width, BLOCK_SIZE, *k.shape[2:]), torch.nan, dtype=k.dtype)
    for row, length in enumerate(lens.tolist()):
        position = torch.arange(length)
        here = position[share.holds(position)]
        place = share.place(here)
        assert torch.equal(place, torch.arange(int(held[row])))
        slots = tables[row, place // BLOCK_SIZE].long() * BLOCK_SIZE + place % BLOCK_SIZE
        kernels.reshape_and_cache(k[row, here], v[row, here], cache[0], cache[1], slots)
    return (*cache, tables, held)


def counted(function, to_others):
    """`function`, with the bytes that it sends to other processes added up."""

    def call(out, given, *rest, **named):
        global sent
        sent += to_others(given, *rest)
        return function(out, given, *rest, **named)

    return call


def bytes_of(x):
    return x.numel() * x.element_size()


def one(case, size, group):
    """Results of a case."""
    global sent
    q, k, v, lens = (torch.from_numpy(case[name]) for name in ("q", "k", "v", "lens"))
    counts = case["counts"].tolist()
    arguments = (*cache_of(Share(rank, size, int(case["width"])), lens, k, v), 0.25, group, kernels)
    first = sum(counts[:rank])
    own_q = q[first : first + counts[rank]]
    everything = cache_parallel_decode(q, *arguments)
    gather, exchange = dist.all_gather_into_tensor, dist.all_to_all_single
    sent = 0
    dist.all_gather_into_tensor = counted(gather, lambda given: bytes_of(given) * (size - 1))
    dist.all_to_all_single = counted(
        exchange, lambda given, _, rows: sum(bytes_of(part) for j, part in enumerate(given.split(rows)) if j != rank)
    )
    own = spread_decode(own_q, *arguments, counts)
    dist.all_gather_into_tensor, dist.all_to_all_single = gather, exchange
    try:
        spread_decode(own_q, *arguments, [count + 1 for count in counts])
        refused = ""
    except ValueError as error:
        refused = str(error)
    return {"everything": everything, "own": own, "sent": sent, "held": arguments[3], "refused": refused}


meet = f"file://{folder / 'meet'}"
dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=processes, timeout=timedelta(seconds=100))
try:
    for path in sorted(folder.glob("case-*.npz")):
        case = np.load(path)
        size = int(case["size"])
        group = dist.new_group(range(size), timeout=timedelta(seconds=100))
        if rank < size:
            np.savez(folder / f"{path.stem}-{rank}.result", **one(case, size, group))
finally:
    dist.destroy_process_group()
