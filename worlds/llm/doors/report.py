"""What a real run says: its summary, and where the time of its iterations went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....runtime.llm.engine import LLMEngine, StepLog
from ....simulator.llm import LLMResult, LLMTrace

__all__ = ["figures", "lines", "table"]


def figures(engine: LLMEngine, source: str, result: LLMResult, log: StepLog) -> dict[str, Any]:
    """For machines."""
    options = engine.options
    return {
        "model": engine.spec.name,
        "policy": engine.name,
        "device": options.device,
        "dtype": options.dtype,
        "tp": options.tp,
        "cp": options.cp,
        "num_blocks": engine.memory.blocks,
        "block_size": engine.memory.block_size,
        "workload": source,
        **result.summary(),
        "iterations": len(result.iterations),
        "step_s": log.means(),
    }


def lines(engine: LLMEngine, trace: LLMTrace, source: str, result: LLMResult, log: StepLog) -> str:
    """For people."""
    options, means = engine.options, log.means()
    parts = ", ".join(f"{name} {1e3 * means[name]:.3f}" for name in means if name != "total")
    return "\n".join(
        (
            f"{engine.spec.name}, {engine.name}, {options.device} {options.dtype}, tp {options.tp} cp {options.cp}, "
            f"{engine.memory.blocks} blocks of {engine.memory.block_size}",
            f"{len(trace)} requests: {source}",
            table(result.summary()),
            f"{len(result.iterations)} iterations of {1e3 * means['total']:.3f} ms: {parts}",
        )
    )


def table(summary: Mapping[str, float]) -> str:
    """The summary for a person: counts, rates, and latencies by percentile."""
    lines = [
        f"finished {summary['finished']:.0f} of {summary['requests']:.0f}, {summary['preemptions']:.0f} preemptions, "
        f"{summary['swapped_blocks']:.0f} blocks swapped, prefix hits {summary['prefix_hit_rate']:.1%}, mean batch "
        f"{summary['mean_batch']:.1f}",
        f"{summary['throughput']:.1f} tokens/s, {summary['request_throughput']:.3g} requests/s, normalized latency "
        f"{1e3 * summary['normalized_latency']:.2f} ms/token",
        f"{'ms':5}{'p50':>10}{'p90':>10}",
    ]
    lines += [
        f"{name.upper():5}" + "".join(f"{1e3 * summary[f'{name}_p{p}']:10.2f}" for p in (50, 90))
        for name in ("ttft", "tpot", "itl", "e2e")
    ]
    return "\n".join(lines)
