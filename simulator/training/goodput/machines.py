"""`Machines`: the nodes of a training run, how they fail and come back, and who stands by."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
import math
from dataclasses import dataclass

from ....errors import InputError
from ....reprs import Shown

__all__ = ["Machines", "Strike", "node_mtbf_s"]

MAX_NODES = 1_000_000


@dataclass(frozen=True, slots=True, order=True, repr=False)
class Strike(Shown):
    """A node fails at a known time.

    Parameters
    ----------
    at_s : float
        Seconds from the start of the run, >= 0.
    node : int
        Number of the node. Nothing happens if the run does not use it then.

    Raises
    ------
    InputError
        On a value out of its range.
    """

    at_s: float
    node: int

    def __post_init__(self) -> None:
        if not (math.isfinite(self.at_s) and self.at_s >= 0):
            raise InputError(f"strike: at_s: expected finite seconds >= 0 (got {self.at_s})")
        if isinstance(self.node, bool) or not isinstance(self.node, int) or self.node < 0:
            raise InputError(f"strike: node: expected an integer >= 0 (got {self.node!r})")


@dataclass(frozen=True, slots=True, repr=False)
class Machines(Shown):
    """Nodes that fail and are repaired.

    A failure takes a whole node. Its life begins anew whenever the run takes it, and runs as long as the run has it,
    whatever the run does then; nodes that stand by do not fail. A node that failed is away for its repair, and then
    stands by. The run takes the lowest numbers of those that stand by.

    Parameters
    ----------
    nodes : int
        Nodes that the run wants.
    mtbf_s : float
        Mean life of a node, seconds; infinite: only `strikes` take one. Of devices and nodes: `node_mtbf_s`.
    mttr_s : float
        Mean repair, exponential, seconds; 0: a node is back at once.
    spares : int
        Nodes that stand by at first.
    shape : float
        Weibull's shape of lives. 1: exponential; below: failures soon after the start, and then few.
    replicas : int
        Data-parallel replicas; divides `nodes`.
    least_replicas : int, optional
        The run goes on, slower, with as few replicas; with fewer it waits. By default with all. It grows again at the
        first checkpoint that is whole once nodes are back.
    strikes : tuple of Strike
        Failures at known times.

    Raises
    ------
    InputError
        On a value out of its range.
    """

    nodes: int
    mtbf_s: float = math.inf
    mttr_s: float = 0.0
    spares: int = 0
    shape: float = 1.0
    replicas: int = 1
    least_replicas: int | None = None
    strikes: tuple[Strike, ...] = ()

    def __post_init__(self) -> None:
        for name, least in (("nodes", 1), ("spares", 0), ("replicas", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MAX_NODES:
                raise InputError(f"machines: {name}: expected an integer from {least} to {MAX_NODES} (got {value!r})")
        if not self.mtbf_s > 0:
            raise InputError(f"machines: mtbf_s: expected seconds > 0 (got {self.mtbf_s})")
        if not (math.isfinite(self.mttr_s) and self.mttr_s >= 0):
            raise InputError(f"machines: mttr_s: expected finite seconds >= 0 (got {self.mttr_s})")
        if not 0.1 <= self.shape <= 10:  # the mean of a flatter one is beyond what anybody waits for
            raise InputError(f"machines: shape: expected a number from 0.1 to 10 (got {self.shape})")
        if self.nodes % self.replicas:
            raise InputError(f"machines: replicas: {self.replicas} do not divide {self.nodes} nodes")
        least = self.least_replicas
        if least is not None and (isinstance(least, bool) or not 1 <= least <= self.replicas):
            raise InputError(f"machines: least_replicas: expected an integer from 1 to {self.replicas} (got {least!r})")
        for strike in self.strikes:
            if strike.node >= self.nodes + self.spares:
                raise InputError(
                    f"machines: strikes: there is no node {strike.node}; those of {self.nodes} + {self.spares} spare "
                    f"are 0 to {self.nodes + self.spares - 1}"
                )

    @property
    def least(self) -> int:
        """Fewest replicas with which the run goes on."""
        return self.replicas if self.least_replicas is None else self.least_replicas

    @property
    def system_mtbf_s(self) -> float:
        """Mean time between failures of all nodes that the run uses, seconds: Daly's M."""
        return self.mtbf_s / self.nodes

    def _headline(self) -> str:
        return f"{self.nodes} nodes + {self.spares} spare, one fails every {self.system_mtbf_s:g} s"


def node_mtbf_s(devices: int, device_mtbf_s: float | None, own_mtbf_s: float | None = None) -> float:
    """Mean time between failures of a node, seconds: rates of its devices, and of what takes them all, add up.

    Parameters
    ----------
    devices : int
        Devices of the node.
    device_mtbf_s : float, optional
        Of one device, seconds; none: devices do not fail.
    own_mtbf_s : float, optional
        Of what takes the node with all its devices (power, network, host), seconds; none: it does not fail.

    Raises
    ------
    InputError
        On a time that is not positive.
    """
    rate = 0.0
    for name, many, value in (("mtbf", devices, device_mtbf_s), ("node_mtbf", 1, own_mtbf_s)):
        if value is not None:
            if not value > 0:
                raise InputError(f"failures: {name}: expected seconds > 0 (got {value})")
            rate += many / value
    return 1 / rate if rate > 0 else math.inf
