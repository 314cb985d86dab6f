"""Bytes on one device: parameters with what belongs to them, values that are kept, temporaries."""

from __future__ import annotations

import math

import numpy as np

from ....profiles.graph import parameter_bytes
from ..solver.problem import Floats
from .options import IntraOptions
from .pricing import Pricing
from .strategies import Choices, Ints, Storage

__all__ = ["gradient_bytes", "stored_bytes", "value_bytes", "work_bytes"]


def stored_bytes(pricing: Pricing, name: str, storage: Storage) -> Floats:
    """Weight, optimiser state, and gradient where it is not added up as the operators make it, per way of storing."""
    tensor, specs = pricing.analysis.graph.tensors[name], pricing.specs(name)
    if name not in pricing.analysis.differentiable:
        return tensor.bytes * specs.share[storage.weight]
    weight, gradient, _ = parameter_bytes(tensor.dtype, pricing.options.optimizer)
    cut = 0 if _adds_up(pricing.options) else gradient
    kept = tensor.elements * (weight * specs.share[storage.weight] + cut * specs.share[storage.state])
    return kept + pricing.states(name)[storage.state]


def gradient_bytes(pricing: Pricing, i: int, choices: Choices) -> Floats:
    """Gradients that an operator adds up over the microbatches, as it makes them."""
    total = np.zeros(len(choices.algorithms))
    for k, name in enumerate(pricing.analysis.graph.operators[i].inputs):
        if _adds_up(pricing.options) and name in pricing.analysis.parameters and pricing.trained(i, name):
            tensor = pricing.analysis.graph.tensors[name]
            gradient = parameter_bytes(tensor.dtype, pricing.options.optimizer)[1]
            total = total + tensor.elements * gradient * pricing.specs(name).share[choices.operands[k]]
    return total


def value_bytes(pricing: Pricing, name: str, ids: Ints) -> Floats:
    """A value on one device, per spec."""
    specs = pricing.specs(name)
    return float(math.prod(specs.shape) * pricing.analysis.itemsize(name)) * specs.share[ids]


def work_bytes(pricing: Pricing, i: int, choices: Choices) -> Floats:
    """Temporaries of an operator's backward pass: gradients of its result and of the activations that it reads.

    Under ZeRO-3 the gathered weights as well.
    """
    op, analysis = pricing.analysis.graph.operators[i], pricing.analysis
    total = value_bytes(pricing, op.name, choices.result)
    for k, name in enumerate(op.inputs):
        if name in analysis.graph.index or (pricing.options.zero == 3 and name in analysis.parameters):
            total = total + value_bytes(pricing, name, choices.operands[k])
    return total


def _adds_up(options: IntraOptions) -> bool:
    """Whether gradients of several microbatches are added up before they are summed over devices."""
    return options.microbatches > 1 and not options.reduce_every_microbatch
