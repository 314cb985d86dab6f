"""`forecast`: many draws of the times of one run: what is to be expected of it, and where a run of that length lies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ...profiles.llm.times import StepTimes
from ...profiles.spread import Spread
from ..forecast import COVERAGE, Forecast, check_draws
from .options import SimulateOptions
from .result.columns import LLMResult
from .simulate import simulate_llm
from .times import draw_steps, horizon_of
from .workload.requests import LLMTrace

__all__ = ["COVERAGE", "Forecast", "check_draws", "figures", "forecast"]


def figures(result: LLMResult) -> dict[str, float]:
    """What is forecast of a run: tokens per second, seconds, requests, counts."""
    found = {"throughput": result.throughput}
    for metric in ("ttft", "tpot", "e2e"):
        for percentile in (50, 90):
            found[f"{metric}_p{percentile}"] = getattr(result, metric)(percentile)
    found["mean_batch"] = result.mean_batch
    found["preemptions"] = float(result.preemptions.sum())
    return found


def forecast(
    requests: LLMTrace,
    times: StepTimes | Spread,
    *,
    cost: Any,
    config: Any,
    draws: int = 100,
    seed: int = 0,
    engines: int = 1,
    options: SimulateOptions | None = None,
    tell: Callable[[LLMResult], Mapping[str, float]] = figures,
    **how: Any,
) -> Forecast:
    """Simulate the same requests under many draws of the times of steps.

    Parameters
    ----------
    requests : LLMTrace
        The requests.
    times : StepTimes or Spread
        How the times of steps vary.
    cost, config, engines, options, **how
        As `simulate_llm`.
    draws : int
        Runs; the k-th has streams of its own under the seed, the same for every policy and configuration.
    seed : int
        Seed of all random streams.
    tell : callable
        What is told of a run.

    Raises
    ------
    InputError
        On fewer than two draws, or what `simulate_llm` refuses.
    """
    check_draws(draws)
    asked, horizon = options or SimulateOptions(), horizon_of(requests)
    found: list[Mapping[str, float]] = []
    for run in range(draws):
        drawn = draw_steps(times, engines, horizon, seed, "run", run)
        result = simulate_llm(
            requests, cost=cost, config=config, seed=seed, engines=engines,
            options=replace(asked, times=drawn), **{"engine": "fast", **how},
        )  # fmt: skip
        found.append(tell(result))
    return Forecast({name: np.array([one[name] for one in found]) for name in found[0]})
