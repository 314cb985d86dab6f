"""`Programme`: the cheapest cover as a linear and mixed-integer programme, for graphs with too many states.

One variable says of each match whether it is taken. Each operator is in exactly one match. A boundary is paid for by a
variable for each edge and reading backend, which is at least "a match of that backend reads the value here" less "a
match of that backend makes it elsewhere". That the last says "elsewhere" makes the relaxation tight: on drawn graphs of
matches whose inner values nobody else reads it was whole, or within 0.02 % of the answer.

So the relaxation comes first. If it is whole and nothing waits in a circle, it is the answer. If not, its prices say by
how much a plan with some match is at least above the bound. The programme is solved with the matches alone that a plan
within a small reach of the bound can have. If its answer is within that reach, no other is better; else the reach is
the answer's own.

Circles are forbidden when they turn up: no answer may pass, in matches of whatever backend, from value to reader round
the same way again.
"""

from __future__ import annotations

# scipy has no types.
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportArgumentType=false
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...errors import InfeasibleError, LimitError
from .instance import Instance
from .masks import Masks

__all__ = ["Programme", "Relaxed"]

ROUNDS = 200
"""Most programmes of one answer. In drawn graphs of 1,000 operators 1 to 3 were seen."""
FINE = 1e3
"""The solver stops within 1e-6 of the best; so costs are given to it in microseconds: 1e-9 ms."""
MARGIN = 1e-6
"""Milliseconds by which a match may be beyond the reach and is kept: prices hold within 1e-10 for each of a plan."""
NONE = "the matches cannot be put together: no set of them covers every operator once without a circle"

Entries = Sequence[tuple[int, int, float]]
"""Row, column and value of what is not zero."""


@dataclass(frozen=True, eq=False)
class Relaxed:
    """What a plan costs at least.

    Parameters
    ----------
    bound : float
        Milliseconds.
    taken : list of int
        Numbers of the matches that are taken, more than half.
    whole : bool
        Whether no match is taken by a fraction.
    prices : list of float
        Bit -> what its operator is worth; their sum is the bound.
    reduced : array of float
        Variable -> by how much a plan in which it is 1 is above the bound at least.
    """

    bound: float
    taken: list[int]
    whole: bool
    prices: list[float]
    reduced: Any


class Programme:
    """The programme of an instance; see the module.

    Parameters
    ----------
    instance : Instance
        What is asked.
    masks : Masks
        The same as bits.
    seconds : float
        Most seconds of a solution.
    """

    def __init__(self, instance: Instance, masks: Masks, seconds: float) -> None:
        import numpy as np

        self.masks, self.seconds, self.n_matches = masks, seconds, len(masks.members)
        self._bit = {v: b for b, v in enumerate(masks.ids)}
        self._inputs = [[self._bit[x] for x in instance.by_id[v].inputs if x >= 0] for v in masks.ids]
        edges = self._edges() if instance.boundary_cost > 0 else []
        self.n = self.n_matches + len(edges)
        self._cost = FINE * np.array([*masks.cost, *[instance.boundary_cost] * len(edges)])
        self._cover = self._rows([(b, j, 1.0) for b, those in enumerate(masks.holding) for j in those], len(masks.ids))
        entries = [(k, self.n_matches + k, -1.0) for k in range(len(edges))]
        entries += [(k, j, 1.0) for k, (reading, _) in enumerate(edges) for j in reading]
        entries += [(k, j, -1.0) for k, (_, making) in enumerate(edges) for j in making]
        self._paid = self._rows(entries, len(edges))
        self._circles = list[tuple[set[int], int]]()

    def relaxed(self) -> Relaxed:
        """The bound: the cheapest cover by fractions of matches, whether or not some wait in a circle.

        Raises
        ------
        InfeasibleError
            If not even fractions cover every operator.
        LimitError
            If it takes too long.
        """
        import numpy as np
        from scipy.optimize import linprog

        answer: Any = linprog(
            self._cost, self._paid, np.zeros(self._paid.shape[0]), self._cover, np.ones(self._cover.shape[0]),
            bounds=(0, None), method="highs-ds", options={"time_limit": self.seconds},
        )  # fmt: skip
        self._check(answer)
        worth = answer.eqlin.marginals
        reduced = self._cost - self._cover.T @ worth - self._paid.T @ answer.ineqlin.marginals
        values = answer.x[: self.n_matches]
        whole = bool(((values < 1e-6) | (values > 1 - 1e-6)).all())
        return Relaxed(float(worth.sum()) / FINE, self._taken(values), whole, (worth / FINE).tolist(), reduced / FINE)

    def above(self, relaxed: Relaxed, reach: float) -> Masks:
        """The matches that a plan within reach of the bound can have, each with its cost above what it covers is worth.

        A plan's costs then add up to what it is above the bound, and a state's are never above what all plans through
        it are: what open values are worth is left out.
        """
        kept, masks = relaxed.reduced <= reach + MARGIN, self.masks
        holding = tuple(tuple(j for j in those if kept[j]) for those in masks.holding)
        over = list(masks.cost)
        for price, those in zip(relaxed.prices, masks.holding, strict=True):
            for j in those:
                over[j] -= price
        return replace(masks, cost=tuple(over), holding=holding)

    def best(self, relaxed: Relaxed, reach: float) -> list[int]:
        """Indices of the matches of the cheapest placement, as the mixed-integer programme finds them.

        Raises
        ------
        InfeasibleError
            If there is none.
        LimitError
            If it is not known in `seconds`, or after `ROUNDS` programmes.
        """
        for _ in range(ROUNDS):
            kept = relaxed.reduced <= reach + MARGIN
            found = self._whole(kept)
            if found is None:
                if kept.all():
                    raise InfeasibleError(NONE)
                reach = max(4 * reach, MARGIN)
                continue
            taken, cost = found
            if self.forbid(taken):
                continue
            if kept.all() or cost - relaxed.bound <= reach + MARGIN / 2:
                return self.named(taken)
            reach = cost - relaxed.bound
        raise LimitError(f"collage-op: {ROUNDS} mixed-integer programmes in a row had circles in their answers")

    def named(self, taken: Sequence[int]) -> list[int]:
        """Indices of these matches in the instance."""
        return [self.masks.index[j] for j in taken]

    def forbid(self, taken: Sequence[int]) -> bool:
        """Whether some of the matches that are taken wait in a circle; no answer goes that way again."""
        masks = self.masks
        owner = {b: j for j in taken for b in range(len(masks.ids)) if masks.members[j] >> b & 1}
        found = _circles({j: sorted({owner[value] for value in masks.values[j]}) for j in taken})
        for circle in found:
            # In each match: the operator that reads from the next, and the value that the one before reads of it.
            steps = [self._edge(j, k) for j, k in zip(circle, [*circle[1:], circle[0]], strict=True)]
            ways = [{reader, steps[i - 1][1]} for i, (reader, _) in enumerate(steps)]
            those = set[int]()
            for way in ways:
                those |= set.intersection(*(set(masks.holding[b]) for b in way))
            self._circles.append((those, len(circle)))
        return bool(found)

    def _edge(self, reading: int, making: int) -> tuple[int, int]:
        """An operator of one match and a value of the other that it reads."""
        own, theirs = self.masks.members[reading], self.masks.members[making]
        return next(
            (b, x) for b in range(own.bit_length()) if own >> b & 1 for x in self._inputs[b] if theirs >> x & 1
        )  # fmt: skip

    def _whole(self, kept: Any) -> tuple[list[int], float] | None:
        """Matches that are taken and their cost, if only those kept may be; None if they cannot cover all."""
        import numpy as np
        from scipy.optimize import Bounds, LinearConstraint, milp

        most = np.array([length - 1.0 for _, length in self._circles])
        limits = [(self._cover, 1.0, 1.0), (self._paid, -np.inf, 0.0), (self._forbidden(), -np.inf, most)]
        answer: Any = milp(
            self._cost, integrality=np.arange(self.n) < self.n_matches, bounds=Bounds(0.0, np.where(kept, 1.0, 0.0)),
            constraints=[LinearConstraint(*limit) for limit in limits if limit[0].shape[0]],
            options={"mip_rel_gap": 0.0, "time_limit": self.seconds},
        )  # fmt: skip
        if answer.status == 2:
            return None
        self._check(answer)
        return self._taken(answer.x), float(answer.fun) / FINE

    def _taken(self, values: Any) -> list[int]:
        return [j for j in range(self.n_matches) if values[j] > 0.5]

    def _forbidden(self) -> Any:
        """A row for each circle: in how many of its steps an answer may be at most one fewer than there are."""
        entries = [(k, j, 1.0) for k, (those, _) in enumerate(self._circles) for j in sorted(those)]
        return self._rows(entries, len(self._circles))

    def _check(self, answer: Any) -> None:
        if answer.status == 2:
            raise InfeasibleError(NONE)
        if answer.x is None or answer.status != 0:
            raise LimitError(
                f"collage-op: the mixed-integer programme was not solved in {self.seconds:g} s, so the cheapest "
                "placement is not known; allow more (seconds=…), or give fewer matches that reach across parallel "
                "branches"
            )

    def _rows(self, entries: Entries, count: int) -> Any:
        import numpy as np
        from scipy.sparse import csr_array

        at = np.array(entries, float).reshape(-1, 3)
        return csr_array((at[:, 2], (at[:, 0].astype(int), at[:, 1].astype(int))), shape=(count, self.n))

    def _edges(self) -> list[tuple[list[int], list[int]]]:
        """For each value, operator that reads it, and backend: the matches that read it there, and those that make it.

        A match that reads a value at several operators is listed at the first of them, since it pays once. One that
        makes the value and holds the reader is not listed: nobody reads the value there then.
        """
        masks = self.masks
        reading: dict[tuple[int, int, int], list[int]] = {}
        for j, members in enumerate(masks.members):
            first: dict[int, int] = {}
            for b in _bits(members):
                for value in self._inputs[b]:
                    if not members >> value & 1:
                        first.setdefault(value, b)
            for value, b in first.items():
                reading.setdefault((value, b, masks.backend[j]), []).append(j)
        return [
            (those, [j for j in masks.holding[value] if masks.backend[j] == backend and not masks.members[j] >> b & 1])
            for (value, b, backend), those in reading.items()
        ]


def _bits(mask: int) -> list[int]:
    """Numbers of the bits that are set, ascending."""
    found = list[int]()
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


def _circles(waits: dict[int, list[int]]) -> list[list[int]]:
    """For each match in a circle a shortest one through it, each circle once; each match waits for the one after it."""
    found: dict[frozenset[int], list[int]] = {}
    free = _free(waits)
    for start in waits:
        if start in free:
            continue
        came, queue = {start: start}, deque([start])
        while queue:
            j = queue.popleft()
            if start in waits[j]:
                circle = [j]
                while circle[-1] != start:
                    circle.append(came[circle[-1]])
                found[frozenset(circle)] = circle[::-1]
                break
            for k in waits[j]:
                if k not in came and k not in free:
                    came[k] = j
                    queue.append(k)
    return list(found.values())


def _free(waits: dict[int, list[int]]) -> set[int]:
    """Matches that wait for no circle."""
    left, free = dict(waits), set[int]()
    while ready := [j for j, those in left.items() if free.issuperset(those)]:
        free.update(ready)
        for j in ready:
            del left[j]
    return free
