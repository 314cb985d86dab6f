"""The one-simulation heuristic of AlpaServe §4.2: the most unserved model to the least utilised available group."""

from __future__ import annotations

from collections.abc import Sequence

from ..evaluator import Evaluator, State, canonical
from .room import Room, Selection, by_demand

__all__ = ["fast_selection"]


def fast_selection(
    evaluator: Evaluator,
    groups: Sequence[int],
    bucket: int | None = None,
    *,
    order: str = "model",
    floor: int = 0,
    start: State | None = None,
) -> Selection:
    """Select models for groups by the fast heuristic.

    In each step the state is simulated once. With ``order="model"`` (the paper) the model with the most unserved
    requests (the lower number among equals) that fits some group gets a replica in the one of them that is utilised
    least (busy seconds of its average stage; the first in canonical order among equals). With ``order="group"`` (the
    authors' code) the least utilised group with room gets the most unserved model that fits it. It ends when nothing
    fits or every request of the bucket is attained, and returns the best state that it met; the later one among
    equals, for it has spare replicas.

    Parameters
    ----------
    evaluator : Evaluator
        Scores.
    groups : sequence of int
        Configuration number of each group.
    bucket : int, optional
        Models to place, as a bit mask; all if not given.
    order : str
        ``"model"`` or ``"group"``: which is chosen first.
    floor : int
        Unserved requests that no placement of the bucket can avoid: once reached, the search ends.
    start : State, optional
        Where to begin instead of with empty `groups`.
    """
    instance = evaluator.instance
    everything = (1 << instance.n_models) - 1
    bucket = everything if bucket is None else bucket
    outside = evaluator.requests(everything & ~bucket)
    before = evaluator.evaluations
    room = Room(instance, bucket)
    state: State = canonical((c, 0) for c in groups) if start is None else start
    best = (evaluator.requests(everything) + 1, state)
    while True:
        score = evaluator.score(state)
        if score.unserved <= best[0]:  # the later of equals: it has spare replicas
            best = (score.unserved, state)
        if score.unserved <= outside + floor:
            break
        groups_first = sorted(range(len(state)), key=lambda g: (score.busy.get(state[g], 0.0), g))
        free = [room.free(group) for group in state]
        any_free = 0
        for mask in free:
            any_free |= mask
        if not any_free:
            break
        wanted = [m for m in by_demand(score.by_model) if any_free >> m & 1]
        if order == "model":
            model = wanted[0]
            g = next(g for g in groups_first if free[g] >> model & 1)
        else:
            g = next(g for g in groups_first if free[g])
            model = next(m for m in wanted if free[g] >> m & 1)
        config, held = state[g]
        state = canonical([*state[:g], (config, held | 1 << model), *state[g + 1 :]])
    return Selection(best[1], best[0], evaluator.evaluations - before)
