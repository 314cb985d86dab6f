"""Attention's kernels on short shards, and block tables on the host, measured: what the decode steps' guesses rest on.

``python -m meshwright.reproduce.cache_parallel.shards`` measures both on the present device: the Triton kernels on a
GPU, the torch reference elsewhere. `RAMP_TOKENS` and `ENTRY_S` are what it found here; a GPU's are not known.

A kernel pays for each sequence and head before it works at full rate: its start, its first blocks, its last sum.
Counted in tokens that is its ramp R: a shard of L tokens is read at L / (L + R) of the full rate. Under tensor
parallelism a GPU reads a quarter of the heads of L tokens, under cache parallelism all heads of L / 4: as many bytes
in four times as many pieces, which take (L + 4 R) / (L + R) times as long.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["ENTRY_S", "RAMP_TOKENS", "TABLES", "Ratio", "attention_ratio", "entry_seconds", "ramp_for", "ramp_tokens"]

SHARDS = 4
LENGTHS = (64, 128, 256, 512, 1_024, 2_048, 4_096)
HEAD, BLOCK = 128, 16

# Three runs on 28 November 2026: two cores of an AMD EPYC that others used, torch 2.13, one thread, processor seconds.
RAMP_TOKENS = 50.0
"""The largest ramp that any one length showed: CP/TP 1.42 to 1.53 at 256 tokens. At 128 1.33, at 64 1.01 to 1.06; from
512 on CP's share took less time than TP's, or as long; all lengths together are fitted by 4 to 5 tokens."""
ENTRY_S = 75e-9
"""Making a tensor of lists: 72 to 76 ns an entry."""
TABLES = (37e-9, 94e-9)
"""From a processor twice as fast that has its lists already, to this one that makes them, too (18 to 20 ns). A copy
between arrays, as later versions of vLLM do, takes 0.1 ns."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """Time of attention's kernel on a shard of all heads over that on all of a sequence and a quarter of its heads."""

    tokens: int
    tp_s: float
    cp_s: float

    @property
    def ratio(self) -> float:
        """CP's time over TP's."""
        return self.cp_s / self.tp_s


def ramp_for(tokens: int, ratio: float) -> float:
    """The ramp by which CP's share of so many tokens takes `ratio` times as long as TP's, at least 1 and below 4."""
    return tokens * (ratio - 1) / (SHARDS - ratio)


def ramp_tokens(ratios: Sequence[Ratio]) -> float:
    """Ramp that explains the ratios best: the one whose (L + 4 R) / (L + R) is nearest, by least squares of logs."""
    from scipy.optimize import minimize_scalar

    tokens = np.array([r.tokens for r in ratios], dtype=float)
    measured = np.log([r.ratio for r in ratios])

    def error(log_ramp: float) -> float:
        ramp = np.exp(log_ramp)
        return float(((np.log((tokens + SHARDS * ramp) / (tokens + ramp)) - measured) ** 2).sum())

    return float(np.exp(minimize_scalar(error, bounds=(np.log(0.1), np.log(1e5)), method="bounded").x))  # pyright: ignore[reportAttributeAccessIssue]


def attention_ratio(
    tokens: int, device: str = "cpu", *, batch: int = 4, heads: int = 8, budget_s: float = 3.0
) -> Ratio:
    """Time both shares of one decode step's attention.

    Parameters
    ----------
    tokens : int
        Context of every sequence, a multiple of 4.
    device : str
        Torch device; ``"cpu"`` runs the torch reference, ``"cuda"`` the Triton kernels.
    batch, heads : int
        Sequences, and heads of the whole layer, a multiple of 4.
    budget_s : float
        Seconds for each of both.
    """
    import torch

    from ...kernels.llm.choose import kernels_for
    from ...kernels.timing import time_callable

    kernels = kernels_for(device)
    kind = torch.float16 if device.startswith("cuda") else torch.float32
    made = torch.Generator(device).manual_seed(0)

    def seconds(own_heads: int, length: int) -> float:
        width = -(-length // BLOCK)
        cache: list[Tensor] = [
            torch.randn(batch * width, BLOCK, own_heads, HEAD, generator=made, device=device, dtype=kind)
            for _ in range(2)
        ]
        tables = torch.randperm(batch * width, generator=made, device=device).view(batch, width).int()
        lens = torch.full((batch,), length, dtype=torch.int32, device=device)
        q = torch.randn(batch, own_heads, HEAD, generator=made, device=device, dtype=kind)
        keys, values = cache

        def call() -> object:
            return kernels.paged_decode_partial(q, keys, values, tables, lens, HEAD**-0.5, 1)

        if device.startswith("cuda"):
            return time_callable(call, device, budget_s=budget_s, repeats=200).median_s
        return _own_seconds(call, budget_s)

    return Ratio(tokens, seconds(heads // SHARDS, tokens), seconds(heads, tokens // SHARDS))


def _own_seconds(call: Callable[[], object], budget_s: float) -> float:
    """Least processor seconds of this thread: what others do on the machine is left out."""
    found: list[float] = []
    end = time.perf_counter() + budget_s
    while len(found) < 3 or time.perf_counter() < end:
        start = time.thread_time()
        call()
        found.append(time.thread_time() - start)
    return min(found)


@dataclass(slots=True)
class _Block:
    """A block as vLLM's block manager holds it: an object with a number."""

    block_number: int


def entry_seconds(batch: int = 128, entries: int = 2_500, budget_s: float = 3.0) -> dict[str, float]:
    """Seconds per entry of a block table on this processor, the least of several times.

    As vLLM of 2023 and 2024 does it (thesis §4.5.1 builds on it): for each sequence a list of its blocks' numbers,
    padded to the longest, and one tensor of the lists of all.

    Returns
    -------
    dict
        ``"lists"``: numbers of blocks read from objects; ``"tensor"``: padded, and made a tensor; ``"array"``: what a
        copy between arrays takes, as later versions do.
    """
    import torch

    blocks = [[_Block(i * entries + j) for j in range(entries)] for i in range(batch)]
    lists = [[b.block_number for b in row] for row in blocks]
    array = np.array(lists, dtype=np.int32)

    def timed(call: Callable[[], object]) -> float:
        return _own_seconds(call, budget_s) / (batch * entries)

    return {
        "lists": timed(lambda: [[b.block_number for b in row] for row in blocks]),
        "tensor": timed(lambda: torch.tensor([row + [0] * (entries - len(row)) for row in lists], dtype=torch.int)),
        "array": timed(lambda: torch.from_numpy(array).clone()),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m meshwright.reproduce.cache_parallel.shards", description=__doc__)
    parser.add_argument("--device", default="cpu", help="cpu, or cuda for the Triton kernels")
    device = parser.parse_args().device
    if not device.startswith("cuda"):
        import torch

        torch.set_num_threads(1)
    found = [attention_ratio(n, device) for n in LENGTHS]
    for one in found:
        print(f"{one.tokens:6} tokens: TP's share {1e3 * one.tp_s:8.3f} ms, CP's {1e3 * one.cp_s:8.3f} ms, "
              f"CP/TP {one.ratio:.3f}")  # fmt: skip
    print(f"ramp: {ramp_tokens(found):.0f} tokens")
    entry = entry_seconds()
    print("block tables, ns an entry: " + ", ".join(f"{name} {1e9 * s:.2f}" for name, s in entry.items()))


if __name__ == "__main__":
    main()
