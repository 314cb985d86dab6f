"""What backends offer to run of a graph: every place at which a pattern fits or a rule generates a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...errors import InputError
from .contract import GRAPH_LIBRARY, Backend
from .graph import InferenceGraph, ones
from .installed import checked
from .matching import matches_at
from .pattern import Pattern, check_pattern
from .rule import generated

__all__ = ["Offer", "offers"]


@dataclass(frozen=True, slots=True)
class Offer:
    """A group of operators that a backend says it takes as one.

    Parameters
    ----------
    backend : str
        Its name.
    nodes : tuple of str
        The group, in the graph's order.
    root : str
        The last of them.
    """

    backend: str
    nodes: tuple[str, ...]
    root: str


def offers(
    graph: InferenceGraph, backends: Sequence[Backend], added: Mapping[str, Sequence[Pattern]] | None = None
) -> tuple[Offer, ...]:
    """All offers, backend by backend, in the order of roots; a graph library offers the whole graph, too.

    Parameters
    ----------
    graph : InferenceGraph
        The graph.
    backends : sequence of Backend
        Each may offer what its patterns fit and its rule generates.
    added : mapping of str to sequence of Pattern, optional
        Backend's name -> patterns that it takes besides (``add_backend_pattern``).

    Raises
    ------
    InputError
        If a backend or pattern is malformed, a rule raises, or patterns are added to a backend that is not there.
    """
    extra = dict(added or {})
    unknown = sorted(extra.keys() - {backend.name for backend in backends})
    if unknown:
        raise InputError(f"patterns for backend {unknown[0]!r}: it is not among {', '.join(b.name for b in backends)}")
    out: list[Offer] = []
    for backend in backends:
        checked(backend, f"backend {backend.name!r}")
        more = [check_pattern(pattern, f"backend {backend.name!r}") for pattern in extra.get(backend.name, ())]
        found = dict[int, int]()
        for root in range(len(graph.nodes)):
            for pattern in (*backend.patterns, *more):
                found |= dict.fromkeys(matches_at(graph, pattern, root), root)
        if backend.rule is not None:
            found |= dict(generated(graph, backend.rule, backend.name))
        if backend.kind == GRAPH_LIBRARY and len(graph.nodes) > 1:
            found.setdefault((1 << len(graph.nodes)) - 1, graph.index[graph.output])
        for bits, root in sorted(found.items(), key=lambda one: (one[1], one[0].bit_count(), one[0])):
            out.append(Offer(backend.name, tuple(graph.nodes[k].id for k in ones(bits)), graph.nodes[root].id))
    return tuple(out)
