"""Host time, the two constants of vLLM's setting, from the two published batches of vLLM (Fig. 13).

On ShareGPT iterations are long and batches small, on Alpaca the other way round: together the two batches tell what an
iteration costs the host and what each sequence in it costs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from ...errors import InputError
from ...profiles.llm import IterationCost
from ...traces.lengths import ALPACA, SHAREGPT, LengthProfile
from .servers import HOST, SERVERS, HostTime
from .serving_rates import batch, requests, served

__all__ = ["BATCHES", "WORKLOADS", "calibrated", "mean_batch"]

WORKLOADS: dict[str, tuple[LengthProfile, float, float]] = {
    "ShareGPT": (SHAREGPT, 2.0, 3600.0), "Alpaca": (ALPACA, 30.0, 900.0),
}  # fmt: skip
"""Workload -> lengths, requests/s, seconds of arrivals. The paper has an hour of either; Alpaca's requests are many."""
BATCHES = {"ShareGPT": 30.42, "Alpaca": 132.44}
"""Requests that vLLM batches with OPT-13B (Kwon et al. 2023, Fig. 13)."""
CLOSE = 0.005
"""Relative error at which a batch counts as met; seeds differ by more."""


def mean_batch(system: str, workload: str, cost: IterationCost, seeds: Sequence[int], **options: Any) -> float:
    """Requests that a system batches with OPT-13B, without the first sixth of the time, in which batches fill up.

    Parameters
    ----------
    system : str
        A key of `SYSTEMS`, or `LATER`.
    workload : str
        A key of `WORKLOADS`.
    cost : IterationCost
        Seconds of an iteration.
    seeds : sequence of int
        A trace for each; all systems see the same ones.
    **options
        More options of the policy.
    """
    lengths, rate, duration = WORKLOADS[workload]
    server = SERVERS["OPT-13B"]
    found = (
        served(system, server, requests(lengths, rate, duration, seed), cost, until=duration, **options)
        for seed in seeds
    )
    return fmean(batch(result, duration / 6, duration) for result in found)  # the sixth is a guess


def calibrated(seeds: Sequence[int], system: str = "vLLM") -> HostTime:
    """The host time at which a system's batches on both workloads are `BATCHES`.

    Parameters
    ----------
    seeds : sequence of int
        A trace of either workload for each.
    system : str
        Whose batches: a key of `SYSTEMS`, or `LATER`.

    Raises
    ------
    InputError
        If no host time gives both.
    """
    from scipy.optimize import root

    def off(x: Any) -> list[float]:
        host = HostTime(max(0.0, float(x[0])) * 1e-3, max(0.0, float(x[1])) * 1e-4)
        cost = SERVERS["OPT-13B"].cost(host)
        return [math.log(mean_batch(system, w, cost, seeds) / target) for w, target in BATCHES.items()]

    # Batches are steps of whole requests: the derivatives are taken over 2 %, not over the last digits.
    start = [HOST.iteration_s / 1e-3, HOST.sequence_s / 1e-4]
    found: Any = root(off, start, method="hybr", options={"eps": 0.02, "xtol": 1e-3, "maxfev": 60})
    if max(abs(x) for x in off(found.x)) > CLOSE or min(found.x) < 0:
        raise InputError(f"calibration: no host time gives {system} the batches {BATCHES}")
    return HostTime(float(found.x[0]) * 1e-3, float(found.x[1]) * 1e-4)
