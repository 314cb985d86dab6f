"""`TrainingComparison`: simulated iteration times beside measured ones, with intervals, and why they differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

from ..measure.cores import UNDISTURBED

__all__ = ["PROBABILITY", "WITHIN", "Compared", "TrainingComparison"]

WITHIN = 0.05
"""Difference up to which a simulated iteration time counts as right: our own bar."""

PROBABILITY = 0.95
"""Of the intervals."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Simulated and measured iteration time of one plan: means of all iterations that count.

    Parameters
    ----------
    name : str
        Of the plan.
    simulated_s : float
        Expected seconds of an iteration, times varying as they were measured.
    interval_s : (float, float)
        Seconds between which `measured_s` was expected.
    measured_s : float
        Seconds of an iteration.
    steady_s : float
        Seconds of an iteration in which all take their mean.
    again_s : float
        Likewise, with the means of the very iterations that were measured: the difference to `steady_s` is the
        machine's, what remains to `measured_s` the model's.
    own : float
        Share of the computing time in which ranks had their cores, over the iterations that counted.
    counted : int
        Number of iterations that counted.
    alone_s : float, optional
        Seconds of an iteration with stages, collectives and messages measured by themselves.
    collective : float, optional
        Share of the stages' time by themselves that goes into collectives.
    """

    name: str
    simulated_s: float
    interval_s: tuple[float, float]
    measured_s: float
    steady_s: float
    again_s: float
    own: float
    counted: int
    alone_s: float | None = None
    collective: float | None = None

    @property
    def difference(self) -> float:
        """(simulated − measured) / measured."""
        return self.simulated_s / self.measured_s - 1.0

    @property
    def inside(self) -> bool:
        """Whether the measured time lies in the interval."""
        return self.interval_s[0] <= self.measured_s <= self.interval_s[1]

    def line(self) -> str:
        """The row in a sentence."""
        low, high = (f"{s * 1e3:.4g}" for s in self.interval_s)
        where = "inside" if self.inside else "outside"
        return (
            f"{self.name}: {self.measured_s * 1e3:.4g} ms an iteration, {where} the expected {low} to {high} ms "
            f"(simulated {self.simulated_s * 1e3:.4g} ms, {self.difference:+.1%}); {self.why()}"
        )

    def why(self) -> str:
        """What makes the difference, the larger part first."""
        machine = f"what stages take had changed by {-self.level:+.1%} since it was measured"
        model = f"waiting and what is not modelled: {-self.rest:+.1%}"
        return f"{machine}; {model}" if abs(self.level) >= abs(self.rest) else f"{model}; {machine}"

    @property
    def jitter(self) -> float:
        """What times that vary add to the simulated time, as a share of the measured one."""
        return (self.simulated_s - self.steady_s) / self.measured_s

    @property
    def level(self) -> float:
        """Part of `difference` by which stages, hosts and messages took another time in the run than before it."""
        return (self.steady_s - self.again_s) / self.measured_s

    @property
    def rest(self) -> float:
        """Part of `difference` that is left: who waits for whom, and what is not modelled."""
        return self.difference - self.level


@dataclass(frozen=True)
class TrainingComparison:
    """All plans.

    Parameters
    ----------
    rows : tuple of Compared
        In the order given.
    """

    rows: tuple[Compared, ...]

    @property
    def worst(self) -> float:
        """Largest difference, as a fraction."""
        return max(abs(row.difference) for row in self.rows)

    @property
    def ordered(self) -> bool:
        """Whether the simulator orders the plans as the runs do."""
        by_simulated = sorted(self.rows, key=lambda row: row.simulated_s)
        return by_simulated == sorted(self.rows, key=lambda row: row.measured_s)

    @property
    def misplaced(self) -> tuple[tuple[str, str], ...]:
        """Pairs of plans whose intervals are apart, and whose runs are in the other order."""
        return tuple(
            (a.name, b.name)
            for a, b in permutations(self.rows, 2)
            if a.measured_s < b.measured_s and a.interval_s[0] > b.interval_s[1]
        )

    @property
    def right(self) -> bool:
        """Whether every plan is inside its interval or within the bar, and no pair is misplaced."""
        return all(row.inside or abs(row.difference) <= WITHIN for row in self.rows) and not self.misplaced

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield (
            "plan             | simulated | 95 % interval    | measured  | difference | inside | level  | jitter | "
            "rest   | by itself | cores ours | iterations"
        )
        for row in self.rows:
            low, high = (f"{s * 1e3:.1f}" for s in row.interval_s)
            alone = "-" if row.alone_s is None else f"{row.alone_s / row.measured_s - 1:+.1%}"
            yield (
                f"{row.name:<16} | {row.simulated_s * 1e3:>6.1f} ms | {low + ' - ' + high:>13} ms | "
                f"{row.measured_s * 1e3:>6.1f} ms | {row.difference:>+9.1%}  | {'yes' if row.inside else 'NO':<6} | "
                f"{row.level:>+6.1%} | {row.jitter:>+6.1%} | {row.rest:>+6.1%} | {alone:>9} | {row.own:>9.1%}  | "
                f"{row.counted}"
            )
        inside = sum(row.inside for row in self.rows)
        yield (
            f"largest difference {self.worst:.1%} ({'within' if self.worst <= WITHIN else 'beyond'} {WITHIN:.0%}), "
            f"{inside} of {len(self.rows)} inside the interval, order {self._order()}"
        )
        for row in self.rows:
            if not row.inside:
                yield f"{row.name}: outside: {row.why()}"
        disturbed = [row.name for row in self.rows if row.own < UNDISTURBED]
        if disturbed:
            yield (
                f"ranks had their cores in less than {UNDISTURBED:.0%} of the time in {', '.join(disturbed)}: others "
                "took them, or ranks share one; run again on a quiet machine"
            )

    def _order(self) -> str:
        if self.misplaced:
            return f"not as measured: {', '.join(f'{a} took less than {b}' for a, b in self.misplaced)}"
        return "as measured" if self.ordered else "as measured wherever intervals are apart"
