"""`Score`: what a simulation says of a candidate, by what a model's users were promised."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...simulator.llm.result.columns import LLMResult
from ...simulator.llm.result.objectives import Judgement, Promises
from ...simulator.metrics import goodput
from .demand import LLMDemand

__all__ = ["MOST_DOUBLINGS", "Score", "score_of"]

MOST_DOUBLINGS = 12
"""A highest load of so many doublings of the given one is said to be "at least" that."""


@dataclass(frozen=True, slots=True)
class Score:
    """What a simulation says of a candidate.

    Parameters
    ----------
    attained : float
        Share of the requests that attain what was promised; of a search for the highest rate, there.
    ttft_attained, tpot_attained : float
        Share within each of the limits.
    slack : float
        What is left of the tighter limit for 9 requests in 10: 0.3 means that they need 70 % of it; negative: more
        than it. Without any limit: minus the mean latency per token.
    goodput : float
        Good requests per second.
    ttft_p90_s, tpot_p90_s : float
        90th percentiles, seconds.
    factor : float
        Highest multiple of the given load at which the target is attained, at most 2^`MOST_DOUBLINGS`; NaN if it was
        not looked for.
    simulations : int
        How many it took.
    """

    attained: float
    ttft_attained: float
    tpot_attained: float
    slack: float
    goodput: float
    ttft_p90_s: float
    tpot_p90_s: float
    factor: float = math.nan
    simulations: int = 1

    @property
    def bounded(self) -> bool:
        """Whether some load is known at which the target is not attained."""
        return self.factor < 2.0**MOST_DOUBLINGS

    @property
    def key(self) -> tuple[float, ...]:
        """What candidates are compared by; larger is better."""
        if math.isnan(self.factor):
            return self.attained, self.slack
        return self.factor, self.attained, self.slack


UNMET = 1.0 - 1e-9
"""A percentile that is missed by however little attains less than any target."""


def score_of(result: LLMResult, demand: LLMDemand, target: float = 1.0) -> Score:
    """What a result means by what a model's users were promised; a percentile that is missed attains no `target`."""
    said, ttft, tpot = demand.promises, demand.ttft_s, demand.tpot_s
    judged = said.judge(result)
    slack = 1.0 - _used(result, said, judged) if said.some else -result.normalized_latency
    return Score(
        judged.attainment if judged.met else min(judged.attainment, target * UNMET),
        result.attainment(ttft=ttft),
        result.attainment(tpot=tpot),
        slack,
        goodput(judged.good, *result.arrival_span, result.span[1]),
        result.ttft(90),
        result.tpot(90),
    )


def _used(result: LLMResult, said: Promises, judged: Judgement) -> float:
    """How much of the tightest limit 9 requests in 10 need; of a percentile, how much of it that percentile does."""
    done = result.finished
    if not done.any():
        return math.inf
    further = np.nan_to_num(result.latencies["tpot"][done], nan=0.0)
    used = np.maximum(result.latencies["ttft"][done] / said.ttft_s, further / said.tpot_s)
    for o in said.objectives:
        if o.percentile is None:
            times = np.nan_to_num(result.latencies[o.metric][done], nan=0.0)
            used = np.maximum(used, np.where(result.trace.of_class(o.kind)[done], times / o.limit_s, 0.0))
    needed = [v.value_s / v.objective.limit_s for v in judged.verdicts if not math.isnan(v.value_s)]
    return max(float(np.percentile(used, 90)), *needed) if needed else float(np.percentile(used, 90))
