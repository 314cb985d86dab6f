"""Measure the LLM kernels on the present device: ``python -m meshwright.kernels.llm.bench [--json] [--sweep]``.

On a GPU: the Triton kernels against measured copy bandwidth and matrix rate, with their targets, and paged against
contiguous decode beside the paper's 20 to 26 % (vLLM thesis, Fig. 5.18a). Elsewhere: the torch reference on the
processor, held to nothing. Exit code 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

import torch
from torch.nn.functional import scaled_dot_product_attention

from ..bandwidth import copy_bandwidth, matmul_peak
from ..timing import clock_note, time_callable
from .measured import Measured, table
from .reference import kernels as reference

__all__ = ["Provenance", "measure_cpu", "provenance"]


@dataclass(frozen=True, slots=True)
class Provenance:
    """The device, versions and date of a measurement.

    Parameters
    ----------
    device, kernels, clock : str
        The device's name, whose kernels, and what timed them.
    torch, triton, python, meshwright : str
        Versions; ``none`` where it is not installed.
    date : str
        UTC, ISO 8601.
    threads : int
        Threads that torch uses on the processor.
    """

    device: str
    kernels: str
    clock: str
    torch: str
    triton: str
    python: str
    meshwright: str
    date: str
    threads: int


def provenance(device: str) -> Provenance:
    """The provenance of a measurement that is taken on `device` now."""
    gpu = device.startswith("cuda")
    name = torch.cuda.get_device_name(device) if gpu else platform.processor() or platform.machine()
    return Provenance(
        device=name,
        kernels="triton" if gpu else "torch",
        clock=clock_note(device),
        torch=torch.__version__,
        triton=_version("triton"),
        python=platform.python_version(),
        meshwright=_version("meshwright"),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        threads=torch.get_num_threads(),
    )


def measure_cpu(
    *, batch: int = 32, context: int = 512, heads: int = 8, kv_heads: int = 2, width: int = 64, budget_s: float = 0.5
) -> list[Measured]:
    """The torch reference on the processor, in fp32.

    Parameters
    ----------
    batch, context : int
        Sequences, and tokens of each; the prompt is one context long.
    heads, kv_heads, width : int
        Query heads, KV heads and size of a head.
    budget_s : float
        Seconds for each measurement.
    """
    generator = torch.Generator().manual_seed(0)
    table_width = -(-context // 16)
    blocks = batch * table_width
    k_cache, v_cache = torch.randn(2, blocks, 16, kv_heads, width, generator=generator)
    tables = torch.randperm(blocks, generator=generator).view(batch, table_width).int()
    lens = torch.full((batch,), context, dtype=torch.int32)
    q = torch.randn(batch, heads, width, generator=generator)
    scale = width**-0.5
    best_copy = copy_bandwidth(budget_s=budget_s)
    best = matmul_peak(budget_s=budget_s)

    paged = time_callable(
        lambda: reference.paged_decode(q, k_cache, v_cache, tables, lens, scale), budget_s=budget_s, repeats=200
    )
    moved = 2 * 4 * batch * context * kv_heads * width / paged.median_s
    k, v = torch.randn(2, batch, context, kv_heads, width, generator=generator).transpose(2, 3)
    grouped = q.view(batch, kv_heads, -1, width)
    contiguous = time_callable(
        lambda: scaled_dot_product_attention(grouped, k, v, scale=scale), budget_s=budget_s, repeats=200
    )
    prompt = torch.randn(context, heads, width, generator=generator)
    starts = torch.tensor([0, context], dtype=torch.int32)
    prefill = time_callable(
        lambda: reference.prefill_attention(prompt, k_cache, v_cache, tables[:1], starts, lens[:1], scale),
        budget_s=budget_s,
        repeats=200,
    )
    flops = 2 * context * context * heads * width / prefill.median_s
    shape, one = f"{batch} x {context}, {heads}/{kv_heads} heads of {width}", f"1 x {context}, {heads}/{kv_heads} heads"
    overhead = paged.median_s / contiguous.median_s - 1
    return [
        Measured("paged decode", shape, paged.median_s, paged.n, moved / 1e9, "GB/s", moved / best_copy,
                 "of copy bandwidth"),
        Measured("paging", shape, contiguous.median_s, contiguous.n, math.nan, "", overhead,
                 "over contiguous, torch's own"),
        Measured("prefill, causal", one, prefill.median_s, prefill.n, flops / 1e9, "GFLOP/s", flops / best,
                 "of torch's matrix rate"),
    ]  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m meshwright.kernels.llm.bench", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--sweep", action="store_true", help="try other tiles (GPU only)")
    options = parser.parse_args(arguments)
    gpu = torch.cuda.is_available()
    if gpu and _version("triton") == "none":
        parser.error("Triton is not installed; pip install triton")
    if options.sweep and not gpu:
        parser.error("--sweep needs a CUDA device")
    if gpu:
        from .bench_gpu import measure_gpu, sweep_gpu

        found = sweep_gpu() if options.sweep else measure_gpu()
    else:
        found = measure_cpu()
    made = provenance("cuda" if gpu else "cpu")
    if options.json:
        rows = [{**asdict(row), "rate": None if math.isnan(row.rate) else row.rate} for row in found]
        print(json.dumps({"provenance": asdict(made), "measured": rows}, indent=1))
    else:
        print(f"{made.kernels} kernels on {made.device}, torch {made.torch}, triton {made.triton}, {made.clock}")
        print(table(found))
        if not gpu:
            print("No CUDA device here: this is the torch reference. The targets are for GPUs and judge nothing here.")
    return 1 if any(row.verdict == "missed" for row in found) and not options.sweep else 0


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


if __name__ == "__main__":
    sys.exit(main())
