"""`module_run`: the user's own PyTorch module on one device, as a reference that a run is compared with.

Parameters and data are drawn from the run's seed, as its ranks draw them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...errors import InputError, RunError
from ...profiles.graph import Graph
from ...profiles.graph.compute.draws import draws_at_random
from ...profiles.graph.fused.values import apart, parts_of, together
from ...profiles.graph.module_loss import ModuleLoss
from .optimizer import Stepping
from .single import SingleRun, Start, clipped

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["check_comparable", "module_run"]


def check_comparable(graph: Graph) -> None:
    """Refuse to hold a run against a module where operators draw at random.

    Raises
    ------
    InputError
        If one does.
    """
    found = next((op for op in graph.operators if draws_at_random(op)), None)
    if found is not None:
        raise InputError(
            f"run: graph {graph.name!r}: operator {found.name!r} draws at random, and a module draws otherwise; "
            "compare with the graph (no module), or trace the module with p=0 or in evaluation mode"
        )


def module_run(
    module: ModuleLoss, graph: Graph, *, seed: int, samples: Sequence[int], optimizer: Stepping, start: Start,
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
    optimizer : Stepping
        Makes the one step.
    start : Start
        What ranks take from the user, or from the module, instead of drawing it.

    Raises
    ------
    RunError
        If the module does not run.
    """
    import torch

    own = module.module
    parts = parts_of(graph.parameters)
    made: dict[str, Tensor] = {}
    for name, x in (*own.named_parameters(), *own.named_buffers()):
        if name in parts:
            made |= together(
                {t.name: start.parameter(graph, t.name, seed, "float64") for t in parts[name]}, parts[name]
            )
        elif name in graph.tensors:
            made[name] = start.parameter(graph, name, seed, "float64")
        else:  # the loss does not depend on it, or the graph says it otherwise (a causal mask)
            made[name] = torch.zeros(x.shape) if x.device.type == "meta" else x.detach().cpu().clone()
    named = {(t.name if t.part is None else t.part.of): None for t in graph.parameters if t.trainable}
    trained = list(named)
    graphs = {n: graph.with_batch(n) for n in set(samples)}
    gradients = {name: torch.zeros_like(made[name], dtype=torch.float64) for name in trained}
    total = 0.0
    for m, n in enumerate(samples):
        small = graphs[n]
        inputs = start.inputs(small, seed, 0, (m, sum(samples[:m])), "float64")
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
    # Optimisers step what the graph holds: parts of what is fused.
    gradients = apart(gradients, graph.parameters)
    after = apart({name: made[name].double().clone() for name in trained}, graph.parameters)
    scale = clipped(optimizer, gradients)
    for name, weight in after.items():
        optimizer.begin(name, weight).apply(weight, gradients[name] * scale, 0)
    return SingleRun((total,), gradients, after)
