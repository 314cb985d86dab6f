"""Robust planning: one placement for several traces, judged by its mean or by a bad quantile of its attainment.

The mean needs no new search: traces put one after another, each begun with idle devices, are one trace, and what a
placement attains on it is the mean over them, weighted by requests. A quantile is no sum, so it is searched otherwise:
the candidates are the plans for the mean and for every single trace, and the local search improves the best of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ...errors import InputError
from ...traces.fit import fit_gamma
from ...traces.trace import Trace
from .evaluator import Evaluator, State
from .instance import Instance

__all__ = ["Scenarios", "concatenate", "resampled"]


def resampled(trace: Trace, count: int, seed: int, window: float = 60.0) -> list[Trace]:
    """`count` traces drawn afresh from the Gamma processes fitted to each window of a trace; its SLO per model is kept.

    Raises
    ------
    InputError
        If `count` is below one, or the SLOs of a model differ between its requests.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise InputError(f"robust: expected traces or a number of resamples >= 1 (got {count!r})")
    slo = np.full(len(trace.models), np.inf)
    for m in range(len(trace.models)):
        mine = trace.slo[trace.model == m]
        if len(mine) and (mine != mine[0]).any():
            raise InputError(
                f"robust: the requests of {trace.models[m]!r} have different SLOs, so a fresh arrival has none; "
                "give the traces to plan for instead of their number"
            )
        slo[m] = mine[0] if len(mine) else np.inf
    fitted = fit_gamma(trace, window=min(window, max(trace.duration, 1e-9)))
    by_model = dict(zip(trace.models, slo.tolist(), strict=True))
    return [fitted.resample(seed + k).with_slo(by_model) for k in range(count)]


def concatenate(traces: Sequence[Trace]) -> Trace:
    """One trace after another, far enough apart for every device to be idle in between.

    The gap is the longest SLO (admitted work ends within it) and 1,000 s for traces without one.

    Raises
    ------
    InputError
        If the traces have different models.
    """
    models = traces[0].models
    for k, trace in enumerate(traces):
        if trace.models != models:
            raise InputError(f"robust: trace {k} has other models than trace 0 ({trace.models[:5]} and {models[:5]})")
    shift = 0.0
    arrivals = []
    for trace in traces:
        arrivals.append(trace.arrival + shift)
        finite = trace.slo[np.isfinite(trace.slo)]
        gap = 1000.0 if len(finite) < len(trace) else 0.0
        shift = math.ceil(float(arrivals[-1][-1]) + max(gap, float(finite.max(initial=0.0))) + 1.0)
    return Trace(
        np.concatenate(arrivals),
        np.concatenate([t.model for t in traces]),
        models,
        np.concatenate([t.slo for t in traces]),
    )


class Scenarios:
    """Several traces for one placement problem.

    Parameters
    ----------
    instance : Instance
        The problem on the mean: its trace is `concatenate` of `traces`.
    traces : sequence of Trace
        The scenarios.
    """

    def __init__(self, instance: Instance, traces: Sequence[Trace]) -> None:
        self.evaluators: list[Evaluator] = []
        low = 0
        for trace in traces:
            rows = slice(low, low + len(trace))
            low += len(trace)
            model = instance.model[rows]
            counts = np.bincount(model, minlength=instance.n_models)
            self.evaluators.append(
                Evaluator(
                    replace(
                        instance, trace=trace, arrival=trace.arrival, slo=trace.slo, model=model, counts=counts
                    )
                )
            )  # fmt: skip

    def attainments(self, state: State) -> list[float]:
        """Attainment on each scenario."""
        return [e.attainment(state) for e in self.evaluators]

    def quantile(self, state: State, q: float) -> float:
        """The attainment that a fraction `q` of the scenarios fall short of (0: the worst), linearly interpolated."""
        return float(np.quantile(self.attainments(state), q))

    def objective(self, q: float) -> Callable[[State, int | None], int | None]:
        """What the local search makes small: the shortfall of the quantile, in millionths of a percent."""

        def shortfall(state: State, limit: int | None) -> int | None:
            value = round((1 - self.quantile(state, q)) * 1e8)
            return None if limit is not None and value > limit else value

        return shortfall
