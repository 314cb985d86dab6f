"""The simulator against measured rows: TTFT and TPOT of a closed-loop benchmark, predicted from kernel tables.

Nothing is fitted to a row, a model or a setting. What is not in a row is what the engine and public benchmark tools do
by default; `Benchmark` holds it, and every report prints it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .....errors import InfeasibleError, InputError
from .....profiles.llm import (
    KernelTables,
    Operators,
    Overheads,
    TableCost,
    decoder,
    iteration_cost,
    kv_capacity,
)
from .....profiles.llm.capacity import CapacityOptions, KVCapacity
from .....profiles.llm.cost.host import host_times
from .....profiles.llm.cost.iteration import CostOptions
from .....profiles.llm.decoder import DecoderSpec
from .....profiles.llm.tables.operators import datasheet
from .....seeds import generator
from ...defaults import RUNTIME_BYTES, asynchronous, budgets, other_bytes, prefix_caching
from ...measure.precisions import WEIGHTS
from .report import Benchmark, Predicted, SiliconComparison
from .rows import SiliconRow, Skipped, sift_silicon

__all__ = ["compare_silicon"]


def compare_silicon(
    rows: str | Path | list[SiliconRow],
    kernels: str | Path,
    *,
    benchmark: Benchmark | None = None,
    overheads: Overheads | None = None,
    progress: Callable[[str], None] | None = None,
) -> SiliconComparison:
    """Predict TTFT and TPOT of measured rows by simulation.

    Parameters
    ----------
    rows : path or list of SiliconRow
        The measurements.
    kernels : path
        Folder with a folder of kernel tables for each system.
    benchmark : Benchmark, optional
        Assumptions about the tool that measured.
    overheads : Overheads, optional
        Host times of a step.
    progress : callable, optional
        Called before each row.

    Raises
    ------
    InputError
        On a malformed file, or if no row can be predicted. Single rows that cannot (an unknown model, a system without
        tables, a setting that cannot run) are listed in `SiliconComparison.skipped`; medians are those of the others.
    """
    begun = time.perf_counter()
    found, skipped = (rows, list[Skipped]()) if isinstance(rows, list) else sift_silicon(rows)
    source = "rows" if isinstance(rows, list) else str(rows)
    kernels, benchmark = Path(kernels), benchmark or Benchmark()
    if not kernels.is_dir():
        raise InputError(f"{kernels}: expected a folder with the kernel tables of each system; there is none")
    done: list[Predicted] = []
    tables: dict[str, KernelTables] = {}
    costs: dict[tuple[Any, ...], TableCost] = {}
    for number, row in enumerate(found, start=1):
        if progress is not None:
            progress(f"row {number} of {len(found)}")
        where = f"{source}: line {row.line}"
        try:
            if row.system not in tables:
                tables[row.system] = _tables(kernels, row)
            model = decoder(row.model)
            version = row.version or tables[row.system].source
            host = overheads or host_times(version, asynchronous(version, row.pp)).overheads()
            key = row.model, row.system, row.precision, row.kv, row.tp, row.pp, row.dp, row.ep, host
            if key not in costs:
                together = row.dp if model.moe_layers else 1
                costs[key] = iteration_cost(
                    model, tables[row.system], tp=row.tp, pp=row.pp, precision=row.precision, kv=row.kv,
                    overheads=host, options=CostOptions(dp=together, ep=row.ep or 1),
                )  # fmt: skip
            done.append(_predict(row, model, tables[row.system], kernels, costs[key], benchmark))
        except (InputError, InfeasibleError) as error:
            skipped.append(Skipped(row.line, row.model, f"{where}: {error}"))
    if not done:
        raise InputError(min(skipped, key=lambda row: row.line).reason)
    return SiliconComparison(
        tuple(done), benchmark, overheads or host_times().overheads(), _notes(found, tables, done, costs),
        time.perf_counter() - begun, tuple(sorted(skipped, key=lambda row: row.line)),
        tuple(replace(t, table=f"{name}: {t.table}") for name, found in tables.items() for t in found.set_aside),
    )  # fmt: skip


def _tables(kernels: Path, row: SiliconRow) -> KernelTables:
    """The tables of a row's system; its datasheet alone where nothing was measured."""
    folder = kernels / row.system
    if folder.is_dir():
        return KernelTables.load(folder)
    if (kernels / f"{row.system}.yaml").is_file():
        peaks = datasheet(folder)
        return KernelTables(row.system, peaks, Operators(), source=f"roofline of {row.system}.yaml, nothing measured")
    there = ", ".join(sorted(p.name for p in kernels.iterdir() if p.is_dir())) or "none"
    raise InputError(f"system {row.system!r}: no folder {folder}; folders of kernel tables there: {there}")


def _capacity(
    row: SiliconRow, model: DecoderSpec, tables: KernelTables, kernels: Path, benchmark: Benchmark
) -> KVCapacity:
    """KV memory of a rank. NCCL's buffers are the datasheet's; its other_mem is not used: it holds a safety margin."""
    from .....profiles.llm.tables.checks import read_yaml

    places = kernels / f"{row.system}.yaml", kernels / row.system / f"{row.system}.yaml"
    path = next((place for place in places if place.is_file()), None)
    if path is None or not tables.peaks.memory_bytes:
        raise InputError(f"system {row.system!r}: no {places[0]} that says gpu.mem_capacity, the device's memory")
    said: Any = read_yaml(path).get("misc") or {}
    nccl: Any = said.get("nccl_mem") or {}
    try:
        buffers = int(nccl.get(row.tp) or 0)
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path}: misc: expected bytes: {error}") from None
    batched, seqs = budgets(tables.peaks.memory_bytes, row.system)
    other = other_bytes(model, row.tp, batched, seqs, bf16_ends=row.precision != "bf16", nccl=buffers)
    return kv_capacity(
        model, tables.peaks.memory_bytes, tp=row.tp, pp=row.pp, utilization=benchmark.utilization,
        weights=WEIGHTS[row.precision], kv="fp8" if row.kv == "fp8" else "bfloat16",
        options=CapacityOptions(dp=row.dp if model.moe_layers else 1, ep=row.ep or 1, other_bytes=other),
    )  # fmt: skip


def _predict(
    row: SiliconRow, model: DecoderSpec, tables: KernelTables, kernels: Path, cost: TableCost, benchmark: Benchmark
) -> Predicted:
    from .....simulator.llm import LLMTrace, SimulateOptions, simulate_llm

    capacity = _capacity(row, model, tables, kernels, benchmark)
    batched, seqs = budgets(tables.peaks.memory_bytes, row.system)
    together = row.dp if model.moe_layers else 1  # ranks that meet at the experts step together: one engine
    ahead = asynchronous(row.version or tables.source, row.pp)
    c, rounds = row.concurrency, min(benchmark.simulated_rounds, benchmark.rounds)
    n = rounds * c
    # Half the mean at least: a normal tail would reach lengths below one.
    normal = generator(0, "silicon", "outputs").standard_normal(n)
    outputs = np.maximum(1, np.round(row.osl * np.maximum(1 + benchmark.spread * normal, 0.5))).astype(int)
    result = simulate_llm(
        LLMTrace(np.zeros(n), np.full(n, row.isl), outputs),
        config={
            "num_blocks": max(1, capacity.engine_blocks // row.pp),
            "max_model_len": row.isl + int(outputs.max()) + 1,
            "max_num_batched_tokens": batched * together,
            "max_num_seqs": max(1, seqs * together // row.pp),
            "long_prefill_token_threshold": batched if together > 1 else 0,
            "limit_alone": together > 1,  # no rank has more than its own budget
            "enable_prefix_caching": prefix_caching(row.version or tables.source),
            "async_scheduling": ahead,
        },
        cost=cost,
        options=SimulateOptions(concurrency=c),
        engine="fast",  # rows are many
        engines=row.pp * (row.dp // together),  # batches in flight: latency through all stages, a share of the memory
        router="least_outstanding",
    )
    ttft = result.first_token - result.arrival + benchmark.front_s + benchmark.stream_s * min(c, seqs)
    further = outputs - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        tpot = np.where(further > 0, (result.finish - result.first_token) / further, np.nan)
    weight = _weights(c, rounds, benchmark.rounds)
    timed = further > 0
    mean_tpot = float((tpot[timed] * weight[timed]).sum() / weight[timed].sum()) if timed.any() else float("nan")
    return Predicted(
        row,
        1e3 * float((ttft * weight).sum()),
        1e3 * mean_tpot,
        1e3 * float(ttft[:c].mean()),
        1e3 * float(ttft[c:].mean()) if n > c else 1e3 * float(ttft.mean()),
        capacity.num_blocks,
        batched,
        seqs,
        ahead,
        int(result.preemptions.sum()),
    )


def _weights(clients: int, simulated: int, counted: int) -> Any:
    """Weights of requests in order: the first and last rounds (everybody at once; fewer and fewer) count as they are,
    those between stand for all the others."""
    share = np.full(simulated, 1.0)
    if simulated > 2:
        share[1:-1] = (counted - 2) / (simulated - 2)
    return np.repeat(share / share.sum() / clients, clients)


def _notes(
    rows: list[SiliconRow],
    tables: dict[str, KernelTables],
    done: list[Predicted],
    costs: dict[tuple[Any, ...], TableCost],
) -> tuple[str, ...]:
    notes = [f"kernels: {found.source}" for found in tables.values()]
    engines = sorted({(p.max_num_batched_tokens, p.max_num_seqs, p.asynchronous) for p in done})
    notes += [
        f"engine (vLLM's defaults): max_num_batched_tokens {batched}, max_num_seqs {seqs}, block 16, KV cache bf16, "
        f"{'asynchronous' if ahead else 'synchronous'} scheduling, no prefix shared"
        for batched, seqs, ahead in engines
    ]
    notes.append(
        f"memory beside weights and KV: {RUNTIME_BYTES >> 20} MiB of runtime, the system's nccl_mem, the peak of "
        "activations at max_num_batched_tokens, and embedding and head in bf16 where weights are fp8"
    )
    others = sorted({row.backend for row in rows if row.backend != "vllm"})
    if others:
        notes.append(f"note: rows of {', '.join(others)} are simulated with vLLM's scheduler")
    notes += dict.fromkeys(line for cost in costs.values() for line in cost.kernels.fallbacks())
    versions = sorted({(p.row.version or tables[p.row.system].source, p.asynchronous) for p in done})
    notes += dict.fromkeys(host_times(*each).explain() for each in versions)
    if any(row.dp > 1 for row in rows):
        notes.append("note: dp ranks of a model of experts step together (the fullest is waited for), others do not")
    if any(row.pp > 1 for row in rows):
        notes.append("note: pp_size batches are in flight, each with its share of the requests and of KV memory")
    if any(p.preemptions for p in done):
        notes.append(
            f"note: KV memory runs out in {sum(p.preemptions > 0 for p in done)} rows: their TTFT is a queue's"
        )
    return tuple(notes)
