"""`MemoryTimeline`: bytes on one device of each mesh over an iteration: state, live activations, work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ....reprs import Shown
from ..program.actions import Program
from ..program.columns import B, F, W

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["MemoryTimeline", "in_flight", "memory_timeline"]

Floats = npt.NDArray[np.float64]
GIB = 2**30


@dataclass(frozen=True, eq=False, repr=False)
class MemoryTimeline(Shown):
    """Memory over time: from ``seconds[k]`` to ``seconds[k + 1]`` a device of the mesh holds ``n_bytes[k]``.

    Parameters
    ----------
    seconds, n_bytes : tuple of ndarray
        Steps of the curve, for each mesh.
    limit_bytes : ndarray
        Memory of a device of each mesh.
    """

    seconds: tuple[Floats, ...]
    n_bytes: tuple[Floats, ...]
    limit_bytes: Floats

    @property
    def peak(self) -> Floats:
        """Most bytes at any time, for each mesh."""
        return np.array([n.max() for n in self.n_bytes])

    def at(self, mesh: int, seconds: float) -> float:
        """Bytes at a time."""
        return float(self.n_bytes[mesh][max(int(np.searchsorted(self.seconds[mesh], seconds, side="right")) - 1, 0)])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw one line per mesh and the limit; returns the axes."""
        import matplotlib.pyplot as plt

        from ...palette import CYCLE, GREY

        if ax is None:
            _, ax = plt.subplots(figsize=(9, 3.2), layout="constrained")
        axes: Any = ax
        for mesh, (t, n) in enumerate(zip(self.seconds, self.n_bytes, strict=True)):
            colour = CYCLE[mesh % len(CYCLE)]
            axes.step(t, n / GIB, where="post", label=f"mesh {mesh}", color=colour, lw=1.2)
        for k, limit in enumerate(np.unique(self.limit_bytes)):
            axes.axhline(limit / GIB, color=GREY, ls="--", lw=1, label="_" if k else "device")
        axes.set_xlabel("time (s)")
        axes.set_ylabel("memory of a device (GiB)")
        axes.set_ylim(bottom=0)
        axes.legend(ncols=4, fontsize=7)
        return ax


def memory_timeline(
    program: Program,
    start: Floats,
    finish: Floats,
    state_bytes: Sequence[float],
    activation_bytes: Sequence[float],
    work_bytes: Sequence[float],
    limit_bytes: npt.ArrayLike,
    share: Floats | None = None,
) -> MemoryTimeline:
    """Memory over time of one iteration.

    The activations of a microbatch, or of a token slice of it, live from the start of its forward to the end of its
    backward, or of the weights' half where that is split off (of its forward, where nothing is trained). Work lives
    while something is computed. Buffers of messages under way are not counted.

    Parameters
    ----------
    program : Program
        What was done.
    start, finish : ndarray, shape (n,)
        When.
    state_bytes, activation_bytes, work_bytes : sequence of float
        For each stage, on one device: always, per microbatch of its own, while it computes.
    limit_bytes : array_like
        What a device has; of each mesh where they differ.
    share : ndarray, shape (n_microbatches, n_slices), optional
        What each token slice is of the microbatch that `activation_bytes` are of.
    """
    c = program.columns
    kept, work = np.asarray(activation_bytes, dtype=np.float64), np.asarray(work_bytes, dtype=np.float64)
    state = np.bincount(np.array(program.mesh_of), weights=np.asarray(state_bytes, dtype=np.float64))
    freeing = _frees(program)
    times: list[Floats] = []
    sizes: list[Floats] = []
    for mesh in range(program.n_meshes):
        rows = np.arange(int(c.offsets[mesh]), int(c.offsets[mesh + 1]))
        rows = rows[np.isin(c.op[rows], (F, B, W))]
        stage = c.stage[rows]
        bytes_kept = kept[stage] if share is None else kept[stage] * share[c.microbatch[rows], c.slice[rows]]
        steps = np.empty(2 * len(rows))  # at each start and each finish, in this order: a mesh does one thing at a time
        steps[0::2] = np.where(c.op[rows] == F, bytes_kept, 0.0) + work[stage]
        steps[1::2] = -work[stage] - np.where(freeing[rows], bytes_kept, 0.0)
        at = np.column_stack((start[rows], finish[rows])).reshape(-1)
        times.append(np.concatenate(([0.0], at)))
        sizes.append(np.concatenate(([state[mesh]], state[mesh] + np.cumsum(steps))))
    limits = np.broadcast_to(np.asarray(limit_bytes, dtype=np.float64), (program.n_meshes,))
    return MemoryTimeline(tuple(times), tuple(sizes), limits)


def in_flight(program: Program) -> npt.NDArray[np.int64]:
    """For each stage, most of its own microbatches (or token slices) whose activations are kept at once."""
    c, freeing = program.columns, _frees(program)
    rows = np.flatnonzero(np.isin(c.op, (F, B, W)))
    rows = rows[np.argsort(c.stage[rows], kind="stable")]  # stage by stage, each in its order
    steps = (c.op[rows] == F).astype(np.int64)
    steps[1:] -= freeing[rows][:-1]  # what one lets go is gone when the next begins; all of a stage's in the end
    held = np.cumsum(steps)
    most = np.zeros(program.n_stages, dtype=np.int64)
    np.maximum.at(most, c.stage[rows], held)
    return most


def _frees(program: Program) -> npt.NDArray[np.bool_]:
    """For each action, whether the activations of its microbatch are let go when it ends."""
    c = program.columns
    slices = int(c.slice.max(initial=0)) + 1
    unit = (c.stage.astype(np.int64) * (program.microbatches + 1) + c.microbatch + 1) * slices + c.slice
    last = np.zeros((program.n_stages * (program.microbatches + 1)) * slices, dtype=np.int8)
    for op in (F, B, W):  # what comes last, if it is there
        last[unit[c.op == op]] = op
    return np.isin(c.op, (F, B, W)) & (c.op == last[unit])
