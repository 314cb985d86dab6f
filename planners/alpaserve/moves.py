"""The moves of the local search: small changes of replicas, and changes of the groups themselves.

A move takes a state and returns another that fits the memory, or None where it does not apply. Moves that change
groups drop the replicas that no longer fit, those with the fewest requests first; whoever calls them fills the room
that they leave.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .evaluator import GroupState, Score, State, canonical, members
from .instance import Instance
from .selection import Room

__all__ = ["REPLICA_MOVES", "SHAPE_MOVES", "Board"]


@dataclass(frozen=True, eq=False)
class Board:
    """What a move looks at.

    Parameters
    ----------
    instance : Instance
        The problem.
    room : Room
        Which models fit where.
    by_size : dict[int, tuple of int]
        Devices -> the configurations of that many.
    random : numpy.random.Generator
        Draws.
    """

    instance: Instance
    room: Room
    by_size: dict[int, tuple[int, ...]]
    random: np.random.Generator

    @classmethod
    def of(cls, instance: Instance, random: np.random.Generator) -> Board:
        """The board of an instance."""
        by_size: dict[int, list[int]] = {}
        for c, config in enumerate(instance.configs):
            if instance.fits[c].any():
                by_size.setdefault(config.n_devices, []).append(c)
        room = Room(instance, (1 << instance.n_models) - 1)
        return cls(instance, room, {n: tuple(cs) for n, cs in by_size.items()}, random)

    def pick(self, options: Sequence[int]) -> int:
        """One of several, with equal chances."""
        return options[int(self.random.integers(len(options)))]

    def needy(self, score: Score, options: Sequence[int]) -> int:
        """One of several models, with chances in proportion to one more than their unserved requests."""
        weight = score.by_model[list(options)] + 1.0  # one more: a model that loses nothing may be drawn, too
        return options[int(self.random.choice(len(options), p=weight / weight.sum()))]

    def devices(self, group: GroupState) -> int:
        """Devices of a group."""
        return self.instance.configs[group[0]].n_devices

    def squeeze(self, config: int, wanted: int) -> int:
        """The models wanted that fit a group of this configuration together, taken from the most requested down."""
        held = 0
        for m in sorted(members(wanted), key=lambda m: (-int(self.instance.counts[m]), m)):
            if self.room.free((config, held)) >> m & 1:
                held |= 1 << m
        return held


Move = Callable[[Board, State, Score], State | None]


def _replace(state: State, old: Sequence[GroupState], new: Sequence[GroupState]) -> State:
    groups = list(state)
    for group in old:
        groups.remove(group)
    return canonical([*groups, *new])


def add(board: Board, state: State, score: Score) -> State | None:
    """Give a model that loses requests one more replica."""
    g = state[board.pick(range(len(state)))]
    free = members(board.room.free(g))
    if not free:
        return None
    return _replace(state, [g], [(g[0], g[1] | 1 << board.needy(score, free))])


def drop(board: Board, state: State, score: Score) -> State | None:
    """Take one replica away."""
    g = state[board.pick(range(len(state)))]
    if not g[1]:
        return None
    return _replace(state, [g], [(g[0], g[1] & ~(1 << board.pick(members(g[1]))))])


def move(board: Board, state: State, score: Score) -> State | None:
    """Move one replica to another group."""
    if len(state) < 2:
        return None
    a, b = (state[int(i)] for i in board.random.choice(len(state), 2, replace=False))
    able = members(a[1] & board.room.free(b))
    if not able:
        return None
    bit = 1 << board.pick(able)
    return _replace(state, [a, b], [(a[0], a[1] & ~bit), (b[0], b[1] | bit)])


def swap(board: Board, state: State, score: Score) -> State | None:
    """Replace one replica of a group by a model that loses requests; hand the replica to another group if it fits."""
    a = state[board.pick(range(len(state)))]
    absent = [m for m in range(board.instance.n_models) if not a[1] >> m & 1 and board.instance.fits[a[0], m]]
    if not a[1] or not absent:
        return None
    out, into = 1 << board.pick(members(a[1])), board.needy(score, absent)
    left = a[1] & ~out
    if not board.room.free((a[0], left)) >> into & 1:
        return None
    changed = (a[0], left | 1 << into)
    takers = [g for g in state if g != a and board.room.free(g) & out]
    if takers and board.random.random() < 0.5:
        taker = takers[board.pick(range(len(takers)))]
        return _replace(state, [a, taker], [changed, (taker[0], taker[1] | out)])
    return _replace(state, [a], [changed])


def reshape(board: Board, state: State, score: Score) -> State | None:
    """Another parallel configuration of as many devices for one group."""
    g = state[board.pick(range(len(state)))]
    others = [c for c in board.by_size.get(board.devices(g), ()) if c != g[0]]
    if not others:
        return None
    config = board.pick(others)
    return _replace(state, [g], [(config, board.squeeze(config, g[1]))])


def split(board: Board, state: State, score: Score) -> State | None:
    """Cut one group in two, each with a configuration of its own."""
    g = state[board.pick(range(len(state)))]
    n = board.devices(g)
    parts = [k for k in board.by_size if k <= n // 2 and n - k in board.by_size]
    if not parts:
        return None
    k = board.pick(parts)
    sides = [board.pick(board.by_size[k]), board.pick(board.by_size[n - k])]
    return _replace(state, [g], [(c, board.squeeze(c, g[1])) for c in sides])


def merge(board: Board, state: State, score: Score) -> State | None:
    """Make one group of two, with all models of both that fit."""
    if len(state) < 2:
        return None
    a, b = (state[int(i)] for i in board.random.choice(len(state), 2, replace=False))
    options = board.by_size.get(board.devices(a) + board.devices(b), ())
    if not options:
        return None
    config = board.pick(options)
    return _replace(state, [a, b], [(config, board.squeeze(config, a[1] | b[1]))])


REPLICA_MOVES: tuple[Move, ...] = (add, move, swap, drop)
SHAPE_MOVES: tuple[Move, ...] = (reshape, split, merge)
