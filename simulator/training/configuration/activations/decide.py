"""`decide`: of each configuration, what its layers keep, make again and offload."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ....cluster import Cluster
from ..collectives import GroupLinks
from ..columns import RECOMPUTE, Columns
from ..iteration import alike
from ..kernels import Kernels
from ..layer.spread import Spread
from ..layer_costs import LayerTimes, layer_times
from ..memory import layer_again, memory, needed_bytes
from ..model import TransformerShape
from ..rates import Stack
from ..replicas import HOST
from ..weights import COPY_BYTES
from .choices import Held, Layers, Options, ways
from .fit import Chosen, choose
from .seconds import again_seconds
from .tensors import present, tensor_bytes

__all__ = ["decide", "layers_of"]


def decide(
    shape: TransformerShape, cluster: Cluster, kernels: Kernels, stack: Stack, c: Columns, limit: float
) -> Chosen | None:
    """What is chosen where `recompute` is "chosen" or activations may be offloaded; None where there is no such row.

    Parameters
    ----------
    shape, cluster, kernels, stack, c
        Model, devices, software, configurations that break no rule.
    limit : float
        Bytes of a device that may be filled, what is outside the allocator included.
    """
    share = shape.expert_layers / shape.layers if shape.experts else 0.0
    classes = present(shape, stack)

    def options(part: Columns, recompute: str, offload: bool) -> tuple[Options, NDArray[np.int64]]:
        sample, back = alike(part)
        layers = layers_of(shape, cluster, kernels, stack, part.take(sample))
        return Options.of(ways(classes, recompute, offload), layers, share, HOST[0]), back

    def needs(part: Columns, held: Held) -> NDArray[np.int64]:
        return needed_bytes(memory(shape, stack, part, kernels.dtype, held), stack)

    return choose(c, options, needs, limit)


def layers_of(
    shape: TransformerShape, cluster: Cluster, kernels: Kernels, stack: Stack, c: Columns
) -> tuple[Layers, Layers]:
    """Both kinds of layer of some rows; the same one twice without experts."""
    group = GroupLinks.of(cluster, kernels.rates, c.tp, 1)
    spread = Spread.of(shape, cluster, kernels.rates, c)

    def timed(recompute: str, mixed: bool) -> LayerTimes:
        code = np.full_like(c.recompute, RECOMPUTE.index(recompute))
        return layer_times(shape, kernels, stack, group, c.microbatch, c.sequence_parallel, code, spread, mixed=mixed)

    kinds = (False, True) if shape.experts else (False,)
    whole = [timed("full", mixed) for mixed in kinds]
    times = [timed("none", mixed) for mixed in kinds]
    n = c.microbatch * (shape.seq / c.cp)
    rows = np.where(c.sequence_parallel, n / c.tp, n)
    size = tensor_bytes(shape, stack, c, kernels.size, kernels.dtype in COPY_BYTES)
    again = again_seconds(shape, kernels, stack, spread, (n, rows), (times[0], times[-1]))
    # What full recomputation brings back is counted for the larger kind of layer: that one alone is at work.
    back = layer_again(shape, stack, c, kernels.size)
    found = [
        Layers(size[k], again[k], times[k].forward, times[k].backward, kernels.size * rows * shape.hidden,
               whole[k].recompute, back)
        for k in range(len(kinds))
    ]  # fmt: skip
    return found[0], found[-1]
