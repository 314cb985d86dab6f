"""Why no plan fits, and what would make one."""

from __future__ import annotations

import math
from collections.abc import Callable

from ....errors import InfeasibleError
from ....profiles.graph import Graph
from ....simulator.cluster import Cluster

__all__ = ["least_memory", "too_small", "why_infeasible"]

GIB = 2**30


def too_small(graph: Graph, cluster: Cluster, memory_bytes: float, state_bytes: float) -> InfeasibleError | None:
    """The error where even parameters and optimiser states, cut over all devices, exceed the memory; else None."""
    if state_bytes <= cluster.n_devices * memory_bytes:
        return None
    each = state_bytes / cluster.n_devices
    return InfeasibleError(
        f"alpa: {graph.name!r} does not fit on {cluster} under any plan: weights, gradients and optimiser states are "
        f"{state_bytes / GIB:.4g} GiB, {each / GIB:.4g} GiB on each of {cluster.n_devices} devices, which may use "
        f"{memory_bytes / GIB:.4g} GiB; use at least {math.ceil(state_bytes / memory_bytes)} such devices, or devices "
        f"with more memory"
    )


def least_memory(fits: Callable[[float], bool], given: float, most: float = 2.0**50) -> float | None:
    """The least bytes on one device, to 1 %, with which a plan exists; None if there is none however much there is.

    Parameters
    ----------
    fits : callable
        Whether a plan exists with this many bytes; never falls.
    given : float
        Bytes with which there is none.
    most : float
        Bytes that count as no limit.
    """
    if not fits(most):
        return None
    low, high = given, given
    while not fits(high):
        low, high = high, high * 2
    while high > low * 1.01:  # a message needs no more than 1 %, and each try is a whole search
        # The geometric mean, as the goal is a ratio.
        middle = (low * high) ** 0.5
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def why_infeasible(
    graph: Graph, cluster: Cluster, memory_bytes: float, needed: float | None, microbatches: list[int], hints: list[str]
) -> InfeasibleError:
    """The error where no plan was found.

    Parameters
    ----------
    graph, cluster
        The graph and the cluster that no plan was found for.
    memory_bytes : float
        Bytes that a plan may use on one device.
    needed : float, optional
        Bytes on one device with which there is a plan; None if memory is not what is lacking.
    microbatches : list of int
        Numbers of microbatches that were tried.
    hints : list of str
        Further advice.
    """
    tried = f"{microbatches[0]}" if len(microbatches) == 1 else f"{min(microbatches)} to {max(microbatches)}"
    what = f"alpa: no plan of {graph.name!r} on {cluster} with {tried} microbatches"
    if needed is None:
        return InfeasibleError(f"{what}: {'; '.join(hints) or 'no stages make up all devices'}")
    devices = math.ceil(cluster.n_devices * needed / memory_bytes)
    said = [
        f"devices with {math.ceil(needed / GIB * 100) / 100:.4g} GiB for it instead of {memory_bytes / GIB:.4g} GiB",
        *hints,
        f"more devices (about {devices})",
    ]
    return InfeasibleError(f"{what} fits the memory; what would: {'; or '.join(said)}")
