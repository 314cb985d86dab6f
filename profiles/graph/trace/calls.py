"""Compare traced calls with torch one by one, on small sizes: the check of modules too large to be run whole."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from ..module_loss import in_float64
from ..operator import Operator
from .draft import Draft
from .step import Handler, Step
from .values import ONE, Atoms, Size, Value, reshaped, total

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Call", "CallCheck", "check_calls", "relative"]

APART = 1e-9
"""Both sides compute one call in float64; more than this part of the largest element is no rounding."""

LARGEST = 1 << 24
"""Elements of a tensor of a call, and products of a contraction, that are computed for a check."""

SMALL = (6, 4, 5, 3, 7, 8)
"""The sizes that take the place of sizes above `KEPT`, in turn: small, and different, so that a mixed-up axis shows."""

KEPT = 8
"""Sizes up to this stay as they are: they are kernels, groups and the like, and cheap anyway."""


@dataclass(frozen=True, eq=False)
class Call:
    """A call of the trace and the operators that it became.

    Parameters
    ----------
    target : callable
        What torch calls.
    handler : callable
        What made operators of it.
    step : Step
        What the handler was given.
    operators : tuple of Operator
        What it added.
    """

    target: Any
    handler: Handler
    step: Step
    operators: tuple[Operator, ...]

    @property
    def key(self) -> str:
        """The same for calls that do the same on the same sizes."""
        args = {key: _words(value) for key, value in self.step.args.items()}
        return repr((self.step.op, args, self.step.sizes, self.step.dtypes))


@dataclass(frozen=True, slots=True)
class CallCheck:
    """What was found.

    Parameters
    ----------
    distinct : int
        Calls that differ in anything.
    wrong : tuple of (Call, float)
        Those that compute something else, and by how much.
    unchecked : tuple of Call
        Those that are too large, or that torch does not run on numbers of our choice.
    """

    distinct: int
    wrong: tuple[tuple[Call, float], ...]
    unchecked: tuple[Call, ...]


def check_calls(calls: Sequence[Call]) -> CallCheck:
    """Compare every distinct call's value and gradients with torch's, on sizes that are small wherever they may be."""
    distinct = {call.key: call for call in calls if not _draws(call)}
    wrong, unchecked = list[tuple[Call, float]](), list[Call]()
    for call in distinct.values():
        apart = _apart(call)
        if apart is None:
            unchecked.append(call)
        elif not apart <= APART:
            wrong.append((call, apart))
    return CallCheck(len(distinct), tuple(wrong), tuple(unchecked))


def _draws(call: Call) -> bool:
    from ..compute.draws import draws_at_random

    empty = call.step.word.startswith(("empty", "new_empty"))  # whatever was in memory
    return empty or any(map(draws_at_random, call.operators))


def _words(value: Any) -> Any:
    if isinstance(value, Value):
        return value.dims, value.dtype, value.grad
    return [_words(v) for v in value] if isinstance(value, (list, tuple)) else repr(value)


def _apart(call: Call) -> float | None:
    """The largest relative difference of a call's results and gradients; None if no sizes are found to run it with."""
    for small in _shrunken(call):
        found = _compared(call, small)
        if found is not None:
            return found
    return None


def _shrunken(call: Call) -> Iterator[Mapping[Size, Size]]:
    """Maps of sizes to smaller ones: all of them, all but one or two, none."""
    atoms = dict.fromkeys(a for v in _values(call.step.args) for dim in v.dims for a in dim)
    for size in (s for sizes in call.step.sizes for s in sizes if s != ONE):
        atoms.setdefault(size)
    shrink = [a for a in atoms if a[0] != a[1] or a[0] > KEPT]
    # What grows with the batch is 2 at one batch, 4 at twice that; a size of both is made of such.
    fixed = iter(SMALL * (1 + len(shrink) // len(SMALL)))
    small = {a: (2, 4) if a[0] != a[1] else (n, n) for a in shrink for n in [2 if a[0] != a[1] else next(fixed)]}
    yield small
    for left_out in range(len(shrink)):
        yield {a: small[a] for i, a in enumerate(shrink) if i != left_out}
    for first in range(len(shrink)):
        for second in range(first):
            yield {a: small[a] for i, a in enumerate(shrink) if i not in (first, second)}
    if shrink:
        yield {}


def _compared(call: Call, small: Mapping[Size, Size]) -> float | None:
    try:
        args = _small_args(call.step, small)
        sizes = [_shapes(call.target, args, which) for which in (0, 1)]
    except Exception:  # a map under which torch refuses the call is not one to check with
        return None
    pairs = [tuple(zip(*both, strict=True)) for both in zip(*sizes, strict=True)]
    if any(math.prod(s[0] for s in shape) > LARGEST for shape in pairs):
        return None
    draft = Draft({v.name for v in _values(args)}, call.step.draft.inference)
    step = Step(draft, call.step.op, args, pairs, call.step.dtypes)  # pyright: ignore[reportArgumentType]
    try:
        result = call.handler(step)
    except ValueError:  # refused on other sizes than it was met with
        return None
    if [_shape_of(op) for op in draft.operators] != [_shape_of(op) for op in call.operators]:
        return None
    # Two FLOPs a product, so twice `LARGEST` products: still a fraction of a second. The factor is a guess.
    if any(op.flops > 4 * LARGEST for op in draft.operators if op.heavy):
        return None
    return _difference(call.target, args, draft.operators, result)


def _shape_of(op: Operator) -> tuple[Any, ...]:
    """Everything that makes an operator except its sizes."""
    attributes = {k: v for k, v in op.attributes.items() if isinstance(v, (str, bool))}
    return op.kind, op.formula, tuple((x.name, x.batch, x.split) for x in op.loops), attributes, tuple(op.attributes)


def _small_args(step: Step, small: Mapping[Size, Size]) -> dict[str, Any]:
    """The arguments with smaller tensors, and with sizes that say what they said of the larger ones."""
    count = iter(range(1 << 20))

    def dim(atoms: Atoms) -> Atoms:
        return tuple(small.get(a, a) for a in atoms)

    def value(v: Value) -> Value:
        return Value(f"operand {next(count)}", tuple(map(dim, v.dims)), v.dtype, v.grad)

    def walk(x: Any) -> Any:
        return value(x) if isinstance(x, Value) else [walk(v) for v in x] if isinstance(x, list) else x

    args = {key: walk(x) for key, x in step.args.items()}
    first = next(_values(step.args), None)
    for key in ("size", "shape", "sizes", "normalized_shape"):
        listed = step.args.get(key)
        if not isinstance(listed, list) or not all(isinstance(n, int) for n in listed):
            continue
        if key == "normalized_shape" and first is not None:
            dims: Sequence[Atoms] = first.dims[-len(listed) :]
        else:
            dims = _target(step, first)
            dims = dims[-len(listed) :] if len(listed) < len(dims) else dims
        args[key] = [_Both(*total(dim(d))) for d in dims]
    return args


def _target(step: Step, x: Value | None) -> Sequence[Atoms]:
    """The dimensions of the result, in atoms of the operand where it is the same elements."""
    sizes = step.sizes[0]
    if x is None or step.word.startswith("new_"):
        return [(s,) if s != ONE else () for s in sizes]
    if step.word in ("expand", "broadcast_to"):
        extra = len(sizes) - len(x.dims)
        own = [x.dims[k - extra] if k >= extra else () for k in range(len(sizes))]
        return [d if d and total(d) == s else (s,) if s != ONE else () for d, s in zip(own, sizes, strict=True)]
    lined = reshaped(x.dims, sizes)
    return lined[1] if lined is not None else [(s,) if s != ONE else () for s in sizes]


class _Both(int):
    """A size at one batch that knows what it is at twice that."""

    other: int

    def __new__(cls, one: int, other: int) -> _Both:
        made = super().__new__(cls, one)
        made.other = other
        return made


def _values(value: Any) -> Iterator[Value]:
    if isinstance(value, Value):
        yield value
    elif isinstance(value, Mapping):
        for v in value.values():  # pyright: ignore[reportUnknownVariableType]
            yield from _values(v)
    elif isinstance(value, (list, tuple)):
        for v in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _values(v)


def _filled(value: Any, made: Callable[[Value], Any], which: int = 0) -> Any:
    if isinstance(value, Value):
        return made(value)
    if isinstance(value, _Both):
        return int(value) if which == 0 else value.other
    if isinstance(value, (list, tuple)):
        return [_filled(v, made, which) for v in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def _called(target: Any, args: Mapping[str, Any]) -> list[Any]:
    """The results of a call by the names of its schema."""
    schema = target._schema.arguments
    positional = [args[a.name] for a in schema if not a.kwarg_only]
    result = target(*positional, **{a.name: args[a.name] for a in schema if a.kwarg_only})
    return list(result) if isinstance(result, (list, tuple)) else [result]


def _shapes(target: Any, args: Mapping[str, Any], which: int) -> list[tuple[int, ...]]:
    import torch

    def empty(v: Value) -> Any:
        shape = [total(dim)[which] for dim in v.dims]
        if math.prod(shape) > (LARGEST << which):
            raise ValueError("too large")
        return torch.empty(shape, dtype=getattr(torch, v.dtype), device="meta")

    filled = {key: _filled(x, empty, which) for key, x in args.items()}
    found = _called(target, {**filled, "device": torch.device("meta")} if "device" in filled else filled)
    return [tuple(x.shape) for x in found]


def _difference(target: Any, args: Mapping[str, Any], operators: Sequence[Operator], result: Any) -> float | None:
    import torch

    from ..compute import evaluate

    draw = torch.Generator().manual_seed(0)
    leaves: dict[str, Tensor] = {}

    def tensor(v: Value) -> Any:
        shape = [total(dim)[0] for dim in v.dims]
        if v.dtype.startswith(("float", "bfloat")):
            made = torch.randn(shape, generator=draw, dtype=torch.float64).abs() + 0.1 if _positive(target) else None
            leaves[v.name] = made if made is not None else torch.randn(shape, generator=draw, dtype=torch.float64)
        else:
            dtype = getattr(torch, v.dtype)
            leaves[v.name] = torch.randint(0, 2, shape, generator=draw, dtype=torch.int64).to(dtype)
        return leaves[v.name]

    for v in _values(args):
        tensor(v)
    wanted = [v.name for v in _values(args) if v.grad and leaves[v.name].dtype.is_floating_point]
    listed = list(takewhile(lambda v: isinstance(v, Value), result if isinstance(result, list) else [result]))

    def torchs(own: dict[str, Tensor]) -> list[Any]:
        def read(v: Value) -> Any:  # what a call writes to must be no leaf
            return own[v.name] * 1 if own[v.name].is_floating_point() else own[v.name].clone()

        return _called(target, {key: _filled(x, read) for key, x in args.items()})[: len(listed)]

    def ours(own: dict[str, Tensor]) -> list[Any]:
        values = evaluate(operators, dict(own))
        return [values[v.name] for v in listed]

    sides: list[list[Any]] = []
    for side in (torchs, ours):
        own = {name: x.clone().requires_grad_(name in wanted) for name, x in leaves.items()}
        with torch.random.fork_rng(devices=[]), in_float64():
            found = side(own)
            sides.append([*found, *_gradients(found, [own[name] for name in wanted])])
    return max((relative(a, b) for a, b in zip(*sides, strict=True)), default=0.0)


_STATISTICS = ("batch_norm", "instance_norm", "_native_batch_norm_legit_no_training")
"""Their running variances must be positive."""


def _positive(target: Any) -> bool:
    return target._schema.name.partition("::")[2].rstrip("_") in (
        *("log", "log1p", "sqrt", "rsqrt", "pow", "reciprocal"),
        *_STATISTICS,
    )


def _gradients(results: Sequence[Any], leaves: Sequence[Any]) -> list[Any]:
    import torch

    draw = torch.Generator().manual_seed(1)
    terms = [(x.double() * torch.randn(x.shape, generator=draw, dtype=torch.float64)).sum()
             for x in results[:1] if x.dtype.is_floating_point and x.requires_grad]  # fmt: skip
    if not terms or not leaves:
        return [torch.zeros_like(x) for x in leaves]
    found = torch.autograd.grad(torch.stack(terms).sum(), list(leaves), allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for g, x in zip(found, leaves, strict=True)]


def relative(a: Any, b: Any) -> float:
    """The largest difference of two tensors, as a part of the largest element of the first; of other shapes: inf."""
    import torch

    if tuple(a.shape) != tuple(b.shape):
        return math.inf
    a, b = a.detach().double(), b.detach().double()
    same = (a == b) | (torch.isnan(a) & torch.isnan(b))
    apart = torch.where(same, torch.zeros_like(a), (a - b).abs())
    if torch.isnan(apart).any():
        return math.inf
    known = a[torch.isfinite(a)]
    scale = float(known.abs().max()) if known.numel() else 0.0
    largest = float(apart.max()) if apart.numel() else 0.0
    return largest / (scale or 1.0)
