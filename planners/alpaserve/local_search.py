"""Anytime local search over heterogeneous groups, from any state, on the same evaluator. Never worse than its start."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from ...errors import InputError
from ...seeds import generator
from .evaluator import Evaluator, Score, State
from .moves import REPLICA_MOVES, SHAPE_MOVES, Board
from .selection import fast_selection

__all__ = ["Found", "local_search"]

SHAPE_SHARE = 0.15
"""Chance of a move that changes groups. Each costs a run of the fast heuristic, many simulations, where a move of a
replica costs one of the components that it touches: so most moves are of replicas."""
PATIENCE = 150
"""Iterations without a new best after which the search returns to the best state."""


@dataclass(frozen=True, slots=True)
class Found:
    """Outcome of a local search.

    Parameters
    ----------
    state : State
        The best state met.
    unserved : int
        Its unserved requests (or the objective that was given).
    iterations : int
        Moves tried.
    improvements : tuple of (int, int)
        (iteration, unserved) whenever the best fell.
    """

    state: State
    unserved: int
    iterations: int
    improvements: tuple[tuple[int, int], ...]


def local_search(
    evaluator: Evaluator,
    start: State,
    *,
    iterations: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    shapes: bool = True,
    floor: int = 0,
    objective: Callable[[State, int | None], int | None] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Found:
    """Improve a state by random moves: add, drop, move and swap replicas; split, merge and re-shape groups.

    A replica move is taken if no more requests are unserved (sideways steps cross plateaus). A move that changes
    groups is completed by the fast heuristic and taken if it ends no worse than the best by 1 % of the unserved. After
    `PATIENCE` moves without a new best the search returns to the best. Among equals the first met stays the best.

    Given `iterations` the outcome depends on nothing but the arguments; given `seconds` it depends on the machine.

    Parameters
    ----------
    evaluator : Evaluator
        Scores, and remembers.
    start : State
        Where to begin.
    iterations : int, optional
        Moves to try.
    seconds : float, optional
        Wall-clock limit; with `iterations`, whichever comes first.
    seed : int
        Seed of the moves.
    shapes : bool
        Try moves that change groups; False keeps the groups and moves replicas only.
    floor : int
        Unserved requests proven unavoidable; reaching it ends the search.
    objective : callable, optional
        (state, limit) -> figure to make small, or None if it exceeds the limit; unserved requests if not given.
    progress : callable, optional
        Called with a line of text.

    Raises
    ------
    InputError
        If neither limit is given, or one is negative.
    """
    if iterations is None and seconds is None:
        raise InputError("local_search: give iterations or seconds, or it never ends")
    if iterations is not None and (isinstance(iterations, bool) or not isinstance(iterations, int) or iterations < 0):
        raise InputError(f"local_search: iterations must be an integer >= 0 (got {iterations!r})")
    if seconds is not None and not seconds >= 0:
        raise InputError(f"local_search: seconds must be >= 0 (got {seconds})")
    measure = objective or evaluator.unserved
    end = time.monotonic() + (seconds if seconds is not None else math.inf)
    board = Board.of(evaluator.instance, generator(seed, "local search"))
    begin = measure(start, None)
    assert begin is not None
    best, best_state = begin, start
    current, state = begin, start
    score: Score = evaluator.score(state)
    trail = [(0, begin)]
    done = since = 0
    while best > floor and (iterations is None or done < iterations) and time.monotonic() < end:
        done += 1
        since += 1
        if since > PATIENCE:
            current, state, since = best, best_state, 0
            score = evaluator.score(state)
        changes_groups = shapes and board.random.random() < SHAPE_SHARE
        kinds = SHAPE_MOVES if changes_groups else REPLICA_MOVES
        candidate = kinds[board.pick(range(len(kinds)))](board, state, score)
        if candidate is None or candidate == state:
            continue
        limit = current
        if changes_groups:
            candidate = fast_selection(evaluator, (), start=candidate).state
            limit = best + best // 100  # a little worse will do: replica moves improve the new groups afterwards
        after = measure(candidate, limit)
        if after is None:
            continue
        current, state = after, candidate
        score = evaluator.score(state)
        if after < best:
            best, best_state, since = after, candidate, 0
            trail.append((done, after))
            if progress:
                progress(f"local search, move {done}: attainment {1 - best / evaluator.instance.n_requests:.4f}")
    return Found(best_state, best, done, tuple(trail))
