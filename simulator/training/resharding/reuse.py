"""A resharding that is planned already, somewhere else in the cluster or for another amount of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ...cluster import Cluster
from ...mesh import LogicalMesh
from .crossing import Gather, Message, Method, Resharding, gather_seconds, reshard_across
from .senders import Candidate, in_order_seconds, loads_of

__all__ = ["Reshardings", "moved", "scaled"]

Floats = npt.NDArray[np.float64]


def moved(way: Resharding, nodes: int, cluster: Cluster) -> Resharding:
    """The same resharding between meshes that lie so many nodes further on: as long, with other devices."""
    if not nodes:
        return way
    d = nodes * cluster.devices_per_node
    a = nodes * cluster.adapters(cluster.devices_per_node)
    return replace(
        way,
        messages=tuple(Message(m.source + d, m.target + d, m.box, m.n_bytes) for m in way.messages),
        gathers=tuple(
            Gather(tuple(x + d for x in g.devices), tuple((x + d, box) for x, box in g.parts)) for g in way.gathers
        ),
        adapters_out=tuple(x + a for x in way.adapters_out),
        adapters_in=tuple(x + a for x in way.adapters_in),
    )


def scaled(way: Resharding, target: LogicalMesh, target_spec: str, factors: Sequence[float]) -> tuple[Floats, Floats]:
    """Seconds of sending and of gathering when a tensor is scaled in bytes, and the same devices exchange it.

    Parameters
    ----------
    way : Resharding
        Resharding of the tensor in its original size.
    target : LogicalMesh
        The mesh that needs the tensor.
    target_spec : str
        How it is sharded there.
    factors : sequence of float
        Factors on its bytes.

    Returns
    -------
    seconds, gather_s : ndarray, shape (len(factors),)
    """
    grown = np.asarray(factors, dtype=np.float64)
    gather_s = np.array([gather_seconds(way, f * way.n_bytes, target, target_spec) for f in grown.tolist()])
    cluster, senders = target.mesh.network, [m.source for m in way.messages]

    def parts(factor: float) -> list[Candidate]:
        return [Candidate(m.target, (m.source,), factor * m.n_bytes) for m in way.messages]

    if way.method == "first_holder":
        return np.array([in_order_seconds(parts(f), senders, cluster) for f in grown.tolist()]), gather_s

    def busy(factor: float) -> Floats:
        return np.array(list(loads_of(parts(factor), senders, cluster).values()), dtype=np.float64)

    # A device's or adapter's seconds are affine in the bytes (latencies of its messages, plus bytes over bandwidth), so
    # two sizes give all others.
    once, twice = busy(1.0), busy(2.0)
    seconds: Floats = (2 * once - twice + grown[:, None] * (twice - once)).max(axis=1, initial=0.0)
    return seconds, gather_s


class Reshardings:
    """A cache of reshardings: pairs of meshes with the same relative position as earlier ones are not planned again."""

    def __init__(self, method: Method) -> None:
        self._method: Method = method
        self._known: dict[object, tuple[Resharding, int]] = {}
        self._scaled: dict[object, tuple[Floats, Floats]] = {}

    def __call__(self, n_bytes: float, source: LogicalMesh, have: str, target: LogicalMesh, need: str) -> Resharding:
        """The same as `reshard_across`, from the cache if possible."""
        key = _key(n_bytes, source, have, target, need)
        host = source.mesh.first_host if source.mesh.part == target.mesh.part else 0  # across clusters: none is moved
        if key not in self._known:
            way = reshard_across(n_bytes, source, have, target, need, method=self._method)
            self._known[key] = way, host
        way, first = self._known[key]
        return moved(way, host - first, source.mesh.cluster)

    def scaled(
        self, n_bytes: float, source: LogicalMesh, have: str, target: LogicalMesh, need: str, factors: Floats
    ) -> tuple[Floats, Floats]:
        """The same as `scaled`, for the resharding that a call with the same arguments gives."""
        key = _key(n_bytes, source, have, target, need), factors.tobytes()
        if key not in self._scaled:
            self._scaled[key] = scaled(self(n_bytes, source, have, target, need), target, need, factors.tolist())
        return self._scaled[key]


def _key(n_bytes: float, source: LogicalMesh, have: str, target: LogicalMesh, need: str) -> object:
    """The same where two meshes lie to each other alike."""
    seats = [(m.mesh.hosts, m.mesh.devices, m.mesh.first_device, m.shape, m.mesh.part) for m in (source, target)]
    if source.mesh.part != target.mesh.part:
        return (*seats, source.mesh.first_host, target.mesh.first_host, n_bytes, have, need)
    levels = source.mesh.cluster.levels  # with groups of nodes it matters where the meshes lie
    at = source.mesh.first_host % levels[-1].nodes if levels else 0
    return (*seats, target.mesh.first_host - source.mesh.first_host, at, n_bytes, have, need)
