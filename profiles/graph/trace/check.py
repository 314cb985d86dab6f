"""Compare a traced graph with its module before anyone plans with it: loss and every gradient, or every result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ....errors import InputError
from ..fused.values import apart, parts_of, together
from ..graph import Graph
from ..module_loss import DRAWN, ModuleLoss, in_float64
from ..operator import Operator
from .calls import Call, check_calls, relative

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Traced", "checked", "module_values"]

RESULTS_APART = 1e-10
"""The same for results, which no sum over the batch stands behind; of the largest element of a result."""

APART = 1e-7
"""Loss and gradients of both sides are sums in float64 in another order: of the largest element of a gradient, this
part is far more than rounding, and far less than a wrong constant such as another eps makes."""

NOTHING = 1e-6
"""A gradient that is smaller than this part of the model's largest is held against the largest."""

FLOPS = 3e9
BYTES = 2 << 30
"""Most FLOPs and bytes (forward, in float64) of a module that is run as a whole: some seconds, and what a laptop can
spare. The calls of a larger one are checked one by one. Both numbers are guesses."""

SEEDS = 3
"""Draws of random values that are tried until the loss is finite and some gradient is not zero."""


@dataclass(frozen=True, eq=False)
class Traced:
    """A graph, and what it was traced from.

    Parameters
    ----------
    graph : Graph
        As traced.
    module : ModuleLoss
        The module.
    batch_dim : int
        Of inputs and labels.
    calls : sequence of Call
        Of the trace.
    lifted : mapping
        Tensors that the module makes for itself and the graph has as parameters.
    aliased : str
        A call of the trace that writes into a part of another tensor, which the trace does not follow; or "".
    """

    graph: Graph
    module: ModuleLoss
    batch_dim: int
    calls: Sequence[Call]
    lifted: Mapping[str, Tensor]
    aliased: str = ""


def checked(traced: Traced) -> Graph:
    """The graph, its source saying how it was checked.

    Modules of at most `FLOPS` and `BYTES` are run: loss and every gradient, or every result, are compared, at a batch
    of 2 where the graph has one. Of larger ones every distinct call is compared with torch's, on sizes that are made
    small.

    Raises
    ------
    InputError
        If the graph computes something else, or cannot be computed.
    """
    import torch

    small = _small(traced.graph)
    with torch.device("cpu"):  # the caller may have made the module, and called this, under "meta"
        if small.forward_flops > FLOPS or _bytes(small) > BYTES:
            how = _by_calls(traced)
        elif small.inference:
            how = f"compared with it in float64: {_results(traced, small)}"
        else:
            count = _whole(traced, small)
            how = f"compared with it in float64: the loss and {count} gradients"
    return replace(traced.graph, source=f"{traced.graph.source}; {how}")


def _small(graph: Graph) -> Graph:
    for batch in (2, 4):
        try:
            return graph.with_batch(batch) if batch < graph.batch else graph
        except InputError:  # its loops are no multiples
            continue
    return graph


def _bytes(graph: Graph) -> int:
    parameters = sum(t.elements for t in graph.parameters)
    # In float64: parameters as the module's, ours, both gradients and two copies; results on both sides.
    return 8 * (6 * parameters + 2 * sum(_elements(op) for op in graph.operators))


def _elements(op: Operator) -> int:
    count = 1
    for n in op.shape:
        count *= n
    return count


def _whole(traced: Traced, small: Graph) -> int:
    """Compare on the first values that give a finite loss and any gradient; the number of gradients."""
    trained = [t.name for t in small.parameters if t.trainable]
    wanted = _wanted(traced.module.module)
    failure: str = ""
    found: tuple[Any, Any, Any, Any] | None = None
    for seed, given in _draws(traced):
        values = module_values(traced.module.module, small, seed)
        inputs = _inputs(traced, small, seed, given)
        try:
            loss, gradients = traced.module.gradients(values, inputs, wanted)
        except Exception as error:  # the user's code, on values of our choice
            failure = failure or _line(error)
            continue
        if not bool(loss.isfinite()) or not all(bool(g.isfinite().all()) for g in gradients.values()):
            failure = failure or "its loss or a gradient is not finite"
            continue
        found = values, inputs, loss, gradients
        if any(bool(g.any()) for g in gradients.values()):
            break
    name = traced.graph.name
    if found is None:
        raise InputError(f"{name}: cannot be checked: run on random values, {failure}; expected a module that runs")
    values, inputs, loss, gradients = found
    ours, grads = _computed(small, {**traced.lifted, **values, **inputs}, trained, name)
    grads = together(grads, small.parameters)
    apart = abs(float(ours) - float(loss)) / (abs(float(loss)) or 1.0)
    if not apart <= APART:
        raise InputError(f"{name}: the graph's loss is {float(ours):.6g}, the module's {float(loss):.6g}"
                         f"{_culprit(traced)}")  # fmt: skip
    largest = max((float(g.abs().max()) for g in gradients.values() if g.numel()), default=0.0)
    for key, expected in gradients.items():
        got = grads.get(key)
        size = float(expected.abs().max()) if expected.numel() else 0.0
        scale = max(size, NOTHING * largest) or 1.0
        apart = size / scale if got is None else float((got - expected).abs().max()) / scale
        if not apart <= APART:
            raise InputError(f"{name}: the gradient of {key!r} is {apart:.1e} of its size from the module's"
                             f"{_culprit(traced)}")  # fmt: skip
    return len(gradients)


def _results(traced: Traced, small: Graph) -> str:
    """Compare every result on the first values that give finite ones; how many there are."""
    from ..compute import evaluate

    failure, name = "", traced.graph.name
    for seed, given in _draws(traced):
        values = module_values(traced.module.module, small, seed)
        inputs = _inputs(traced, small, seed, given)
        try:
            expected = traced.module.results(values, inputs)
        except Exception as error:  # the user's code, on values of our choice
            failure = failure or _line(error)
            continue
        if all(bool(x.isfinite().all()) for x in expected) and any(bool(x.any()) for x in expected):
            break
        failure = failure or "its results are zero or not finite"
    else:
        raise InputError(f"{name}: cannot be checked: run on random values, {failure}; expected a module that runs")
    made = _float64(small, {**traced.lifted, **values, **inputs}, name)
    with in_float64():
        for op in small.operators:
            try:
                evaluate([op], made)
            except Exception as error:
                what = f"operator {op.name!r} ({op.kind})"
                raise InputError(f"{name}: {what} cannot be computed: {_line(error)}") from error
    for k, (key, x) in enumerate(zip(small.results, expected, strict=True)):
        apart = relative(x, made[key])
        if not apart <= RESULTS_APART:
            raise InputError(f"{name}: result {k} is {apart:.1e} of its size from the module's{_culprit(traced)}")
    return f"its {len(expected)} results" if len(expected) > 1 else "its result"


def _culprit(traced: Traced) -> str:
    """Which call of the trace it is, where it is one."""
    wrong = check_calls(traced.calls).wrong
    if not wrong:
        where = f"; {traced.aliased}" if traced.aliased else ""
        return f": the trace does not follow it{where}"
    call = wrong[0][0]
    return f": {call.step.unknown('is traced as something else')}"


def _draws(traced: Traced) -> Iterator[tuple[int, bool]]:
    """Seeds, and whether inputs of integers and truth values are the examples'."""
    yield 0, False
    yield 0, True
    for seed in range(1, SEEDS):
        yield seed, bool(seed % 2)


def _wanted(module: Any) -> list[str]:
    return [name for name, p in module.named_parameters() if p.requires_grad]


def module_values(module: Any, graph: Graph, seed: int) -> dict[str, Tensor]:
    """Values for every parameter and buffer of a module, in float64.

    Parameters are the module's with noise added, so that no bias is zero and no norm does nothing; on the meta device
    they are drawn. Buffers are the module's: tables and masks are not random.
    """
    import torch

    from ..compute import make_parameter

    draw = torch.Generator().manual_seed(seed)
    trained = {name for name, _ in module.named_parameters()}
    parts = parts_of(graph.parameters)
    values: dict[str, Tensor] = {}
    for name, x in (*module.named_parameters(), *module.named_buffers()):
        if x.device.type == "meta" and name in parts:
            drawn = {t.name: make_parameter(graph, t.name, seed, "float64") for t in parts[name]}
            values |= together(drawn, parts[name])
        elif x.device.type == "meta" and name in graph.tensors:
            values[name] = make_parameter(graph, name, seed, "float64")
        elif x.device.type == "meta":
            values[name] = torch.ones(x.shape, dtype=torch.float64 if x.is_floating_point() else x.dtype)
        elif name not in trained or not x.is_floating_point():
            values[name] = x.detach().cpu().clone()
        else:
            own = x.detach().cpu().double()
            own = own if bool(own.isfinite().all()) else torch.zeros_like(own)
            scale = float(own.square().mean().sqrt()) if own.numel() else 0.0
            noise = torch.randn(own.shape, generator=draw, dtype=torch.float64)
            # A tenth of the parameter's own scale: enough to break symmetries, too little to saturate what follows.
            values[name] = own + 0.1 * (scale or 1.0) * noise
    return values


def _inputs(traced: Traced, small: Graph, seed: int, given: bool) -> dict[str, Tensor]:
    """Every input of the module at the graph's batch, by its name in the graph."""
    import torch

    from ..compute import make_input

    examples = traced.module.given()
    found: dict[str, Tensor] = {}
    for name, key in traced.module.input_names().items():
        x = examples[key]
        shape = list(x.shape)
        shape[traced.batch_dim] = small.batch
        exact = not x.dtype.is_floating_point
        if given and exact and x.device.type != "meta":
            rows = torch.arange(small.batch) % x.shape[traced.batch_dim]
            found[name] = x.detach().cpu().index_select(traced.batch_dim % x.ndim, rows)
        elif name in small.tensors:
            found[name] = make_input(small, name, seed, 0, 0, "float64")
        else:
            found[name] = torch.zeros(shape, dtype=x.dtype)
    return found


def _computed(
    graph: Graph, values: Mapping[str, Tensor], trained: Sequence[str], name: str
) -> tuple[Tensor, dict[str, Tensor]]:
    """Loss and gradients of the graph."""
    import torch

    from ..compute import evaluate

    made = _float64(graph, values, name)
    leaves = {key: made[key].clone().requires_grad_() for key in trained}
    made |= leaves
    with torch.random.fork_rng(devices=[]), in_float64():
        for op in graph.operators:
            try:
                evaluate([_undropped(op)], made)
            except Exception as error:
                what = f"operator {op.name!r} ({op.kind})"
                raise InputError(f"{name}: {what} cannot be computed: {_line(error)}") from error
        loss = made[graph.operators[-1].name].reshape(())
        if not leaves:
            return loss.detach(), {}
        if not loss.requires_grad:
            return loss.detach(), {key: torch.zeros_like(x) for key, x in leaves.items()}
        found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    pairs = zip(leaves.items(), found, strict=True)
    return loss.detach(), {key: torch.zeros_like(x) if g is None else g for (key, x), g in pairs}


def _float64(graph: Graph, values: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """Values of a graph's inputs and parameters, in float64."""
    made: dict[str, Tensor] = {}
    values = apart(values, graph.parameters)
    for t in (*graph.inputs, *graph.parameters):
        if t.name not in values:
            raise InputError(f"{name}: {t.name!r} has no value to check the graph with; register it as a buffer")
        x = values[t.name].detach()
        made[t.name] = x.double() if x.is_floating_point() else x
    return made


def _undropped(op: Operator) -> Operator:
    """The operator as `in_float64` has the module compute it: nothing is dropped, and what is drawn is one number."""
    from ..compute.draws import draws_at_random

    if not draws_at_random(op):
        return op
    fn, a = op.attributes.get("fn"), dict(op.attributes)
    if op.kind == "attention":
        return replace(op, attributes=a | {"dropout": 0.0})
    if fn == "dropout":
        return replace(op, attributes=a | {"p": 0.0})
    return replace(op, attributes={"fn": "full", "value": a["p"] if fn == "bernoulli" else DRAWN})


def _by_calls(traced: Traced) -> str:
    if traced.aliased:
        raise InputError(f"{traced.graph.name}: {traced.aliased}")
    found = check_calls(traced.calls)
    if found.wrong:
        raise found.wrong[0][0].step.unknown("is traced as something else")
    left = sorted({call.step.word for call in found.unchecked})
    beside = f", but for {len(left)} that could not be run: {', '.join(left)}" if left else ""
    return f"too large to run, its {found.distinct} distinct calls compared with torch's on small sizes{beside}"


def _line(error: Exception) -> str:
    text = next((part.strip() for part in str(error).splitlines() if part.strip()), "no reason given")
    return f"{type(error).__name__}: {text[:200]}"
