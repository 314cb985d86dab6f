"""Exact reductions of a `Model`: what cannot be in an optimal solution goes, what decides nothing is folded away.

- A strategy of infinite cost, or without a partner at some neighbour, or too large for a memory row, goes.
- A strategy goes that another of its node beats whatever the neighbours choose, with no larger tensor (dead-end
  elimination: the difference of costs plus, per neighbour, the smallest difference of the pair costs, is ≥ 0).
- A pair table that is a sum of one vector per node is no pair: the vectors join the nodes.
- A node with no say in memory and one or two neighbours is replaced by its best answer to them.
"""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt

from ....errors import InfeasibleError
from .model import Model
from .problem import Floats

__all__ = ["presolve", "prune"]


def presolve(model: Model, fold: bool = True) -> None:
    """Reduce in place until nothing changes.

    Parameters
    ----------
    model : Model
        The model to be reduced, in place.
    fold : bool
        Whether nodes with one or two neighbours may be replaced.

    Raises
    ------
    InfeasibleError
        If a node has no strategy left.
    """
    todo, waiting = deque(sorted(model.unary)), set(model.unary)
    while todo:
        node = todo.popleft()
        waiting.discard(node)
        if node not in model.unary:
            continue
        near = list(model.pairs[node])
        size = len(model.unary[node])
        _drop_impossible(model, node)
        _drop_dominated(model, node)
        changed = len(model.unary[node]) < size
        for other in near:
            _split(model, node, other)
        free = node not in model.needs and node not in model.memory
        if free and (not model.pairs[node] or (fold and len(model.pairs[node]) <= 2)):
            _fold(model, node)
            changed = True
        if changed:
            for other in near:
                if other in model.unary and other not in waiting:
                    waiting.add(other)
                    todo.append(other)


def prune(model: Model, node: int, allowed: npt.NDArray[np.bool_]) -> None:
    """Keep the allowed strategies of a node.

    Raises
    ------
    InfeasibleError
        If there are none.
    """
    if not allowed.any():
        raise InfeasibleError(
            f"node {node}: no strategy is left that has a finite cost, a partner at every alias and edge, and fits the"
            " memory; allow more alias pairs or raise M"
        )
    if not allowed.all():
        model.keep(node, allowed)


def _drop_impossible(model: Model, node: int) -> None:
    allowed = np.isfinite(model.unary[node])
    for table in model.pairs[node].values():
        allowed &= np.isfinite(table.min(axis=1))
    if node in model.memory:
        allowed &= (model.memory[node] <= model.room[:, None]).all(axis=0)
    prune(model, node, allowed)


def _drop_dominated(model: Model, node: int) -> None:
    size = len(model.unary[node])
    if size == 1:
        return
    cost = model.unary[node]
    worse = cost[:, None] - cost[None, :]
    for table in model.pairs[node].values():
        with np.errstate(invalid="ignore"):
            difference = table[:, None, :] - table[None, :, :]
        # Where both are infinite neither can be; fmin leaves those out.
        worse = worse + np.where(np.isnan(difference), np.inf, difference).min(axis=2)
    beaten = worse >= 0
    if node in model.needs:
        needs = model.needs[node]
        beaten &= (needs[:, :, None] >= needs[:, None, :]).all(axis=0)
    np.fill_diagonal(beaten, False)
    kept = np.ones(size, bool)
    # The dearest first, and only strategies that are still kept may beat: of two equal ones exactly one stays.
    for strategy in np.argsort(-cost, kind="stable"):
        kept[strategy] = not (beaten[strategy] & kept).any()
    prune(model, node, kept)


def _split(model: Model, node: int, other: int) -> None:
    """Move a table that is a sum of two vectors into the nodes, where no rounding makes it another."""
    table = model.pairs[node].get(other)
    if table is None or not np.isfinite(table).all():
        return
    # From the least entry on: what a pair costs is never split into a large sum and a large difference.
    a, b = divmod(int(table.argmin()), table.shape[1])
    column = table[:, b] - table[a, b]
    row = table[a]
    if np.array_equal(column[:, None] + row[None, :], table):
        model.drop_pair(node, other)
        model.unary[node] = model.unary[node] + column
        model.unary[other] = model.unary[other] + row


def _fold(model: Model, node: int) -> None:
    cost: Floats = model.unary.pop(node)
    near = list(model.pairs[node].items())
    for other, _ in near:
        model.drop_pair(node, other)
    del model.pairs[node]
    model.eliminated.append((node, cost, [(other, model.active[other], table) for other, table in near]))
    if not near:
        model.constant += float(cost.min())
    elif len(near) == 1:
        other, table = near[0]
        model.unary[other] = model.unary[other] + (cost[:, None] + table).min(axis=0)
    else:
        (a, left), (b, right) = near
        answer = (cost[:, None, None] + left[:, :, None] + right[:, None, :]).min(axis=0)
        model.add_pair(a, b, answer)
