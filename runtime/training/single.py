"""`single_device`: a graph trained on one device by plain autograd, as the reference that a run is compared with.

Parameters and data are drawn from the run's seed, as its ranks draw them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...profiles.graph import Graph
from ...profiles.graph.compute.values import evaluate, make_input, make_parameter
from .optimizer import Optimizer

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["SingleRun", "evaluate", "make_input", "make_parameter", "single_device"]


@dataclass(frozen=True, eq=False)
class SingleRun:
    """Losses, gradients and weights of a reference on one device.

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
    """Train a graph on one device.

    Parameters
    ----------
    graph : Graph
        The graph for one microbatch.
    seed : int
        Seed of parameters and data.
    microbatches, iterations : int
        Gradients are the mean over an iteration's microbatches.
    dtype : str
        Number format of everything but indices, whatever the graph says.
    optimizer : Optimizer, optional
        Adam by default.
    samples : sequence of int, optional
        Samples of each microbatch, where they differ; its loss and gradients are weighted by them.
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
