"""Reference: a graph run on one device by plain autograd, with parameters and data that a seed gives."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...profiles.graph import Graph, Operator
from ...profiles.graph.compute.loops import Local
from ...profiles.graph.compute.operators import compute
from ...seeds import generator
from .optimizer import Optimizer

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["SingleRun", "evaluate", "make_input", "make_parameter", "single_device"]


def make_parameter(graph: Graph, name: str, seed: int, dtype: str) -> Tensor:
    """A parameter's first values: the same on every rank, and whichever ranks hold it.

    What products sum over is normal with variance 1 / (number of terms), so that activations keep their scale; other
    parameters are 1 (first affine parameter of a norm) or 0, with noise of 0.1: no gradients may agree by symmetry.
    """
    import torch

    values = generator(seed, "parameter", name).standard_normal(graph.tensors[name].shape)
    terms, centre = 0, 0.0
    for i, k in graph.consumers[name]:
        op = graph.operators[i]
        reduced = [loop for group in op.parsed.operands[k] for loop in group if loop in op.parsed.reduced]
        if op.kind in ("contraction", "dispatch", "convolution"):
            terms = max(terms, math.prod(op.sizes[loop] for loop in reduced))
        elif op.kind == "embedding":
            terms = max(terms, graph.tensors[name].shape[-1])
        elif op.kind == "norm" and k == 1:
            centre = 1.0
    values = values / math.sqrt(terms) if terms else centre + 0.1 * values
    return torch.from_numpy(values).to(getattr(torch, dtype))


def make_input(graph: Graph, name: str, seed: int, iteration: int, microbatch: int, dtype: str) -> Tensor:
    """One input of one microbatch: indices below the rows that read them, or standard normal values."""
    import torch

    entry = graph.tensors[name]
    random = generator(seed, "input", name, iteration, microbatch)
    if entry.dtype.startswith("int"):
        return torch.from_numpy(random.integers(0, _rows(graph, name), entry.shape))
    return torch.from_numpy(random.standard_normal(entry.shape)).to(getattr(torch, dtype))


def _rows(graph: Graph, name: str) -> int:
    """Indices that an integer input may hold: rows of the table or classes of the logits that it picks from."""
    found: list[int] = []
    for i, k in graph.consumers[name]:
        op = graph.operators[i]
        mine = {loop for group in op.parsed.operands[k] for loop in group}
        other = op.parsed.operands[1 - k]
        loops = [loop for group in other for loop in group if loop not in mine]
        found.append(op.sizes[loops[0] if op.kind == "embedding" else loops[-1]])
    return min(found)


def evaluate(operators: Iterable[Operator], values: dict[str, Tensor]) -> dict[str, Tensor]:
    """Run operators one after another on whole tensors; results are added to `values`, which is returned."""
    for op in operators:
        values[op.name] = compute(Local.of(op), [values[name] for name in op.inputs])
    return values


@dataclass(frozen=True, eq=False)
class SingleRun:
    """What the reference found.

    Parameters
    ----------
    losses : tuple of float
        Mean loss of every iteration's microbatches.
    gradients : mapping
        Parameter -> gradient of the last iteration, before its step.
    parameters : mapping
        Parameter -> value after the last step.
    """

    losses: tuple[float, ...]
    gradients: Mapping[str, Tensor]
    parameters: Mapping[str, Tensor]


def single_device(
    graph: Graph, *, seed: int, microbatches: int, iterations: int = 1, dtype: str = "float32",
    optimizer: Optimizer | None = None, samples: Sequence[int] = (),
) -> SingleRun:  # fmt: skip
    """Train on one device.

    Parameters
    ----------
    graph : Graph
        For one microbatch.
    seed : int
        Of parameters and data.
    microbatches, iterations : int
        Gradients are the mean over an iteration's microbatches.
    dtype : str
        Of everything that is no index, whatever the graph says.
    optimizer : Optimizer, optional
        Adam by default.
    samples : sequence of int, optional
        Of each microbatch where they differ: it counts as much as its samples.
    """
    import torch

    sizes = tuple(samples) or (graph.batch,) * microbatches
    graphs = {n: graph.with_batch(n) for n in set(sizes)}
    step = optimizer or Optimizer()
    parameters = {p.name: make_parameter(graph, p.name, seed, dtype) for p in graph.parameters}
    trained = {p.name: parameters[p.name].requires_grad_() for p in graph.parameters if p.trainable}
    state = {name: step.state(value) for name, value in trained.items()}
    losses: list[float] = []
    gradients: dict[str, Tensor] = {}
    for iteration in range(iterations):
        total = 0.0
        gradients = {name: torch.zeros_like(value) for name, value in trained.items()}
        for microbatch, size in enumerate(sizes):
            small = graphs[size]
            inputs = {x.name: make_input(small, x.name, seed, iteration, microbatch, dtype) for x in small.inputs}
            values = evaluate(small.operators, {**parameters, **inputs})
            loss = values[graph.operators[-1].name] * (size / sum(sizes))
            found = torch.autograd.grad(loss, list(trained.values()), allow_unused=True)
            for name, gradient in zip(trained, found, strict=True):
                if gradient is not None:
                    gradients[name] += gradient
            total += float(loss.detach())
        losses.append(total)
        for name, value in trained.items():
            step.apply(value.detach(), gradients[name], state[name], iteration)
    return SingleRun(tuple(losses), gradients, {name: value.detach() for name, value in parameters.items()})
