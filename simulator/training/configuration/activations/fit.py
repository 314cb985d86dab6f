"""The way to treat what layers keep that adds the least seconds and fits, for arrays of configurations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..columns import RECOMPUTE, Columns
from .choices import Held, Options

__all__ = ["Chosen", "choose"]

Floats = NDArray[np.float64]
Pair = tuple[Floats, Floats]


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """What was chosen, one value per row; nothing where a row says what is recomputed and offloads nothing.

    Parameters
    ----------
    held : Held
        Bytes, and the rows for which something was chosen.
    again, forward, backward : tuple of array
        Seconds of a layer with a dense MLP and of one with experts: made again; waited for the host, forward and
        backward.
    actions : array of int8, shape (rows, classes)
        What becomes of each class.
    whole : array of bool
        Whether layers are made again as a whole.
    """

    held: Held
    again: Pair
    forward: Pair
    backward: Pair
    actions: NDArray[np.int8]
    whole: NDArray[np.bool_]

    @property
    def parts(self) -> tuple[Pair, Pair, Pair]:
        """Seconds made again, and waited for forward and backward, each by kind of layer."""
        return self.again, self.forward, self.backward

    @property
    def each(self) -> tuple[list[Floats], list[Floats]]:
        """The same by kind of layer, each by part."""
        return [x[0] for x in self.parts], [x[1] for x in self.parts]


def choose(
    c: Columns,
    options: Callable[[Columns, str, bool], tuple[Options, NDArray[np.int64]]],
    needs: Callable[[Columns, Held], NDArray[np.int64]],
    limit: float,
) -> Chosen | None:
    """For each row with something to choose the cheapest way that fits, or the one that keeps least where none does.

    Parameters
    ----------
    c : Columns
        Configurations.
    options : callable
        (columns, recompute, offload) -> options of the rows that differ, and which of them each row is like.
    needs : callable
        (columns, held) -> bytes that the fullest device needs.
    limit : float
        Bytes that it may need.
    """
    rows = (c.recompute == RECOMPUTE.index("chosen")) | c.offload_activations
    if not rows.any():
        return None
    n = len(rows)
    numbers = [np.zeros(n) for _ in range(9)]
    scores, whole = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    actions: NDArray[np.int8] | None = None
    for code, word in enumerate(RECOMPUTE):
        for offload in (False, True):
            mine = np.flatnonzero(rows & (c.recompute == code) & (c.offload_activations == offload))
            if not len(mine):
                continue
            part = c.take(mine)
            given, back = options(part, word, offload)
            at = _pick(part, given, back, needs, limit)
            held = given.held(at, back)
            pairs = (*given.kept, given.back, *given.again, *given.forward, *given.backward)
            for column, values in zip(numbers, pairs, strict=True):
                column[mine] = values[at, back]
            scores[mine], whole[mine] = held.scores, given.some.whole[at]
            if actions is None:
                actions = np.zeros((n, given.some.actions.shape[1]), dtype=np.int8)
            actions[mine] = given.some.actions[at]
    assert actions is not None  # some row has something to choose
    dense, mixed, back_bytes = numbers[:3]
    pairs = [(numbers[k], numbers[k + 1]) for k in (3, 5, 7)]
    return Chosen(Held(dense, mixed, back_bytes, scores, rows), pairs[0], pairs[1], pairs[2], actions, whole)


def _pick(
    c: Columns,
    given: Options,
    back: NDArray[np.int64],
    needs: Callable[[Columns, Held], NDArray[np.int64]],
    limit: float,
) -> NDArray[np.int64]:
    """The way of each row: along its front, from the fastest, the first that fits."""
    kept = given.kept[0] + given.kept[1]
    found = np.argmin(kept, axis=0)[back]
    # Where even the least of all ways together does not fit, none does.
    left = np.flatnonzero(needs(c, given.least(back)) <= limit)
    for place in given.order:
        if not len(left):
            break
        at = place[back[left]]
        fits = needs(c.take(left), given.held(at, back[left])) <= limit
        found[left[fits]] = at[fits]
        left = left[~fits]
    return found
