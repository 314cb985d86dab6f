"""`Walk`: the calls of two exports, one after another, as operators of a draft."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ....errors import InputError
from . import elementwise, layers, products, views
from .calls import Call
from .draft import Draft
from .errors import line_of
from .export import Exported, Inner
from .fallback import fall_back
from .handlers import picking
from .handlers.samples import with_counts
from .step import Handler, Result, Step
from .values import Size, Value

__all__ = ["KNOWN", "Walk", "pair"]

HANDLERS: Mapping[str, Handler] = {
    **elementwise.HANDLERS,
    **layers.HANDLERS,
    **products.HANDLERS,
    **views.HANDLERS,
    **picking.HANDLERS,
}
IGNORED = frozenset({"_assert_tensor_metadata", "_assert_async", "sym_constrain_range_for_size"})
SIZED = frozenset(  # their arguments are sizes, which may grow with the batch
    {"view", "reshape", "_unsafe_view", "flatten", "unflatten", "squeeze", "expand", "broadcast_to", "zeros", "ones",
     "full", "new_zeros", "new_ones", "new_full", "slice", "repeat", "empty", "new_empty", "empty_strided",
     "new_empty_strided", "arange", "rand", "randn", "randint"}
)  # fmt: skip
KNOWN = HANDLERS.keys() | IGNORED


class Walk:
    """Makes operators of calls.

    Parameters
    ----------
    draft : Draft
        Where they go.
    one, two : Exported
        The module at a batch and at twice that.

    Attributes
    ----------
    env : dict
        Node -> what it is in the draft.
    calls : list of Call
        What was made of what.
    aliased : str
        The first call that writes into what others read; "" if there is none.
    """

    def __init__(self, draft: Draft, one: Exported, two: Exported) -> None:
        self.draft, self.one, self.two = draft, one, two
        self.env: dict[Any, Any] = {}
        self.calls: list[Call] = []
        self.aliased = ""
        self._outer = ""
        self._layers: dict[str, int] = {}

    def __call__(self, nodes: Sequence[Any], twins: Sequence[Any]) -> None:
        """Walk through calls that follow each other.

        Raises
        ------
        InputError
            On a call that graphs cannot say, with its module.
        """
        for node, twin in zip(nodes, twins, strict=True):
            op, overload = self.one.operator(node)
            if op == "getitem":
                made, place = self.env[node.args[0]], node.args[1]
                self.env[node] = made[place] if place < len(made) else None  # statistics and masks that no value reads
                self._note(node, len(self.draft.operators))
            elif op not in IGNORED:
                path = self.one.path(node)
                self.draft.path = path
                self.draft.layer = self._layers.setdefault(key, len(self._layers)) if (key := _layer(path)) else -1
                try:
                    self._call(node, twin, op, overload)
                except InputError:
                    raise
                except Exception as error:  # whatever a handler did not foresee is a call that it does not know
                    where = f"aten.{op}.{overload}" if overload else op
                    raise InputError(
                        f"{self.one.source}: {where} in module {path or '(root)'!r}: cannot be said in loops "
                        f"({_short(error)}){_at(node)}"
                    ) from error

    def _call(self, node: Any, twin: Any, op: str, overload: str) -> None:
        inner = self.one.inner(node), self.two.inner(twin)
        if inner[0] is not None and inner[1] is not None:
            self._enter(node, inner[0], inner[1])
            return
        one, two = self.one, self.two
        if not hasattr(node.target, "_schema"):
            raise InputError(
                f"{one.source}: {op} in module {self.draft.path or '(root)'!r}: not known to graphs{_at(node)}; "
                "write it with operators that docs/training-graphs.md lists"
            )
        try:
            dtypes = one.dtypes(node)
        except InputError as error:
            where = f"{op}.{overload} in module {self.draft.path or '(root)'!r}"
            raise InputError(f"{one.source}: aten.{where}: {error}{_at(node)}") from None
        shapes = list(zip(one.shapes(node), two.shapes(twin), strict=True))
        if any(len(x) != len(y) for x, y in shapes):
            raise InputError(f"{one.source}: {node.name}: other dimensions at batch {two.batch} than at {one.batch}"
                             f"{_at(node)}")  # fmt: skip
        what = f"{op}.{overload}{_at(node)}"
        sizes = [[pair(a, b, one, two, what) for a, b in zip(x, y, strict=True)] for x, y in shapes]
        pairs = one.pairs(node)
        step = Step(
            self.draft, f"{op}.{overload}", one.arguments(node, self.env),
            [(*s, (2, 2)) if two_parts else tuple(s) for s, two_parts in zip(sizes, pairs, strict=True)], dtypes,
            line_of(node), pairs if any(pairs) else (),
        )  # fmt: skip
        known = (f"{op.rstrip('_')}.{overload}", op.rstrip("_"), op)
        handler = None if step.complex else next((HANDLERS[word] for word in known if word in HANDLERS), None)
        counted = with_counts(step, two.arguments(twin, None), (one.batch, two.batch))
        before = len(self.draft.operators)
        try:
            if counted is step:
                self._check_numbers(step, node, twin)
            self.env[node] = self._handled(counted, handler)
            if handler is not None:  # else it has raised
                self.calls.append(Call(node.target, handler, counted, tuple(self.draft.operators[before:])))
        except InputError as refusal:
            if self.draft.inference:
                raise
            for made in self.draft.operators[before:]:
                self.draft.taken.discard(made.name)
            del self.draft.operators[before:]
            try:
                self.env[node] = fall_back(step, node.target, two.arguments(twin, None), (one.batch, two.batch))
            except InputError as why:
                raise (why if handler is None else refusal) from why
        self._note(node, before)
        if op.endswith("_") and not op.startswith("_"):  # in place: what was read is what was written from here on
            if not self.aliased and one.shared(node):
                self.aliased = str(step.unknown("writes into a part of a tensor that is read elsewhere"))
            self.env[node.args[0]] = self.env[node]

    def _check_numbers(self, step: Step, node: Any, twin: Any) -> None:
        """Refuse a call with a number that is another at another batch, and is no size."""
        sized = step.op.partition(".")[0] in SIZED
        if self.one.numbers(node, sized) != self.two.numbers(twin, sized):
            raise step.unknown("has a number that depends on the batch")

    def _handled(self, step: Step, handler: Handler | None) -> Result:
        """What a handler makes of a call.

        Raises
        ------
        InputError
            If there is none, or it cannot say the call.
        """
        if handler is None:
            raise step.unknown()
        try:
            return handler(step)
        except InputError as error:
            raise error if step.op in str(error) else step.unknown(str(error)) from error
        except Exception as error:  # whatever a handler did not foresee is a call that it does not know
            raise step.unknown(f"cannot be said in loops ({_short(error)})") from error

    def _note(self, node: Any, before: int) -> None:
        """Keep which call operators came from; a call that only passes a value on goes with the one that made it."""
        if not self.draft.inference:
            return
        operators, name, value = self.draft.operators, self._outer or node.name, self.env[node]
        which = range(before, len(operators))
        if not which and isinstance(value, Value):
            which = [i for i, op in enumerate(operators) if op.name == value.name]
        for i in which:
            if name not in operators[i].nodes:
                operators[i] = replace(operators[i], nodes=(*operators[i].nodes, name))

    def _enter(self, node: Any, inner: Inner, twin: Inner) -> None:
        """Calls under `torch.no_grad` or without autocast, which torch keeps as a graph of their own."""
        outer, self._outer = self._outer, self._outer or node.name
        for name, argument in zip(inner.inputs, inner.arguments, strict=True):
            self.env[name] = self.env[argument] if hasattr(argument, "op") else argument
        self(inner.calls, twin.calls)
        self._outer = outer
        made = [self.env[x] for x in inner.results]
        self.env[node] = made if inner.gradients else [self._detached(x) for x in made]

    def _detached(self, x: Value) -> Value:
        if not x.grad:
            return x
        return self.draft.add("detach", "elementwise", self.draft.aligned(x), grad=False, attributes={"fn": "detach"})


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0][:100] if str(error) else ''}"


def _at(node: Any) -> str:
    line = line_of(node)
    return f", at {line}" if line else ""


def pair(a: int, b: int, one: Exported, two: Exported, what: str) -> Size:
    """A size at both batches.

    Raises
    ------
    InputError
        If it neither stays nor grows as the batch does.
    """
    if a != b and a * two.batch != b * one.batch:
        raise InputError(
            f"{one.source}: {what}: a size of {a} at batch {one.batch} is {b} at batch {two.batch}; "
            "expected it to stay or to grow as the batch does (is batch_dim right?)"
        )
    return a, b


def _layer(path: str) -> str:
    """The repeated block that a module path is in: up to its first number and those that follow at once."""
    match = re.match(r"(?:[^.]*[^.\d][^.]*\.)*?\d+(?:\.\d+)*(?=\.|$)", path)
    return match.group(0) if match else ""
