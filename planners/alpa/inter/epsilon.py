"""`stage_dp_epsilon`: Algorithm 1's enumeration of longest stage times, at most B · ε from the optimum.

The paper skips a threshold that is less than ε above the last one tried. That alone guarantees nothing: the next one
tried may lie far above the skipped ones, and so may its plan. Here the thresholds within ε of the smallest uncovered
one form a group, and the largest of the group is tried. Whichever of them the optimum needs, it is allowed under that
one, and the result is charged at most ε too much for each of the B − 1 microbatches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ..stages import Stage, StageProblem, stage_dp

__all__ = ["stage_dp_epsilon"]


def stage_dp_epsilon(
    compute_cost: npt.NDArray[np.float64],
    max_n_succ_stages: npt.NDArray[np.int64],
    submesh_choices: Sequence[tuple[int, int]],
    num_hosts: int,
    devices_per_host: int,
    num_micro_batches: int,
    epsilon: float,
) -> tuple[float, list[Stage]]:
    """Stages, submeshes and configurations of a chain of layers, within `num_micro_batches` · ε of the best.

    Parameters
    ----------
    compute_cost, max_n_succ_stages, submesh_choices, num_hosts, devices_per_host, num_micro_batches
        The same as in `stage_dp`.
    epsilon : float
        ε, seconds; 0 is `stage_dp`.

    Returns
    -------
    cost : float
        Seconds: Σ t + (B − 1) · max t of the plan.
    stages : list
        The stages, in the format of `stage_dp`.

    Raises
    ------
    InputError, InfeasibleError
        As in `stage_dp`, and also if ε is negative.
    """
    from ..stage_kernel import fronts, least_total

    if not (epsilon >= 0 and math.isfinite(epsilon)):
        raise InputError(f"epsilon: expected seconds, at least 0 (got {epsilon!r})")
    shape = (tuple(submesh_choices), num_hosts, devices_per_host, num_micro_batches)
    if epsilon == 0:
        return stage_dp(compute_cost, max_n_succ_stages, *shape)
    problem = StageProblem(compute_cost, max_n_succ_stages, *shape)
    cost, later, config = fronts(problem.compute_cost, problem.max_n_succ_stages)
    most = int(min(len(cost), problem.n_devices // problem.sizes.min()))
    best, chosen = math.inf, np.empty((0, 4), np.int64)
    rest = num_micro_batches - 1
    for threshold in _groups(np.unique(cost[np.isfinite(cost)]), epsilon):
        if rest * (threshold - epsilon) >= best:  # every t of this group and after it costs at least that
            break
        total, rows = least_total(cost, later, problem.sizes, problem.n_devices, most, threshold)
        if len(rows):
            value = float(total) + rest * max(float(cost[tuple(row)]) for row in rows)
            if value < best:
                best, chosen = value, rows
    if not len(chosen):
        return stage_dp(compute_cost, max_n_succ_stages, *shape)  # says why there is none
    return best, [((i, j + 1), k, int(config[i, j, k, c])) for i, j, k, c in chosen.tolist()]


def _groups(times: npt.NDArray[np.float64], epsilon: float) -> list[float]:
    """The largest time within ε of the smallest that is not covered yet, again and again."""
    found: list[float] = []
    at = 0
    while at < len(times):
        at = int(np.searchsorted(times, times[at] + epsilon, side="right"))
        found.append(float(times[at - 1]))
    return found
