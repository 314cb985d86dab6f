"""What is looked for among mixes of device types: the lowest cost or power, the fewest devices, the most requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....errors import InputError
from ....profiles.hardware import DeviceSpec
from ....reprs import Shown
from ....simulator.mixed import MixedCluster

__all__ = ["AIMS", "IDLE_SHARE", "Aim", "power_w"]

IDLE_SHARE = 0.3
"""Share of its board power that a device takes while its engine waits. A guess: boards without work and with their
clocks down take a tenth to a fifth of it (``nvidia-smi``), those that hold a model and its context more."""


@dataclass(frozen=True, slots=True, repr=False)
class Aim(Shown):
    """An objective.

    Parameters
    ----------
    name : {"cost", "energy", "devices", "goodput"}
        Price per hour, mean power, or number of the devices with which the target is reached; or the most good
        requests with what is there, of equals with the fewest devices.
    unit : str
        Of an amount.
    """

    name: str
    unit: str

    @property
    def reaches(self) -> bool:
        """Whether a target is to be reached with as little as possible."""
        return self.name != "goodput"

    def per_device(self, spec: DeviceSpec) -> float:
        """What one device counts at most."""
        if self.name == "cost":
            return spec.price_per_hour
        return spec.watts if self.name == "energy" else 1.0

    def least(self, most: float) -> float:
        """What a mix counts at least whose devices count `most`."""
        return IDLE_SHARE * most if self.name == "energy" else most

    def check(self, fleet: MixedCluster) -> None:
        """Refuse a fleet of which it is not known what a device counts.

        Raises
        ------
        InputError
            Naming the device, and where to say it.
        """
        what = {"cost": "price_per_hour", "energy": "watts"}.get(self.name)
        for pool in fleet.pools:
            if what is not None and not getattr(pool.spec, what) > 0:
                hint = ", or cluster.price_per_hour for the first type" if self.name == "cost" else ""
                raise InputError(
                    f"objective: {self.name} needs {what} of {pool.spec.name}, which is not known; say it in a device "
                    f"file (like: {pool.spec.name}){hint}"
                )

    def levels(self, fleet: MixedCluster, least: int = 1) -> list[tuple[float, list[tuple[int, ...]]]]:
        """Every number of devices of each pool, by what they count at most: (amount, those that count so much)."""
        amounts: dict[float, list[tuple[int, ...]]] = {}
        for counts in _grid([pool.n_devices for pool in fleet.pools]):
            if sum(counts) >= least:
                total = sum(n * self.per_device(pool.spec) for n, pool in zip(counts, fleet.pools, strict=True))
                amounts.setdefault(round(total, 9), []).append(counts)
        return sorted(amounts.items())


AIMS = {
    "cost": Aim("cost", "per hour"),
    "energy": Aim("energy", "W"),
    "devices": Aim("devices", "devices"),
    "goodput": Aim("goodput", "devices"),
}


def power_w(specs: Sequence[DeviceSpec], devices: Sequence[int], busy: Sequence[float]) -> float:
    """Mean power of several parts, watts: all of the board's while an engine computes, `IDLE_SHARE` of it else.

    Parameters
    ----------
    specs : sequence of DeviceSpec
        Device type of each part.
    devices : sequence of int
        How many.
    busy : sequence of float
        Share of the time for which its engines compute.
    """
    return sum(
        n * spec.watts * (IDLE_SHARE + (1 - IDLE_SHARE) * share)
        for spec, n, share in zip(specs, devices, busy, strict=True)
    )


def _grid(most: Sequence[int]) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = [()]
    for n in most:
        found = [(*counts, k) for counts in found for k in range(n + 1)]
    return found
