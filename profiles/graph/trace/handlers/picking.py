"""Aten operators that pick elements by indices: rows, gathers, and indices that only count through a dimension."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from ..draft import Axes, Draft
from ..step import Handler, Result, Step
from ..values import Value, total
from ..views import sliced

__all__ = ["HANDLERS", "counted"]


def counted(draft: Draft, x: Value) -> int | None:
    """The dimension along which a tensor counts 0, 1, 2, …, its others being of size 1; None if it does not."""
    long = [k for k, dim in enumerate(x.dims) if dim]
    if len(long) != 1:
        return None
    made, name = {op.name: op for op in draft.operators}, x.name
    while (op := made.get(name)) is not None and len(op.loops) == 1:
        fn, a = op.attributes.get("fn"), op.attributes
        if fn == "arange":
            return long[0] if (a.get("start", 0), a.get("step", 1)) == (0, 1) else None
        if not (op.kind == "view" and fn is None) and fn not in ("cast", "copy", "detach"):
            return None
        name = op.inputs[0]
    return None


def _index(step: Step) -> Result:
    """Elements at several indices, which broadcast; those that only count through their dimension are no indices."""
    x, given = step.x, list(step.args["indices"])
    picked = {k: v for k, v in enumerate(given) if v is not None}
    if not all(v.dtype.startswith("int") for v in picked.values()):
        raise step.unknown("only indices that are integers are known")
    rank = max(len(v.dims) for v in picked.values())
    places = sorted(picked)
    beside = places == list(range(places[0], places[-1] + 1))
    along: dict[int, list[Hashable | None]] = {}
    labels: list[Hashable | None] = [k if dim else None for k, dim in enumerate(x.dims)]
    for k, ids in picked.items():
        where = counted(step.draft, ids)
        axis = None if where is None else f"index {rank - len(ids.dims) + where}"
        if axis is not None and axis not in labels and where is not None and total(ids.dims[where]) == total(x.dims[k]):
            labels[k] = axis
        else:
            along[k] = [f"index {i}" if dim else None for i, dim in enumerate(ids.dims, rank - len(ids.dims))]
    if len(along) > 1:
        raise step.unknown("only one tensor of indices, beside those that count through a dimension, is known")
    there = {label for side in (labels, *along.values()) for label in side}
    made = [f"index {i}" if f"index {i}" in there else None for i in range(rank)]
    first = places[0] if beside else 0
    others = [label for k, label in enumerate(labels) if k not in picked]
    result = [*others[:first], *made, *others[first:]]
    if not along:
        return step.draft.add(step.word, "view", Axes([(x, labels)], result))
    (dim,) = along
    return _picked(step, x, labels, dim, picked[dim], along[dim], result)


def _index_select(step: Step) -> Result:
    x, ids = step.x, step.args["index"]
    dim = step.args["dim"] % len(x.dims)
    labels: list[Hashable | None] = [k if d else None for k, d in enumerate(x.dims)]
    along: list[Hashable | None] = [f"index {k}" if d else None for k, d in enumerate(ids.dims)]
    return _picked(step, x, labels, dim, ids, along, [*labels[:dim], *along, *labels[dim + 1 :]])


def _gather(step: Step) -> Result:
    """One element for each index, which goes with the elements of its own place in all other dimensions."""
    x, ids = step.x, step.args["index"]
    dim = step.args["dim"] % len(x.dims)
    for k, d in enumerate(ids.dims):
        if k != dim and total(d) != total(x.dims[k]):
            x = sliced(step, x, k, 0, total(d))
    labels: list[Hashable | None] = [k if d else None for k, d in enumerate(x.dims)]
    along: list[Hashable | None] = [("index" if k == dim else k) if d else None for k, d in enumerate(ids.dims)]
    return _picked(step, x, labels, dim, ids, along, along)


def _picked(
    step: Step, x: Value, labels: list[Hashable | None], dim: int, ids: Value, along: Sequence[Hashable | None],
    result: Sequence[Hashable | None],
) -> Value:  # fmt: skip
    """Elements along one dimension; of a table of rows it is an embedding."""
    size = total(x.dims[dim])
    if size[0] != size[1]:
        raise step.unknown("picks samples of the batch")
    if not x.dims[dim]:
        raise step.unknown("picks from a dimension of one element")
    lined = [*labels[:dim], "from", *labels[dim + 1 :]]
    if len(x.dims) == 2 and dim == 0 and labels[1] not in along:
        return step.draft.add("index", "embedding", Axes([(x, lined), (ids, along)], result), saves=(1,))
    return step.draft.add(
        step.word, "view", Axes([(x, lined), (ids, along)], result, splits={"from": "whole"}, single=("from",)),
        saves=(1,), attributes={"fn": "index", "dim": dim},
    )  # fmt: skip


HANDLERS: dict[str, Handler] = {
    "gather": _gather,
    "index": _index,
    "index_select": _index_select,
}
"""Handlers by the operator's name."""
