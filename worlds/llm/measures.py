"""The metrics of a solved LLM case, and its decision in words."""

from __future__ import annotations

import math

from ...simulator.llm.policy.router import ROUTERS
from ...simulator.metrics import goodput, tail
from .solve import LLMSolved

__all__ = ["decision", "measures"]


def measures(solved: LLMSolved) -> tuple[dict[str, float], tuple[str, ...]]:
    """Metrics of a solved case by name, finite ones only, and notes.

    attainment is the share of the requests within both limits, goodput these per second, throughput tokens per second;
    ttft, tpot, e2e percentiles in seconds (p99 only from 10,000 requests on); normalized_latency in seconds per token
    (vLLM §5.6); mean_batch in requests; kv_use the share of the KV slots in use, averaged over iterations.
    """
    result, case = solved.result, solved.case
    said = case.workload.promises
    judged = said.judge(result)
    cluster = solved.plan.cluster_spec
    lasts = result.iterations.end - result.iterations.start
    held = float((result.iterations.used_tokens * lasts).sum() / lasts.sum()) if len(lasts) else math.nan
    values = {
        "attainment": judged.attainment,
        "goodput": goodput(judged.good, *result.arrival_span, result.span[1]),
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
    notes += map(str, judged.verdicts)
    if not said.some:
        del values["attainment"]
        notes.append("no attainment: none of slo_ttft, slo_tpot and slo is given; goodput counts all that finished")
    for name in ("ttft", "tpot", "e2e"):
        for p in (50, 90):
            values[f"{name}_p{p}"] = getattr(result, name)(p)
        last = tail(result.values(name), 99.0)
        values[f"{name}_p99"] = last.value
        if last.why:
            notes.append(f"{name}_p99 refused: {last.why}")
    price = cluster.spec.price_per_hour if case.cluster.price_per_hour is None else case.cluster.price_per_hour
    total = solved.plan.price_per_hour if solved.plan.pools else price * values["n_devices"]
    if total > 0:
        values["cost_per_hour"] = total
    power = solved.plan.predicted.get("mean_power_w")
    if power is not None:
        values["mean_power"] = power
    if result.fleet is not None and (case.failures.said or case.scaling.least is not None):
        report = result.fleet
        values |= {
            "engine_failures": float(report.deaths.sum()), "given_up": float(report.failed.sum()),
            "availability": report.availability, "engine_hours": report.engine_seconds / 3600,
        }  # fmt: skip
    if case.planner.name == "vllm":
        values["evaluations"] = float(solved.evaluations)
    return {name: value for name, value in values.items() if math.isfinite(value)}, tuple(notes)


def decision(solved: LLMSolved) -> str:
    """The engines, in words."""
    said = "; ".join(str(d) for d in solved.plan.deployments)
    return said if solved.plan.router == next(iter(ROUTERS)) else f"{said}; {solved.plan.router}"
