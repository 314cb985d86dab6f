"""Reference: a user's own module, on one device, with the parameters and data that a seed gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...errors import RunError
from ...profiles.graph import Graph
from ...profiles.graph.compute.values import make_input, make_parameter
from ...profiles.graph.module_loss import ModuleLoss
from .optimizer import Optimizer
from .single import SingleRun

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["module_run"]


def module_run(
    module: ModuleLoss, graph: Graph, *, seed: int, samples: Sequence[int], optimizer: Optimizer,
    values: Mapping[str, Tensor],
) -> SingleRun:  # fmt: skip
    """One iteration of the module, in float64.

    Parameters
    ----------
    module : ModuleLoss
        What the graph was traced from.
    graph : Graph
        For one microbatch: its parameters' and inputs' names, and what a seed gives for them.
    seed : int
        Of parameters and data.
    samples : sequence of int
        Of each microbatch: it counts as much as its samples.
    optimizer : Optimizer
        Of the one step.
    values : mapping
        Buffers that ranks have from the module and not from the seed.

    Raises
    ------
    RunError
        If the module does not run.
    """
    import torch

    own = module.module
    made: dict[str, Tensor] = {}
    for name, x in (*own.named_parameters(), *own.named_buffers()):
        if name in values:
            made[name] = values[name]
        elif name in graph.tensors:
            made[name] = make_parameter(graph, name, seed, "float64")
        else:  # the loss does not depend on it, or the graph says it otherwise (a causal mask)
            made[name] = torch.zeros(x.shape) if x.device.type == "meta" else x.detach().cpu().clone()
    trained = [t.name for t in graph.parameters if t.trainable]
    graphs = {n: graph.with_batch(n) for n in set(samples)}
    gradients = {name: torch.zeros_like(made[name], dtype=torch.float64) for name in trained}
    total = 0.0
    for m, n in enumerate(samples):
        small = graphs[n]
        inputs = {x.name: make_input(small, x.name, seed, 0, m, "float64") for x in small.inputs}
        try:
            loss, found = module.gradients(made, inputs, trained)
        except Exception as error:
            text = next((part.strip() for part in str(error).splitlines() if part.strip()), "no reason given")
            raise RunError(
                f"run: the module does not run on the run's inputs: {type(error).__name__}: {text}"
            ) from error
        share = n / sum(samples)
        total += float(loss) * share
        for name in trained:
            gradients[name] += found[name] * share
    after = {name: made[name].double().clone() for name in trained}
    for name, weight in after.items():
        optimizer.apply(weight, gradients[name], optimizer.state(weight), 0)
    return SingleRun((total,), gradients, after)
