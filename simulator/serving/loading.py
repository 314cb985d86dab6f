"""`Loading`: how long weights take to reach devices: bytes over the bandwidth of what they pass on the way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...errors import InputError
from ...reprs import Shown

__all__ = ["Load", "Loading"]


class Load(NamedTuple):
    """What one device loads: its node, bytes that its node's memory lacks, and bytes that it holds."""

    node: int
    cold: float
    warm: float


@dataclass(frozen=True, slots=True, repr=False)
class Loading(Shown):
    """Bandwidths on the way of weights to a device.

    Weights come from the node's disk (or over its network adapter where they are not on disk), through the memory of
    the host, to the device. They stream: a load is as fast as the slowest link on its way. Disk and adapter serve all
    devices of a node that begin to load at the same instant in equal shares; the link from host to device is each
    device's own. What a host's memory still holds comes at the host's bandwidth.

    Parameters
    ----------
    disk : float
        Where weights are kept: bytes per second of a node's disk, or of its network adapter if they are fetched.
    host : float
        From the host's memory to a device, bytes per second.
    network : float, optional
        If given, weights that the host does not hold come over the node's adapter at so many bytes per second instead
        of from its disk.
    cache : float
        Bytes of each host's memory that keep weights once loaded, the ones used longest ago going first; 0: none.
    start_s : float
        Seconds that a group takes before it begins to load: noticing, starting processes.
    source : str
        Where the figures come from.

    Raises
    ------
    InputError
        On a bandwidth that is not > 0, or another value out of its range.
    """

    disk: float
    host: float = math.inf
    network: float | None = None
    cache: float = 0.0
    start_s: float = 0.0
    source: str = "given"

    def __post_init__(self) -> None:
        for name in ("disk", "host", "network"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"loading: {name}: expected bytes per second > 0 (got {value:g})")
        for name in ("cache", "start_s"):
            value = getattr(self, name)
            if not value >= 0 or (name == "start_s" and value == math.inf):
                raise InputError(f"loading: {name}: expected a finite number >= 0 (got {value:g})")

    @property
    def cold(self) -> float:
        """Bytes per second at which a node gets weights that its memory lacks."""
        return self.disk if self.network is None else self.network

    def seconds(self, loads: Sequence[Load]) -> list[float]:
        """How long each device takes of those that begin to load at one instant; 0 for one that loads nothing.

        Equal shares of the node's disk: by the time that a device has its `b` bytes, every other has got as many, or
        all that it wanted. `start_s` is not in it.
        """
        found: list[float] = []
        for node, cold, warm in loads:
            served = sum(min(cold, other.cold) for other in loads if other.node == node)
            # Cold bytes pass the disk and the host's link at once, then the warm ones pass the link alone.
            found.append(max(served / self.cold, cold / self.host) + warm / self.host)
        return found
