"""What modules write in several operators and graphs say in one: scaled products, causal masks, flattened losses."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..notation import Dims, Formula
from ..operator import Operator

__all__ = ["tidied"]

LARGEST = 1 << 24
"""Constants of more elements than this are not looked at."""


def tidied(
    operators: Sequence[Operator], constants: Mapping[str, Any], results: Collection[str] = ()
) -> list[Operator]:
    """The same computation with fewer operators; some may be left without readers.

    A number that multiplies a contraction becomes its ``scale``. A mask that lets a query see the keys up to its own
    position, however it was made, becomes ``causal`` of the softmax or the fused attention that it goes into.

    Parameters
    ----------
    operators : sequence of Operator
        In topological order.
    constants : mapping
        Values of buffers, as arrays, where they are known.
    results : collection of str
        Operators whose values are asked for: they stay as they are.
    """
    return _unflattened(_causal(_scaled(list(operators), results), constants))


def _scaled(operators: list[Operator], results: Collection[str]) -> list[Operator]:
    made = {op.name: op for op in operators}
    readers: dict[str, int] = dict.fromkeys(results, 1)
    for op in operators:
        for name in op.inputs:
            readers[name] = readers.get(name, 0) + 1
    renamed: dict[str, str] = {}
    kept: dict[str, Operator] = {}
    for op in operators:
        op = replace(op, inputs=tuple(renamed.get(name, name) for name in op.inputs))
        factor = op.attributes.get("factor") if op.attributes.get("fn") == "scale" else None
        of = made.get(op.inputs[0]) if op.inputs else None
        if (
            isinstance(factor, float) and "term" not in op.attributes and of is not None and of.kind == "contraction"
            and readers[of.name] == 1 and of.dtype == op.dtype and not {op.name, of.name} & set(results)
        ):  # fmt: skip
            scale = factor * float(of.attributes.get("scale", 1.0))  # pyright: ignore[reportArgumentType]
            made[of.name] = kept[of.name] = replace(
                of, attributes={**of.attributes, "scale": scale}, nodes=_both(of, op)
            )
            renamed[op.name] = of.name
            readers[of.name] = readers.get(op.name, 0)
            continue
        made[op.name] = kept[op.name] = op
    return list(kept.values())


def _both(first: Operator, second: Operator) -> tuple[str, ...]:
    """The calls of two operators that become one."""
    return tuple(dict.fromkeys((*first.nodes, *second.nodes)))


def _unflattened(operators: list[Operator]) -> list[Operator]:
    made = {op.name: op for op in operators}
    out: list[Operator] = []
    for op in operators:
        if op.kind == "loss":
            inputs, operands = list(op.inputs), list(op.parsed.operands)
            for k, (name, dims) in enumerate(zip(op.inputs, op.parsed.operands, strict=True)):
                view = made.get(name)
                before = None if view is None else _seen_through(view, dims)
                if view is not None and before is not None:
                    inputs[k], operands[k] = view.inputs[0], before
            formula = str(Formula(tuple(operands), op.parsed.result))
            op = replace(op, inputs=tuple(inputs), formula=formula)
        out.append(op)
    return out


def _seen_through(view: Operator, dims: Dims) -> Dims | None:
    """The dimensions of what a view rearranges, in the loops of a reader of the view."""
    made, read = view.parsed.result, view.parsed.operands[0]
    if view.kind != "view" or "fn" in view.attributes or list(map(len, made)) != list(map(len, dims)):
        return None
    mine = dict(zip((x for g in made for x in g), (x for g in dims for x in g), strict=True))
    if {x for g in read for x in g} != mine.keys():
        return None
    return tuple(tuple(mine[x] for x in g) for g in read)


def _causal(operators: list[Operator], constants: Mapping[str, Any]) -> list[Operator]:
    made = {op.name: op for op in operators}
    known: dict[str, np.ndarray | None] = dict(constants)
    out: list[Operator] = []
    for op in operators:
        if op.kind == "softmax" and not op.attributes.get("causal"):
            masked = made.get(op.inputs[0])
            bare = _unmasked(masked, made, known) if masked is not None else None
            ends = list(op.parsed.result[-2:])
            one = list(map(len, ends)) == [1, 1]  # a position is the index of one loop
            if bare is not None and one and op.loop(ends[1][0]).split == "statistic":
                extra = {"causal": True, "query": ends[0][0], "key": ends[1][0]}
                nodes = op.nodes if masked is None else _both(masked, op)
                op = replace(op, inputs=(bare,), attributes={**op.attributes, **extra}, nodes=nodes)
        elif op.kind == "attention" and len(op.inputs) == 4:
            allowed = _value(op.inputs[3], made, known)
            if allowed is not None and _sees_the_past(allowed if allowed.dtype == bool else np.isfinite(allowed)):
                formula = op.formula.rpartition("->")
                op = replace(
                    op, inputs=op.inputs[:3], formula=f"{formula[0].rpartition(',')[0]} -> {formula[2].strip()}",
                    attributes={**op.attributes, "causal": True},
                )  # fmt: skip
        out.append(op)
    return out


def _unmasked(op: Operator, made: Mapping[str, Operator], known: dict[str, np.ndarray | None]) -> str | None:
    """The operand of a causal mask, if `op` is one: what stays visible is what is not −∞ (or the dtype's lowest)."""
    fn, lowest = op.attributes.get("fn"), -1e4
    if fn == "masked_fill" and float(op.attributes["value"]) <= lowest:  # pyright: ignore[reportArgumentType]
        hidden = _value(op.inputs[1], made, known)
        return op.inputs[0] if hidden is not None and _sees_the_past(hidden == 0) else None
    if fn == "where":
        seen, fill = _value(op.inputs[0], made, known), _value(op.inputs[2], made, known)
        low = fill is not None and bool((fill <= lowest).all())
        return op.inputs[1] if seen is not None and low and _sees_the_past(seen != 0) else None
    if fn == "add" and len(op.inputs) == 2:
        plus = _value(op.inputs[1], made, known)
        if plus is not None and bool(((plus == 0) | (plus <= lowest)).all()) and _sees_the_past(plus == 0):
            return op.inputs[0]
    return None


def _sees_the_past(seen: np.ndarray) -> bool:
    """Whether a mask over (query, key), with dimensions of size 1 before, is true where key ≤ query."""
    if seen.ndim < 2 or seen.size != seen.shape[-1] * seen.shape[-2] or seen.shape[-1] != seen.shape[-2]:
        return False
    side = seen.shape[-1]
    return side > 1 and bool((seen.reshape(side, side) == np.tri(side, dtype=bool)).all())


def _value(name: str, made: Mapping[str, Operator], known: dict[str, np.ndarray | None]) -> np.ndarray | None:
    """The value of what is made of constants alone; None if it is not, or not known."""
    if name not in known:
        op = made.get(name)
        known[name] = None if op is None or op.bytes > LARGEST * 8 else _computed(op, made, known)
    return known[name]


_FUNCTIONS: Mapping[str, Any] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "eq": np.equal, "ne": np.not_equal, "lt": np.less,
    "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "and": np.logical_and, "or": np.logical_or,
}  # fmt: skip


def _computed(op: Operator, made: Mapping[str, Operator], known: dict[str, np.ndarray | None]) -> np.ndarray | None:
    a, fn = op.attributes, str(op.attributes.get("fn", "rearrange"))
    xs = [_value(name, made, known) for name in op.inputs]
    operands = [x for x in xs if x is not None]
    if len(operands) < len(xs) or op.kind not in ("elementwise", "view"):
        return None
    number: Any = float(a["value"]) if "value" in a else None  # pyright: ignore[reportArgumentType]
    if fn == "full":
        out = np.full(op.shape, number)
    elif fn == "arange":
        out = float(a.get("start", 0)) + float(a.get("step", 1)) * np.arange(op.shape[0])  # pyright: ignore
    elif fn in ("triu", "tril"):
        out = (np.triu if fn == "triu" else np.tril)(operands[0], int(a.get("diagonal", 0)))  # pyright: ignore
    elif fn in _FUNCTIONS:
        out = _FUNCTIONS[fn](operands[0], operands[1] if len(operands) > 1 else number)
    elif fn == "not":
        out = operands[0] == 0
    elif fn == "masked_fill":
        out = np.where(operands[1], number, operands[0])
    elif fn == "where":
        out = np.where(*operands)
    elif fn == "scale":
        factor, term = float(a.get("factor", 1)), float(a.get("term", 0))  # pyright: ignore
        out = operands[0] * factor + term
    elif fn in ("cast", "detach", "copy"):
        out = operands[0]
    elif fn == "slice" and a["start"] == 0 and a.get("step", 1) == 1:
        out = operands[0][tuple(slice(0, n) for n in op.shape)]
    elif fn == "rearrange" and [x for g in op.parsed.operands[0] for x in g] == [
        x for g in op.parsed.result for x in g
    ]:
        out = operands[0].reshape(op.shape)
    else:
        return None
    return np.asarray(out).astype(bool) if op.dtype == "bool" else np.asarray(out)
