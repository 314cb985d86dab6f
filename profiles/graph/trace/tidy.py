"""What modules write in several operators and graphs say in one: scaled products, causal masks, flattened losses."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..notation import Dims, Formula
from ..operator import Operator
from .simpler.constants import Constants
from .simpler.experts import grouped
from .simpler.norms import normed

__all__ = ["tidied"]


def tidied(
    operators: Sequence[Operator], constants: Mapping[str, Any], results: Collection[str] = ()
) -> list[Operator]:
    """The same computation with fewer operators; some may be left without readers.

    A number that multiplies a contraction becomes its ``scale``. A mask that lets a query see the keys up to its own
    position, however it was made, becomes ``causal`` of the softmax or the fused attention that it goes into. Weights
    that are picked for each row are not copied: their product becomes a ``grouped`` one. Norms by the root mean square
    become one operator, but for inference, where each call may have a backend of its own.

    Parameters
    ----------
    operators : sequence of Operator
        In topological order.
    constants : mapping
        Values of buffers, as arrays, where they are known.
    results : collection of str
        Operators whose values are asked for: they stay as they are.
    """
    scaled = grouped(_scaled(list(operators), results))
    scaled = scaled if results else normed(scaled)
    return _unflattened(_causal(scaled, Constants(scaled, constants)))


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
    if view.kind != "view" or "fn" in view.attributes:
        return None
    made, read = view.parsed.result, view.parsed.operands[0]
    if list(map(len, made)) != list(map(len, dims)):
        return None
    mine = dict(zip((x for g in made for x in g), (x for g in dims for x in g), strict=True))
    if {x for g in read for x in g} != mine.keys():
        return None
    return tuple(tuple(mine[x] for x in g) for g in read)


def _causal(operators: list[Operator], known: Constants) -> list[Operator]:
    made = {op.name: op for op in operators}
    out: list[Operator] = []
    for op in operators:
        if op.kind == "softmax" and not op.attributes.get("causal"):
            masked = made.get(op.inputs[0])
            bare = _unmasked(masked, known) if masked is not None else None
            ends = list(op.parsed.result[-2:])
            one = list(map(len, ends)) == [1, 1]  # a position is the index of one loop
            if bare is not None and one and op.loop(ends[1][0]).split == "statistic":
                extra = {"causal": True, "query": ends[0][0], "key": ends[1][0]}
                nodes = op.nodes if masked is None else _both(masked, op)
                op = replace(op, inputs=(bare,), attributes={**op.attributes, **extra}, nodes=nodes)
        elif op.kind == "attention" and len(op.inputs) == 4:
            allowed = known(op.inputs[3])
            seen = None if allowed is None else allowed if allowed.dtype == bool else allowed == 0
            zero = allowed is not None and (allowed.dtype == bool or bool(((allowed == 0) | (allowed <= LOWEST)).all()))
            past, everything = (seen is not None and zero and ask(seen) for ask in (_sees_the_past, np.all))
            if past or everything:
                operands, _, result = op.formula.rpartition("->")
                extra = {"causal": True} if past else {}
                op = replace(
                    op, inputs=op.inputs[:3], formula=f"{operands.rpartition(',')[0]} -> {result.strip()}",
                    loops=tuple(op.loops), attributes={**op.attributes, **extra},
                )  # fmt: skip
        out.append(op)
    return out


LOWEST = -1e4
"""Scores that masks add are at most this, the lowest of a dtype or −∞."""


def _unmasked(op: Operator, known: Constants) -> str | None:
    """The operand of a causal mask, if `op` is one: what stays visible is what is not −∞ (or the dtype's lowest)."""
    fn = op.attributes.get("fn")
    if fn == "masked_fill" and float(op.attributes["value"]) <= LOWEST:  # pyright: ignore[reportArgumentType]
        hidden = known(op.inputs[1])
        return op.inputs[0] if hidden is not None and _sees_the_past(hidden == 0) else None
    if fn == "where":
        seen, fill = known(op.inputs[0]), known(op.inputs[2])
        low = fill is not None and bool((fill <= LOWEST).all())
        return op.inputs[1] if seen is not None and low and _sees_the_past(seen != 0) else None
    if fn == "add" and len(op.inputs) == 2:
        plus = known(op.inputs[1])
        if plus is not None and bool(((plus == 0) | (plus <= LOWEST)).all()) and _sees_the_past(plus == 0):
            return op.inputs[0]
    return None


def _sees_the_past(seen: np.ndarray) -> bool:
    """Whether a mask over (…, query, key) is true where key ≤ query, the same for all else."""
    if seen.ndim < 2 or seen.shape[-1] != seen.shape[-2]:
        return False
    side = seen.shape[-1]
    return side > 1 and bool((seen == np.tri(side, dtype=bool)).all())
