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
from ....simulator.placement import Group, Placement
from ....simulator.serving.breakdowns import Breakdowns
from ....simulator.serving.conditions import Conditions
from ....simulator.serving.simulate import simulate
from ....simulator.serving.times import times_of
from ..evaluator import Evaluator, State
from ..instance import Instance

__all__ = ["DrawnConditions", "drawn_metrics", "judged", "slower", "variation_of"]

SLACK = (0.75, 0.95)
"""Quantiles of the spread that candidates are planned with, beside the mean: a guess, of speed alone. More candidates
can only be better."""


class DrawnConditions:
    """Attainment of states over draws of what happens to them, while all else is well and after each single loss.

    A loss is of one device or node, for the whole run: the groups that have a device of it hold nothing then, and the
    others meet the draws that they would have met.

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
    loss : {"none", "device", "node"}
        What is lost.
    max_batch : int
        Largest batch that is served.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        draws: int,
        seed: int,
        variation: Variation = NO_VARIATION,
        breakdowns: Breakdowns | None = None,
        placement: Callable[[State], Placement] | None = None,
        loss: str = "none",
        max_batch: int = 1,
    ) -> None:
        self._evaluator, self._variation, self._breakdowns = evaluator, variation, breakdowns
        self._placement = evaluator.placement if placement is None else placement
        self._loss, self._batching = loss, max_batch if max_batch > 1 else None
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
        """Attainment in each draw while nothing is lost, then after each loss, shape (1 + losses, draws)."""
        found = self._known.get(state)
        if found is None:
            found = self._known[state] = self.attainments_of(self.placement(state))
        return found

    def attainments_of(self, placement: Placement) -> npt.NDArray[np.float64]:
        """The same of a placement; nothing is kept."""
        i = self._evaluator.instance
        self._evaluator.evaluations += len(self._seeds) * (1 + len(self._lost(placement)))
        met = [self._conditions(placement, seed) for seed in self._seeds]
        left = [
            Placement(Group(g.config, () if k in lost else g.models, g.devices) for k, g in enumerate(placement.groups))
            for lost in ((), *self._lost(placement))
        ]
        return np.array(
            [
                [
                    simulate(
                        one, i.trace, i.profiles, dispatch=i.dispatch, admission=i.admission, overhead=i.overhead,
                        batching=self._batching, conditions=conditions,
                    ).attainment
                    for conditions in met
                ]
                for one in left
            ]
        )  # fmt: skip

    def _lost(self, placement: Placement) -> list[tuple[int, ...]]:
        """The groups that each loss takes; equal losses once."""
        if self._loss == "none":
            return []
        node_of = self._evaluator.instance.cluster.node_of
        homes = [{d if self._loss == "device" else node_of(d) for d in g.devices or ()} for g in placement.groups]
        parts = sorted(set[int]().union(*homes))
        return list(dict.fromkeys(tuple(g for g, home in enumerate(homes) if part in home) for part in parts))

    def _conditions(self, placement: Placement, seed: int) -> Conditions:
        i, outages = self._evaluator.instance, None
        if self._breakdowns is not None:
            outages = self._breakdowns.outages(placement, i.cluster, i.profiles, float(i.arrival[-1]), seed)
        return Conditions(times_of(self._variation, placement, i.trace, seed), outages)

    def value(self, state: State, q: float | None) -> float:
        """Mean attainment (q None), or what a fraction `q` of the draws fall short of (0: the worst); see `judged`."""
        return judged(self.attainments(state), q)

    def objective(self, q: float | None) -> Callable[[State, int | None], int | None]:
        """What the local search makes small: the shortfall, in millionths of a percent.

        After the worst loss first, where something is lost; of equal ones the shortfall while nothing is.
        """

        def shortfall(state: State, limit: int | None) -> int | None:
            value = _missing(self.value(state, q))
            if self._loss != "none":
                value = value * (_missing(0.0) + 1) + _missing(judged(self.attainments(state)[:1], q))
            return None if limit is not None and value > limit else value

        return shortfall


def _missing(attainment: float) -> int:
    return round((1 - attainment) * 1e8)


def judged(attainments: npt.NDArray[np.float64], q: float | None) -> float:
    """The mean over draws (q None), or their quantile `q`: after the worst loss, or where nothing is lost."""
    each = attainments.mean(axis=1) if q is None else np.quantile(attainments, q, axis=1)
    return float(np.min(each))


def drawn_metrics(
    prefix: str, found: npt.NDArray[np.float64], usual: npt.NDArray[np.float64], q: float | None
) -> dict[str, float]:
    """What a plan says of its draws; `usual` is what the plan that was made without them attains in the same draws.

    Where something is lost `survive_worst` is what is attained after the worst loss.
    """
    metrics: dict[str, float] = {}
    if prefix:
        metrics = {
            f"{prefix}_mean": float(np.mean(found[0])),
            f"{prefix}_worst": float(np.min(found[0])),
            f"{prefix}_gain": judged(found[:1], q) - judged(usual[:1], q),
        }
    if len(found) > 1:
        after, before = judged(found, q), judged(usual, q)
        metrics |= {
            "survive_worst": after, "survive_worst_of_usual": before, "survive_gain": after - before,
            "attainment_of_usual": judged(usual[:1], q),
        }  # fmt: skip
    return metrics


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
