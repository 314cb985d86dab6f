"""Successive halving: many candidates on a little, the best of them on more, the last few on everything."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ...errors import InputError

__all__ = ["Halving", "Kinds", "Rung", "rungs", "successive_halving"]

T = TypeVar("T")
S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Rung:
    """One round.

    Parameters
    ----------
    budget : int
        What each candidate is tried on: requests.
    candidates : int
        How many were tried.
    """

    budget: int
    candidates: int


@dataclass(frozen=True, slots=True)
class Halving(Generic[T, S]):
    """Outcome of successive halving.

    Parameters
    ----------
    last : tuple of (candidate, score)
        Those of the last round, best first.
    dropped : tuple of (candidate, score, budget)
        The others, with the score and the round that dropped them; the latest dropped first.
    rounds : tuple of Rung
        The rounds.
    """

    last: tuple[tuple[T, S], ...]
    dropped: tuple[tuple[T, S, int], ...]
    rounds: tuple[Rung, ...]


@dataclass(frozen=True, slots=True)
class Kinds(Generic[T, S]):
    """Kinds of candidates: the best of each goes on, whatever its place.

    What is a little overloaded looks fine for a while, and few requests tell of the room that is left rather than of
    the load that it bears.

    Parameters
    ----------
    of : callable
        Candidate -> its kind.
    near : callable
        (score, best score) -> whether it is near enough to go on for its kind.
    """

    of: Callable[[T], Hashable]
    near: Callable[[S, S], bool]

    def places(self, order: Sequence[tuple[T, S]]) -> set[int]:
        """Places, best first, of those that go on for their kind."""
        first = dict[Hashable, int]()
        for place, (candidate, _) in enumerate(order):
            first.setdefault(self.of(candidate), place)
        return {place for place in first.values() if self.near(order[place][1], order[0][1])}


def rungs(candidates: int, budget: int, *, eta: int, finalists: int, smallest: int) -> tuple[int, ...]:
    """Budgets of the rounds: each is `eta` times the one before, the last is `budget`, none is below `smallest`.

    There are as many as it takes to come from `candidates` to `finalists` by keeping one in `eta` each time.
    """
    if eta == 1 or candidates <= finalists:
        return (budget,)
    # Logarithms of exact powers may come out a little too large, and would then ask for one round more.
    need = math.ceil(math.log(candidates / finalists) / math.log(eta) - 1e-9)
    sizes = [max(smallest, -(-budget // eta**k)) for k in range(need, 0, -1)]
    return (*sorted({s for s in sizes if s < budget}), budget)


def successive_halving(
    candidates: Sequence[T],
    budget: int,
    evaluate: Callable[[Sequence[T], int], Sequence[S]],
    better: Callable[[S], tuple[float, ...]],
    *,
    eta: int = 3,
    finalists: int = 4,
    smallest: int = 200,
    hopeless: Callable[[Sequence[S]], bool] | None = None,
    kinds: Kinds[T, S] | None = None,
) -> Halving[T, S]:
    """Find the best candidates.

    Parameters
    ----------
    candidates : sequence
        What to choose from; of equals the first wins.
    budget : int
        Requests of the last round.
    evaluate : callable
        (candidates, requests) -> a score for each; the same requests for all of them.
    better : callable
        Score -> what it is compared by; larger is better.
    eta : int
        One in `eta` goes on, at least `finalists`; 1: all are tried on everything.
    finalists : int
        Candidates of the last round.
    smallest : int
        Fewest requests of a round.
    hopeless : callable, optional
        Told the scores of every round but the last; where it says True the race ends, and nobody is left.
    kinds : Kinds, optional
        Of which kinds the best goes on too.

    Raises
    ------
    InputError
        On a number below one.
    """
    for name, value in (("eta", eta), ("finalists", finalists), ("smallest", smallest), ("budget", budget)):
        if isinstance(value, bool) or value < 1:
            raise InputError(f"{name}: expected an integer >= 1 (got {value!r})")
    alive = list(range(len(candidates)))
    rounds: list[Rung] = []
    dropped: list[tuple[T, S, int]] = []
    budgets = rungs(len(candidates), budget, eta=eta, finalists=finalists, smallest=smallest)
    ranked: list[tuple[int, S]] = []
    for number, size in enumerate(budgets):
        scores = evaluate([candidates[i] for i in alive], size)
        rounds.append(Rung(size, len(alive)))
        order = sorted(zip(alive, scores, strict=True), key=lambda pair: (tuple(-x for x in better(pair[1])), pair[0]))
        last = number == len(budgets) - 1
        if not last and hopeless is not None and hopeless(scores):
            return Halving((), (*((candidates[i], s, size) for i, s in order), *dropped), tuple(rounds))
        kept = len(order) if last else max(finalists, -(-len(order) // eta))
        on = set(range(kept))
        if kinds is not None:
            on |= kinds.places([(candidates[i], score) for i, score in order])
        dropped[:0] = [(candidates[i], score, size) for p, (i, score) in enumerate(order) if p not in on]
        ranked = [pair for p, pair in enumerate(order) if p in on]
        alive = sorted(i for i, _ in ranked)
    return Halving(tuple((candidates[i], score) for i, score in ranked), tuple(dropped), tuple(rounds))
