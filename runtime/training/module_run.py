"""`module_run`: the user's own PyTorch module on one device, as a reference that a run is compared with.

Parameters and data are drawn from the run's seed, as its ranks draw them.
"""

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
    """Run one iteration of the module, in float64.

    Parameters
    ----------
    module : ModuleLoss
        The module that the graph was traced from.
    graph : Graph
        The graph for one microbatch: it names the parameters and inputs that are drawn from the seed.
    seed : int
        Seed of parameters and data.
    samples : sequence of int
        Samples of each microbatch; its loss and gradients are weighted by them.
    optimizer : Optimizer
        Makes the one step.
    values : mapping
        Buffers that ranks take from the module instead of drawing them.

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
