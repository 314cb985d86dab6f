"""The world of LLM serving in studies: engines on a cluster, scored token by token."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from ...errors import InfeasibleError
from ...simulator.llm.policy.router import ROUTERS
from ...simulator.metrics import tail
from ..outcome import Outcome
from ..world import Panel
from .case import LLMCase
from .data import LLMData, load_data
from .solve import LLMSolved, limits, solve

__all__ = ["METRICS", "WORLD", "LLMWorld"]

_LATENCIES = {
    "ttft": "time to first token, seconds",
    "tpot": "time per further token, seconds",
    "e2e": "time from arrival to the last token, seconds",
}
METRICS = {
    "attainment": "share of the requests that finished within both limits",
    "goodput": "these requests per second of the time over which requests arrived",
    "throughput": "generated tokens per second",
    "request_throughput": "finished requests per second",
    "normalized_latency": "mean over requests of latency / output tokens, seconds per token",
    "mean_batch": "requests that run at once, averaged over time",
    "kv_use": "share of the KV slots in use, averaged over iterations",
    "preemptions": "how often a request lost its memory",
    "prefix_hit_rate": "share of the prompt tokens that the prefix cache held",
    "n_requests": "requests that are counted",
    "n_devices": "devices that the plan uses",
    **{f"{name}_p{p}": f"{p}th percentile of the {said}" for name, said in _LATENCIES.items() for p in (50, 90, 99)},
    "cost_per_hour": "price of the devices in use per hour",
    "evaluations": "simulations that the planner made",
}
"""What a study knows of a case."""


class LLMWorld:
    """One language model served token by token."""

    name = "llm"
    case = LLMCase
    metrics = METRICS

    def share(self, cases: Sequence[LLMCase], folder: Path) -> LLMData:
        """Load decoders, kernel tables, lengths and traces that the cases name."""
        return load_data(cases, folder)

    def digests(self, case: LLMCase, shared: LLMData) -> Mapping[str, str]:
        """SHA-256 of the files that a case reads."""
        return shared.digests_of(case)

    def evaluate(self, case: LLMCase, shared: LLMData) -> Outcome:
        """Plan and score."""
        try:
            solved = solve(case, shared)
        except InfeasibleError as error:
            return Outcome("infeasible", error=" ".join(str(error).split()))
        metrics, notes = measures(solved)
        return Outcome(metrics=metrics, notes=notes, decision=decision(solved))

    def panels(self, case: LLMCase, shared: LLMData) -> Sequence[Panel]:
        """The plan in words."""
        solved = solve(case, shared)
        body = f"<pre>{escape(solved.plan.explain())}</pre>"
        return (Panel("Engines", "What serves the base case, and the KV memory that it has.", "html", body),)


def measures(solved: LLMSolved) -> tuple[dict[str, float], tuple[str, ...]]:
    """Metrics of a solved case by name, finite ones only, and notes.

    attainment is the share of the requests within both limits, goodput these per second, throughput tokens per second;
    ttft, tpot, e2e percentiles in seconds (p99 only from 10,000 requests on); normalized_latency in seconds per token
    (vLLM §5.6); mean_batch in requests; kv_use the share of the KV slots in use, averaged over iterations.
    """
    result, case = solved.result, solved.case
    ttft, tpot = limits(case)
    cluster = solved.plan.cluster_spec
    lasts = result.iterations.end - result.iterations.start
    held = float((result.iterations.used_tokens * lasts).sum() / lasts.sum()) if len(lasts) else math.nan
    values = {
        "attainment": result.attainment(ttft=ttft, tpot=tpot),
        "goodput": result.goodput(ttft=ttft, tpot=tpot),
        "throughput": result.throughput,
        "request_throughput": result.request_throughput,
        "normalized_latency": result.normalized_latency,
        "mean_batch": result.mean_batch,
        "kv_use": held / result.iterations.capacity_tokens if result.iterations.capacity_tokens else math.nan,
        "preemptions": float(result.preemptions.sum()),
        "prefix_hit_rate": result.prefix_hit_rate,
        "n_requests": float(len(result) if result.counted is None else result.counted.sum()),
        "n_devices": float(len(solved.plan.used_devices)),
    }
    notes: list[str] = []
    if math.isinf(ttft) and math.isinf(tpot):
        del values["attainment"]
        notes.append("no attainment: neither slo_ttft nor slo_tpot is given; goodput counts all that finished")
    for name in ("ttft", "tpot", "e2e"):
        for p in (50, 90):
            values[f"{name}_p{p}"] = getattr(result, name)(p)
        last = tail(result.values(name), 99.0)
        values[f"{name}_p99"] = last.value
        if last.why:
            notes.append(f"{name}_p99 refused: {last.why}")
    price = cluster.spec.price_per_hour if case.cluster.price_per_hour is None else case.cluster.price_per_hour
    if price > 0:
        values["cost_per_hour"] = price * values["n_devices"]
    if case.planner.name == "vllm":
        values["evaluations"] = float(solved.evaluations)
    return {name: value for name, value in values.items() if math.isfinite(value)}, tuple(notes)


def decision(solved: LLMSolved) -> str:
    """The engines, in words."""
    said = "; ".join(str(d) for d in solved.plan.deployments)
    return said if solved.plan.router == next(iter(ROUTERS)) else f"{said}; {solved.plan.router}"


WORLD = LLMWorld()
