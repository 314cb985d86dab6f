"""`from_torch`: any static torch module as a training graph, without its weights in memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...errors import InputError
from . import trace_elementwise, trace_layers, trace_products, trace_views
from .graph import Graph
from .operator import Operator, Tensor
from .trace_draft import Draft
from .trace_export import Exported, exported
from .trace_step import Handler, Step
from .trace_tidy import tidied
from .trace_values import Size, Value, atoms_of

__all__ = ["from_torch"]

HANDLERS: Mapping[str, Handler] = {
    **trace_elementwise.HANDLERS,
    **trace_layers.HANDLERS,
    **trace_products.HANDLERS,
    **trace_views.HANDLERS,
}
IGNORED = frozenset({"_assert_tensor_metadata", "_assert_async", "sym_constrain_range_for_size"})
SIZED = frozenset(  # their arguments are sizes, which may grow with the batch
    {"view", "reshape", "_unsafe_view", "flatten", "unflatten", "squeeze", "expand", "broadcast_to", "zeros", "ones",
     "full", "new_zeros", "new_ones", "new_full", "slice", "repeat"}
)  # fmt: skip


def from_torch(
    module: Any, inputs: Sequence[Any] | Mapping[str, Any], *, name: str = "",
    loss: str | Callable[..., Any] | None = None, labels: Any = None, batch_dim: int = 0,
    items_per_sample: float = 1.0, items: str = "samples",
) -> Graph:  # fmt: skip
    """The training graph of a torch module.

    The module is exported twice with tensors that have shapes but no data, at its inputs' batch and at twice that;
    what differs grows with the batch. A module on the meta device needs no memory for weights.

    Parameters
    ----------
    module : torch.nn.Module
        In the mode (training or evaluation) in which it is traced.
    inputs : sequence or mapping of Tensor
        Example inputs by position or name, on any device; only shapes and dtypes count.
    name : str
        Of the graph; by default the module's class.
    loss : str or callable, optional
        ``"cross_entropy"`` or ``"mse"`` of the module's result and `labels`, or a function of both. By default the
        module returns the loss, one value.
    labels : Tensor, optional
        What the loss compares with.
    batch_dim : int
        Dimension of every input (and of `labels`) that counts samples.
    items_per_sample, items : float, str
        What one sample counts for in throughput, such as (1024, "tokens").

    Returns
    -------
    Graph
        Its parameters are the module's, by qualified name (the first of those that are tied); buffers are parameters
        that are not trained. ``with_batch`` gives other batches.

    Raises
    ------
    InputError
        If the module has data-dependent control flow or shapes, uses an operator that graphs cannot say, or does not
        treat the batch as samples.
    """
    one, two = exported(module, inputs, loss, labels, batch_dim, name, HANDLERS.keys() | IGNORED)
    draft = Draft({t.name for t in one.tensors})
    env: dict[Any, Any] = {}
    tensors: dict[str, Tensor] = {}
    for spec, other in zip(one.tensors, two.tensors, strict=True):
        sizes = [_pair(a, b, one, two, spec.name) for a, b in zip(spec.shape, other.shape, strict=True)]
        env[spec.node] = Value(spec.name, tuple(map(atoms_of, sizes)), spec.dtype, spec.trainable and not spec.given)
        grows = tuple(d for d, (a, b) in enumerate(sizes) if a != b)
        if spec.name not in tensors:
            tensors[spec.name] = Tensor(
                spec.name, spec.shape, spec.dtype, grows if spec.given else (), spec.given or spec.trainable
            )
    layers: dict[str, int] = {}
    for node, twin in zip(one.calls, two.calls, strict=True):
        op, overload = one.operator(node)
        if op == "getitem":
            env[node] = env[node.args[0]][node.args[1]]
            continue
        if op in IGNORED:
            continue
        path = one.path(node)
        draft.path, draft.layer = path, layers.setdefault(key, len(layers)) if (key := _layer(path)) else -1
        shapes = list(zip(one.shapes(node), two.shapes(twin), strict=True))
        if any(len(x) != len(y) for x, y in shapes):
            raise InputError(f"{one.source}: {node.name}: other dimensions at batch {two.batch} than at {one.batch}")
        sizes = [[_pair(a, b, one, two, node.name) for a, b in zip(x, y, strict=True)] for x, y in shapes]
        step = Step(
            draft, f"{op}.{overload}", one.arguments(node, env), [tuple(s) for s in sizes], one.dtypes(node)
        )  # fmt: skip
        if one.numbers(node, op in SIZED) != two.numbers(twin, op in SIZED):
            raise step.unknown("has a number that depends on the batch")
        handler = HANDLERS.get(f"{op.rstrip('_')}.{overload}") or HANDLERS.get(op.rstrip("_")) or HANDLERS.get(op)
        if handler is None:
            raise step.unknown()
        try:
            env[node] = handler(step)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise step.unknown(f"cannot be said in loops ({type(error).__name__}: {error})") from error
        if op.endswith("_") and not op.startswith("_"):  # in place: what was read is what was written from here on
            env[node.args[0]] = env[node]
    return _graph(name or type(module).__name__, one, env[one.result], draft, tensors, items_per_sample, items)


def _graph(
    name: str, one: Exported, loss: Value, draft: Draft, tensors: Mapping[str, Tensor], items_per_sample: float,
    items: str,
) -> Graph:  # fmt: skip
    """What the loss depends on."""
    made = {op.name: op for op in tidied(draft.operators, one.constants)}
    if loss.name not in made:
        raise InputError(f"{name}: the loss is computed of nothing")
    needed, stack = set[str](), [loss.name]
    while stack:
        at = stack.pop()
        if at not in needed:
            needed.add(at)
            stack += made[at].inputs if at in made else ()
    operators = _tagged([op for op in made.values() if op.name in needed and op.name != loss.name])
    given = {t.name for t in one.tensors if t.given}
    return Graph(
        name, one.batch, tuple(t for t in tensors.values() if t.name in needed and t.name in given),
        tuple(t for t in tensors.values() if t.name in needed and t.name not in given),
        (*operators, made[loss.name]), items_per_sample, items, f"traced from {one.source}",
    )  # fmt: skip


def _tagged(operators: list[Operator]) -> list[Operator]:
    """What runs outside of any block, but between two, counts to the one before it."""
    inside = [i for i, op in enumerate(operators) if op.layer >= 0]
    layer = -1
    for i in range(inside[0], inside[-1]) if inside else ():
        layer = operators[i].layer if operators[i].layer >= 0 else layer
        if operators[i].layer < 0:
            operators[i] = replace(operators[i], layer=layer)
    return operators


def _pair(a: int, b: int, one: Exported, two: Exported, what: str) -> Size:
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
