"""Aten operators that normalise, pool, or compare with labels: norms, softmax, pooling, losses."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace

from ..operator import Scalar
from ..running import Running
from .draft import Axes
from .elementwise import pointwise
from .handlers import drawn
from .step import Handler, Result, Step
from .values import ONE, Size, Value, total

__all__ = ["HANDLERS"]

Labelled = tuple[Value, Sequence[Hashable]]


def _norm(step: Step, x: Labelled, affine: Sequence[Value | None], along: Sequence[Hashable], over: set[Hashable],
          fn: str, eps: float, sizes: dict[Hashable, Size] | None = None) -> Value:  # fmt: skip
    """A norm over the axes `over`; weight and bias lie along `along`."""
    weight, bias = affine
    read = [x, *((p, along) for p in (weight, bias if weight is not None else None) if p is not None)]
    shown = [(v, [n if dim or isinstance(n, tuple) else None for n, dim in zip(labels, v.dims, strict=True)])
             for v, labels in read]  # fmt: skip
    y = step.draft.add(
        step.word, "norm", Axes(shown, shown[0][1], splits=dict.fromkeys(over, "statistic"), sizes=sizes or {}),
        saves=range(min(len(read), 2)), attributes={"fn": fn, "eps": float(eps)},
    )  # fmt: skip
    return pointwise(step, "add", [y, bias], word="add") if bias is not None and weight is None else y


def _layer_norm(step: Step) -> Result:
    a = step.args
    x, count = a["input"], len(a["normalized_shape"])
    axes = list(range(len(x.dims)))
    # Without one torch takes the smallest step above 1 of the dtype.
    steps = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
    eps = a["eps"] if a["eps"] is not None else steps[x.dtype]
    fn = "rms" if step.word == "rms_norm" else "layer"
    over: set[Hashable] = set(axes[-count:])
    return _norm(step, (x, axes), (a["weight"], a.get("bias")), axes[-count:], over, fn, eps)


def _batch_norm(step: Step) -> Result:
    a = step.args
    x = a["input"]
    if not a.get("training", a.get("use_input_stats", "no_training" not in step.op)):
        return _evaluated(step, x)
    axes: list[Hashable] = list(range(len(x.dims)))
    before = len(step.draft.operators)
    over = set(axes) - {1} - ({0} if step.word == "instance_norm" else set())
    fn = "group" if step.word == "instance_norm" else "batch"
    y = _norm(step, (x, axes), (a["weight"], a["bias"]), [1], over, fn, a["eps"])
    running = None if fn != "batch" else _running(step)
    if running is not None:
        made = step.draft.operators
        made[before] = replace(made[before], running=running)
    if len(step.sizes) == 1:
        return y
    # Beside it are statistics, which nothing in a graph reads, and new running ones, under the names of the old.
    return [y, None, None, a["running_mean"], a["running_var"]][: len(step.sizes)]


def _running(step: Step) -> Running | None:
    """The buffers that torch updates with the statistics, if it does; of a module the count of microbatches too."""
    a, draft = step.args, step.draft
    mean, variance = a["running_mean"], a["running_var"]
    made = {op.name for op in draft.operators}
    if mean is None or variance is None or draft.inference or {mean.name, variance.name} & made:
        return None
    beside = f"{mean.name.rpartition('.')[0]}.num_batches_tracked".lstrip(".")  # as torch's own modules call it
    return Running(mean.name, variance.name, float(a["momentum"]), beside if beside in draft.taken - made else "")


def _evaluated(step: Step, x: Value) -> Result:
    """A batch norm by its running statistics: no loop of it is summed over."""
    a, axes = step.args, list(range(len(x.dims)))
    given = [a[key] for key in ("running_mean", "running_var", "weight", "bias") if a[key] is not None]
    if a["bias"] is not None and a["weight"] is None:
        raise step.unknown("a batch norm with a bias and no weight is not known")
    scaled = a["weight"] is not None and (x.grad or a["weight"].grad)
    y = step.draft.add(
        "batch_norm", "norm", Axes([(x, axes), *((p, [1]) for p in given)], axes), saves=(0, 2) if scaled else (),
        attributes={"fn": "batch", "eps": float(a["eps"]), "statistics": "running"},
    )  # fmt: skip
    return [y] if len(step.sizes) > 1 else y


def _group_norm(step: Step) -> Result:
    a = step.args
    x, groups = a["input"], a["num_groups"]
    channels = total(x.dims[1])[0]
    space: list[Hashable] = list(range(2, len(x.dims)))
    each = channels // groups
    sizes: dict[Hashable, Size] = {"g": (groups, groups), "c": (each, each)}
    sizes = {label: size for label, size in sizes.items() if size != ONE}
    axes: list[Hashable] = [0, tuple(sizes), *space]
    return _norm(
        step, (x, axes), (a["weight"], a["bias"]), [tuple(sizes)], {"c", *space} & {*sizes, *space}, "group", a["eps"],
        sizes,
    )  # fmt: skip


def _softmax(step: Step) -> Result:
    x, rank = step.x, len(step.x.dims)
    dim = step.args["dim"] % rank
    extra: dict[str, Scalar] = {"fn": "log_softmax"} if "log" in step.word else {}
    labels = [k if d else None for k, d in enumerate(x.dims)]
    return step.draft.add(
        step.word, "softmax", Axes([(x, labels)], labels, splits={dim: "statistic"}), saves=(-1,), dtype=step.dtypes[0],
        attributes={"causal": False, **extra},
    )  # fmt: skip


_REDUCTIONS = ("none", "mean", "sum")


def _cross_entropy(step: Step) -> Result:
    a = step.args
    x, labels = a["self"], a["target"]
    if a.get("weight") is not None or a.get("label_smoothing", 0.0):
        raise step.unknown("class weights and label smoothing are not known")
    if labels.dtype not in ("int64", "int32"):
        raise step.unknown("labels that are probabilities are not known")
    rank = len(x.dims)
    classes = 1 if rank > 1 else 0
    if not x.dims[classes]:
        raise step.unknown("a loss over one class is not known")
    axes: list[Hashable] = [k if dim else None for k, dim in enumerate(x.dims)]
    rest = [n for k, n in enumerate(axes) if k != classes]
    reduction = _REDUCTIONS[a["reduction"]]
    lined = Axes(
        [(x, axes), (labels, rest)],
        rest if reduction == "none" else [],
        splits={classes: "statistic"},
        single=(classes,),
    )
    return step.draft.add(
        step.word, "loss", lined, dtype=step.dtypes[0], saves=(0, 1),
        attributes={"fn": "nll" if "nll" in step.word else "cross_entropy", "reduction": reduction,
                    "ignore_index": a["ignore_index"]},
    )  # fmt: skip


def _mse(step: Step) -> Result:
    a = step.args
    axes = step.draft.aligned(a["self"], a["target"])
    reduction = _REDUCTIONS[a["reduction"]]
    return step.draft.add(
        step.word, "loss", axes if reduction == "none" else replace(axes, result=[]), saves=(0, 1),
        dtype=step.dtypes[0], attributes={"fn": "mse", "reduction": reduction},
    )  # fmt: skip


def _pool(step: Step) -> Result:
    a, x = step.args, step.x
    space = len(x.dims) - 2
    before, after = [total(d)[0] for d in x.dims[2:]], [s[0] for s in step.sizes[0][2:]]
    adaptive, extra = step.word.startswith("adaptive"), dict[str, Scalar]()
    if space == 3 and not step.draft.inference:
        raise step.unknown("pooling in three dimensions is known of inference only")
    if adaptive and all(n == 1 for n in after):
        axes = list(range(len(x.dims)))
        if "max" in step.word:
            raise step.unknown()
        return step.draft.add(
            "pool", "reduction", Axes([(x, axes)], [0, 1, *[None] * space]), attributes={"fn": "mean"},
        )  # fmt: skip
    if adaptive:
        if any(n % m for n, m in zip(before, after, strict=True)):
            raise step.unknown("only sizes that divide the input are known")
        kernel = stride = tuple(n // m for n, m in zip(before, after, strict=True))
        padding = (0,) * space
    else:
        kernel = _each(a["kernel_size"], space)
        stride, padding = _each(a["stride"] or kernel, space), _each(a["padding"], space)
        odd = a.get("ceil_mode") or set(_each(a.get("dilation", 1), space)) != {1} or a.get("divisor_override")
        bare = not a.get("count_include_pad", True)
        if odd or (bare and not step.draft.inference):
            raise step.unknown("ceil_mode, dilation, divisor_override and count_include_pad=False are not known")
        if bare and any(padding):
            extra["count_include_pad"] = False
    into, out = ([f"{what} {k}" for k in range(space)] for what in ("in", "out"))
    sizes: dict[Hashable, Size] = {out[k]: step.sizes[0][2 + k] for k in range(space)}
    lined = Axes([(x, [0, 1, *into])], [0, 1, *out], sizes=sizes, splits=dict.fromkeys((*into, *out), "whole"))
    return step.draft.add(
        "pool", "pool", lined, saves=(0, -1) if "max" in step.word else (),
        flops=float(math.prod(s[0] for s in step.sizes[0]) * math.prod(kernel)),
        attributes={"fn": "max" if "max" in step.word else "mean", "kernel": kernel, "stride": stride,
                    "padding": padding, **extra},
    )  # fmt: skip


def _each(value: int | Sequence[int], count: int) -> tuple[int, ...]:
    listed = [value] if isinstance(value, int) else list(value)
    return tuple(listed * count if len(listed) == 1 else listed)


HANDLERS: dict[str, Handler] = {
    **drawn.HANDLERS,
    **dict.fromkeys(("layer_norm", "rms_norm"), _layer_norm),
    **dict.fromkeys(("batch_norm", "instance_norm", "_native_batch_norm_legit_functional",
                     "_native_batch_norm_legit", "_native_batch_norm_legit_no_training"), _batch_norm),
    **dict.fromkeys(("softmax", "_softmax", "log_softmax", "_log_softmax"), _softmax),
    **dict.fromkeys(("cross_entropy_loss", "nll_loss_nd", "nll_loss"), _cross_entropy),
    **dict.fromkeys(("max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d",
                     "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"), _pool),
    "group_norm": _group_norm,
    "mse_loss": _mse,
}  # fmt: skip
"""Handlers by the operator's name."""
