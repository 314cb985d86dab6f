"""`Search`: the cheapest cover of a graph by matches that can run, state by state.

The search begins at the graph's output, as Algorithm 1 of thesis 003 does. A state is a set of covered operators that
holds, with an operator, all that depend on it. A match can be added if all that depends on it is covered; so every
chain of states is a plan that runs, in reverse, and no circle can come about.

Of a plan's many chains one suffices. In a state, look at the uncovered operator that comes last; all its readers are
covered. Its match is added if it can be. If not, an operator outside depends on it that is uncovered: the last of these
is looked at in the same way. In a plan without circles this ends. So from a state only the matches are tried to which
this can lead. Where only the root of each match is read outside, these are the matches that hold the last uncovered
operator: its readers are covered, hence it is the root.

With boundaries, a state also holds which backends read each of its open values: those that covered operators read and
that are not covered themselves. Of two such states over the same operators one is dropped if it costs more even where
the open values favour it most.

Costs may be those above a bound of what is covered so far (`Programme.above`); then states that are above what the
cheapest plan can be are dropped.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ...errors import InfeasibleError
from .instance import Instance
from .masks import Masks

__all__ = ["Search", "TooWide"]

Readers = tuple[tuple[int, tuple[int, ...]], ...]
"""Open values (bits), each with the sorted numbers of the backends that read it."""
Cell = tuple[float, int, Any]
"""Milliseconds so far, the last match, and the cell before it."""


class TooWide(Exception):
    """The search over states took all its steps. `done` is the share of operators that it had covered."""

    def __init__(self, done: float) -> None:
        self.done = done


class Search:
    """One search over the states of an instance.

    Parameters
    ----------
    instance : Instance
        What is asked.
    masks : Masks
        The same as bits.
    steps : int
        Most steps: a match tried in a state, or two states compared.
    dearest : float
        Milliseconds above which a state is dropped.
    """

    def __init__(self, instance: Instance, masks: Masks, steps: int, dearest: float = math.inf) -> None:
        self.masks, self.most, self.dearest = masks, steps, dearest
        self.taken = self.held = self.dropped = 0
        self._boundary = instance.boundary_cost
        # Backends that can make each value, where that is a choice.
        makers = [frozenset(masks.backend[j] for j in those) for those in masks.holding]
        self._makers = [tuple(sorted(those)) for those in makers]
        self._chosen = [len(those) > 1 and self._boundary > 0 for those in makers]

    def best(self) -> list[int]:
        """Indices of the matches of the cheapest placement.

        Raises
        ------
        InfeasibleError
            If there is none, or none below `dearest`.
        TooWide
            If the steps do not suffice.
        """
        masks, whole = self.masks, self.masks.all
        levels: list[dict[int, dict[Readers, Cell]]] = [{} for _ in range(len(masks.ids) + 1)]
        levels[0][0] = {(): (0.0, -1, None)}
        furthest = 0
        for size, level in enumerate(levels[:-1]):
            for covered, cells in level.items():
                if not cells:
                    continue  # all were dropped
                furthest = covered
                kept = self._undominated(cells)
                for j in self.steps(covered):
                    following = covered | masks.members[j]
                    there = levels[size + masks.members[j].bit_count()].setdefault(following, {})
                    for readers, cell in kept:
                        added, after = self._read(readers, j) if self._boundary else (0.0, readers)
                        cost = cell[0] + masks.cost[j] + added
                        if cost > self.dearest:
                            self.dropped += 1
                            continue
                        known = there.get(after)
                        if known is None:
                            self.held += 1
                        if known is None or cost < known[0]:
                            there[after] = (cost, j, cell)
                    self.taken += len(kept)
                if self.taken > self.most:
                    raise TooWide(size / len(masks.ids))
            level.clear()  # cells that are still of use are held by those that follow them
        if not levels[-1].get(whole):
            left = masks.ids[(whole & ~furthest).bit_length() - 1]
            raise InfeasibleError(
                f"the matches cannot be put together: no set of them covers every operator once without a circle; a "
                f"match of operator {left} alone may be what is missing"
            )
        _, j, cell = min(levels[-1][whole].values(), key=lambda cell: cell[0])
        found = list[int]()
        while cell is not None:
            found.append(masks.index[j])
            _, j, cell = cell
        return found

    def steps(self, covered: int) -> Iterator[int]:
        """Matches that are tried next; see the module."""
        masks = self.masks
        last = (masks.all & ~covered).bit_length() - 1
        found: dict[int, None] = {}
        self._look(last, covered, 0, found)
        return iter(found)

    def _look(self, bit: int, covered: int, waiting: int, found: dict[int, None]) -> None:
        """Add to `found` the matches to which an operator leads, while others wait for it."""
        masks = self.masks
        taken = covered | waiting
        self.taken += 1
        for j in masks.holding[bit]:
            if masks.members[j] & taken:
                continue
            missing = masks.after[j] & ~covered
            if not missing:
                found[j] = None
            elif not missing & waiting:  # else they would wait for each other
                self._look(missing.bit_length() - 1, covered, waiting | masks.members[j], found)

    def _read(self, readers: Readers, j: int) -> tuple[float, Readers]:
        """What the boundaries of a match cost that are known once it is added, and the open values after that."""
        masks = self.masks
        backend, members = masks.backend[j], masks.members[j]
        added, open_values = 0, dict[int, tuple[int, ...]]()
        for value, those in readers:
            if members >> value & 1:
                added += len(those) - those.count(backend)
            else:
                open_values[value] = those
        for value in masks.values[j]:
            if self._chosen[value]:
                open_values[value] = tuple(sorted((*open_values.get(value, ()), backend)))
            elif self._makers[value][0] != backend:
                added += 1
        return added * self._boundary, tuple(sorted(open_values.items()))

    def _undominated(self, cells: dict[Readers, Cell]) -> list[tuple[Readers, Cell]]:
        """Cells that can still be part of the cheapest plan, the cheapest first."""
        if len(cells) == 1:
            return list(cells.items())
        kept = list[tuple[Readers, Cell]]()
        self.taken += len(cells)
        for readers, cell in sorted(cells.items(), key=lambda item: item[1][0]):
            for theirs, other in kept:
                if other[0] + self._most_more(theirs, readers) <= cell[0]:
                    break
            else:
                self.taken += len(kept)
                kept.append((readers, cell))
        return kept

    def _most_more(self, one: Readers, other: Readers) -> float:
        """By how much the boundaries of one state's open values can exceed those of another over the same operators."""
        crossings = 0
        for (value, a), (_, b) in zip(one, other, strict=True):
            if a != b:
                apart = len(a) - len(b)
                crossings += max(apart - a.count(maker) + b.count(maker) for maker in self._makers[value])
        return crossings * self._boundary
