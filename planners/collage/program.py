"""`by_program`: the cheapest cover as a mixed-integer programme, for graphs whose states are too many for `Search`.

One variable says of each match whether it is taken. Each operator is in exactly one match. A boundary is paid for by a
variable for each edge and reading backend, which is at least "a match of that backend reads the value here" less "a
match of that backend makes it". Circles are forbidden when they turn up: the programme is solved; if matches of the
answer wait for each other, no answer may hold all matches of one such circle again; and so on until there is none.

The answer is proven: each programme allows all plans without circles, so the first best answer without one is best.
"""

from __future__ import annotations

# scipy has no types.
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportArgumentType=false
from collections import deque
from collections.abc import Sequence
from typing import Any

from ...errors import InfeasibleError, LimitError
from .instance import Instance
from .masks import Masks

__all__ = ["by_program"]

ROUNDS = 200
"""Most programmes. In drawn graphs of 1,000 operators 1 to 7 were seen."""
FINE = 1e3
"""The solver stops within 1e-6 of the best; so costs are given to it in microseconds: 1e-9 ms."""


def by_program(instance: Instance, masks: Masks, seconds: float) -> list[int]:
    """Indices of the matches of the cheapest placement.

    Parameters
    ----------
    instance : Instance
        What is asked.
    masks : Masks
        The same as bits.
    seconds : float
        Most seconds for each programme.

    Raises
    ------
    InfeasibleError
        If there is none.
    LimitError
        If it is not known in `seconds`, or after `ROUNDS` programmes.
    """
    import numpy as np
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    n_matches = len(masks.members)
    edges = _edges(instance, masks) if instance.boundary_cost > 0 else []
    n = n_matches + len(edges)
    cost = FINE * np.array([*masks.cost, *[instance.boundary_cost] * len(edges)])
    one = np.array([0.0] * n_matches + [np.inf] * len(edges))
    one[:n_matches] = 1.0
    whole = np.array([1] * n_matches + [0] * len(edges))

    def rows(entries: Sequence[tuple[int, int, float]], count: int) -> Any:
        at = np.array(entries, float).reshape(-1, 3)
        return csr_array((at[:, 2], (at[:, 0].astype(int), at[:, 1].astype(int))), shape=(count, n))

    cover = rows([(b, j, 1.0) for b, those in enumerate(masks.holding) for j in those], len(masks.ids))
    limits: list[Any] = [LinearConstraint(cover, 1.0, 1.0)]
    if edges:
        entries = [(k, n_matches + k, 1.0) for k in range(len(edges))]
        entries += [(k, j, -1.0) for k, (reading, _) in enumerate(edges) for j in reading]
        entries += [(k, j, 1.0) for k, (_, making) in enumerate(edges) for j in making]
        limits.append(LinearConstraint(rows(entries, len(edges)), 0.0, np.inf))
    circles = list[list[int]]()
    for _ in range(ROUNDS):
        more = list[Any]()
        if circles:
            entries = [(k, j, 1.0) for k, circle in enumerate(circles) for j in circle]
            most = np.array([len(circle) - 1.0 for circle in circles])
            more.append(LinearConstraint(rows(entries, len(circles)), -np.inf, most))
        answer = milp(
            cost, integrality=whole, bounds=Bounds(0.0, one), constraints=[*limits, *more],
            options={"mip_rel_gap": 0.0, "time_limit": seconds},
        )  # fmt: skip
        if answer.status == 2:
            raise InfeasibleError(
                "the matches cannot be put together: no set of them covers every operator once without a circle"
            )
        if answer.x is None or answer.status != 0:
            raise LimitError(
                f"collage-op: the mixed-integer programme was not solved in {seconds:g} s, so the cheapest placement "
                "is not known; allow more (seconds=…), or give fewer matches that reach across parallel branches"
            )
        taken = [j for j in range(n_matches) if answer.x[j] > 0.5]
        found = _circles(masks, taken)
        if not found:
            return [masks.index[j] for j in taken]
        circles += found
    raise LimitError(f"collage-op: {ROUNDS} mixed-integer programmes in a row had circles in their answers")


def _edges(instance: Instance, masks: Masks) -> list[tuple[list[int], list[int]]]:
    """For each value, operator that reads it, and backend: the matches that read it there, and those that make it.

    A match that reads a value at several operators is listed at the first of them, since it pays once.
    """
    bit = {v: b for b, v in enumerate(masks.ids)}
    reading: dict[tuple[int, int, int], list[int]] = {}
    for j, k in enumerate(masks.index):
        for value in masks.values[j]:
            nodes = instance.matches[k].nodes
            first = min(bit[v] for v in nodes if masks.ids[value] in instance.by_id[v].inputs)
            reading.setdefault((value, first, masks.backend[j]), []).append(j)
    return [
        (those, [j for j in masks.holding[value] if masks.backend[j] == backend])
        for (value, _, backend), those in reading.items()
    ]


def _circles(masks: Masks, taken: Sequence[int]) -> list[list[int]]:
    """For each match in a circle a shortest one through it, each circle once."""
    owner = {b: j for j in taken for b in range(len(masks.ids)) if masks.members[j] >> b & 1}
    waits = {j: sorted({owner[value] for value in masks.values[j]}) for j in taken}
    found: dict[frozenset[int], list[int]] = {}
    free = _free(waits)
    for start in taken:
        if start in free:
            continue
        came, queue = {start: start}, deque([start])
        while queue:
            j = queue.popleft()
            if start in waits[j]:
                circle = [j]
                while circle[-1] != start:
                    circle.append(came[circle[-1]])
                found[frozenset(circle)] = circle
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
