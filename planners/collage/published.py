"""`published_placement`: Algorithm 1 of thesis 003 as its authors' program runs it, circles included. A reference."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush
from typing import Any

from ...errors import InfeasibleError
from .instance import Instance, read_instance
from .placement import Placement, placement_of

__all__ = ["published_placement"]

Cell = tuple[float, int, int]
"""Milliseconds, the last match, and the state before it."""


def published_placement(instance: Instance | Mapping[str, Any]) -> Placement:
    """The placement that Algorithm 1 returns; `circular` says whether it cannot run.

    A queue by depth holds the operators to match at, first the output; the depth of an operator is the longest path
    from it to the output. At each, every match rooted there is tried on every state (set of matched operators) that it
    is disjoint from and of which the match's depth is the first that is not wholly matched. The operators that a match
    reads enter the queue.

    What it gets wrong:

    - It lets a match read an inner value of another one without asking which of the two runs first. Two matches can so
      wait for each other; such a plan may be cheaper than every plan that runs. `place` finds the cheapest that runs.
    - It does not know boundaries: they are in `cost`, but it does not choose by them.

    Where only the root of each match is read outside, neither can happen but for boundaries, and it is exact: every
    operator of a match reaches its root, so a circle of matches would be a circle of operators.

    Raises
    ------
    InputError
        If the instance is not one.
    InfeasibleError
        If at an operator no match is rooted that fits, and so no state holds all operators.

    Notes ----- Source: thesis 003, Algorithm 1, and github.com/cmu-catalyst/collage (663d6df), which files states by
    depth where the text says post-order. The ε that the program charges once more for the start is left out. Line 3 of
    the printed algorithm lacks its "not".
    """
    given = read_instance(instance)
    bit = {node.id: k for k, node in enumerate(given.nodes)}
    depth = _depths(given)
    at_depth = [0] * (max(depth.values()) + 1)
    for v, d in depth.items():
        at_depth[d] |= 1 << bit[v]
    rooted: dict[int, list[int]] = {}
    for k, match in enumerate(given.matches):
        rooted.setdefault(match.root, []).append(k)
    masks = [sum(1 << bit[v] for v in match.nodes) for match in given.matches]

    def first_open(state: int) -> int:
        return next((d for d, those in enumerate(at_depth) if those & ~state), len(at_depth))

    cells: dict[int, Cell] = {0: (0.0, -1, 0)}
    filed: list[dict[int, None]] = [
        {} for _ in range(len(at_depth) + 1)
    ]  # by the first depth that is not wholly matched
    filed[0][0] = None
    output = given.nodes[-1].id
    queue, met = [(0, bit[output], output)], {output}
    while queue:
        d, _, v = heappop(queue)
        for k in rooted.get(v, ()):
            for value in given.values_read(given.matches[k]):
                if value not in met:
                    met.add(value)
                    heappush(queue, (depth[value], bit[value], value))
            for state in [state for state in filed[d] if not state & masks[k]]:
                cost = cells[state][0] + given.matches[k].cost + given.eps
                following = state | masks[k]
                if following not in cells:
                    filed[first_open(following)][following] = None
                if following not in cells or cost < cells[following][0]:
                    cells[following] = (cost, k, state)
    state = (1 << len(given.nodes)) - 1
    if state not in cells:
        raise InfeasibleError("Algorithm 1 found no placement: no state holds all operators")
    found = list[int]()
    while state:
        _, k, state = cells[state]
        found.append(k)
    return placement_of(given, found, "collage-published", len(cells))


def _depths(instance: Instance) -> dict[int, int]:
    """Id -> the longest path to the output, in operators."""
    depth = dict.fromkeys(instance.by_id, 0)
    for node in reversed(instance.nodes):
        for source in node.inputs:
            if source >= 0:
                depth[source] = max(depth[source], depth[node.id] + 1)
    return depth
