"""`single_device`: a graph trained on one device by plain autograd, as the reference that a run is compared with.

Parameters and data are drawn from the run's seed, as its ranks draw them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...profiles.graph import Graph
from ...profiles.graph.compute.draws import Draws
from ...profiles.graph.compute.values import evaluate, make_input, make_parameter
from .optimizer import Optimizer, Stepping
from .own.clipping import norm_scale
from .stage.formats import floats_are

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["SingleRun", "Start", "clipped", "evaluate", "make_input", "make_parameter", "single_device"]


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


@dataclass(frozen=True, eq=False)
class Start:
    """What of a reference is the user's, instead of drawn from the seed.

    Parameters
    ----------
    values : mapping
        Parameter or buffer -> value.
    batches : sequence of mapping
        For each iteration, input -> the whole global batch; empty: inputs are drawn.
    """

    values: Mapping[str, Tensor] = field(default_factory=dict[str, "Tensor"])
    batches: Sequence[Mapping[str, Tensor]] = ()

    def parameter(self, graph: Graph, name: str, seed: int, dtype: str) -> Tensor:
        """A parameter's first value: a copy, since it is trained."""
        import torch

        if name not in self.values:
            return make_parameter(graph, name, seed, dtype)
        x = self.values[name].clone()
        return x.to(getattr(torch, dtype)) if x.is_floating_point() else x

    def inputs(self, graph: Graph, seed: int, iteration: int, place: tuple[int, int], dtype: str) -> dict[str, Tensor]:
        """A microbatch's inputs; `place` is its number and its first sample."""
        import torch

        microbatch, first = place
        if not self.batches:
            return {x.name: make_input(graph, x.name, seed, iteration, microbatch, dtype) for x in graph.inputs}
        found: dict[str, Tensor] = {}
        for t in graph.inputs:
            x = self.batches[iteration][t.name]
            if t.batch_dims:
                dim = t.batch_dims[0]
                each = t.shape[dim] // graph.batch
                x = x.narrow(dim, first * each, t.shape[dim])
            found[t.name] = x.to(getattr(torch, dtype)) if x.is_floating_point() else x
        return found


def clipped(optimizer: Stepping, gradients: Mapping[str, Tensor]) -> float:
    """What gradients are multiplied by before the step."""
    most = getattr(optimizer, "clip_norm", None)
    if most is None:
        return 1.0
    return norm_scale(math.sqrt(sum(float(g.double().square().sum()) for g in gradients.values())), most)


def single_device(
    graph: Graph, *, seed: int, microbatches: int, iterations: int = 1, dtype: str = "float32",
    optimizer: Stepping | None = None, samples: Sequence[int] = (), start: Start | None = None,
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
    optimizer : Stepping, optional
        Adam by default.
    samples : sequence of int, optional
        Samples of each microbatch, where they differ; its loss and gradients are weighted by them.
    start : Start, optional
        Weights and data that are the user's.
    """
    sizes = tuple(samples) or (graph.batch,) * microbatches
    with floats_are(dtype):
        return _single_device(graph, seed, sizes, iterations, dtype, optimizer or Optimizer(), start or Start())


def _single_device(
    graph: Graph, seed: int, sizes: Sequence[int], iterations: int, dtype: str, step: Stepping, given: Start
) -> SingleRun:  # fmt: skip
    import torch

    graphs = {n: graph.with_batch(n) for n in set(sizes)}
    parameters = {p.name: given.parameter(graph, p.name, seed, dtype) for p in graph.parameters}
    trained = {p.name: parameters[p.name].requires_grad_() for p in graph.parameters if p.trainable}
    steps = {name: step.begin(name, value.detach()) for name, value in trained.items()}
    losses: list[float] = []
    gradients: dict[str, Tensor] = {}
    for iteration in range(iterations):
        total = 0.0
        gradients = {name: torch.zeros_like(value) for name, value in trained.items()}
        for microbatch, size in enumerate(sizes):
            small = graphs[size]
            inputs = given.inputs(small, seed, iteration, (microbatch, sum(sizes[:microbatch])), dtype)
            draws = Draws(seed, iteration, sum(sizes[:microbatch]), size)
            values = evaluate(small.operators, {**parameters, **inputs}, draws)
            loss = values[graph.operators[-1].name] * (size / sum(sizes))
            found = torch.autograd.grad(loss, list(trained.values()), allow_unused=True)
            for name, gradient in zip(trained, found, strict=True):
                if gradient is not None:
                    gradients[name] += gradient
            total += float(loss.detach())
        losses.append(total)
        scale = clipped(step, gradients)
        for name, value in trained.items():
            steps[name].apply(value.detach(), gradients[name] * scale, iteration)
    return SingleRun(tuple(losses), gradients, {name: value.detach() for name, value in parameters.items()})
