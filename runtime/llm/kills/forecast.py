"""`foresee`: the simulated fleet of one engine that fails by the same script, under many draws of steps and starts."""

from __future__ import annotations

# scipy brings no type stubs.
# pyright: reportMissingTypeStubs=false
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ....seeds import generator
from ....simulator.llm import Faults, LLMResult, SimulateOptions, simulate_llm
from ....simulator.llm.fleet.faults import Fault
from ....simulator.llm.forecast import check_draws
from ....simulator.llm.times import draw_steps, horizon_of
from ....simulator.llm.workload.requests import LLMTrace
from .process import EngineBuild
from .rehearse import Rehearsed

__all__ = ["drawn_loads", "foresee"]


def drawn_loads(load_s: npt.NDArray[np.float64], draws: int, seed: int) -> npt.NDArray[np.float64]:
    """Starts yet to come, given those seen: Student's predictive distribution, and never below half of the shortest.

    The bound is a guess that matters only where few starts were seen: a start does not take negative time.
    """
    from scipy import stats

    n, rng = len(load_s), generator(seed, "llm", "kills", "loads")
    law: Any = stats.t
    spread = float(np.std(load_s, ddof=1)) * np.sqrt(1 + 1 / n)
    drawn = float(np.mean(load_s)) + spread * law.ppf(rng.uniform(size=draws), n - 1)
    return np.maximum(drawn, 0.5 * float(load_s.min()))


def foresee(
    build: EngineBuild, trace: LLMTrace, kills: Sequence[Fault], known: Rehearsed, *, draws: int = 100, seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> list[LLMResult]:  # fmt: skip
    """Simulate the run `draws` times; only what was rehearsed is known.

    All starts of one draw take the same time.

    Raises
    ------
    InputError
        On fewer than two draws, or what `simulate_llm` refuses.
    """
    check_draws(draws)
    cost, times = known.costs()
    loads, horizon = drawn_loads(known.load_s, draws, seed), horizon_of(trace)
    found: list[LLMResult] = []
    for k in range(draws):
        if progress is not None and k % 10 == 0:
            progress(f"simulated {k} of {draws} draws")
        faults = Faults(tuple(kills), load_s=float(loads[k]), max_retries=len(kills))
        drawn = draw_steps(times, 1, horizon, seed, "run", k)
        found.append(simulate_llm(
            trace, policy=build.policy, config=build.config, cost=cost, seed=seed, engine="fast",
            options=SimulateOptions(faults=faults, times=drawn),
        ))  # fmt: skip
    return found
