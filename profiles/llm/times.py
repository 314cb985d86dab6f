"""`StepTimes`: how the times of an engine's steps vary around what an `IterationCost` says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...reprs import Shown
from ..spread import CONSTANT, Spread

__all__ = ["STEADY", "StepTimes"]

FloatArray = npt.NDArray[np.float64]

QUANTILES = 50
"""Of what single steps draw for themselves: so many tell a 99th percentile. Fewer steps than that give fewer."""


@dataclass(frozen=True, slots=True, repr=False)
class StepTimes(Shown):
    """Factors on an iteration's cost. The default never varies.

    Parameters
    ----------
    steps : Spread
        Of a step: the path or runs of the device, and as its visits what a step that only decodes draws for itself.
    prompts : tuple of float
        What a step that computes prompt tokens draws for itself instead: quantiles as `Spread.visits`; empty: the
        same as others.
    ranks : int
        Devices of an engine. A step waits for the slowest of them.

    Raises
    ------
    InputError
        On factors that are no positive finite numbers in ascending order, or fewer than one rank.
    """

    steps: Spread = CONSTANT
    prompts: tuple[float, ...] = ()
    ranks: int = 1

    def __post_init__(self) -> None:
        if self.prompts:
            try:
                Spread(visits=tuple(self.prompts))
            except InputError as error:
                raise InputError(f"prompts: {error}") from None
        if isinstance(self.ranks, bool) or self.ranks < 1:
            raise InputError(f"times: ranks: expected an integer >= 1 (got {self.ranks!r})")

    def _headline(self) -> str:
        return self.explain()

    @property
    def constant(self) -> bool:
        """Whether nothing varies."""
        return self.steps.constant and set(self.prompts) <= {1.0}

    @property
    def of_prompts(self) -> Spread:
        """The spread of steps that compute prompt tokens."""
        return replace(self.steps, visits=self.prompts) if self.prompts else self.steps

    def scaled(self, factor: float) -> StepTimes:
        """The same variation with all factors `factor` times as large."""
        path = bool(self.steps.paths)
        prompts = self.prompts if path else tuple(factor * x for x in self.prompts)
        return replace(self, steps=self.steps.scaled(factor), prompts=prompts)

    def normalised(self) -> StepTimes:
        """The same variation around a mean of 1, for steps of either kind."""
        level = float(np.mean(self.prompts)) if self.prompts else 1.0
        return replace(self, steps=self.steps.normalised(), prompts=tuple(x / level for x in self.prompts))

    def explain(self) -> str:
        """The variation in one line."""
        if self.constant:
            return "no variation"
        told = self.steps.explain()
        if self.prompts:
            q = [self.of_prompts.quantile(p) for p in (0.05, 0.5, 0.95)]
            told += f"; with prompts p5 {q[0]:.3f}, p50 {q[1]:.3f}, p95 {q[2]:.3f}"
        return told + (f"; slowest of {self.ranks} devices" if self.ranks > 1 else "")

    def to_dict(self) -> dict[str, Any]:
        """As plain data: what differs from the default."""
        found: dict[str, Any] = {} if self.steps.constant else {"steps": self.steps.to_dict()}
        if self.prompts:
            found["prompts"] = list(self.prompts)
        return found | ({"ranks": self.ranks} if self.ranks > 1 else {})

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> StepTimes:
        """Read what `to_dict` wrote.

        Raises
        ------
        InputError
            On an unknown field or a value of the wrong kind.
        """
        if not isinstance(data, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"times: expected its fields by name (got {data!r})")
        unknown = [name for name in data if name not in ("steps", "prompts", "ranks")]
        if unknown:
            raise InputError(f"times: unknown field {unknown[0]!r}; expected steps, prompts, ranks")
        prompts = Spread.from_dict({"visits": data["prompts"]}).visits if "prompts" in data else ()
        ranks: Any = data.get("ranks", 1)
        if isinstance(ranks, bool) or not isinstance(ranks, int):
            raise InputError(f"times: ranks: expected an integer >= 1 (got {ranks!r})")
        return cls(Spread.from_dict(cast("Mapping[str, Any]", data.get("steps", {}))), prompts, ranks)

    @classmethod
    def of_steps(
        cls, start: FloatArray, seconds: FloatArray, expected: FloatArray, prompts: npt.NDArray[np.bool_],
        window_s: float = 0.1, level_sd: float = 0.0,
    ) -> StepTimes:  # fmt: skip
        """A recording of an engine's steps.

        A window's factor is the time of the steps that began in it over their cost; a window in which none did takes
        that of the nearest one that has any, as what an idle device would have done is not known. What is left of a
        step's own ratio is what it draws for itself. The mean is kept: steps that took 1.03 times their cost in the
        mean have a mean factor of 1.03.

        Parameters
        ----------
        start, seconds, expected : ndarray of float64, shape (n,)
            When each step began, how long it took, and its cost, seconds.
        prompts : ndarray of bool, shape (n,)
            Whether it computed prompt tokens.
        window_s : float
            Seconds of a window: some ten steps, so that their own differences average out.
        level_sd : float
            As `Spread`.

        Raises
        ------
        InputError
            If nothing was measured, or times are no positive finite numbers.
        """
        if not len(start):
            raise InputError("times: no step was measured")
        wrong = ~(np.isfinite(seconds) & np.isfinite(expected) & (seconds > 0) & (expected > 0))
        if wrong.any():
            raise InputError(
                f"times: expected positive finite seconds (got {seconds[wrong][0]} of {expected[wrong][0]})"
            )
        window = ((start - start.min()) / window_s).astype(np.int64)
        taken, said = np.bincount(window, weights=seconds), np.bincount(window, weights=expected)
        full = np.flatnonzero(said > 0)
        upto = np.arange(len(said))
        after = np.clip(np.searchsorted(full, upto), 0, len(full) - 1)
        before = np.clip(after - 1, 0, None)
        near = np.where(upto - full[before] <= full[after] - upto, full[before], full[after])
        near[full] = full
        path = taken[near] / said[near]
        own = seconds / expected / path[window]
        kinds = [_quantiles(own[kind], expected[kind]) for kind in (~prompts, prompts)]
        decodes, mixed = (kinds[1] or (1.0,) if not kinds[0] else kinds[0]), kinds[1]
        rounded = tuple(np.round(path, 4).tolist())
        return cls(Spread(visits=decodes, paths=(rounded,), window_s=window_s, level_sd=level_sd), mixed)


def _quantiles(ratios: FloatArray, weights: FloatArray) -> tuple[float, ...]:
    """Quantiles of ratios, with the mean that the sum of times asks for; empty without any."""
    if not len(ratios):
        return ()
    n = min(QUANTILES, len(ratios))
    found = np.quantile(ratios, (np.arange(n) + 0.5) / n)
    found *= np.average(ratios, weights=weights) / found.mean()
    return tuple(np.round(found, 4).tolist())


STEADY = StepTimes()
"""Every step takes its cost."""
