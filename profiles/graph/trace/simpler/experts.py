"""Experts whose tokens are sorted and counted while the module runs: traced as products of each token's own weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from ...notation import Dims, Formula
from ...operator import Loop, Operator

__all__ = ["PLAIN", "STATIC", "experts", "grouped"]

KEY = "_experts_implementation"
STATIC = "batched_mm"
"""How transformers computes experts without a size that depends on which tokens they get (others sort and loop)."""

PLAIN = "eager"
"""How it computes them in float64, too: one expert after another."""


@contextmanager
def experts(module: Any, how: str) -> Iterator[None]:
    """Modules of transformers compute their experts in this way; afterwards as before."""
    configs = {id(c): c for part in module.modules() if (c := getattr(part, "config", None)) is not None}
    asked = [(c, getattr(c, KEY)) for c in configs.values() if isinstance(getattr(c, KEY, None), str)]
    try:
        for config, _ in asked:
            setattr(config, KEY, how)
        yield
    finally:
        for config, before in asked:
            setattr(config, KEY, before)


def grouped(operators: Sequence[Operator]) -> list[Operator]:
    """Products of rows with weights that were picked for each row, as one operator that copies no weight."""
    made = {op.name: op for op in operators}
    return [_grouped(op, made) if op.kind == "contraction" and len(op.inputs) == 2 else op for op in operators]


def _grouped(op: Operator, made: dict[str, Operator]) -> Operator:
    for k, name in enumerate(op.inputs):
        view = made.get(name)
        if view is None or view.kind != "view" or view.attributes.get("fn") != "index":
            continue
        here, there = op.parsed.operands[k], view.parsed.result
        weight, ids = view.parsed.operands
        dim: Any = view.attributes["dim"]
        among = weight[dim][0]
        grows = any(view.loop(loop).batch for group in weight for loop in group)
        if [[view.sizes[x] for x in group] for group in there] != [
            [op.sizes[x] for x in group] for group in here
        ] or grows:
            continue
        named = {a: b for old, new in zip(there, here, strict=True) for a, b in zip(old, new, strict=True)}
        rows = {named[loop] for group in ids for loop in group}
        other = {loop for group in op.parsed.operands[1 - k] for loop in group}
        result = {loop for group in op.parsed.result for loop in group}
        if {loop for group in weight for loop in group} & {loop for group in ids for loop in group}:
            continue
        if not rows or not rows <= other & result:
            continue
        pick = next(x for x in "emkptuvwxyz" if x not in op.sizes)
        named[among] = pick
        operands = list(op.parsed.operands)
        operands[k] = _renamed(weight, named)
        formula = Formula((*operands, _renamed(ids, named)), op.parsed.result)
        inputs = list(op.inputs)
        inputs[k] = view.inputs[0]
        return replace(
            op, kind="grouped", formula=str(formula), inputs=(*inputs, view.inputs[1]),
            loops=(*op.loops, Loop(pick, view.sizes[among])), saves=(*op.saves, 2) if op.saves else (),
            attributes={**op.attributes, "pick": pick},
        )  # fmt: skip
    return op


def _renamed(dims: Dims, named: dict[str, str]) -> Dims:
    return tuple(tuple(named[loop] for loop in group) for group in dims)
