"""What `meshwright run --llm` prints: the summary of a run, and where the time of its iterations went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import typer

from .trace_io import print_json

if TYPE_CHECKING:
    from ..runtime.llm.engine import LLMEngine, StepLog
    from ..simulator.llm import LLMResult, LLMTrace
    from .run_llm import LLMRun

__all__ = ["report", "table"]


def report(asked: LLMRun, engine: LLMEngine, trace: LLMTrace, source: str, result: LLMResult, log: StepLog) -> None:
    """Write the files that were asked for, and print figures: a table, or JSON."""
    from ..files import write_text

    if asked.out is not None:
        write_text(asked.out, result.to_frame().to_csv(index=False))
    if asked.timeline is not None:
        result.timeline().to_chrome(asked.timeline)
    options, summary, means = engine.options, result.summary(), log.means()
    iterations = len(result.iterations)
    if asked.as_json:
        print_json(
            {
                "model": engine.spec.name,
                "policy": engine.name,
                "device": options.device,
                "dtype": options.dtype,
                "tp": options.tp,
                "cp": options.cp,
                "num_blocks": engine.memory.blocks,
                "block_size": engine.memory.block_size,
                "workload": source,
                **summary,
                "iterations": iterations,
                "step_s": means,
            }
        )
        return
    typer.echo(
        f"{engine.spec.name}, {engine.name}, {options.device} {options.dtype}, tp {options.tp} cp {options.cp}, "
        f"{engine.memory.blocks} blocks of {engine.memory.block_size}"
    )
    typer.echo(f"{len(trace)} requests: {source}")
    typer.echo(table(summary))
    parts = ", ".join(f"{name} {1e3 * means[name]:.3f}" for name in means if name != "total")
    typer.echo(f"{iterations} iterations of {1e3 * means['total']:.3f} ms: {parts}")
    for written in (asked.out, asked.timeline):
        if written is not None:
            typer.echo(f"written: {written}")


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
