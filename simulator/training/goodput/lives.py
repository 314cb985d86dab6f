"""Lives and repairs of nodes: drawn by counting, so that every engine, in any order, gets the same ones.

The `visit`-th life of a node, and the repair that follows it, depend on the seed, the run, the node's number and
`visit` alone: more nodes, spares, or another interval change no life (common random numbers).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ....jit import inner
from ....seeds import generator

__all__ = ["keys_of", "life", "life_s", "repair", "repair_s"]

ONES = (1 << 64) - 1


def keys_of(nodes: int, seed: int, run: int) -> npt.NDArray[np.uint64]:
    """A key for each node of a run."""
    return generator(seed, "training", "lives", run).integers(0, 2**64, size=nodes, dtype=np.uint64)


def _uniform(key: int, count: int) -> float:
    """A number in (0, 1): SplitMix64 (Steele, Lea & Flood, 2014) at a place of the stream of `key`."""
    z = (key + (count + 1) * 0x9E3779B97F4A7C15) & ONES
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & ONES
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & ONES
    return (float((z ^ (z >> 31)) >> 11) + 0.5) * 2.0**-53


def life_s(key: int, visit: int, scale_s: float, shape: float) -> float:
    """A node's `visit`-th life, seconds: Weibull, of a scale and a shape."""
    if math.isinf(scale_s):
        return math.inf
    return scale_s * math.pow(-math.log(_uniform(key, 2 * visit)), 1 / shape)


def repair_s(key: int, visit: int, mean_s: float) -> float:
    """The repair after it, seconds: exponential."""
    return mean_s * -math.log(_uniform(key, 2 * visit + 1))


@inner
def _mixed(key, count):
    """`_uniform` for kernels."""
    z = key + (np.uint64(count) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (float(z >> np.uint64(11)) + 0.5) * 2.0**-53


@inner
def life(key, visit, scale_s, shape):
    """`life_s` for kernels."""
    if math.isinf(scale_s):
        return np.inf
    return scale_s * math.pow(-math.log(_mixed(key, 2 * visit)), 1 / shape)


@inner
def repair(key, visit, mean_s):
    """`repair_s` for kernels."""
    return mean_s * -math.log(_mixed(key, 2 * visit + 1))
