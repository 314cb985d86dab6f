"""`place`: the cheapest cover of a graph by matches that can run, exactly.

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
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...errors import InfeasibleError, InputError, LimitError
from .instance import Instance, read_instance
from .masks import Masks, masks_of
from .placement import Placement, placement_of
from .program import by_program

__all__ = ["MOST_STEPS", "Search", "TooWide", "place"]

MOST_STEPS = 200_000
"""Steps after which `place` gives up its search over states: about 1.4 s. Drawn networks of 1,000 operators and 7,700
matches took 6,000 to 150,000, one of eight branches and matches with several results 350,000."""
SECONDS = 120.0
"""Most seconds for each mixed-integer programme by default: a guess at what is acceptable."""

Readers = tuple[tuple[int, tuple[int, ...]], ...]
"""Open values (bits), each with the sorted numbers of the backends that read it."""
Cell = tuple[float, int, Any]
"""Milliseconds so far, the last match, and the cell before it."""


class TooWide(Exception):
    """The search over states took all its steps. `done` is the share of operators that it had covered."""

    def __init__(self, done: float) -> None:
        self.done = done


def place(instance: Instance | Mapping[str, Any], *, steps: int = MOST_STEPS, seconds: float = SECONDS) -> Placement:
    """The cheapest placement: every operator is in exactly one match, and no matches wait for each other.

    The cost is Σ cost + ε · (number of matches), and `boundary_cost` for each pair of a value and a match that reads it
    whose producer is on another backend. The answer is proven to be the cheapest; of equal ones it is always the same.

    Parameters
    ----------
    instance : Instance or mapping
        See `read_instance`.
    steps : int
        Most steps of the search over states: a match tried in a state, or two states compared. If they do not suffice,
        a mixed-integer programme answers instead (`by_program`).
    seconds : float
        Most seconds for each of its programmes. With 0 there is none.

    Raises
    ------
    InputError
        If the instance is not one; says where.
    InfeasibleError
        If no backend takes an operator, which is named; or if matches cannot be put together.
    LimitError
        If neither steps nor seconds suffice, so that the cheapest placement is not known.

    Notes
    -----
    Source: thesis 003 §2.4.2, equations 2.2 to 2.4. Algorithm 1 as published allows circles: `published_placement`.
    """
    given = read_instance(instance)
    if steps < 1 or not seconds >= 0:
        raise InputError(f"expected steps >= 1 and seconds >= 0 (got {steps} and {seconds})")
    masks = masks_of(given)
    search = Search(given, masks, steps)
    try:
        found = search.best()
    except TooWide as end:
        if seconds == 0:
            raise LimitError(
                f"collage-op: our limit of {steps:,} steps ended the search with {end.done:.0%} of the operators "
                "covered, so the cheapest placement is not known; raise it (steps=…) or allow a programme (seconds=…)"
            ) from None
        found = by_program(given, masks, seconds)
    return placement_of(given, found, "collage-op", search.held)


class Search:
    """One search over the states of an instance.

    Parameters
    ----------
    instance : Instance
        What is asked.
    masks : Masks
        The same as bits.
    steps : int
        Most steps; see `place`.
    """

    def __init__(self, instance: Instance, masks: Masks, steps: int) -> None:
        self.masks, self.most, self.taken, self.held = masks, steps, 0, 0
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
            If there is none.
        TooWide
            If the steps do not suffice.
        """
        masks, whole = self.masks, self.masks.all
        levels: list[dict[int, dict[Readers, Cell]]] = [{} for _ in range(len(masks.ids) + 1)]
        levels[0][0] = {(): (0.0, -1, None)}
        furthest = 0
        for size, level in enumerate(levels[:-1]):
            for covered, cells in level.items():
                furthest = covered
                kept = self._undominated(cells)
                for j in self.steps(covered):
                    following = covered | masks.members[j]
                    there = levels[size + masks.members[j].bit_count()].setdefault(following, {})
                    for readers, cell in kept:
                        added, after = self._read(readers, j) if self._boundary else (0.0, readers)
                        cost = cell[0] + masks.cost[j] + added
                        known = there.get(after)
                        if known is None:
                            self.held += 1
                        if known is None or cost < known[0]:
                            there[after] = (cost, j, cell)
                    self.taken += len(kept)
                if self.taken > self.most:
                    raise TooWide(size / len(masks.ids))
            level.clear()  # cells that are still of use are held by those that follow them
        if whole not in levels[-1]:
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
