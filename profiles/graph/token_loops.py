"""`token_loops`: which loops of a decoder's operators run over its tokens, and an operator of a slice of the tokens.

A causal transformer may be computed slice by slice along the sequence: a token needs those before it, and only in
attention, by their keys and values. So each operator has a loop over the tokens of the slice (its queries), and those
of attention one more, over the tokens of the slice and of all slices before it (its keys).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ...errors import InputError
from .graph import Graph
from .operator import Operator

__all__ = ["TokenLoops", "sequence_length", "sliced", "token_loops"]

_MIXES = {
    "convolution": "convolves tokens", "pool": "pools tokens", "gate": "deals tokens out to experts",
    "dispatch": "deals tokens out to experts",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TokenLoops:
    """Loops of one operator over tokens.

    Parameters
    ----------
    query : str
        Loop over the tokens of the slice; empty: the operator has none.
    key : str
        Loop over the tokens of the slice and of those before it; empty: none.
    """

    query: str = ""
    key: str = ""


def sequence_length(graph: Graph) -> int:
    """Tokens of one sample.

    Raises
    ------
    InputError
        If the graph's samples are no sequences of tokens.
    """
    length = int(graph.items_per_sample)
    if graph.items != "tokens" or length != graph.items_per_sample:
        raise InputError(f"graph {graph.name!r}: token slices need sequences of tokens; its samples are {graph.items}")
    return length


def token_loops(graph: Graph) -> tuple[TokenLoops, ...]:
    """Loops over tokens of every operator.

    Raises
    ------
    InputError
        If an operator makes a token depend on later ones (attention that is not causal), or mixes tokens otherwise.
    """
    length = sequence_length(graph)
    roles: dict[str, dict[int, str]] = {}  # tensor -> its dimensions over tokens, "query" or "key"
    for tensor in graph.inputs:
        at = [d for d, n in enumerate(tensor.shape) if n == length and d not in tensor.batch_dims]
        roles[tensor.name] = {at[0]: "query"} if at else {}
    found: list[TokenLoops] = []
    for op in graph.operators:
        loops = _loops_of(graph, op, roles)
        _check(graph, op, loops)
        found.append(loops)
        named = {loop: role for loop, role in ((loops.query, "query"), (loops.key, "key")) if loop}
        roles[op.name] = {d: named[group[0]] for d, group in enumerate(op.parsed.result) if group and group[0] in named}
    return tuple(found)


def sliced(op: Operator, loops: TokenLoops, length: int, context: int) -> Operator:
    """An operator on `length` tokens that follow `context` others.

    Fused causal attention computes what lies below the diagonal alone: its FLOPs, which the cost model halves, are
    twice `length · (context + length / 2)` per head and channel.
    """
    sizes = {loops.query: length, loops.key: length + context}
    if not loops.query:
        return op
    new = tuple(replace(x, size=sizes[x.name]) if x.name in sizes else x for x in op.loops)
    scale = 1.0
    for before, after in zip(op.loops, new, strict=True):
        scale *= after.size / before.size
    if op.kind == "attention" and op.attributes.get("causal"):
        scale *= (2 * context + length) / (context + length)
    return replace(op, loops=new, flops=op.flops * scale)


def _loops_of(graph: Graph, op: Operator, roles: Mapping[str, Mapping[int, str]]) -> TokenLoops:
    found: dict[str, str] = {}
    for name, dims in zip(op.inputs, op.parsed.operands, strict=True):
        for d, role in roles.get(name, {}).items():
            if len(dims[d]) != 1:
                raise InputError(f"graph {graph.name!r}: operator {op.name!r} folds tokens into another dimension")
            loop = dims[d][0]
            if role == "key" or loop not in found:
                found[loop] = role
    queries = [loop for loop, role in found.items() if role == "query"]
    keys = [loop for loop, role in found.items() if role == "key"]
    if len(queries) == 2 and not keys:  # queries x keys: the first operand has the queries
        kept = [loop for loop in queries if loop not in op.parsed.reduced]
        first = kept[0] if kept else queries[0]
        keys, queries = [loop for loop in queries if loop != first], [first]
    if len(queries) > 1 or len(keys) > 1:
        raise InputError(f"graph {graph.name!r}: operator {op.name!r} has more than two loops over tokens")
    return TokenLoops("".join(queries), "".join(keys))


def _check(graph: Graph, op: Operator, loops: TokenLoops) -> None:
    where = f"graph {graph.name!r}: operator {op.name!r}"
    if loops.query and op.kind in _MIXES:
        raise InputError(f"{where} {_MIXES[op.kind]}, so that they cannot be computed slice by slice")
    if loops.key and op.kind in ("softmax", "attention") and not op.attributes.get("causal"):
        raise InputError(f"{where}: attention is not causal: early tokens need later ones, which slices do not have")
    over_tokens = loops.query and (loops.query in op.parsed.reduced or op.loop(loops.query).split == "statistic")
    if over_tokens and op.kind != "loss":
        raise InputError(f"{where} sums over the tokens, which are in several slices")
