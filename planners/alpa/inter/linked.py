"""`linked_stages`: the stage programme with transfers between stages, and with several kinds of devices.

The paper leaves out the communication between stages (§7: it "would require enumerating exponentially more intra-op
passes and DP states"). That is half right. The sharding specs at a cut are decided by the intra-operator pass, and this
stays so. But the bytes that cross a cut are known, and the links depend only on the two submeshes. With the submesh of
the stage before as part of the state, K times as many states give the exact optimum of

.. math:: \\sum_i t_i + (B - 1) \\max_j t_j, \\quad t_i = c_i + x(p_i, m_i)

with x the transfer of what the stage receives and of the gradients that it returns.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ....errors import InfeasibleError
from ....simulator.cluster import Cluster, JoinedClusters
from ...bottleneck import Bounded, least_sum_and_longest
from ..stages import Stage

__all__ = ["Links", "linked_stages", "links_between", "submesh_link"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class Links:
    """What transfers between stages take.

    Parameters
    ----------
    n_bytes : ndarray of float64, shape (L, L)
        Bytes that layers i…j receive from earlier ones and return as gradients.
    per_byte, latency_s : ndarray of float64, shape (K, K)
        Seconds per byte, and fixed, from one submesh to another.
    overlap : bool
        Whether a stage takes the longer of computing and receiving, or both one after the other.
    """

    n_bytes: Floats
    per_byte: Floats
    latency_s: Floats
    overlap: bool = False

    def seconds(self, first: int, last: int, source: int, target: int) -> float:
        """Transfer into layers first…last inclusive, from one submesh to another."""
        n_bytes = float(self.n_bytes[first, last])
        if first == 0 or n_bytes == 0:
            return 0.0
        return float(self.latency_s[source, target]) + n_bytes * float(self.per_byte[source, target])


def linked_stages(
    cost: Floats,
    later: npt.NDArray[np.int64],
    devices: Sequence[Sequence[int]],
    totals: Sequence[int],
    microbatches: int,
    links: Links,
) -> tuple[float, list[Stage]]:
    """Optimal stages, submeshes and configurations of a chain of layers.

    Parameters
    ----------
    cost : ndarray of float64, shape (L, L, K, C)
        Seconds of one microbatch through layers i…j inclusive, without transfers; inf: impossible.
    later : ndarray of int64, same shape
        Stages that may follow.
    devices : sequence of sequence of int, shape (K, T)
        Devices of each kind in each submesh.
    totals : sequence of int, shape (T,)
        Devices of each kind; all are used.
    microbatches : int
        B, microbatches of one iteration.
    links : Links
        Seconds of transfers between stages.

    Returns
    -------
    cost : float
        Seconds: Σ t + (B − 1) · max t.
    stages : list
        The stages, in the format of `stage_dp`.

    Raises
    ------
    InfeasibleError
        If no plan uses every device and fits the memory.
    """
    from ..stage_kernel import fronts
    from .linked_kernel import least_linked

    front_cost, front_later, config = fronts(np.ascontiguousarray(cost), later)
    left_after, used_up = _left(devices, totals)
    most = min(len(cost), sum(n // min(d[t] for d in devices if d[t]) for t, n in enumerate(totals) if n))
    n_bytes = np.ascontiguousarray(links.n_bytes)

    def solve(threshold: float) -> Bounded[npt.NDArray[np.int64]] | None:
        total, longest, rows = least_linked(
            front_cost, front_later, n_bytes, links.per_byte, links.latency_s, links.overlap, left_after, used_up,
            most, threshold,
        )  # fmt: skip
        return Bounded(float(total), float(longest), rows) if len(rows) else None

    best, _ = least_sum_and_longest(_times(front_cost, links), microbatches - 1, solve)
    if best is None:
        raise InfeasibleError("alpa: no stages use every device and fit the memory")
    stages: list[Stage] = [((i, j + 1), m, int(config[i, j, m, c])) for i, j, m, c in best.plan.tolist()]
    return best.total + (microbatches - 1) * best.longest, stages


def _times(front_cost: Floats, links: Links) -> Floats:
    """Every time that a stage can take, ascending."""
    n_layers, _, n_meshes, _ = front_cost.shape
    found: list[Floats] = []
    for m, p in itertools.product(range(n_meshes), repeat=2):
        moved = np.where(links.n_bytes > 0, links.latency_s[p, m] + links.n_bytes * links.per_byte[p, m], 0.0)
        moved[0] = 0.0
        base = front_cost[:, :, m]
        times = np.maximum(base, moved[:, :, None]) if links.overlap else base + moved[:, :, None]
        found.append(np.unique(times[np.isfinite(times)]))
    return np.unique(np.concatenate(found)) if n_layers else np.empty(0)


def _left(devices: Sequence[Sequence[int]], totals: Sequence[int]) -> tuple[npt.NDArray[np.int64], int]:
    """What is left of every count of devices when a submesh is taken; counts are numbered, 0 for none."""
    counts = list(itertools.product(*(range(n + 1) for n in totals)))
    number = {count: r for r, count in enumerate(counts)}
    left = np.full((len(devices), len(counts)), -1, np.int64)
    for m, taken in enumerate(devices):
        for r, count in enumerate(counts):
            left[m, r] = number.get(tuple(a - b for a, b in zip(count, taken, strict=True)), -1)
    return left, number[tuple(totals)]


def links_between(
    n_bytes: Floats, submeshes: Sequence[tuple[Cluster, tuple[int, int]]], overlap: bool = False
) -> Links:
    """Transfers between submeshes of one cluster, or of several that are joined by the slower one's network.

    Parameters
    ----------
    n_bytes : ndarray of float64, shape (L, L)
        Bytes that layers i…j receive and return.
    submeshes : sequence of (Cluster, (int, int))
        Where each submesh is cut from, and its shape.
    overlap : bool
        As in `Links`.
    """
    count = len(submeshes)
    per_byte, latency = np.zeros((count, count)), np.zeros((count, count))
    for p, m in itertools.product(range(count), repeat=2):
        rate, latency[p, m] = submesh_link(submeshes[p], submeshes[m])
        per_byte[p, m] = 1.0 / rate
    return Links(np.ascontiguousarray(n_bytes, np.float64), per_byte, latency, overlap)


def submesh_link(
    source: tuple[Cluster, tuple[int, int]], target: tuple[Cluster, tuple[int, int]]
) -> tuple[float, float]:
    """Bytes per second and latency from one stage's submesh to the next one's.

    Every byte goes over once (§6, local all-gather). Within a node each device sends its share; between nodes each
    node's adapters carry what its devices send. Which nodes two submeshes will lie on is not known yet: parts of a
    node of one shape are laid side by side (`place_submeshes`) and count as neighbours, all others as on two nodes.

    Parameters
    ----------
    source, target : (Cluster, (int, int))
        Cluster and shape of the submeshes.
    """
    (one, (hosts, devices)), (other, (to_hosts, to_devices)) = source, target
    neighbours = one is other and (
        one.nodes == 1
        or ((hosts, devices) == (to_hosts, to_devices) and hosts == 1 and 2 * devices <= one.devices_per_node)
    )
    if neighbours:
        near = one.spec.intra_node
        return near.bandwidth_bytes_per_s * min(devices, to_devices), near.latency_s
    far = JoinedClusters.between(one, other)
    adapters = min(hosts * one.adapters(devices), to_hosts * other.adapters(to_devices))
    return far.bandwidth_bytes_per_s * adapters, far.latency_s
