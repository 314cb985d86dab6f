"""Every way to keep, make again or offload what a layer keeps: bytes and seconds of each, for few rows at once."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from .tensors import FIXED, TENSORS

__all__ = ["AGAIN", "KEEP", "OFFLOAD", "Held", "Layers", "Options", "Ways", "front", "ways"]

Floats = NDArray[np.float64]

KEEP, AGAIN, OFFLOAD = 0, 1, 2
"""What becomes of a class of tensors."""
BLOCK = 128
"""Options that `front` looks at together."""


@dataclass(frozen=True, slots=True, eq=False)
class Ways:
    """Ways to treat the classes of a layer.

    Parameters
    ----------
    actions : array of int8, shape (ways, classes)
        KEEP, AGAIN or OFFLOAD by class of `TENSORS`; what a model does not have is kept.
    whole : array of bool
        Whether the whole layer is made again from its input (full recomputation), whose action is that of "inputs".
    """

    actions: NDArray[np.int8]
    whole: NDArray[np.bool_]


def ways(classes: tuple[int, ...], recompute: str, offload: bool) -> Ways:
    """All ways that a choice of `Settings.recompute` leaves; keeping all that it leaves is the first.

    Parameters
    ----------
    classes : tuple of int
        Places in `TENSORS` of those that a model has.
    recompute : str
        One of `columns.RECOMPUTE`.
    offload : bool
        Whether what would be kept may be offloaded.
    """
    away = (OFFLOAD,) if offload else ()
    several: list[tuple[int, ...]] = []
    for k, name in enumerate(TENSORS):
        if k not in classes:
            several.append((KEEP,))
        elif name == "scores" and recompute == "selective":
            several.append((AGAIN,))
        elif recompute == "chosen" and name not in FIXED:
            several.append((KEEP, AGAIN, *away))
        else:
            several.append((KEEP, *away))
    found = [] if recompute == "full" else list(product(*several))
    whole = [False] * len(found)
    if recompute in ("full", "chosen"):
        inputs = TENSORS.index("inputs")
        for action in (KEEP, *away):
            found.append(tuple(action if k == inputs else AGAIN if k in classes else KEEP for k in range(len(TENSORS))))
            whole.append(True)
    return Ways(np.array(found, dtype=np.int8), np.array(whole))


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """What layers hold under a way, one value per row: bytes that they keep of a microbatch, bytes that are brought
    back for one layer's backward pass beside them, whether attention's scores are made again; of which rows it says so.
    """

    dense: Floats
    mixed: Floats
    back: Floats
    scores: NDArray[np.bool_]
    rows: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Layers:
    """Layers of one kind (a dense MLP, or experts), one column per row.

    Parameters
    ----------
    size, again : array, shape (classes, rows)
        Bytes of each class, and seconds of making it again.
    forward, backward : array
        Seconds of a layer, beside which tensors are offloaded and come back.
    input_bytes, whole_s, whole_back : array
        Full recomputation: bytes of a layer's input, seconds, and bytes that it brings back.
    """

    size: Floats
    again: Floats
    forward: Floats
    backward: Floats
    input_bytes: Floats
    whole_s: Floats
    whole_back: Floats

    def cost(self, some: Ways, rate: float) -> tuple[Floats, ...]:
        """Of every way and row: bytes kept, bytes brought back, seconds of making again, and seconds of waiting for the
        host's link at `rate` bytes per second, forward and backward; and bytes offloaded.

        What is offloaded leaves beside its layer's forward pass and comes back beside the backward pass of the layer
        before: a device has it twice meanwhile.
        """
        scores, context = TENSORS.index("scores"), TENSORS.index("context")
        again, away = some.actions == AGAIN, some.actions == OFFLOAD
        spent = again @ np.where(np.isfinite(self.again), self.again, 0.0)
        spent -= (again[:, scores] & again[:, context])[:, None] * self.again[context]  # the core gives both
        kept = (some.actions == KEEP) @ self.size
        moved = away @ self.size
        others = again.copy()
        others[:, scores] = False  # beside the gradients of scores: `memory` counts them there
        back = others @ self.size + 2 * moved
        full = some.whole[:, None]
        gone = away[:, TENSORS.index("inputs"), None]
        moved = np.where(full, gone * self.input_bytes, moved)
        kept = np.where(full, ~gone * self.input_bytes, kept)
        back = np.where(full, self.whole_back + 2 * moved, back)
        spent = np.where(full, self.whole_s, spent)
        waits = [np.maximum(moved / rate - beside, 0.0) for beside in (self.forward, self.backward + spent)]
        return kept, back, spent, waits[0], waits[1], moved


@dataclass(frozen=True, slots=True, eq=False)
class Options:
    """Bytes and seconds of all ways, of shape (ways, rows), and which of them may be the best of a row.

    Parameters
    ----------
    some : Ways
        The ways.
    kept : tuple of array
        Bytes of a layer with a dense MLP, and of one with experts.
    back : array
        Bytes brought back for one layer.
    again, forward, backward : tuple of array
        Seconds by kind of layer: made again; waited for, forward and backward.
    order : array of int, shape (most, rows)
        Ways that no other one beats in seconds and in all bytes, the fastest first; the last one again where there are
        fewer.
    """

    some: Ways
    kept: tuple[Floats, Floats]
    back: Floats
    again: tuple[Floats, Floats]
    forward: tuple[Floats, Floats]
    backward: tuple[Floats, Floats]
    order: NDArray[np.int64]

    @classmethod
    def of(cls, some: Ways, layers: tuple[Layers, Layers], share: float, rate: float) -> Options:
        """Options of rows; `share` of the layers have experts, and the link to the host has `rate` bytes per second.

        The seconds that order them are those of an average layer, in whole picoseconds; of equal ones that which moves
        less to the host is first.
        """
        one = layers[0].cost(some, rate)
        two = one if layers[1] is layers[0] else layers[1].cost(some, rate)
        back = np.maximum(one[1] if share < 1 else 0.0, two[1] if share > 0 else 0.0)
        total = [sum(x[2:5]) for x in (one, two)]
        seconds = np.round((1 - share) * total[0] + share * total[1], 12)
        moved = np.rint((1 - share) * one[5] + share * two[5])
        # A stage needs what its layers keep and what is brought back for one of them. It has a layer at least, so that
        # this grows with what is kept, and with what is kept and brought back together, of the kinds that there are.
        kinds = [x[0] for x, there in ((one, share < 1), (two, share > 0)) if there]
        sizes = [np.rint(x) for x in (*kinds, *(x + back for x in kinds))]
        scores = some.actions[:, TENSORS.index("scores"), None] == AGAIN
        if scores.any() and not scores.all():
            sizes.append(np.where(scores, 1.0, np.zeros_like(seconds)))
        weights = np.stack(sizes)
        fronts = [front(seconds[:, r], moved[:, r], weights[:, :, r].T) for r in range(seconds.shape[1])]
        most = max(len(found) for found in fronts)
        order = np.stack([np.pad(found, (0, most - len(found)), mode="edge") for found in fronts], axis=1)
        return cls(some, (one[0], two[0]), back, (one[2], two[2]), (one[3], two[3]), (one[4], two[4]), order)

    def held(self, at: NDArray[np.int64], rows: NDArray[np.int64]) -> Held:
        """What layers hold, by way and row."""
        scores = self.some.actions[at, TENSORS.index("scores")] == AGAIN
        return Held(
            self.kept[0][at, rows], self.kept[1][at, rows], self.back[at, rows], scores, np.ones(len(at), dtype=bool)
        )

    def least(self, rows: NDArray[np.int64]) -> Held:
        """No more than any of the ways of a row holds."""
        low = [x.min(axis=0)[rows] for x in (*self.kept, self.back)]
        every = (self.some.actions[:, TENSORS.index("scores")] == AGAIN).all()
        return Held(low[0], low[1], low[2], np.full(len(rows), every), np.ones(len(rows), dtype=bool))


def front(seconds: Floats, moved: Floats, weights: Floats) -> NDArray[np.int64]:
    """Options that none beats in (seconds, moved) and in all `weights` (options, kinds), by these; of equal ones the
    first.

    The options are sorted, so that only earlier ones can beat one; block after block is held against those
    that are left.
    """
    order = np.lexsort((*weights.T[::-1], moved, seconds))
    left = np.empty(0, dtype=np.int64)
    for begin in range(0, len(order), BLOCK):
        some = order[begin : begin + BLOCK]
        w = weights[some]
        before = _no_more(weights[left], w).any(axis=1)
        inside = np.tril(_no_more(w, w), -1).any(axis=1)
        left = np.concatenate([left, some[~(before | inside)]])
    return left


def _no_more(some: Floats, others: Floats) -> NDArray[np.bool_]:
    """Whether each of `some` (columns) has no more of anything than each of the others (rows)."""
    found = np.ones((len(others), len(some)), dtype=bool)
    for a, b in zip(some.T, others.T, strict=True):
        found &= a[None] <= b[:, None]
    return found
