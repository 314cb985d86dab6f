"""What Collage is held against: one backend alone, a rule of priorities, and all covers one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import InfeasibleError, InputError, LimitError
from .exact import Search, place
from .instance import Instance, read_instance
from .masks import masks_of
from .placement import Placement, placement_of

__all__ = ["exhaustive", "rule_based", "single_backend", "single_backends"]

MOST_OPERATORS = 16
"""Most operators of `exhaustive`: covers multiply with each."""


def single_backends(instance: Instance | Mapping[str, Any]) -> dict[str, Placement]:
    """Backend -> the cheapest placement on it alone, for those that take every operator.

    Indices of matches are those of the whole instance.
    """
    given = read_instance(instance)
    found: dict[str, Placement] = {}
    for name in given.backends:
        own = [k for k, match in enumerate(given.matches) if match.backend == name]
        try:
            alone = place(given.only(own))
        except InfeasibleError:
            continue
        found[name] = placement_of(given, [own[k] for k in alone.matches], "single-backend", alone.states)
    return found


def single_backend(instance: Instance | Mapping[str, Any]) -> Placement:
    """The cheapest placement on one backend alone; of equal ones the backend whose matches come first.

    Raises
    ------
    InfeasibleError
        If none takes every operator.
    """
    given = read_instance(instance)
    found = single_backends(given)
    if not found:
        raise InfeasibleError(f"single-backend: none of {', '.join(given.backends)} takes every operator by itself")
    return min(found.values(), key=lambda placement: placement.cost)


def rule_based(instance: Instance | Mapping[str, Any], priority: Sequence[str] | None = None) -> Placement:
    """What a framework's rule does: at each operator the first backend of a list that takes it, by its largest match.

    It begins at the output. Where that leads to an operator that no match fits any more, it takes the last choice back.

    Parameters
    ----------
    instance : Instance or mapping
        See `read_instance`.
    priority : sequence of str, optional
        Names of backends, the preferred first; those left out come last. By default the order of their first matches.

    Raises
    ------
    InputError
        If `priority` names a backend that has no match, or one twice.
    InfeasibleError
        If there is no placement.
    """
    given = read_instance(instance)
    names = list(given.backends if priority is None else priority)
    strange = [name for name in names if name not in given.backends]
    if strange or len(set(names)) < len(names):
        raise InputError(f"priority: expected names among {', '.join(given.backends)}, each once (got {names})")
    rank = {name: k for k, name in enumerate([*names, *(b for b in given.backends if b not in names)])}
    masks = masks_of(given, by_backend=True)  # what a preferred backend takes counts, be it slower
    search = Search(given, masks, 1)

    def wish(j: int) -> tuple[int, int, float, int]:
        return rank[given.matches[masks.index[j]].backend], -masks.members[j].bit_count(), masks.cost[j], j

    def choices(covered: int) -> list[int]:
        return sorted(search.steps(covered), key=wish, reverse=True)

    covered, chosen, dead = 0, list[int](), set[int]()
    left = [choices(0)]
    while covered != masks.all:
        if not left[-1]:
            dead.add(covered)
            left.pop()
            if not chosen:
                raise InfeasibleError("rule-based: no set of matches covers every operator once without a circle")
            covered &= ~masks.members[chosen.pop()]
            continue
        j = left[-1].pop()
        if covered | masks.members[j] not in dead:
            covered |= masks.members[j]
            chosen.append(j)
            left.append(choices(covered))
    return placement_of(given, [masks.index[j] for j in chosen], "rule-based")


def exhaustive(instance: Instance | Mapping[str, Any]) -> Placement:
    """The cheapest of all placements, looked at one by one; of equal ones the first.

    It shares no search with `place`: tests hold the two against each other.

    Raises
    ------
    LimitError
        If there are more than `MOST_OPERATORS` operators.
    InfeasibleError
        If there is no placement.
    """
    given = read_instance(instance)
    if len(given.nodes) > MOST_OPERATORS:
        raise LimitError(
            f"exhaustive: our limit is {MOST_OPERATORS} operators (got {len(given.nodes)}); use collage-op, which is "
            "as exact"
        )
    holding = {v: [k for k, m in enumerate(given.matches) if v in m.nodes] for v in given.by_id}
    best: Placement | None = None
    looked = 0

    def go(covered: frozenset[int], chosen: list[int], cost: float) -> None:
        nonlocal best, looked
        if best is not None and cost > best.cost:
            return
        first = next((v for v in given.by_id if v not in covered), None)
        if first is None:
            found = placement_of(given, chosen, "exhaustive")
            looked += 1
            if not found.circular and (best is None or found.cost < best.cost):
                best = found
            return
        for k in holding[first]:
            match = given.matches[k]
            if covered.isdisjoint(match.nodes):
                go(covered.union(match.nodes), [*chosen, k], cost + match.cost + given.eps)

    go(frozenset(), [], 0.0)
    if best is None:
        raise InfeasibleError("exhaustive: no set of matches covers every operator once without a circle")
    return placement_of(given, best.matches, "exhaustive", looked)
