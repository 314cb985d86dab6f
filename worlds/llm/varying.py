"""LLM cases whose times vary: what varies, the draws, and what they come to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ...errors import InputError
from ...profiles.llm import StepTimes
from ...profiles.llm.measured import measured_times
from ...profiles.llm.times import STEADY
from ...profiles.spread import Spread
from ...simulator.llm import LLMPlan, LLMPlanResult, LLMTrace
from ...simulator.llm.forecast import Forecast
from ...simulator.llm.plan.costs import Tables
from ...simulator.llm.plan.entries import Deployment
from ...simulator.llm.plan.simulate import simulate_varying
from ...simulator.llm.times import StepDraws, draw_steps, horizon_of
from .case import LLMCase

__all__ = ["forecast_plan", "times_of"]


def times_of(case: LLMCase, folder: Path) -> StepTimes:
    """How the steps of the case's engines vary: as it says, else as its kernels were measured to.

    Raises
    ------
    InputError
        If times are to be drawn and neither says how.
    """
    said = case.spread
    if case.times == "mean":
        return STEADY
    if said is not None:
        return StepTimes(Spread(said.visits, said.runs, said.correlation, level_sd=said.level), said.prompts)
    measured = case.tables.get(case.cluster.device)
    if measured is None:
        raise InputError(
            "times: a roofline does not say how times vary; give kernels, a folder that meshwright measure llm wrote, "
            "or spread"
        )
    return measured_times(folder / measured)


def forecast_plan(
    plan: LLMPlan, requests: Mapping[str, LLMTrace], case: LLMCase, times: StepTimes, *,
    tables: Tables | None, engine: str,
) -> Forecast:  # fmt: skip
    """Simulate a plan `draws` times; plans of one shape meet the same slow seconds."""
    runs: list[dict[str, float]] = []
    for run in range(case.draws):

        def drawn(d: Deployment, trace: LLMTrace, run: int = run) -> StepDraws:
            ranked = StepTimes(times.steps, times.prompts, d.tp)
            return draw_steps(ranked, d.replicas * d.pp, horizon_of(trace), case.seed, d.model, "run", run)

        runs.append(_figures(simulate_varying(plan, requests, drawn, tables=tables, seed=case.seed, engine=engine)))
    return Forecast({name: np.array([one[name] for one in runs]) for name in runs[0]})


def _figures(result: LLMPlanResult) -> dict[str, float]:
    """Tokens per second, requests within their limits per second and of all, seconds."""
    tokens = sum(float(r.generated[r.finished].sum()) for r in result.results.values())
    found = {"throughput": tokens / result.span_s, "goodput": result.goodput}
    if result.has_limits:
        found["attainment"] = result.attainment
    for metric in ("ttft", "tpot"):
        for p, value in zip((50, 90), result.percentiles(metric, (50, 90)), strict=True):
            found[f"{metric}_p{p}"] = value
    return found
