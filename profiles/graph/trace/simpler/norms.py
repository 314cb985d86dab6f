"""Norms by the root mean square that a module writes out, x · rsqrt(mean x² + eps) · w, as one operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...notation import Dims, Formula
from ...operator import Operator

__all__ = ["normed"]


def normed(operators: Sequence[Operator]) -> list[Operator]:
    """The same computation with every written-out norm as one operator; what it was made of may be left unread.

    Casts stay: where a module rounds between the norm and its weight, the norm has no weight.
    """
    readers: dict[str, int] = {}
    for op in operators:
        for name in op.inputs:
            readers[name] = readers.get(name, 0) + 1
    made: dict[str, Operator] = {}
    for op in operators:
        found = op
        if op.kind == "elementwise" and len(op.inputs) == 2:
            found = _core(op, made, readers) or _weighted(op, made, readers) or op
        made[op.name] = found
    return list(made.values())


def _core(op: Operator, made: Mapping[str, Operator], readers: Mapping[str, int]) -> Operator | None:
    """The norm, if `op` multiplies by rsqrt(mean x² + eps) or divides by its root."""
    fn = op.attributes.get("fn")
    ways = {"mul": ((0, 1, "rsqrt"), (1, 0, "rsqrt")), "div": ((0, 1, "sqrt"),)}.get(str(fn), ())
    for of, by, root in ways:
        x = op.inputs[of]
        chain = _chain(op.inputs[by], root, x, made, readers)
        if chain is None:
            continue
        plus, mean = chain
        dims, scale = op.parsed.operands[of], op.parsed.operands[by]
        before, after = mean.parsed.operands[0], mean.parsed.result
        if len(after) != len(before) or not _alike(op, dims, mean, before) or dims != op.parsed.result:
            continue
        gone = [not set(group) & {loop for dim in after for loop in dim} for group in before]
        over = {loop for group, lost in zip(dims, gone, strict=True) if lost for loop in group}
        kept = tuple(() if lost else group for group, lost in zip(dims, gone, strict=True))
        if not over or scale != kept or any(op.loop(loop).batch for loop in over) or mean.dtype != op.dtype:
            continue
        loops = tuple(replace(loop, split="statistic") if loop.name in over else loop for loop in op.loops)
        return replace(
            op, kind="norm", formula=str(Formula((dims,), dims)), inputs=(x,), loops=loops, flops=-1.0,
            saves=(0,) if op.saves else (), attributes={"fn": "rms", "eps": plus.attributes["term"]},
        )  # fmt: skip
    return None


def _chain(
    name: str, root: str, x: str, made: Mapping[str, Operator], readers: Mapping[str, int]
) -> tuple[Operator, Operator] | None:
    """What adds eps, and the mean before it, if `name` is the root of the mean of x² + eps and no one else reads it."""
    found: list[Operator] = []
    for _ in range(4):
        op = made.get(name)
        if op is None or readers.get(name) != 1 or not op.inputs:
            return None
        found.append(op)
        name = op.inputs[0]
    taken, plus, mean, square = found
    a = plus.attributes
    if taken.attributes.get("fn") != root or a.get("fn") != "scale" or a.get("factor", 1) != 1 or "term" not in a:
        return None
    if mean.kind != "reduction" or mean.attributes.get("fn") != "mean" or set(square.inputs) != {x}:
        return None
    fn = square.attributes.get("fn")
    twice = fn == "square" or (fn == "power" and square.attributes.get("exponent") == 2)
    twice = twice or (fn == "mul" and square.parsed.operands[0] == square.parsed.operands[1])
    return (plus, mean) if twice else None


def _weighted(op: Operator, made: Mapping[str, Operator], readers: Mapping[str, int]) -> Operator | None:
    """The norm times its weight, if `op` is that."""
    if op.attributes.get("fn") != "mul":
        return None
    for of, by in ((0, 1), (1, 0)):
        norm, dims = made.get(op.inputs[of]), op.parsed.operands[of]
        bare = norm is not None and norm.attributes.get("fn") == "rms" and len(norm.inputs) == 1
        if norm is None or not bare or readers.get(norm.name) != 1 or norm.dtype != op.dtype:
            continue
        own = norm.parsed.result
        if dims != op.parsed.result or not _alike(op, dims, norm, own):
            continue
        named = {a: b for old, new in zip(dims, own, strict=True) for a, b in zip(old, new, strict=True)}
        weight = tuple(tuple(named[loop] for loop in group) for group in op.parsed.operands[by])
        over = {loop.name for loop in norm.loops if loop.split == "statistic"}
        if {loop for group in weight for loop in group} != over:
            continue
        return replace(
            norm, name=op.name, formula=str(Formula((own, weight), own)), inputs=(norm.inputs[0], op.inputs[by]),
            saves=(0, 1) if norm.saves or op.saves else (), layer=op.layer,
        )  # fmt: skip
    return None


def _alike(one: Operator, dims: Dims, other: Operator, there: Dims) -> bool:
    """Whether two operators see a tensor's dimensions as made of loops of the same sizes."""
    return [[one.sizes[x] for x in group] for group in dims] == [[other.sizes[x] for x in group] for group in there]
