"""Planning for what is drawn: one placement, judged over draws of times that vary and of machines that fail.

With drawn times a group's requests depend on each other through the controller's corrections, and an outage sends
requests of one group to others, so nothing is known about a state but by simulating it, once for each draw. The search
therefore stays where it is fast. For times its candidates are the plans for the profile's times and for times that are
longer by quantiles of the spread, which leave slack where slow seconds would hurt; for failures see `search`. The
best of them over the draws is taken, and the local search improves it on the draws themselves. All states meet the same
draws (common random numbers).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ....profiles.spread import NO_VARIATION, Variation
from ....seeds import spawned
from ....simulator.placement import Placement
from ....simulator.serving.breakdowns import Breakdowns
from ....simulator.serving.conditions import Conditions
from ....simulator.serving.simulate import simulate
from ....simulator.serving.times import draw_times
from ..evaluator import Evaluator, State
from ..instance import Instance

__all__ = ["DrawnConditions", "drawn_metrics", "judged", "slower", "variation_of"]

SLACK = (0.75, 0.95)
"""Quantiles of the spread that candidates are planned with, beside the mean: a guess, of speed alone. More candidates
can only be better."""

AFTER_S = 60.0
"""Seconds that draws of times go on after the last arrival; what is served later meets the same factors again."""


class DrawnConditions:
    """Attainment of states over draws of what happens to them.

    Parameters
    ----------
    evaluator : Evaluator
        Of the problem with the profile's times, where nothing fails.
    draws : int
        Draws, at least 2; one is made where nothing is random (failures at known times alone).
    seed : int
        Under which all draws are.
    variation : Variation, optional
        How times vary; not at all if left out.
    breakdowns : Breakdowns, optional
        What fails, up to the last arrival; nothing if left out.
    placement : callable, optional
        The devices of a state's groups, where it matters which; in canonical order if left out.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        draws: int,
        seed: int,
        variation: Variation = NO_VARIATION,
        breakdowns: Breakdowns | None = None,
        placement: Callable[[State], Placement] | None = None,
    ) -> None:
        self._evaluator, self._variation, self._breakdowns = evaluator, variation, breakdowns
        self._placement = evaluator.placement if placement is None else placement
        failures = None if breakdowns is None else breakdowns.failures
        random = not variation.constant or (failures is not None and failures.random)
        self._seeds = [spawned(seed, k) for k in range(draws if random else 1)]
        self._known: dict[State, npt.NDArray[np.float64]] = {}

    @property
    def slow(self) -> tuple[float, ...]:
        """Factors on the profile's times that candidates are planned with; none where times do not vary."""
        if self._variation.constant:
            return ()
        return tuple(max(self._variation.stages.quantile(q), 1.0) for q in SLACK)

    def placement(self, state: State) -> Placement:
        """The groups of a state on devices."""
        return self._placement(state)

    def attainments(self, state: State) -> npt.NDArray[np.float64]:
        """Attainment in each draw."""
        found = self._known.get(state)
        if found is None:
            found = self._known[state] = self.attainments_of(self.placement(state))
        return found

    def attainments_of(self, placement: Placement) -> npt.NDArray[np.float64]:
        """Attainment of a placement in each draw; nothing is kept."""
        i = self._evaluator.instance
        self._evaluator.evaluations += len(self._seeds)
        return np.array(
            [
                simulate(
                    placement, i.trace, i.profiles, dispatch=i.dispatch, admission=i.admission, overhead=i.overhead,
                    conditions=self._conditions(placement, seed),
                ).attainment
                for seed in self._seeds
            ]
        )  # fmt: skip

    def _conditions(self, placement: Placement, seed: int) -> Conditions:
        i, last_s = self._evaluator.instance, float(self._evaluator.instance.arrival[-1])
        times, outages = None, None
        if not self._variation.constant:
            times = draw_times(self._variation, placement, last_s + AFTER_S, seed)
        if self._breakdowns is not None:
            outages = self._breakdowns.outages(placement, i.cluster, i.profiles, last_s, seed)
        return Conditions(times, outages)

    def value(self, state: State, q: float | None) -> float:
        """Mean attainment (q None), or what a fraction `q` of the draws fall short of (0: the worst)."""
        return judged(self.attainments(state), q)

    def objective(self, q: float | None) -> Callable[[State, int | None], int | None]:
        """What the local search makes small: the shortfall, in millionths of a percent."""

        def shortfall(state: State, limit: int | None) -> int | None:
            value = round((1 - self.value(state, q)) * 1e8)
            return None if limit is not None and value > limit else value

        return shortfall


def judged(attainments: npt.NDArray[np.float64], q: float | None) -> float:
    """The mean over draws (q None), or their quantile `q`."""
    return float(np.mean(attainments)) if q is None else float(np.quantile(attainments, q))


def drawn_metrics(
    prefix: str, found: npt.NDArray[np.float64], usual: npt.NDArray[np.float64], q: float | None
) -> dict[str, float]:
    """What a plan says of its draws; `usual` is what the plan that was made without them attains in the same draws."""
    return {
        f"{prefix}_mean": float(np.mean(found)),
        f"{prefix}_worst": float(np.min(found)),
        f"{prefix}_gain": judged(found, q) - judged(usual, q),
    }


def variation_of(instance: Instance) -> Variation:
    """How the times of an instance's profiles vary.

    Raises
    ------
    InputError
        If they do not say.
    """
    variation: Variation = getattr(instance.profiles, "variation", NO_VARIATION)
    if variation.constant:
        raise InputError(
            "times: drawn: the profile does not say how times vary; measure a plan in service (meshwright measure "
            "plan.json) and plan with that profile"
        )
    return variation


def slower(instance: Instance, factor: float) -> Instance:
    """The same problem with stage times that are `factor` as long."""
    return replace(instance, latency=instance.latency * factor)
