"""`redone`: which results of a stage are recomputed in the backward pass instead of being kept for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....profiles.graph import Operator
from .layout import StageLayout

__all__ = ["redone"]


def redone(layout: StageLayout, recompute: str) -> tuple[tuple[int, ...], ...]:
    """Groups of operators, by position in the stage; each group is recomputed as a whole.

    Parameters
    ----------
    layout : StageLayout
        The stage.
    recompute : {"none", "selective", "full"}
        "none": nothing. "selective": attention cores, that is two products of activations and the softmax between them
        (Korthikanti et al., §5). "full": every repeated layer, so that only its inputs are kept.
    """
    operators = [run.op for run in layout.operators]
    if recompute == "full":
        layers = sorted({op.layer for op in operators if op.layer >= 0})
        return tuple(tuple(i for i, op in enumerate(operators) if op.layer == layer) for layer in layers)
    if recompute != "selective":
        return ()
    by_name = {op.name: i for i, op in enumerate(operators)}
    found: list[tuple[int, ...]] = []
    for last, op in enumerate(operators):
        if _product(op, by_name):
            chain, softmax = _above(operators, by_name, last)
            if softmax:
                found.append(tuple(sorted({*chain, last})))
    return tuple(found)


def _product(op: Operator, by_name: Mapping[str, int]) -> bool:
    """Whether an operator is a product of two activations that this stage makes."""
    return op.kind == "contraction" and sum(name in by_name for name in op.inputs) == 2


def _above(operators: Sequence[Operator], by_name: Mapping[str, int], last: int) -> tuple[set[int], bool]:
    """Light operators that lead from earlier products of activations to this one, and whether a softmax is among them.

    Only branches that reach such a product through a softmax count: of the context product, the scores but not V.
    """
    chain, softmax = set[int](), False
    waiting = [by_name[name] for name in operators[last].inputs if name in by_name]
    for i in waiting:
        branch, ends, found = {i}, False, False
        stack = [i]
        while stack:
            at = stack.pop()
            branch.add(at)
            if _product(operators[at], by_name):
                ends = True
            elif not operators[at].heavy:
                found = found or operators[at].kind == "softmax"
                stack += [by_name[name] for name in operators[at].inputs if name in by_name]
        if ends and found:
            chain |= {at for at in branch if not operators[at].heavy or _product(operators[at], by_name)}
            softmax = True
    return chain, softmax
