"""`Masks`: an instance as bits, ready for a search that begins at the graph's output.

A set of operators is a Python integer, one bit an operator. Bits are numbered in a topological order of the search's
own: one branch after the other, so that few branches are open at a time, however the instance lists its operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import InfeasibleError
from ...wording import short
from .instance import Instance

__all__ = ["Masks", "masks_of"]


@dataclass(frozen=True, eq=False)
class Masks:
    """Operators by their bits, and the matches that can be part of a plan that runs.

    Parameters
    ----------
    ids : tuple of int
        Bit -> id. A value has a lower bit than all that read it.
    index : tuple of int
        Number of a kept match -> its index in the instance.
    members : tuple of int
        Kept match -> its operators.
    after : tuple of int
        Kept match -> all operators outside that depend on any of its own.
    values : tuple of tuple of int
        Kept match -> bits of the operators outside whose results it reads.
    cost : tuple of float
        Kept match -> cost + ε.
    backend : tuple of int
        Kept match -> number of its backend.
    holding : tuple of tuple of int
        Bit -> kept matches that hold the operator, the cheapest per operator first.
    """

    ids: tuple[int, ...]
    index: tuple[int, ...]
    members: tuple[int, ...]
    after: tuple[int, ...]
    values: tuple[tuple[int, ...], ...]
    cost: tuple[float, ...]
    backend: tuple[int, ...]
    holding: tuple[tuple[int, ...], ...]

    @property
    def all(self) -> int:
        """All operators."""
        return (1 << len(self.ids)) - 1


def masks_of(instance: Instance, *, by_backend: bool = False) -> Masks:
    """Number the operators and drop what no plan can use.

    Dropped are matches of which one operator depends on another by way of operators outside: such a match waits for
    itself. And of matches of the same operators all but the cheapest; where boundaries cost, of each backend.

    Parameters
    ----------
    instance : Instance
        What is asked.
    by_backend : bool
        Keep the cheapest of each backend in any case: for who does not choose by cost alone.

    Raises
    ------
    InfeasibleError
        If an operator is in no match, or only in such ones; names it.
    """
    order = _branch_by_branch(instance)
    bit = {v: b for b, v in enumerate(order)}
    n = len(order)
    before, after = [0] * n, [0] * n
    for b, v in enumerate(order):
        for source in instance.by_id[v].inputs:
            if source >= 0:
                before[b] |= before[bit[source]] | 1 << bit[source]
    for b in reversed(range(n)):
        for source in instance.by_id[order[b]].inputs:
            if source >= 0:
                after[bit[source]] |= after[b] | 1 << b
    best: dict[tuple[str, int], int] = {}
    apart = by_backend or instance.boundary_cost > 0
    behind: dict[int, int | None] = {}
    for k, match in enumerate(instance.matches):
        mask = up = down = 0
        for v in match.nodes:
            mask |= 1 << bit[v]
        if mask not in behind:
            for v in match.nodes:
                up |= before[bit[v]]
                down |= after[bit[v]]
            behind[mask] = None if up & down & ~mask else down & ~mask
        if behind[mask] is None:
            continue
        key = (match.backend if apart else "", mask)
        known = best.get(key)
        if known is None or match.cost < instance.matches[known].cost:
            best[key] = k
    kept = sorted((k, mask) for (_, mask), k in best.items())
    _check_all_covered(instance, [k for k, _ in kept])
    number = {name: k for k, name in enumerate(instance.backends)}
    index = tuple(k for k, _ in kept)
    holding: list[list[int]] = [[] for _ in order]
    for j, k in enumerate(index):
        for v in instance.matches[k].nodes:
            holding[bit[v]].append(j)
    cost = tuple(instance.matches[k].cost + instance.eps for k in index)
    size = [len(instance.matches[k].nodes) for k in index]
    for those in holding:
        those.sort(key=lambda j: (cost[j] / size[j], j))
    return Masks(
        order, index, tuple(mask for _, mask in kept), tuple(behind[mask] or 0 for _, mask in kept),
        tuple(tuple(bit[v] for v in instance.values_read(instance.matches[k])) for k in index), cost,
        tuple(number[instance.matches[k].backend] for k in index), tuple(map(tuple, holding)),
    )  # fmt: skip


def _branch_by_branch(instance: Instance) -> tuple[int, ...]:
    """A topological order that, seen from the output, ends one branch before it begins the next."""
    readers = dict.fromkeys(instance.by_id, 0)
    sources = {node.id: [x for x in dict.fromkeys(node.inputs) if x >= 0] for node in instance.nodes}
    for read in sources.values():
        for source in read:
            readers[source] += 1
    stack = [v for v, count in readers.items() if not count]
    found = list[int]()
    while stack:
        v = stack.pop()
        found.append(v)
        for source in sources[v]:
            readers[source] -= 1
            if not readers[source]:
                stack.append(source)
    return tuple(reversed(found))


def _check_all_covered(instance: Instance, kept: Sequence[int]) -> None:
    taken, given = (
        {v for k in which for v in instance.matches[k].nodes} for which in (kept, range(len(instance.matches)))
    )
    for node in instance.nodes:
        if node.id not in taken:
            backends = ", ".join(instance.backends) or "none"
            why = (
                "all matches that hold it wait for themselves: operators outside lie between their own"
                if node.id in given
                else "give a match that holds it"
            )
            raise InfeasibleError(
                f"operator {node.id} ({short(node.op)}) is taken by no backend (there are: {backends}); {why}"
            )
