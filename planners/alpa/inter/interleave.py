"""Interleaved 1F1B: v stages on every mesh, which go round the meshes (Megatron-LM, Narayanan et al. 2021, §2.2).

All meshes have one shape, p of them, and stage q runs on mesh q mod p. With equal stages of t seconds an iteration
takes B·v·t + (p − 1)·t: B − 1 more microbatches of v stages, and a pipeline that fills v times faster. The stage
programme minimises Σ t + (w − 1)·max t over p·v stages; Σ t is p·v·t, so w = B·v + p − p·v makes the two agree, and
unequal stages are charged for the longest, as in Eq. 2.

A mesh holds the states and activations of v stages. Each stage may use 1/v of the mesh's memory, so that any v of them
fit together, whichever they are.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ....errors import InfeasibleError
from ..stages import Stage, stage_dp
from .pricing.table import StageTable

__all__ = ["held_microbatches", "interleaved_stages"]


@lru_cache(maxsize=256)
def held_microbatches(meshes: int, virtual: int, microbatches: int) -> tuple[int, ...]:
    """Most microbatches that each of the ``meshes · virtual`` stages holds at once.

    Read off the schedule: forward passes go through groups of p microbatches, stage by stage of the mesh; after the
    warm-up of 2(p − r − 1) + (v − 1)·p passes of mesh r one backward pass follows each forward pass.
    """
    held: list[int] = [0] * (meshes * virtual)
    total = microbatches * virtual
    order = [chunk for group in range(0, microbatches, meshes) for chunk in range(virtual)
             for _ in range(min(meshes, microbatches - group))]  # fmt: skip
    for rank in range(meshes):
        ahead = min(2 * (meshes - rank - 1) + (virtual - 1) * meshes, total)
        now = [0] * virtual
        for step in range(total + ahead):
            if step < total:
                now[order[step]] += 1
                chunk = order[step]
                held[chunk * meshes + rank] = max(held[chunk * meshes + rank], now[chunk])
            if step >= ahead:
                now[virtual - 1 - order[step - ahead]] -= 1
    return tuple(held)


def interleaved_stages(
    table: StageTable, n_devices: int, microbatches: int, virtual: int, memory_bytes: float, mask: npt.NDArray[np.bool_]
) -> tuple[float, list[Stage]]:
    """The best p·v stages over all submesh shapes and numbers of meshes p ≥ 2 that divide B.

    Parameters
    ----------
    table : StageTable
        Costs of every run of layers on every submesh.
    n_devices : int
        Devices of the cluster; all meshes together use them.
    microbatches : int
        B, microbatches of one iteration.
    virtual : int
        v, stages per mesh.
    memory_bytes : float
        Memory of one device.
    mask : ndarray of bool
        Stages that may be used, shape (L, L, K, 1).

    Returns
    -------
    cost : float
        Predicted seconds of an iteration.
    stages : list
        The stages, in the format of `stage_dp`.

    Raises
    ------
    InfeasibleError
        If no number of meshes divides B and the layers suffice, or nothing fits.
    """
    cost = np.where(mask, table.cost(microbatches), np.inf)
    best: tuple[float, list[Stage]] | None = None
    for m, size in enumerate(table.sizes.tolist()):
        meshes = n_devices // size
        if n_devices % size or meshes < 2 or microbatches % meshes or meshes * virtual > table.n_layers:
            continue
        held = np.array(held_microbatches(meshes, virtual, microbatches))
        one = slice(m, m + 1)
        later = _later(table, one, np.maximum.accumulate(held[::-1]), memory_bytes / virtual)
        weight = microbatches * virtual + meshes - meshes * virtual
        count = meshes * virtual
        only = cost[:, :, one]
        try:
            seconds, stages = stage_dp(only, later, [(1, 1)], 1, count, max(weight, 1))
        except InfeasibleError:
            continue
        if best is None or seconds < best[0]:
            best = seconds, [(layers, m, config) for layers, _, config in stages]
    if best is None:
        raise InfeasibleError(
            f"alpa: no interleaving of {virtual} stages per mesh: it needs meshes of one shape whose number divides "
            f"the {microbatches} microbatches, {virtual} layers for each (there are {table.n_layers}), and the memory"
        )
    return best


def _later(
    table: StageTable, mesh: slice, most_held: npt.NDArray[np.int64], memory_bytes: float
) -> npt.NDArray[np.int64]:
    """How many stages may follow each one: the s-th from the end holds at most `most_held[s − 1]`, which never
    falls."""
    room = memory_bytes - table.state[:, :, mesh] - table.work[:, :, mesh]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        may_hold = np.nan_to_num(np.where(room >= 0, room / table.activation[:, :, mesh], -1.0), nan=-1.0)
    # The margin is a few rounding errors: an exact fit must not lose a stage to a quotient of 2.9999….
    return np.searchsorted(most_held, may_hold * (1 + 1e-12), side="right") - 1
