"""Aten operators that only move elements: reshapes, transposes, slices, joins."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from ..operator import Scalar
from .draft import Axes, Labels
from .elementwise import pointwise
from .step import Handler, Result, Step, number, values
from .values import ONE, Atoms, Size, Value, reshaped, total

__all__ = ["HANDLERS", "reshape", "sliced"]


def reshape(step: Step, x: Value, sizes: Sequence[Size], word: str = "") -> Value:
    """The same elements under another shape; nothing is added where nothing changes."""
    lined = reshaped(x.dims, sizes)
    word = word or step.word
    if lined is None:  # dimensions do not line up: nothing of it can be cut
        into = [f"in {k}" if dim else None for k, dim in enumerate(x.dims)]
        out = [f"out {k}" if size != ONE else None for k, size in enumerate(sizes)]
        made = {label: size for label, size in zip(out, sizes, strict=True) if label}
        return _whole(step, word, x, into, out, made, {"fn": "reshape"})
    before, after = lined
    if after == x.dims:
        return x
    flat = [size for dim in before for size in dim]
    sides = [_numbered(dims) for dims in (before, after)]
    return step.draft.add(word, "view", Axes([(x, sides[0])], sides[1], sizes=dict(enumerate(flat))))


def _numbered(dims: Sequence[Atoms]) -> Labels:
    """A label for each atom, counted through: the same on both sides of a reshape."""
    count = iter(range(sum(map(len, dims))))
    return [tuple(next(count) for _ in dim) for dim in dims]


def _reshape(step: Step) -> Result:
    return reshape(step, step.x, step.sizes[0])


def _whole(
    step: Step, word: str, x: Value, into: Labels, out: Labels, made: Mapping[Any, Size],
    attributes: Mapping[str, Scalar],
) -> Value:  # fmt: skip
    """A view whose axes on one side only are whole; `made` are the sizes of those that only the result has."""
    lost = {x for x in (*into, *out) if x is not None and (x not in into or x not in out)}
    return step.draft.add(
        word, "view", Axes([(x, into)], out, splits=dict.fromkeys(lost, "whole"), sizes=made), attributes=attributes,
    )  # fmt: skip


def _permute(step: Step) -> Result:
    x, a, rank = step.x, step.args, len(step.x.dims)
    order = list(range(rank))
    if step.word in ("permute",):
        order = [d % rank for d in a["dims"]]
    elif step.word in ("transpose", "swapaxes", "swapdims"):
        first, second = (d % rank for d in (v for v in a.values() if isinstance(v, int)))
        order[first], order[second] = order[second], order[first]
    elif step.word == "movedim":
        source, target = ([v] if isinstance(v, int) else list(v) for v in (a["source"], a["destination"]))
        rest = [d for d in order if d not in [s % rank for s in source]]
        for at, d in sorted((t % rank, s % rank) for s, t in zip(source, target, strict=True)):
            rest.insert(at, d)
        order = rest
    elif step.word in ("numpy_T", "t"):
        order = order[::-1]
    else:  # mT, adjoint: the last two
        order[-2:] = order[:-3:-1]
    return _rearranged(step, x, order)


def _rearranged(step: Step, x: Value, order: Sequence[int]) -> Value:
    if list(order) == list(range(len(x.dims))):
        return x
    return step.draft.add(step.word, "view", Axes([(x, range(len(x.dims)))], list(order)))


def _expand(step: Step) -> Result:
    return expanded(step, step.x, step.sizes[0])


def _copy(step: Step) -> Result:
    """What is written over a tensor: nothing of it is left but shape and type."""
    y = expanded(step, step.args["src"], step.sizes[0])
    return y if y.dtype == step.dtypes[0] else pointwise(step, "cast", [y], word="cast")


def _broadcast(step: Step) -> Result:
    return [expanded(step, x, sizes) for x, sizes in zip(values(step.args["tensors"]), step.sizes, strict=True)]


def expanded(step: Step, x: Value, sizes: Sequence[Size]) -> Value:
    """The tensor repeated along dimensions that it lacks or that are of size 1."""
    extra = len(sizes) - len(x.dims)
    labels = [k if dim else None for k, dim in enumerate(x.dims, start=extra)]
    if tuple(sizes[extra:]) == tuple(total(dim) for dim in x.dims) and not extra:
        return x
    out = [k if size != ONE else None for k, size in enumerate(sizes)]
    return step.draft.add(
        step.word, "view", Axes([(x, labels)], out, sizes={k: s for k, s in enumerate(sizes) if s != ONE}),
    )  # fmt: skip


def _repeat(step: Step) -> Result:
    x, repeats = step.x, step.args["repeats"]
    extra = len(repeats) - len(x.dims)
    sizes = step.sizes[0]
    into: list[Hashable | None] = [k if dim else None for k, dim in enumerate(x.dims, start=extra)]
    # A repeated dimension is (times, what it was): whole copies one after another.
    out: list[Hashable | None] = []
    made: dict[Hashable, Size] = {}
    for k, size in enumerate(sizes):
        had = ONE if k < extra else total(x.dims[k - extra])
        if had == size:
            out.append(k if size != ONE else None)
            continue
        made[f"times {k}"] = (size[0] // had[0], size[1] // had[1])
        out.append((f"times {k}", k) if had != ONE else f"times {k}")
    if not made:
        return x
    return step.draft.add(step.word, "view", Axes([(x, into)], out, sizes=made))


def _repeat_interleave(step: Step) -> Result:
    x, a = step.x, step.args
    times, dim = a.get("repeats"), a.get("dim")
    if not isinstance(times, int) or dim is None or not isinstance(a.get("self"), Value):
        raise step.unknown("only one number of repeats along one dimension is known")
    dim %= len(x.dims)
    out: list[Hashable | None] = list(range(len(x.dims)))
    out[dim] = (dim, "times")
    return step.draft.add(step.word, "view", Axes([(x, range(len(x.dims)))], out, sizes={"times": (times, times)}))


def _slice(step: Step) -> Result:
    x, a = step.x, step.args
    dim = a["dim"] % len(x.dims)
    if step.sizes[0][dim] == total(x.dims[dim]):
        return x
    start = a["start"] if a["start"] is not None else 0
    start = start if isinstance(start, int) and start >= 0 else total(x.dims[dim])[0] + start
    return sliced(step, x, dim, start, step.sizes[0][dim], a.get("step", 1))


def sliced(step: Step, x: Value, dim: int, start: int, size: Size, stride: int = 1) -> Value:
    """A part of one dimension."""
    into: list[Hashable | None] = list(range(len(x.dims)))
    out: list[Hashable | None] = [*into[:dim], "part" if size != ONE else None, *into[dim + 1 :]]
    if total(x.dims[dim])[0] != total(x.dims[dim])[1]:
        raise step.unknown("takes a part of a dimension that grows with the batch")
    attributes: dict[str, Scalar] = {"fn": "slice", "dim": dim, "start": start, "step": stride}
    return _whole(step, "slice", x, into, out, {"part": size}, attributes)


def _select(step: Step) -> Result:
    x, dim = step.x, step.args["dim"] % len(step.x.dims)
    return _selected(step, x, dim, step.args["index"])


def _selected(step: Step, x: Value, dim: int, index: int) -> Value:
    size = total(x.dims[dim])
    if size[0] != size[1]:
        raise step.unknown("takes one sample of the batch")
    into: list[Hashable | None] = list(range(len(x.dims)))
    out = [*into[:dim], *into[dim + 1 :]]
    attributes: dict[str, Scalar] = {"fn": "select", "dim": dim, "index": index % size[0]}
    return _whole(step, "select", x, into, out, {}, attributes)


def _split(step: Step) -> Result:
    x, dim = step.x, step.args.get("dim", 0) % len(step.x.dims)
    parts, start = list[Value](), 0
    for sizes in step.sizes:
        whole = sizes[dim] == total(x.dims[dim])
        parts.append(x if whole else sliced(step, x, dim, start, sizes[dim]))
        start += sizes[dim][0]
    return parts


def _unbind(step: Step) -> Result:
    x, dim = step.x, step.args["dim"] % len(step.x.dims)
    return [_selected(step, x, dim, i) for i in range(len(step.sizes))]


def _cat(step: Step) -> Result:
    parts = [v for v in values(step.args["tensors"]) if len(v.dims) == len(step.sizes[0])]
    dim = step.args["dim"] % len(step.sizes[0])
    return joined(step, parts, dim, step.sizes[0][dim]) if len(parts) > 1 else parts[0]


def joined(step: Step, parts: Sequence[Value], dim: int, size: Size) -> Value:
    """Tensors one after another along a dimension."""
    if size[0] != size[1]:
        raise step.unknown("joins tensors along a dimension that grows with the batch")
    rank = len(parts[0].dims)
    others = [k for k in range(rank) if k != dim]
    operands = [(v, [f"part {i}" if k == dim and v.dims[k] else k if k in others and v.dims[k] else None
                     for k in range(rank)]) for i, v in enumerate(parts)]  # fmt: skip
    result = ["all" if k == dim else k if parts[0].dims[k] else None for k in range(rank)]
    whole = {"all": "whole"} | {f"part {i}": "whole" for i in range(len(parts))}
    return step.draft.add(
        "cat", "view", Axes(operands, result, splits=whole, sizes={"all": size}), dtype=step.dtypes[0],
        attributes={"fn": "cat", "dim": dim},
    )  # fmt: skip


def _slice_scatter(step: Step) -> Result:
    """A tensor with a part of one dimension taken from another."""
    a = step.args
    x, part, dim = a["self"], a["src"], a["dim"] % len(a["self"].dims)
    size, width = total(x.dims[dim]), total(part.dims[dim])
    start = a["start"] if a["start"] is not None else 0
    start += 0 if start >= 0 else size[0]
    if a["step"] != 1 or size[0] != size[1]:
        raise step.unknown("only parts without gaps of a dimension that does not grow are known")
    after = start + width[0]
    parts = [sliced(step, x, dim, 0, (start, start))] if start else []
    parts += [part, *([sliced(step, x, dim, after, (size[0] - after, size[0] - after))] if after < size[0] else [])]
    return joined(step, parts, dim, size) if len(parts) > 1 else part


def _stack(step: Step) -> Result:
    parts, dim = values(step.args["tensors"]), step.args["dim"] % len(step.sizes[0])
    sizes = list(step.sizes[0])
    count, sizes[dim] = sizes[dim], ONE
    return joined(step, [reshape(step, v, sizes, "unsqueeze") for v in parts], dim, count)


def _pad(step: Step) -> Result:
    x, a, rank = step.x, step.args, len(step.x.dims)
    if a.get("mode", "constant") != "constant":
        raise step.unknown("only padding with a constant is known")
    amounts = list(a["pad"]) + [0] * (2 * rank - len(a["pad"]))
    if not any(amounts):
        return x
    before = tuple(amounts[2 * (rank - 1 - k)] for k in range(rank))
    into: list[Hashable | None] = list(range(rank))
    changed = [k for k in range(rank) if step.sizes[0][k] != total(x.dims[k]) or before[k]]
    out = [f"padded {k}" if k in changed else k for k in range(rank)]
    made: dict[Hashable, Size] = {f"padded {k}": step.sizes[0][k] for k in changed}
    value = number(a["value"] or 0)
    return _whole(step, "pad", x, into, out, made, {"fn": "pad", "before": before, "value": value})


def _roll(step: Step) -> Result:
    x, a, rank = step.x, step.args, len(step.x.dims)
    dims = [d % rank for d in a["dims"]]
    shifts = tuple(a["shifts"]) if "shifts" in a else ()
    if not dims or any(total(x.dims[d])[0] != total(x.dims[d])[1] for d in dims):
        raise step.unknown("moves the samples of the batch")
    return step.draft.add(
        step.word, "view", Axes([(x, range(rank))], range(rank), splits=dict.fromkeys(dims, "whole")),
        attributes={"fn": step.word, "dims": tuple(dims), **({"shifts": shifts} if shifts else {})},
    )  # fmt: skip


def _upsample(step: Step) -> Result:
    """Nearest neighbours by a whole factor: every pixel repeated."""
    x, rank = step.x, len(step.x.dims)
    out: list[Hashable | None] = [0, 1]
    sizes: dict[Hashable, Size] = {}
    for k in range(2, rank):
        before, after = total(x.dims[k])[0], step.sizes[0][k][0]
        if after % before:
            raise step.unknown("only whole factors are known")
        sizes[f"times {k}"] = (after // before, after // before)
        out.append((k, f"times {k}"))
    return step.draft.add("upsample", "view", Axes([(x, range(rank))], out, sizes=sizes))


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(
        ("view", "reshape", "_unsafe_view", "flatten", "unflatten", "squeeze", "unsqueeze", "ravel", "view_as",
         "reshape_as"), _reshape),
    **dict.fromkeys(
        ("permute", "transpose", "swapaxes", "swapdims", "movedim", "numpy_T", "t", "mT", "adjoint"), _permute),
    **dict.fromkeys(("expand", "expand_as", "broadcast_to"), _expand),
    **dict.fromkeys(("split", "split_with_sizes", "chunk", "tensor_split"), _split),
    **dict.fromkeys(("pad", "constant_pad_nd"), _pad),
    **dict.fromkeys(("roll", "flip"), _roll),
    **dict.fromkeys(("cat", "concat", "concatenate"), _cat),
    "broadcast_tensors": _broadcast,
    "copy": _copy,
    **dict.fromkeys(("upsample_nearest1d", "upsample_nearest2d"), _upsample),
    "narrow": _slice,
    "repeat": _repeat,
    "repeat_interleave": _repeat_interleave,
    "select": _select,
    "slice": _slice,
    "slice_scatter": _slice_scatter,
    "stack": _stack,
    "unbind": _unbind,
}  # fmt: skip
"""Handlers by the operator's name."""
