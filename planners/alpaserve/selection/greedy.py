"""Algorithm 1 of AlpaServe: simulator-guided greedy model selection with a beam."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..evaluator import Evaluator, GroupState, State, canonical, components
from .room import Room, Selection, by_demand

__all__ = ["greedy_selection"]


@dataclass(frozen=True, slots=True)
class _Parent:
    """A selection of the beam, taken apart so that a candidate touches only what it changes."""

    state: State
    unserved: int
    parts: dict[GroupState, tuple[int, State, int]]
    """Non-empty group -> its component: models, groups, unserved requests."""
    by_model: list[int]
    order: list[int]
    groups: list[GroupState]
    """Distinct groups, the least utilised first."""


def greedy_selection(
    evaluator: Evaluator, groups: Sequence[int], bucket: int | None = None, *, beam: int = 1
) -> Selection:
    """Algorithm 1: add in each step the replica that attains most, keep the `beam` best selections.

    Every (model, group) with memory left is a candidate; equal groups are one candidate, and so are selections that
    differ in nothing but the order of groups. Among candidates that attain as much, the one that comes first in the
    order of the fast heuristic wins: beam rank of the parent, then the model with more unserved requests (the lower
    number among equals), then the group that is utilised less. The search ends when nothing fits or all is attained,
    and returns the selection that attained most, the first to do so among equals.

    Pruning changes no answer: a candidate is not simulated if the requests of models without a replica alone put
    it behind the beam, and its simulation is abandoned as soon as its unserved requests do.

    Parameters
    ----------
    evaluator : Evaluator
        Scores.
    groups : sequence of int
        Configuration number of each group.
    bucket : int, optional
        Models to place, as a bit mask; all if not given.
    beam : int
        Selections that survive a step.
    """
    instance = evaluator.instance
    everything = (1 << instance.n_models) - 1
    bucket = everything if bucket is None else bucket
    outside = evaluator.requests(everything & ~bucket)
    before = evaluator.evaluations
    room = Room(instance, bucket)
    start: State = canonical((c, 0) for c in groups)
    best = (evaluator.requests(everything), start)
    states = [start]
    while best[0] > outside:
        found = _step(evaluator, room, states, beam)
        if not found:
            break
        states = [state for _, state in found]
        if found[0][0] < best[0]:
            best = found[0]
    return Selection(best[1], best[0], evaluator.evaluations - before)


def _step(evaluator: Evaluator, room: Room, states: Sequence[State], beam: int) -> list[tuple[int, State]]:
    """The `beam` best successors of `states`, best first."""
    best: list[tuple[int, State]] = []
    seen: set[State] = set()
    for state in states:
        parent = _parent(evaluator, state)
        for model, group in _candidates(parent, room):
            child = _replace(state, group, (group[0], group[1] | 1 << model))
            if child in seen:
                continue
            seen.add(child)
            # Only a child that beats the worst one kept counts: a simulation that is worse is broken off.
            limit = best[-1][0] - 1 if len(best) == beam else None
            unserved = _unserved(evaluator, parent, model, group, limit)
            if unserved is None:
                continue
            rank = len(best)  # behind its equals: the first that was found stays before them
            while rank and best[rank - 1][0] > unserved:
                rank -= 1
            best.insert(rank, (unserved, child))
            del best[beam:]
    return best


def _parent(evaluator: Evaluator, state: State) -> _Parent:
    score = evaluator.score(state)
    parts: dict[GroupState, tuple[int, State, int]] = {}
    for mask, groups in components(state):
        part = evaluator.part(groups)
        assert part is not None
        for group in groups:
            parts[group] = (mask, groups, part.unserved)
    order = list(by_demand(score.by_model))
    distinct = sorted(set(state), key=lambda g: (score.busy.get(g, 0.0), g))
    return _Parent(state, score.unserved, parts, score.by_model.tolist(), order, distinct)


def _candidates(parent: _Parent, room: Room) -> Iterator[tuple[int, GroupState]]:
    free = [room.free(group) for group in parent.groups]
    for model in parent.order:
        for group, mask in zip(parent.groups, free, strict=True):
            if mask >> model & 1:
                yield model, group


def _unserved(evaluator: Evaluator, parent: _Parent, model: int, group: GroupState, limit: int | None) -> int | None:
    """Unserved requests after adding a replica; None if more than `limit`."""
    bit = 1 << model
    touched: dict[int, tuple[State, int]] = {}
    if group in parent.parts:
        mask, groups, unserved = parent.parts[group]
        touched[mask] = (groups, unserved)
    placed = False
    for mask, groups, unserved in parent.parts.values():
        if mask & bit:
            touched[mask] = (groups, unserved)
            placed = True
            break
    # Groups that share no model do not feel each other: all other components keep their counts.
    rest = parent.unserved - sum(unserved for _, unserved in touched.values())
    if not placed:
        rest -= parent.by_model[model]  # without a replica all its requests were lost, and in no component
    if limit is not None and rest > limit:
        return None
    joined = [g for groups, _ in touched.values() for g in groups]
    if group in joined:
        joined.remove(group)
    joined.append((group[0], group[1] | bit))
    part = evaluator.part(canonical(joined), None if limit is None else limit - rest)
    return None if part is None else rest + part.unserved


def _replace(state: State, old: GroupState, new: GroupState) -> State:
    groups = list(state)
    groups.remove(old)
    groups.append(new)
    return canonical(groups)
