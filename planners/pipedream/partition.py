"""`pipedream_partition`: PipeDream's own planner on its own profiles (Narayanan et al., SOSP '19, §3.1).

A[i][j][m] is the least bottleneck of states i … j on m machines. It is the best of one replicated stage, and of every
split into a pipeline up to state k and a last stage on m′ of the machines. The levels of the machine hierarchy are
solved from the inside out: a stage of one level runs on whole machines of that level, each of which runs it as the
level below has arranged it.
"""

from __future__ import annotations

# Compiled functions have no types.
# pyright: reportUnknownVariableType=false
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InfeasibleError, InputError, LimitError
from ...reprs import Shown
from .kernel import level_table
from .profile import PipeDreamProfile
from .states import PipeDreamStates, antichain_states

__all__ = ["PipeDreamPartition", "PipeDreamStage", "pipedream_partition"]

Floats = npt.NDArray[np.float64]
MOST_CELLS = 120_000_000
"""Most table entries of one level. An entry has 20 bytes, so this is 2.4 GB: a guess at what a workstation can
spare."""


@dataclass(frozen=True, slots=True, repr=False)
class PipeDreamStage(Shown):
    """One stage of PipeDream's partition.

    Parameters
    ----------
    layers : tuple of str
        Its layers, in the order of the profile.
    first, last : int
        The stage holds the layers of state last − 1 that state first − 1 has not.
    compute_s : float
        Seconds of one minibatch on one device.
    replication : tuple of int
        Machines that share its minibatches, for each level from the inside; their product is its number of devices.
    """

    layers: tuple[str, ...]
    first: int
    last: int
    compute_s: float
    replication: tuple[int, ...]


@dataclass(frozen=True, slots=True, repr=False)
class PipeDreamPartition(Shown):
    """What PipeDream's optimiser finds.

    Parameters
    ----------
    stages : tuple of PipeDreamStage
        The stages in order.
    seconds : float
        Seconds of the slowest stage for one minibatch.
    single_s, data_parallel_s : float
        Seconds of one minibatch on one device, and with data parallelism over all devices.
    states : int
        Number of antichain states that were searched.
    """

    stages: tuple[PipeDreamStage, ...]
    seconds: float
    single_s: float
    data_parallel_s: float
    states: int

    @property
    def speedup(self) -> float:
        """Throughput relative to one device."""
        return self.single_s / self.seconds


def pipedream_partition(
    profile: PipeDreamProfile,
    *,
    machines: Sequence[int],
    bandwidths: Sequence[float],
    memory_bytes: float | None = None,
    straight: bool = False,
    use_fewer: bool = False,
    compression: float | None = None,
    compat: bool = False,
) -> PipeDreamPartition:
    """Find the stages, and the replication of each, with the least bottleneck.

    Parameters
    ----------
    profile : PipeDreamProfile
        The profiled layers.
    machines : sequence of int
        Machines of each level, from the inside: (4, 2) is two machines of four devices each.
    bandwidths : sequence of float
        Bytes per second between the machines of each level.
    memory_bytes : float, optional
        Memory of a device. A stage keeps its weights and activations once for each minibatch in flight.
    straight : bool
        Whether stages are never replicated.
    use_fewer : bool
        Whether machines may stay idle.
    compression : float, optional
        Count the transfers between stages, divided by this ratio. By default they do not count.
    compat : bool
        Reproduce the authors' program, including what looks like its slips. The all-reduce is divided by the number of
        replicas once more. In a last stage the devices inside a machine do not share it. A stage's memory does not
        count the minibatch that it is computing, so one stage alone always fits. Outer levels also see "stages"
        between states of which neither comes before the other. `antichain_states` tells how the states differ.

    Raises
    ------
    InputError
        If `machines` and `bandwidths` do not describe the same levels, or hold impossible values.
    InfeasibleError
        If nothing fits in memory, or there are too many states.
    """
    counts, rates = tuple(machines), tuple(float(b) for b in bandwidths)
    if not counts or len(counts) != len(rates):
        raise InputError(
            f"pipedream: expected machines and a bandwidth for each level (got {len(counts)} and {len(rates)})"
        )
    if any(isinstance(m, bool) or m < 1 for m in counts) or any(not 0 < b < np.inf for b in rates):
        raise InputError(f"pipedream: expected positive machines and bandwidths (got {counts} and {rates})")
    layers = profile.for_planning()
    if not layers.layers:
        raise InputError("pipedream: the profile has nothing but inputs")
    states = antichain_states(layers, compat=compat)
    n = len(states.compute_s)
    for level, m in enumerate(counts):
        rows = 1 if level == len(counts) - 1 else n
        if rows * n * m > MOST_CELLS:
            raise LimitError(
                f"pipedream: our limit of {MOST_CELLS:,} table entries ended the search, so whether there is a plan is "
                f"not known: {n:,} states on {len(counts)} levels of machines; fold branches, or give fewer levels"
            )
    follows = np.ones((n, n), bool)
    if not compat:
        follows[1:] = (states.before | np.eye(n, dtype=bool))[:-1]  # what starts after i − 1 has i − 1 before it
        follows[1:] &= ~np.eye(n, dtype=bool)[:-1]
    earlier = np.concatenate([[0.0], states.compute_s[:-1]])
    stage_s = np.where(np.triu(np.ones((n, n), bool)) & follows, states.compute_s - earlier[:, None], np.inf)
    tables: list[tuple[Any, ...]] = []
    within = 1
    for level, (m, bandwidth) in enumerate(zip(counts, rates, strict=True)):
        rows = 1 if level == len(counts) - 1 else n
        table = level_table(
            rows, stage_s, states.activation_bytes, states.parameter_bytes, states.output_bytes, states.before,
            follows, m, bandwidth, float(within), np.inf if memory_bytes is None else memory_bytes, compression or 0.0,
            straight, use_fewer, compat,
        )  # fmt: skip
        tables.append(table)
        stage_s = table[0][:, :, m - 1]
        within = m
    seconds = float(tables[-1][0][0, n - 1, counts[-1] - 1])
    if not np.isfinite(seconds):
        total = float(states.parameter_bytes[-1])
        raise InfeasibleError(
            f"pipedream: nothing fits: {total:.4g} bytes of weights on {np.prod(counts)} devices of "
            f"{memory_bytes or 0:.4g} bytes" + (" without replication" if straight else "")
        )
    return PipeDreamPartition(
        _stages(layers, states, tables, counts), seconds, float(states.compute_s[-1]),
        _data_parallel(states, counts, rates, compat), n,
    )  # fmt: skip


def _stages(
    layers: PipeDreamProfile, states: PipeDreamStates, tables: Sequence[tuple[Any, ...]], counts: Sequence[int]
) -> tuple[PipeDreamStage, ...]:
    """Read the stages off the tables, following the splits from the outermost level inwards."""
    parts: list[tuple[int, int, tuple[int, ...]]] = [(0, len(states.compute_s), ())]
    for (_, split, left, used), m in zip(reversed(tables), reversed(counts), strict=True):
        finer: list[tuple[int, int, tuple[int, ...]]] = []
        for first, last, outer in parts:
            inside: list[tuple[int, int, tuple[int, ...]]] = []
            at, total = last - 1, m
            while True:
                k = int(split[first, at, total - 1])
                inside.append((first if k < 0 else k + 1, at + 1, (int(used[first, at, total - 1]), *outer)))
                if k < 0:
                    break
                at, total = k, int(left[first, at, total - 1])
            finer += reversed(inside)
        parts = finer
    found: list[PipeDreamStage] = []
    taken = np.zeros(states.members.shape[1], bool)
    for first, last, replication in parts:
        new = states.members[last - 1] & ~taken
        taken |= states.members[last - 1]
        time = float(states.compute_s[last - 1] - (states.compute_s[first - 1] if first else 0.0))
        names = tuple(layers.layers[k].name for k in np.flatnonzero(new))
        found.append(PipeDreamStage(names, first, last, time, replication))
    return tuple(found)


def _data_parallel(states: PipeDreamStates, counts: Sequence[int], rates: Sequence[float], compat: bool) -> float:
    """Seconds of a minibatch if one stage is replicated over all devices."""
    total, within = float(states.compute_s[-1]), 1
    for m, bandwidth in zip(counts, rates, strict=True):
        reduce = 4 * (m - 1) * float(states.parameter_bytes[-1]) / (bandwidth * m) / within
        total = (total + reduce) / m if compat else total / m + reduce
        within = m
    return total
