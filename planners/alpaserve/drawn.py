"""Planning for times that vary: one placement, judged over draws of what stages, hops and answers take.

With drawn times a group's requests depend on each other through the controller's corrections, so nothing is known about
a state but by simulating it, once for each draw. The search therefore stays where it is fast: its candidates are the
plans for the profile's times and for times that are longer by quantiles of the spread, which leave slack where slow
seconds would hurt. The best of them over the draws is taken, and the local search, if asked for, improves it on the
draws themselves. All states meet the same draws (common random numbers).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...profiles.spread import NO_VARIATION, Variation
from ...seeds import spawned
from ...simulator.serving.conditions import Conditions
from ...simulator.serving.simulate import simulate
from ...simulator.serving.times import draw_times
from .evaluator import Evaluator, State
from .instance import Instance

__all__ = ["DrawnTimes", "slower"]

SLACK = (0.75, 0.95)
"""Quantiles of the spread that candidates are planned with, beside the mean: a guess, of speed alone. More candidates
can only be better."""

AFTER_S = 60.0
"""Seconds that draws go on after the last arrival; what is served later meets the same factors again."""


class DrawnTimes:
    """Attainment of states over draws of their times.

    Parameters
    ----------
    evaluator : Evaluator
        Of the problem with the profile's times.
    draws : int
        Draws, at least 2.
    seed : int
        Under which all draws are.

    Raises
    ------
    InputError
        If the problem's profiles do not say how times vary.
    """

    def __init__(self, evaluator: Evaluator, draws: int, seed: int) -> None:
        variation: Variation = getattr(evaluator.instance.profiles, "variation", NO_VARIATION)
        if variation.constant:
            raise InputError(
                "times: drawn: the profile does not say how times vary; measure a plan in service (meshwright measure "
                "plan.json) and plan with that profile"
            )
        self._evaluator, self._draws, self._seed = evaluator, draws, seed
        self._variation = variation
        self._known: dict[State, npt.NDArray[np.float64]] = {}

    @property
    def slow(self) -> tuple[float, ...]:
        """Factors on the profile's times that candidates are planned with."""
        return tuple(max(self._variation.stages.quantile(q), 1.0) for q in SLACK)

    def attainments(self, state: State) -> npt.NDArray[np.float64]:
        """Attainment in each draw."""
        found = self._known.get(state)
        if found is None:
            i, placement = self._evaluator.instance, self._evaluator.placement(state)
            horizon_s = float(i.arrival[-1]) + AFTER_S
            seeds = (spawned(self._seed, k) for k in range(self._draws))
            drawn = (draw_times(self._variation, placement, horizon_s, seed) for seed in seeds)
            found = np.array(
                [
                    simulate(
                        placement, i.trace, i.profiles, dispatch=i.dispatch, admission=i.admission,
                        overhead=i.overhead, conditions=Conditions(times),
                    ).attainment
                    for times in drawn
                ]
            )  # fmt: skip
            self._evaluator.evaluations += self._draws
            self._known[state] = found
        return found

    def value(self, state: State, q: float | None) -> float:
        """Mean attainment (q None), or what a fraction `q` of the draws fall short of (0: the worst)."""
        found = self.attainments(state)
        return float(np.mean(found)) if q is None else float(np.quantile(found, q))

    def objective(self, q: float | None) -> Callable[[State, int | None], int | None]:
        """What the local search makes small: the shortfall, in millionths of a percent."""

        def shortfall(state: State, limit: int | None) -> int | None:
            value = round((1 - self.value(state, q)) * 1e8)
            return None if limit is not None and value > limit else value

        return shortfall

    def metrics(self, state: State, nominal: State, q: float | None) -> dict[str, float]:
        """What a plan says of its draws; `nominal` is the plan that was made without them."""
        found = self.attainments(state)
        return {
            "drawn_mean": float(np.mean(found)),
            "drawn_worst": float(np.min(found)),
            "drawn_gain": self.value(state, q) - self.value(nominal, q),
        }


def slower(instance: Instance, factor: float) -> Instance:
    """The same problem with stage times that are `factor` as long."""
    return replace(instance, latency=instance.latency * factor)
