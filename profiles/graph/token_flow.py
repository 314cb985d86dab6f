"""`token_flow`: where the tokens of a sequence are in a graph's values, and which results later tokens read.

A causal language model can be run a slice of its tokens at a time, first to last (TeraPipe, §2.3.2): an operator's
token loop is cut to the slice, and where attention reads keys and values it reads those of all slices so far. A graph
in which a token needs later ones cannot, and is refused. (`token_loops` counts what a slice costs; this is what running
it needs to know.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from ...errors import InputError
from ...reprs import Shown
from .graph import Graph
from .notation import Dims
from .operator import Operator
from .structure import check_loss

__all__ = ["Role", "TokenFlow", "token_flow"]

Role = Literal["query", "key"]
"""Query: the tokens of a slice. Key: these and all before them."""

_KEEPS_ZERO = frozenset({"mul", "div", "dropout", "cast", "copy", "detach"})
"""Functions that leave a weight of 0 at 0."""

Where = Mapping[int, Role]
"""Dimensions of a value that run over tokens, and how."""


@dataclass(frozen=True, repr=False)
class TokenFlow(Shown):
    """Where a graph's tokens are.

    Parameters
    ----------
    length : int
        Tokens of a sample.
    values : mapping
        Input or result -> its dimensions that run over tokens, and how; what has none is left out.
    loops : mapping
        Operator -> its loops that run over tokens, and how; operators without any are left out.
    carried : frozenset of str
        Results that operators read of earlier slices too: keys and values.
    """

    length: int
    values: Mapping[str, Where]
    loops: Mapping[str, Mapping[str, Role]]
    carried: frozenset[str]

    def shape(self, name: str, full: tuple[int, ...], offset: int, length: int) -> tuple[int, ...]:
        """Shape of a value in the slice of `length` tokens after the first `offset`."""
        dims = self.values.get(name, {})
        sizes = {"query": length, "key": offset + length}
        return tuple(sizes[dims[d]] if d in dims else n for d, n in enumerate(full))


def token_flow(graph: Graph) -> TokenFlow:
    """Follow the tokens through a graph.

    Parameters
    ----------
    graph : Graph
        Of a causal language model: its items are tokens, and its inputs have a dimension of them.

    Raises
    ------
    InputError
        If it has no loss or no tokens, or an operator needs later ones: attention without a causal mask, a norm or a
        sum over the sequence, a shift of tokens.
    """
    check_loss(graph)
    length = int(graph.items_per_sample)
    values: dict[str, Where] = {}
    for x in graph.inputs:
        dims = [d for d, n in enumerate(x.shape) if n == length and d not in x.batch_dims]
        if len(dims) == 1:
            values[x.name] = {dims[0]: "query"}
    if graph.items != "tokens" or not values:
        raise InputError(
            f"graph {graph.name!r}: token slices need sequences of tokens, and its samples are "
            f"{graph.items_per_sample:g} {graph.items}; train it without slices"
        )
    pairs = _pairs(graph)
    loops: dict[str, Mapping[str, Role]] = {}
    carried: set[str] = set()
    masked: set[str] = set()
    for op in graph.operators:
        roles = _roles(graph, op, values, pairs)
        if not roles:
            continue
        _check(graph, op, roles, length, masked)
        loops[op.name] = roles
        for name, dims in zip(op.inputs, op.parsed.operands, strict=True):
            own = values.get(name, {})
            if name in graph.index and len(own) == 1 and any(roles[x] == "key" for x in _of(dims, own)):
                carried.add(name)
        found: dict[int, Role] = {
            d: roles[group[0]] for d, group in enumerate(op.parsed.result) if group and group[0] in roles
        }
        if found:
            values[op.name] = found
        if len(found) == 2 and _masks(op, masked):
            masked.add(op.name)
    return TokenFlow(length, values, loops, frozenset(carried))


def _of(dims: Dims, tokens: Iterable[int]) -> list[str]:
    """The loops of a tensor's token dimensions."""
    return [dims[d][0] for d in tokens if dims[d]]


def _pairs(graph: Graph) -> Mapping[str, Where]:
    """Results with a dimension for queries and one for keys, told from the causal softmaxes that they end in."""
    found: dict[str, Where] = {}
    for op in reversed(graph.operators):
        roles: dict[str, Role] = {}
        if op.attributes.get("causal", False):
            roles = {str(op.attributes.get("query")): "query", str(op.attributes.get("key")): "key"}
        for d, role in found.get(op.name, {}).items():
            roles[op.parsed.result[d][0]] = role
        for name, dims in zip(op.inputs, op.parsed.operands, strict=True):
            mine: dict[int, Role] = {d: roles[group[0]] for d, group in enumerate(dims) if group and group[0] in roles}
            if len(mine) == 2:
                found.setdefault(name, mine)
    return found


def _roles(graph: Graph, op: Operator, values: Mapping[str, Where], pairs: Mapping[str, Where]) -> dict[str, Role]:
    """Loops of an operator that run over tokens."""
    roles: dict[str, Role] = {}
    single: dict[str, None] = {}
    for name, dims in zip(op.inputs, op.parsed.operands, strict=True):
        own = values.get(name, {})
        if len(own) < 2:
            single.update(dict.fromkeys(_of(dims, own)))
            continue
        for loop, role in zip(_of(dims, own), own.values(), strict=True):
            if roles.setdefault(loop, role) != role:
                raise _refused(graph, op, f"mixes queries and keys in loop {loop!r}")
    if roles:
        strange = next((x for x in single if x not in roles), None)
        if strange is not None:
            raise _refused(graph, op, f"has a third loop over tokens, {strange!r}")
        return roles
    if len(single) < 2:
        return dict.fromkeys(single, "query")
    told: dict[str, Role] = {op.parsed.result[d][0]: role for d, role in pairs.get(op.name, {}).items()}
    if op.kind == "attention" and op.attributes.get("causal", False):
        told = {str(op.attributes["query"]): "query", str(op.attributes["key"]): "key"}
    if set(told) != set(single):
        raise _refused(graph, op, "lets every token read all others: no causal mask follows")
    return told


def _check(graph: Graph, op: Operator, roles: Mapping[str, Role], length: int, masked: set[str]) -> None:
    """Refuse an operator that needs later tokens, or whose tokens cannot be cut."""
    causal = bool(op.attributes.get("causal", False)) and op.kind in ("softmax", "attention")
    tensors = (op.parsed.result, *op.parsed.operands)
    result = {x for group in op.parsed.result for x in group}
    for loop, role in roles.items():
        x = op.loop(loop)
        if x.size != length or x.batch:
            raise _refused(graph, op, f"runs loop {loop!r} over {x.size} places that are not the {length} tokens")
        if any(loop in group[1:] for dims in tensors for group in dims):
            raise _refused(graph, op, f"has tokens {loop!r} inside another dimension")
        hides = causal and role == "key" and op.attributes.get("key") == loop
        if x.split != "free" and not hides:
            raise _refused(graph, op, f"needs all tokens at once (loop {loop!r})")
        if loop in result or hides:
            continue
        ends = op is graph.operators[-1] and (op.kind == "loss" or op.attributes.get("fn") in ("sum", "mean"))
        reads = {name for name, dims in zip(op.inputs, op.parsed.operands, strict=True) if _has(dims, loop)}
        if not (ends if role == "query" else reads & masked):
            raise _refused(graph, op, f"sums over tokens (loop {loop!r})")
    if op.kind in ("convolution", "pool", "gate") or _moves(op, roles):
        raise _refused(graph, op, "takes tokens from other places")


def _moves(op: Operator, roles: Mapping[str, Role]) -> bool:
    """Whether a view or function takes tokens from other places."""
    fn, a = op.attributes.get("fn"), op.attributes
    if fn == "cumsum":
        return a.get("loop") in roles
    if op.kind != "view" or fn in (None, "rearrange", "reshape"):
        return False
    tokens = {d for d, group in enumerate(op.parsed.operands[0]) if group and group[0] in roles}
    dims = a.get("dims", a.get("dim", ()))
    return bool(tokens & set(dims if isinstance(dims, tuple) else (dims,)))


def _masks(op: Operator, masked: set[str]) -> bool:
    """Whether the result is 0 wherever a key comes after its query."""
    if op.kind == "softmax":
        return bool(op.attributes.get("causal", False)) and op.attributes.get("fn") != "log_softmax"
    if op.kind == "view":
        return op.inputs[0] in masked
    if op.kind != "elementwise" or op.attributes.get("fn") not in _KEEPS_ZERO:
        return False
    return op.inputs[0] in masked or (op.attributes.get("fn") == "mul" and any(name in masked for name in op.inputs))


def _has(dims: Dims, loop: str) -> bool:
    return any(loop in group for group in dims)


def _refused(graph: Graph, op: Operator, what: str) -> InputError:
    return InputError(
        f"graph {graph.name!r}: operator {op.name!r} {what}; token slices need a causal model, in which no token needs "
        "later ones; train it without slices"
    )
