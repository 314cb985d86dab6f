"""`why_infeasible`: the error that says why no plan fits, and the smallest change with which one would."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...errors import InfeasibleError, LimitError
from ..alpa.inter.infeasible import least_memory
from ..stages.costs import StageCosts
from .candidates import candidates_of
from .nodes import MOST_FORKS
from .schedule.configs import Configs
from .search import Search
from .tree import MOST_COUNTS, Series

__all__ = ["why_infeasible"]

GIB = 2**30


def why_infeasible(
    trees: Sequence[Series], costs: StageCosts, ks: Sequence[int], memory_bytes: float
) -> InfeasibleError | LimitError:
    """The error to raise when no plan was found.

    It is an `InfeasibleError` if it is certain that no plan exists. It is a `LimitError` if our own limits left out
    candidate stages: a plan with those might still fit.

    Parameters
    ----------
    trees, costs, ks
        The trees, costs and values of k that were searched.
    memory_bytes : float
        Bytes that a plan may use on one device.
    """
    cluster, name = costs.cluster, costs.graph.name
    configs = Configs.of(costs.microbatches, ks, costs.microbatches)

    def fits(bytes_: float) -> bool:
        return any(
            Search(candidates_of(tree, costs, bytes_), configs, cluster.n_devices).fits(np.inf) for tree in trees
        )

    needed = least_memory(fits, memory_bytes)
    what = f"graphpipe: no plan of {name!r} on {cluster}"
    if needed is None:
        least = min(costs.devices)
        return InfeasibleError(
            f"{what}: no microbatch of {list(costs.microbatches)} samples can be cut over {least} devices, "
            f"the fewest that a stage may have; allow stages of one device"
        )
    state = float(costs.of_sets(np.ones((1, costs.n_units), bool)).state_bytes[0])
    heaviest, alone = _heaviest_unit(costs)
    # A rough estimate of how many devices would do, as if what a device needs fell in proportion to their number; at
    # the least they must hold the state of the whole model once.
    more = max(math.ceil(cluster.n_devices * needed / memory_bytes), math.ceil(state / memory_bytes))
    impossible = alone > memory_bytes or state > cluster.n_devices * memory_bytes
    narrowed = any(candidates_of(tree, costs, memory_bytes).narrowed for tree in trees)
    enough = math.ceil(needed / GIB * 100) / 100  # rounded up: what the message says must really be enough
    if narrowed and not impossible:
        return LimitError(
            f"graphpipe: our limits of {MOST_FORKS:,} ways of parting and meeting and of {MOST_COUNTS:,} ways of "
            f"counting branches left out stages of {name!r} on {cluster}, and no plan of the others fits "
            f"{memory_bytes / GIB:.4g} GiB of a device, so whether there is a plan is not known: use devices with "
            f"{enough:.4g} GiB for it, more devices (about {more}), or coarser units"
        )
    least = f"the least with which {'one was found' if narrowed else 'there is a plan'} is {enough:.4g} GiB"
    said = (
        f"{what} fits the memory: a device may use {memory_bytes / GIB:.4g} GiB, and {least} (weights, gradients and "
        f"optimiser states of the whole model are {state / GIB:.4g} GiB); use devices with that much"
    )
    if alone > memory_bytes:  # more devices do not help: replicas keep whole weights
        operators = [costs.graph.operators[i] for i in costs.units[heaviest]]
        finer = ", or finer units" if sum(op.heavy for op in operators) > 1 else ""
        return InfeasibleError(f"{said}{finer}: the unit of {operators[0].name!r} alone needs {alone / GIB:.4g} GiB")
    return InfeasibleError(f"{said}, or more devices (about {more})")


def _heaviest_unit(costs: StageCosts) -> tuple[int, float]:
    """The unit that needs the most bytes on a device, and its bytes, with one microbatch of the smallest share."""
    sets = costs.of_sets(np.eye(costs.n_units, dtype=bool))
    b, d = min(
        ((b, d) for b in costs.microbatches for d in costs.devices if costs.column(b, d) >= 0),
        # The fewest samples on a device need the least memory: what fails here fails everywhere.
        key=lambda pair: (pair[0] / pair[1], pair[0]),
    )
    bytes_ = costs.memory(sets, b, d, b)
    return int(bytes_.argmax()), float(bytes_.max())
