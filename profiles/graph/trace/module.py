"""`from_torch`: any static torch module as a graph of training or of inference, without its weights in memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ....errors import InputError
from ..graph import Graph
from ..module_loss import ModuleLoss, untouched
from ..operator import Operator, Tensor
from .check import Traced, checked
from .draft import Draft
from .export import Exported, exported
from .simpler.known import check_constants
from .simpler.parts import parted
from .tidy import tidied
from .values import Value, atoms_of
from .walk import KNOWN, Walk, pair

__all__ = ["check_inference", "from_torch"]


def from_torch(
    module: Any, inputs: Sequence[Any] | Mapping[str, Any], *, name: str = "",
    loss: str | Callable[..., Any] | None = None, labels: Any = None, batch_dim: int = 0,
    items_per_sample: float = 1.0, items: str = "samples", inference: bool = False,
) -> Graph:  # fmt: skip
    """The training graph of a torch module, or its graph of inference.

    The module is exported twice with tensors that have shapes but no data, at its inputs' batch and at twice that;
    what differs grows with the batch. A module on the meta device needs no memory for weights. Before the graph is
    returned it is held against the module, on random values in float64: the loss and every gradient. Of a module that
    is too large to run here, every distinct call is held against torch's on small sizes. `Graph.source` says which. The
    module is left as it was, torch's random numbers too.

    Parameters
    ----------
    module : torch.nn.Module
        In the mode (training or evaluation) in which it is traced.
    inputs : sequence or mapping of Tensor
        Example inputs by position or name, on any device; only shapes and dtypes count. By name there may be truth
        values, numbers and words among them (``return_loss=True``), which are the same for all samples.
    name : str
        Of the graph; by default the module's class.
    loss : str or callable, optional
        ``"cross_entropy"`` or ``"mse"`` of the module's result and `labels`, or a function of both. By default the
        module returns the loss, one value, or an output with an entry ``loss``.
    labels : Tensor, optional
        What the loss compares with.
    batch_dim : int
        Dimension of every input (and of `labels`) that counts samples.
    items_per_sample, items : float, str
        What one sample counts for in throughput, such as (1024, "tokens").
    inference : bool
        Trace what the module gives, in evaluation mode and without a loss. One tensor or several (a tuple, a list, a
        mapping, nested): `Graph.results` names them in the order in which torch flattens them. Operators keep the
        calls that they came from (`Operator.nodes`). Held against the module are its results, to 1e-10.

    Returns
    -------
    Graph
        Its parameters are the module's, by qualified name (the first of those that are tied); buffers are parameters
        that are not trained. A parameter whose result is taken apart at once (queries, keys and values of one layer)
        is held in parts, such as ``qkv.weight[0:64]`` (`Tensor.part`), unless of inference. ``with_batch`` gives other
        batches.

    Raises
    ------
    InputError
        If the module has data-dependent control flow or shapes, uses an operator that graphs cannot say, or does not
        treat the batch as samples; if the graph computes something else than the module. Of inference also if it is
        in training mode, writes into a buffer, or gives something that is no tensor, or an input as it is.
    """
    import torch

    if not isinstance(module, torch.nn.Module):
        raise InputError(f"from_torch: expected a torch.nn.Module (got {type(module).__name__})")
    if inference:
        check_inference(module, name, loss, labels)
    asked = _Asked(module, inputs, name, loss, labels, batch_dim, items_per_sample, items, inference)
    try:
        return asked.graph(as_it_runs=False)
    except InputError as refusal:
        # Some modules do one thing where they are compiled and another where they run. What is compared is what runs.
        if inference:
            raise
        try:
            return asked.graph(as_it_runs=True)
        except InputError:
            raise refusal from None


@dataclass(frozen=True, eq=False)
class _Asked:
    """What `from_torch` was called with."""

    module: Any
    inputs: Sequence[Any] | Mapping[str, Any]
    name: str
    loss: str | Callable[..., Any] | None
    labels: Any
    batch_dim: int
    items_per_sample: float
    items: str
    inference: bool

    def graph(self, as_it_runs: bool) -> Graph:
        """The graph of one way of tracing, compared with the module."""
        module, inference = self.module, self.inference
        with untouched(module):
            one, two = exported(
                module, self.inputs, self.loss, self.labels, self.batch_dim, self.name, KNOWN, inference, as_it_runs
            )
        check_constants(one, two)
        draft = Draft({t.name for t in one.tensors}, inference)
        walk = Walk(draft, one, two)
        tensors: dict[str, Tensor] = {}
        for spec, other in zip(one.tensors, two.tensors, strict=True):
            sizes = [pair(a, b, one, two, spec.name) for a, b in zip(spec.shape, other.shape, strict=True)]
            walk.env[spec.node] = Value(
                spec.name, tuple(map(atoms_of, sizes)), spec.dtype, spec.trainable and not spec.given and not inference
            )
            grows = tuple(d for d, (a, b) in enumerate(sizes) if a != b)
            if spec.name not in tensors and all(spec.shape):  # an empty one is joined with others
                tensors[spec.name] = Tensor(
                    spec.name, spec.shape, spec.dtype, grows if spec.given else (), spec.given or spec.trainable
                )
        walk(one.calls, two.calls)
        results = [walk.env[node] for node in one.results]
        own = frozenset(name for name, _ in module.named_parameters())
        graph = _graph(
            self.name or type(module).__name__, one, results, draft, tensors, own, self.items_per_sample, self.items
        )
        reference = ModuleLoss(module, self.inputs, self.loss, self.labels)
        return checked(Traced(graph, reference, self.batch_dim, walk.calls, one.lifted, walk.aliased))


def check_inference(module: Any, name: str, loss: Any, labels: Any) -> None:
    """Refuse what is no module to trace for inference.

    Raises
    ------
    InputError
        If there is a loss, or the module or a part of it is in training mode.
    """
    source = name or type(module).__name__
    if loss is not None or labels is not None:
        raise InputError(f"{source}: inference=True has no loss; leave loss and labels out")
    part = next((path for path, part in module.named_modules() if part.training), None)
    if part is not None:
        raise InputError(f"{source}: module {part or '(root)'!r} is in training mode; call module.eval() before")


def _graph(
    name: str, one: Exported, results: Sequence[Value], draft: Draft, tensors: Mapping[str, Tensor],
    own: Collection[str], items_per_sample: float, items: str,
) -> Graph:  # fmt: skip
    """What the loss, or the results, depend on."""
    asked = tuple(value.name for value in results) if draft.inference else ()
    made = {op.name: op for op in tidied(draft.operators, one.constants, asked)}
    lost = next((value.name for value in results if value.name not in made), None)
    if lost is not None:
        raise InputError(f"{name}: result {lost!r} is an input or a parameter as it is; expected what is computed"
                         if asked else f"{name}: the loss is computed of nothing")  # fmt: skip
    needed, stack = set[str](), [value.name for value in results]
    while stack:
        at = stack.pop()
        if at not in needed:
            needed.add(at)
            stack += made[at].inputs if at in made else ()
    loss = "" if asked else results[0].name
    kept, read = [op for op in made.values() if op.name in needed], {n: t for n, t in tensors.items() if n in needed}
    if not asked:
        kept, read = parted(kept, read, own, [loss])
    operators = _tagged([op for op in kept if op.name != loss])
    operators += [op for op in kept if op.name == loss]
    given = {t.name for t in one.tensors if t.given}
    return Graph(
        name, one.batch, tuple(t for t in read.values() if t.name in given),
        tuple(t for t in read.values() if t.name not in given),
        tuple(operators), items_per_sample, items, f"traced from {one.source}", asked,
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
