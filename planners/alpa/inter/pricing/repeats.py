"""`interval_keys`: find runs of layers that are built alike, so that each kind is priced only once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from .....profiles.graph import Graph
from ..clustering import Layer

__all__ = ["interval_keys"]


def interval_keys(graph: Graph, layers: Sequence[Layer]) -> dict[tuple[int, int], Hashable]:
    """A key for every run of layers i…j (inclusive). Runs with the same key have the same operators, wired alike.

    Names do not matter. A result of the run is identified by how far back it is made; a value or parameter from outside
    by the order in which it is first read, its shape and its type.

    Parameters
    ----------
    graph : Graph
        The model.
    layers : sequence of (int, int)
        Operators of each layer, half-open.
    """
    numbers: dict[Hashable, int] = {}  # whatever an operator is, as a small number
    kinds = [
        numbers.setdefault(
            (op.kind, op.formula, op.loops, op.dtype, op.flops, op.saves, tuple(sorted(op.attributes.items())),
             op.layer >= 0), len(numbers),
        )
        for op in graph.operators
    ]  # fmt: skip
    outside = {
        name: numbers.setdefault((t.shape, t.dtype, t.trainable, t.batch_dims), len(numbers))
        for name, t in graph.tensors.items()
    }
    reach = _reached(graph)
    keys: dict[tuple[int, int], Hashable] = {}
    for i, (first, _) in enumerate(layers):
        seen: dict[str, int] = {}
        blocks: dict[int, int] = {}
        parts: list[Hashable] = []
        for j in range(i, len(layers)):
            for k in range(*layers[j]):
                op = graph.operators[k]
                wired: list[Hashable] = []
                for name in op.inputs:
                    at = graph.index.get(name, -1)
                    if at >= first:
                        wired.append(k - at)
                        continue
                    known = outside[name] if at < 0 else (kinds[at], reach[name])
                    wired.append((seen.setdefault(name, len(seen)), known))
                block = blocks.setdefault(op.layer, len(blocks))
                parts.append((kinds[k], block, reach[op.name], tuple(wired)))
            keys[i, j] = tuple(parts)
    return {place: numbers.setdefault(key, len(numbers)) for place, key in keys.items()}


def _reached(graph: Graph) -> dict[str, bool]:
    from ..flops import has_gradient

    return has_gradient(graph)
