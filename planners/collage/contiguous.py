"""`segments`: the network in contiguous regions, each given whole to one backend. Ours, not the paper's.

On processors where a cut costs more than a better backend gains, few long regions beat many short ones. Candidates are
stretches of the network's order between points where it is narrow; somebody measures them, and `segments` puts them
together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...errors import InfeasibleError, InputError
from .exact import place
from .instance import Instance, read_instance
from .placement import Placement, placement_of

__all__ = ["narrow_points", "segments", "stretches"]


def narrow_points(instance: Instance | Mapping[str, Any], values: int = 1) -> tuple[int, ...]:
    """Where the order of a graph can be cut with few open values: k stands for a cut before the k-th operator.

    The two ends, 0 and the number of operators, are always there.

    Parameters
    ----------
    instance : Instance or mapping
        The graph; its matches are not looked at.
    values : int
        Most values that are made before a cut and read after it.
    """
    given = read_instance(instance)
    if values < 1:
        raise InputError(f"values: expected at least 1 (got {values})")
    n = len(given.nodes)
    place_of = {node.id: k for k, node in enumerate(given.nodes)}
    last = list(range(n))  # the last operator that reads the value
    for k, node in enumerate(given.nodes):
        for source in node.inputs:
            if source >= 0:
                last[place_of[source]] = k
    change = [0] * (n + 1)
    for k, end in enumerate(last):
        if end > k:  # open at the cuts k + 1 … end
            change[k + 1] += 1
            if end < n:
                change[end + 1] -= 1
    found, opened = [0], 0
    for k in range(1, n):
        opened += change[k]
        if opened <= values:
            found.append(k)
    return (*found, n)


def stretches(instance: Instance | Mapping[str, Any], values: int = 1) -> list[tuple[int, ...]]:
    """Ids of each stretch between two of the `narrow_points`: the candidates that are to be measured."""
    given = read_instance(instance)
    ids, cuts = [node.id for node in given.nodes], narrow_points(given, values)
    return [tuple(ids[a:b]) for i, a in enumerate(cuts) for b in cuts[i + 1 :]]


def segments(instance: Instance | Mapping[str, Any]) -> Placement:
    """The cheapest placement of matches that are contiguous in the order of `nodes`; boundaries count.

    It is exact: a dynamic programme over the order, whose state is the backends that read what is still open.
    Contiguous regions never wait for each other.

    Raises
    ------
    InputError
        If the instance is not one.
    InfeasibleError
        If contiguous matches cannot cover the graph.
    """
    given = read_instance(instance)
    place_of = {node.id: k for k, node in enumerate(given.nodes)}
    kept = list[int]()
    for k, match in enumerate(given.matches):
        places = [place_of[v] for v in match.nodes]
        if max(places) - min(places) + 1 == len(places):
            kept.append(k)
    try:
        found = place(given.only(kept))
    except InfeasibleError as error:
        raise InfeasibleError(f"collage-segments: of the matches that are contiguous in the order: {error}") from None
    return replace(placement_of(given, [kept[k] for k in found.matches], "collage-segments"), states=found.states)
