r"""`stage_dp`: cut a chain of layers into pipeline stages and give each a submesh and a configuration, optimally.

Alpa, §5.2, Eq. 2–4 and Algorithm 1. For training the pipeline of B microbatches takes

.. math:: \sum_i t_i + (B - 1) \max_j t_j .

The paper runs a dynamic programme over (stages, first layer, devices) for every distinct stage time as the longest one.
`least_sum_and_longest` runs it for few of them, and proves that the others cannot be better. So the result is exact
(ε = 0).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ...errors import InfeasibleError, InputError
from ..bottleneck import Bounded, least_sum_and_longest

__all__ = ["Stage", "StageProblem", "stage_dp"]

Stage = tuple[tuple[int, int], int, int]
"""((first layer, one past the last layer), index of the submesh, index of the configuration)."""


@dataclass(frozen=True, eq=False, slots=True)
class StageProblem:
    """What is to be cut, checked.

    Parameters
    ----------
    compute_cost : ndarray of float64, shape (L, L, K, C)
        Seconds of one microbatch through layers i…j inclusive on submesh k with configuration c; inf: impossible.
        Entries with i > j are not read.
    max_n_succ_stages : ndarray of int64, same shape
        How many stages may follow for the memory to suffice (Eq. 5); < 0: it does not fit at all.
    submesh_choices : tuple of (int, int)
        Hosts and devices per host of each submesh.
    num_hosts, devices_per_host : int
        The cluster; a plan uses every device.
    num_micro_batches : int
        B ≥ 1, microbatches of one iteration.

    Raises
    ------
    InputError
        On shapes that do not agree, NaN or negative costs, and counts under 1.
    """

    compute_cost: npt.NDArray[np.float64]
    max_n_succ_stages: npt.NDArray[np.int64]
    submesh_choices: tuple[tuple[int, int], ...]
    num_hosts: int
    devices_per_host: int
    num_micro_batches: int

    def __post_init__(self) -> None:
        cost, meshes = self.compute_cost, self.submesh_choices
        for name in ("num_hosts", "devices_per_host", "num_micro_batches"):
            if getattr(self, name) < 1:
                raise InputError(f"stage_dp: {name} must be at least 1 (got {getattr(self, name)})")
        if not meshes or any(min(m) < 1 for m in meshes):
            raise InputError(f"stage_dp: submesh_choices: expected pairs (hosts, devices), both ≥ 1 (got {meshes})")
        if cost.ndim != 4 or cost.shape[0] != cost.shape[1] or 0 in cost.shape:
            raise InputError(f"stage_dp: compute_cost: expected shape (L, L, submeshes, configs) (got {cost.shape})")
        if cost.shape[2] != len(meshes):
            raise InputError(
                f"stage_dp: compute_cost has {cost.shape[2]} submeshes, submesh_choices has {len(meshes)};"
                " give one cost per choice"
            )
        if self.max_n_succ_stages.shape != cost.shape:
            raise InputError(
                f"stage_dp: max_n_succ_stages: expected the shape of compute_cost, {cost.shape}"
                f" (got {self.max_n_succ_stages.shape})"
            )
        bad = np.argwhere(np.isnan(cost) | (cost < 0))
        bad = bad[bad[:, 0] <= bad[:, 1]]
        if len(bad):
            where = tuple(int(x) for x in bad[0])
            raise InputError(
                f"stage_dp: compute_cost{list(where)} must be a time ≥ 0, or inf (got {cost[where]}); {len(bad)} such"
            )

    @property
    def n_devices(self) -> int:
        """Devices of the cluster."""
        return self.num_hosts * self.devices_per_host

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Devices of each submesh."""
        return np.array([hosts * devices for hosts, devices in self.submesh_choices], np.int64)


def stage_dp(
    compute_cost: npt.ArrayLike,
    max_n_succ_stages: npt.ArrayLike,
    submesh_choices: Sequence[Sequence[int]],
    num_hosts: int,
    devices_per_host: int,
    num_micro_batches: int,
    objective: Literal["training", "inference"] = "training",
) -> tuple[float, list[Stage]]:
    """Optimal stages, submeshes and configurations of a chain of layers (Alpa, Eq. 2–4, with ε = 0).

    Parameters
    ----------
    compute_cost : array_like of float, shape (L, L, submeshes, configs)
        Seconds of one microbatch through layers first…last (both included in the index); inf: impossible.
    max_n_succ_stages : array_like of int, same shape
        A stage that is s-th from the end needs s − 1 ≤ this.
    submesh_choices : sequence of (int, int)
        Hosts and devices per host of each submesh.
    num_hosts, devices_per_host : int
        The cluster. Every device is used.
    num_micro_batches : int
        B, microbatches of one iteration; not used for inference.
    objective : {"training", "inference"}
        Σ t + (B − 1)·max t, or max t · number of stages.

    Returns
    -------
    cost : float
        Value of the objective, seconds.
    stages : list of ((first, last), submesh, config)
        In layer order; layers half-open, submesh and config are indices.

    Raises
    ------
    InputError
        If the arrays do not fit together or hold NaN or negative times.
    InfeasibleError
        If no plan uses every device and fits the memory.
    """
    if objective not in ("training", "inference"):
        raise InputError(f"stage_dp: objective must be 'training' or 'inference' (got {objective!r})")
    problem = StageProblem(
        _floats(compute_cost, "compute_cost"),
        _later(max_n_succ_stages),
        _meshes(submesh_choices),
        _count(num_hosts, "num_hosts"),
        _count(devices_per_host, "devices_per_host"),
        _count(num_micro_batches, "num_micro_batches"),
    )
    return _infer(problem) if objective == "inference" else _train(problem)


def _train(problem: StageProblem) -> tuple[float, list[Stage]]:
    from .stage_kernel import fronts, least_total

    cost, later, config = fronts(problem.compute_cost, problem.max_n_succ_stages)
    sizes, most = problem.sizes, _most_stages(problem)

    def solve(threshold: float) -> Bounded[npt.NDArray[np.int64]] | None:
        total, stages = least_total(cost, later, sizes, problem.n_devices, most, threshold)
        if not len(stages):
            return None
        return Bounded(float(total), float(max(cost[tuple(stage)] for stage in stages)), stages)

    rest = problem.num_micro_batches - 1
    best, _ = least_sum_and_longest(np.unique(cost[np.isfinite(cost)]), rest, solve)
    if best is None:
        raise InfeasibleError(_why(problem))
    times = [float(cost[tuple(stage)]) for stage in best.plan]
    return sum(times) + rest * max(times), _stages(best.plan, config)


def _infer(problem: StageProblem) -> tuple[float, list[Stage]]:
    from .stage_kernel import fronts, least_largest

    cost, later, config = fronts(problem.compute_cost, problem.max_n_succ_stages)
    value, chosen = least_largest(cost, later, problem.sizes, problem.n_devices, _most_stages(problem))
    if not len(chosen):
        raise InfeasibleError(_why(problem))
    return float(value), _stages(chosen, config)


def _stages(rows: npt.NDArray[np.int64], config: npt.NDArray[np.int64]) -> list[Stage]:
    return [
        ((first, last + 1), submesh, int(config[first, last, submesh, place]))
        for first, last, submesh, place in rows.tolist()
    ]


def _most_stages(problem: StageProblem) -> int:
    return int(min(problem.compute_cost.shape[0], problem.n_devices // problem.sizes.min()))


def _why(problem: StageProblem) -> str:
    """What makes it infeasible, in one line: sizes that cannot add up, a layer that never fits, or memory."""
    reach = {0}
    for _ in range(_most_stages(problem)):
        reach |= {r + int(s) for r in reach for s in problem.sizes if r + s <= problem.n_devices}
    n_layers = problem.compute_cost.shape[0]
    if problem.n_devices not in reach:
        return (
            f"stage_dp: no {n_layers} or fewer submeshes of {sorted(set(problem.sizes.tolist()))} devices make up all"
            f" {problem.n_devices}; add a submesh choice or layers"
        )
    fits = np.isfinite(problem.compute_cost) & (problem.max_n_succ_stages >= 0)
    anywhere = np.any(fits, axis=(2, 3))
    for layer in range(n_layers):
        if not np.any(anywhere[: layer + 1, layer:]):
            return (
                f"stage_dp: layer {layer} fits on no submesh in any stage; give it a larger submesh or less memory use"
            )
    return (
        f"stage_dp: no cut of {n_layers} layers on {problem.n_devices} devices satisfies max_n_succ_stages;"
        " stages must hold the activations of those after them: use smaller microbatches or more memory"
    )


def _floats(values: npt.ArrayLike, name: str) -> npt.NDArray[np.float64]:
    try:
        return np.ascontiguousarray(values, np.float64)
    except (TypeError, ValueError):
        raise InputError(f"stage_dp: {name}: expected a numeric array (L, L, submeshes, configs)") from None


def _later(values: npt.ArrayLike) -> npt.NDArray[np.int64]:
    later = _floats(values, "max_n_succ_stages")
    bad = np.argwhere(np.isnan(later))
    if len(bad):
        raise InputError(f"stage_dp: max_n_succ_stages{bad[0].tolist()} is NaN; use −1 where a stage does not fit")
    return np.floor(np.clip(later, -1, 2**31)).astype(np.int64)


def _meshes(choices: Any) -> tuple[tuple[int, int], ...]:
    try:
        return tuple((_count(h, "submesh_choices"), _count(d, "submesh_choices")) for h, d in choices)
    except (TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"stage_dp: submesh_choices: expected pairs (hosts, devices) (got {choices!r})") from None


def _count(value: Any, name: str) -> int:
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not number or float(value) % 1 != 0:
        raise InputError(f"stage_dp: {name}: expected a whole number (got {value!r})")
    return int(value)
