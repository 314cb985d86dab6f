"""Time the Triton kernels on a GPU: bandwidth, matrix rate, the cost of paging. Times are of CUDA graph replays.

A kernel is timed by the median of its calls, the device by the best of its calls, so the ratios are on the strict side.
Every measurement cycles over several sets of data that together are far larger than the L2. The data are random,
because products of constants run faster (they use less power).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..bandwidth import copy_bandwidth
from ..timing import Timing, time_callable
from .measured import Measured
from .tiles import Tiles, decode_tiles
from .triton.attention import contiguous_decode, paged_decode, prefill_attention
from .triton.gemm import gemm
from .triton.kernels import copy_blocks, reshape_and_cache

__all__ = ["DECODES", "Decode", "Sizes", "measure_gpu", "sweep_gpu"]

BLOCK_SIZE = 16
SETS_BYTES = 600e6
"""Data of all sets together: ten times the L2 of an H100 (50 MB)."""

DECODE_TARGET, PREFILL_TARGET = 0.8, 0.5
"""Least shares of copy bandwidth (decode) and of torch's matrix rate (prefill) that are asked for; docs/llm-kernels.md
lists them. They are our own targets, set before the first measurement, not figures of a paper."""


@dataclass(frozen=True, slots=True)
class Decode:
    """A decode step that is measured. OPT-13B has 40 heads of width 128; Llama-3-8B has 32 heads over 8 KV heads."""

    heads: int
    kv_heads: int
    batch: int
    context: int
    width: int = 128

    @property
    def kv_bytes(self) -> int:
        """Keys and values read, bf16."""
        return 4 * self.batch * self.context * self.kv_heads * self.width

    def __str__(self) -> str:
        return f"{self.batch} x {self.context}, {self.heads}/{self.kv_heads} heads, {self.kv_bytes / 1e6:.0f} MB"


# the first six are those of the paper's Fig. 5.18a (OPT-13B); the others are large enough for bandwidth to count
DECODES = (
    *(Decode(40, 40, batch, context) for batch in (8, 32) for context in (64, 128, 256)),
    Decode(40, 40, 32, 512), Decode(40, 40, 8, 2048), Decode(32, 8, 32, 512), Decode(32, 8, 32, 2048),
    Decode(32, 8, 128, 1024), Decode(32, 8, 1, 32768), Decode(32, 8, 4, 8192),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sizes:
    """What is measured; smaller only to rehearse the measurement itself.

    Parameters
    ----------
    decodes : tuple of Decode
        Decode steps.
    prefills : tuple of (int, int, int)
        Requests, heads and KV heads of prefills.
    tokens : int
        Of each prefilled request, and how many are written into the cache.
    blocks : int
        Of a cache that is written and copied in; an eighth of them are copied.
    product : int
        Rows and columns of the matrix product.
    copied_bytes : int
        Bytes of the copy by which bandwidth is measured.
    """

    decodes: tuple[Decode, ...] = DECODES
    prefills: tuple[tuple[int, int, int], ...] = ((1, 32, 8), (2, 32, 8), (1, 40, 40))
    tokens: int = 8192
    blocks: int = 8192
    product: int = 8192
    copied_bytes: int = 2**30


def measure_gpu(device: str = "cuda", *, budget_s: float = 0.3, sizes: Sizes | None = None) -> list[Measured]:
    """All measurements.

    Parameters
    ----------
    device : str
        CUDA device; under Triton's interpreter ``cpu`` rehearses the measurement.
    budget_s : float
        Seconds for each.
    sizes : Sizes, optional
        Sizes to measure at.
    """
    sizes = sizes or Sizes()
    best_copy = copy_bandwidth(device, n_bytes=sizes.copied_bytes, budget_s=budget_s)
    found: list[Measured] = []
    for case in sizes.decodes:
        found += _decode(case, device, best_copy, budget_s)
    found += _cache(sizes, device, best_copy, budget_s)
    n = sizes.product
    a, b = (torch.randn(n, n, device=device, dtype=torch.bfloat16) for _ in range(2))
    flops = 2 * n**3
    torch_time = time_callable(lambda: torch.matmul(a, b), device, budget_s=budget_s)
    best = flops / torch_time.min_s
    found.append(_flops("matrix product, torch", f"{n} x {n} x {n}", torch_time, flops, best))
    timing = time_callable(lambda: gemm(a, b), device, budget_s=budget_s)
    found.append(_flops("matrix product", f"{n} x {n} x {n}", timing, flops, best))
    found += [_prefill(*case, sizes.tokens, device, best, budget_s, None) for case in sizes.prefills]
    return found


def sweep_gpu(device: str = "cuda", *, budget_s: float = 0.1) -> list[Measured]:
    """Other tiles than those chosen, on one decode and one prefill; those that do not fit are left out."""
    from triton.runtime.errors import OutOfResources

    best_copy = copy_bandwidth(device, n_bytes=2**30, budget_s=budget_s)
    case, found = Decode(32, 8, 32, 2048), []
    sets = [_paged(case, device) for _ in range(_sets(case))]
    for n in (32, 64, 128):
        for warps in (2, 4, 8):
            for stages in (2, 3, 4, 5):
                for splits in (1, 2, 4, 8):
                    tiles = Tiles(m=decode_tiles(4, 128, 2).m, n=n, warps=warps, stages=stages)
                    try:
                        timing = _replayed([_call(paged_decode, s, tiles, splits) for s in sets], device, budget_s)
                    except OutOfResources:
                        continue
                    shape = f"{n} keys, {warps} warps, {stages} stages, {splits} splits"
                    found.append(_bytes("decode", shape, timing, case.kv_bytes, best_copy))
    a, b = (torch.randn(8192, 8192, device=device, dtype=torch.bfloat16) for _ in range(2))
    best = 2 * 8192**3 / time_callable(lambda: torch.matmul(a, b), device, budget_s=budget_s).min_s
    for m in (64, 128):
        for n in (32, 64, 128):
            for warps in (4, 8):
                for stages in (2, 3, 4):
                    try:
                        found.append(_prefill(1, 32, 8, 8192, device, best, budget_s, Tiles(m, n, 16, warps, stages)))
                    except OutOfResources:
                        continue
    return found


def _decode(case: Decode, device: str, best: float, budget_s: float) -> list[Measured]:
    """Paged decode, and what it takes longer than from a contiguous cache."""
    sets = [_paged(case, device) for _ in range(_sets(case))]
    timing = _replayed([_call(paged_decode, s) for s in sets], device, budget_s)
    del sets
    target = DECODE_TARGET if case.kv_bytes >= 64e6 else None  # with less, launch and ragged ends decide, not bandwidth
    measured = _bytes("paged decode", str(case), timing, case.kv_bytes, best, target)
    rows = [_contiguous(case, device) for _ in range(_sets(case))]
    baseline = _replayed([_call(contiguous_decode, s) for s in rows], device, budget_s)
    overhead = timing.median_s / baseline.median_s - 1
    against = "over contiguous (paper: 20-26%)"
    return [measured, Measured("paging", str(case), baseline.median_s, baseline.n, math.nan, "", overhead, against)]


def _sets(case: Decode) -> int:
    return max(2, min(64, round(SETS_BYTES / case.kv_bytes)))


def _paged(case: Decode, device: str) -> tuple[object, ...]:
    """A cache of its own, its blocks in random order."""
    table_width = -(-case.context // BLOCK_SIZE)
    blocks = case.batch * table_width
    cache = torch.randn(2, blocks, BLOCK_SIZE, case.kv_heads, case.width, device=device, dtype=torch.bfloat16)
    tables = torch.randperm(blocks, device=device).view(case.batch, table_width).int()
    return _queries(case, device), cache[0], cache[1], tables, _lens(case, device), case.width**-0.5


def _contiguous(case: Decode, device: str) -> tuple[object, ...]:
    shape = (2, case.batch, case.context, case.kv_heads, case.width)
    rows = torch.randn(shape, device=device, dtype=torch.bfloat16)
    return _queries(case, device), rows[0], rows[1], _lens(case, device), case.width**-0.5


def _queries(case: Decode, device: str) -> Tensor:
    return torch.randn(case.batch, case.heads, case.width, device=device, dtype=torch.bfloat16)


def _lens(case: Decode, device: str) -> Tensor:
    return torch.full((case.batch,), case.context, device=device, dtype=torch.int32)


def _cache(sizes: Sizes, device: str, best: float, budget_s: float) -> list[Measured]:
    """Writes of tokens and copies of blocks, 8 heads of 128: bytes read and written."""
    cache = torch.randn(2, sizes.blocks, BLOCK_SIZE, 8, 128, device=device, dtype=torch.bfloat16)
    k, v = torch.randn(2, sizes.tokens, 8, 128, device=device, dtype=torch.bfloat16)
    slots = torch.randperm(sizes.blocks * BLOCK_SIZE, device=device)[: sizes.tokens]
    write = _replayed([lambda: reshape_and_cache(k, v, cache[0], cache[1], slots)], device, budget_s)
    copied = sizes.blocks // 8
    pairs = torch.randperm(sizes.blocks, device=device)[: 2 * copied].view(copied, 2)
    copy = _replayed([lambda: copy_blocks(cache[0], cache[1], pairs)], device, budget_s)
    token_bytes = 8 * 128 * 2
    return [
        _bytes("write", f"{sizes.tokens} tokens", write, 4 * sizes.tokens * token_bytes, best),
        _bytes("copy of blocks", f"{copied} blocks", copy, 4 * copied * BLOCK_SIZE * token_bytes, best),
    ]


def _prefill(
    requests: int,
    heads: int,
    kv_heads: int,
    tokens: int,
    device: str,
    best: float,
    budget_s: float,
    tiles: Tiles | None,
) -> Measured:
    width = 128
    case = Decode(heads, kv_heads, requests, tokens)
    _, k, v, tables, lens, scale = _paged(case, device)
    q = torch.randn(requests * tokens, heads, width, device=device, dtype=torch.bfloat16)
    starts = torch.arange(requests + 1, device=device, dtype=torch.int32) * tokens
    timing = _replayed([_call(prefill_attention, (q, k, v, tables, starts, lens, scale), tiles)], device, budget_s)
    shape = f"{requests} x {tokens}, {heads}/{kv_heads} heads"
    if tiles is not None:
        shape = f"{tiles.m} queries, {tiles.n} keys, {tiles.warps} warps, {tiles.stages} stages"
    flops = 2 * requests * tokens * tokens * heads * width  # half of 4 T^2: causal
    return _flops("prefill, causal", shape, timing, flops, best, PREFILL_TARGET)


def _call(function: Callable[..., Tensor], arguments: Sequence[object], *more: object) -> Callable[[], Tensor]:
    return lambda: function(*arguments, *more)


def _replayed(calls: Sequence[Callable[[], object]], device: str, budget_s: float) -> Timing:
    """Time of one call, from replays of a graph of all of them in turn: without the gaps between launches."""
    n = len(calls)
    if not device.startswith("cuda"):
        return time_callable(calls[0], device, warmup=0, repeats=1)
    with torch.cuda.device(device):
        for call in calls:  # compiles
            call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for call in calls:
                call()
    whole = time_callable(graph.replay, device, warmup=2, repeats=50, budget_s=budget_s)
    return Timing(whole.median_s / n, whole.min_s / n, whole.p90_s / n, whole.n * n, whole.clock)


def _bytes(name: str, shape: str, timing: Timing, n_bytes: float, best: float, target: float | None = None) -> Measured:
    rate = n_bytes / timing.median_s
    return Measured(
        name, shape, timing.median_s, timing.n, rate / 1e9, "GB/s", rate / best, "of copy bandwidth", target
    )


def _flops(name: str, shape: str, timing: Timing, flops: float, best: float, target: float | None = None) -> Measured:
    rate = flops / timing.median_s
    return Measured(
        name, shape, timing.median_s, timing.n, rate / 1e12, "TFLOP/s", rate / best, "of torch's matrix rate", target
    )
