"""The search for one model: for each number of devices the best way to use exactly so many."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from ...simulator.metrics import Estimate, mean_interval, paired_difference
from .candidate import Candidate
from .halving import Kinds, Rung, successive_halving
from .layouts import Shapes, candidates, place
from .scoring import Evaluator, Score, Task
from .space import Effort, SearchSpace

__all__ = ["FAR_OFF", "Bracket", "Finalist", "ModelSearch", "lost"]

FAR_OFF = 0.1
"""What has so much fewer good requests than the best of a round does not go on for its kind; of mixes a race ends where
its best is so much below the target. What is overloaded looks better on few requests than on many, so little is lost;
how little is a guess. With ``eta=1`` no race ends before its end."""


@dataclass(frozen=True, slots=True)
class Finalist:
    """A candidate of the last round.

    Parameters
    ----------
    candidate : Candidate
        How the model is served.
    scores : tuple of Score
        Of each seed, on the whole trace.
    """

    candidate: Candidate
    scores: tuple[Score, ...]

    def estimate(self, of: Callable[[Score], float]) -> Estimate:
        """Mean over seeds with its interval."""
        return mean_interval([of(s) for s in self.scores])

    @property
    def attained(self) -> float:
        """Mean share of good requests."""
        return sum(s.attained for s in self.scores) / len(self.scores)

    @property
    def value(self) -> float:
        """What is maximised: the mean highest load if that was looked for, else the mean share of good requests."""
        return self.key[0]

    @property
    def key(self) -> tuple[float, ...]:
        """Means of what scores are compared by."""
        rows = [s.key for s in self.scores]
        return tuple(sum(column) / len(rows) for column in zip(*rows, strict=True))

    def lost_to(self, winner: Finalist) -> str:
        """Why another candidate was taken instead."""
        return lost(self.scores, winner.scores)


def lost(mine: Sequence[Score], theirs: Sequence[Score]) -> str:
    """How scores differ from the winner's of the same seeds, in words."""
    said: list[str] = []
    for name, of in (
        ("load", _factor), ("good", _attained), ("TTFT kept", _ttft), ("TPOT kept", _tpot), ("slack", _slack),
    ):  # fmt: skip
        here, there = [of(s) for s in mine], [of(s) for s in theirs]
        if not all(map(math.isfinite, (*here, *there))) or here == there:
            continue
        gap = paired_difference(here, there)
        sure = "" if gap.n == 1 or gap.differs_from_zero else " (within noise)"
        said.append(f"{name} {gap.mean:+.3g}{f' ± {gap.half_width:.2g}' if gap.n > 1 else ''}{sure}")
    return "; ".join(said) or "equal; comes later in the order of search"


def _factor(score: Score) -> float:
    return score.factor


def _attained(score: Score) -> float:
    return score.attained


def _ttft(score: Score) -> float:
    return score.ttft_attained


def _tpot(score: Score) -> float:
    return score.tpot_attained


def _slack(score: Score) -> float:
    return score.slack


@dataclass(frozen=True, slots=True)
class Bracket:
    """The search among candidates of exactly so many devices.

    Parameters
    ----------
    devices : int
        How many.
    finalists : tuple of Finalist
        Best first; never empty.
    dropped : tuple of (Candidate, Score, int)
        Those that did not come so far, with the last score and the number of requests that it is of.
    rounds : tuple of Rung
        The rounds.
    """

    devices: int
    finalists: tuple[Finalist, ...]
    dropped: tuple[tuple[Candidate, Score, int], ...]
    rounds: tuple[Rung, ...]

    @property
    def best(self) -> Finalist:
        """The winner."""
        return self.finalists[0]


def _kind(candidate: Candidate) -> tuple[Hashable, ...]:
    """What its engines are cut into, and whether prompts and decodes are apart."""
    return *candidate.engine.degrees, bool(candidate.decode)


def _near(score: Score, best: Score) -> bool:
    return score.attained >= best.attained - FAR_OFF


class ModelSearch:
    """Finds brackets of one model, each once. A bracket does not depend on the budget or on other brackets.

    Parameters
    ----------
    evaluator : Evaluator
        Who simulates.
    demand : int
        Which of its models.
    shapes : Shapes
        The engines that are possible.
    space : SearchSpace
        The choices.
    effort : Effort
        How hard is searched.
    highest_rate : bool
        Whether the highest load is looked for.
    seed : int
        First seed; the last round takes the ones after it too.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        demand: int,
        shapes: Shapes,
        space: SearchSpace,
        effort: Effort,
        *,
        highest_rate: bool,
        seed: int,
    ) -> None:
        self.evaluator, self.demand, self.shapes, self.space = evaluator, demand, shapes, space
        self.effort, self.highest_rate, self.seed = effort, highest_rate, seed
        self.requests = len(evaluator.setting.demands[demand].traffic.trace(seed))
        self._known: dict[int, Bracket | None] = {}

    @property
    def fewest(self) -> int:
        """Fewest devices that can serve it at all."""
        return min(s.devices for s in self.shapes.possible) * (2 if self.space.disaggregate == "only" else 1)

    def bracket(self, devices: int) -> Bracket | None:
        """The bracket of a number of devices; None if none of the candidates uses exactly so many."""
        if devices not in self._known:
            cluster = self.evaluator.setting.cluster
            among = [
                c
                for c in candidates(self.shapes, devices, self.space)
                if place([(c.engine.devices, c.engine.tp)] * c.engines, cluster) is not None
            ]
            self._known[devices] = self._search(among, devices)
        return self._known[devices]

    def _search(self, among: list[Candidate], devices: int) -> Bracket | None:
        if not among:
            return None

        def evaluate(some: Sequence[Candidate], requests: int) -> list[Score]:
            return self._scores(some, requests, self.seed)

        effort = self.effort
        found = successive_halving(
            among, self.requests, evaluate, _key, eta=effort.eta, finalists=effort.finalists, smallest=effort.smallest,
            kinds=Kinds(_kind, _near),
        )  # fmt: skip
        last = [c for c, _ in found.last]
        columns = [[s for _, s in found.last]]
        extra = last if effort.eta == 1 else last[: effort.finalists]
        columns[0] = columns[0][: len(extra)]
        for seed in range(self.seed + 1, self.seed + effort.seeds):
            columns.append(self._scores(extra, self.requests, seed))
        finalists = [Finalist(c, scores) for c, scores in zip(extra, zip(*columns, strict=True), strict=True)]
        order = sorted(
            range(len(finalists)), key=lambda i: (tuple(-x for x in finalists[i].key), among.index(extra[i]))
        )
        dropped = tuple((c, s, self.requests) for c, s in found.last[len(extra) :]) + found.dropped
        return Bracket(devices, tuple(finalists[i] for i in order), dropped, found.rounds)

    def _scores(self, some: Sequence[Candidate], requests: int, seed: int) -> list[Score]:
        return self.evaluator([Task(self.demand, c, requests, seed, self.highest_rate) for c in some])


def _key(score: Score) -> tuple[float, ...]:
    return score.key
