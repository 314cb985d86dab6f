"""`ExtenderTask`: what an extender is started with: the file that `meshwright export` writes for it."""

from __future__ import annotations

from dataclasses import dataclass

from ....reprs import Shown
from ....simulator.sharing.world import LeaseEnds
from ..choice import PolicyChoice

__all__ = ["ExtenderTask"]


@dataclass(frozen=True, slots=True)
class _Node:
    node: str
    slots: int
    gpus_per_slot: int
    rack: int


@dataclass(frozen=True, slots=True, repr=False)
class ExtenderTask(Shown):
    """The content of arbiter.json, which `meshwright export --to scheduler-plugin` writes.

    Parameters
    ----------
    policy : str
        Name of the policy.
    options : dict
        Options of the Themis policy.
    lease_s : float
        Seconds of a lease.
    machines : tuple
        The nodes: names, slots, GPUs per slot, racks.
    port : int
        Port on which kube-scheduler asks.
    lease_ends : {"apart", "together"}
        When leases are over, see `SharingWorld`.
    """

    policy: str
    options: dict[str, str | float | int | bool]
    lease_s: float
    machines: tuple[_Node, ...]
    port: int = 8888
    lease_ends: LeaseEnds = "apart"

    @property
    def choice(self) -> PolicyChoice:
        """The policy."""
        ours = {} if self.policy == "themis" or ":" in self.policy else {"lease_s": self.lease_s}
        return PolicyChoice(self.policy, ours | self.options)
