"""`SharedCluster`: GPUs in slots in machines in racks, and how near to each other a set of GPUs is."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...reprs import Shown

__all__ = ["Level", "Machine", "SharedCluster", "themis_168", "themis_256", "themis_testbed"]

Ints = npt.NDArray[np.int64]

RACKS = 1_000_000
"""Racks are numbered below this, because tables have a row for each number up to the largest."""


class Level(IntEnum):
    """The widest link inside a set of GPUs: the smallest unit that holds them all (Themis §6.1: four levels)."""

    SLOT = 0
    MACHINE = 1
    RACK = 2
    CLUSTER = 3


@dataclass(frozen=True, slots=True, repr=False)
class Machine(Shown):
    """A machine: slots with equal numbers of GPUs.

    Parameters
    ----------
    slots, gpus_per_slot : int
        Number of slots, and of GPUs in each.
    rack : int
        The rack that it stands in.

    Raises
    ------
    InputError
        On a count below one, or a rack below zero or of a million and more.
    """

    slots: int
    gpus_per_slot: int = 1
    rack: int = 0

    def __post_init__(self) -> None:
        for name, least in (("slots", 1), ("gpus_per_slot", 1), ("rack", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise InputError(f"Machine.{name}: expected an integer >= {least} (got {value!r})")
        if self.rack >= RACKS:
            raise InputError(f"Machine.rack: expected a number below {RACKS:,} (got {self.rack})")

    @property
    def gpus(self) -> int:
        """GPUs of the machine."""
        return self.slots * self.gpus_per_slot


@dataclass(frozen=True, repr=False)
class SharedCluster(Shown):
    """A cluster that many training apps share. GPUs are numbered machine by machine, slot by slot.

    Parameters
    ----------
    machines : tuple of Machine
        In any mix.

    Raises
    ------
    InputError
        If there is no machine.
    """

    machines: tuple[Machine, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "machines", tuple(self.machines))
        if not self.machines:
            raise InputError("SharedCluster.machines: expected at least one machine (got none)")

    @classmethod
    def uniform(cls, machines: int, gpus: int, *, gpus_per_slot: int = 1, machines_per_rack: int = 8) -> SharedCluster:
        """`machines` equal machines of `gpus` GPUs, racks filled one after the other. Eight in a rack are a guess.

        Raises
        ------
        InputError
            On a count below one, or slots that do not divide the GPUs.
        """
        for name, value in (("machines", machines), ("gpus", gpus), ("machines_per_rack", machines_per_rack)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"SharedCluster.{name}: expected a positive integer (got {value!r})")
        if gpus_per_slot < 1 or gpus % gpus_per_slot:
            raise InputError(
                f"SharedCluster.gpus_per_slot: {gpus_per_slot} do not divide {gpus} GPUs of a machine; give a divisor"
            )
        made = (Machine(gpus // gpus_per_slot, gpus_per_slot, m // machines_per_rack) for m in range(machines))
        return cls(tuple(made))

    @cached_property
    def machine_of(self) -> Ints:
        """Machine of each GPU."""
        return np.repeat(np.arange(len(self.machines)), [m.gpus for m in self.machines])

    @cached_property
    def slot_of(self) -> Ints:
        """Slot of each GPU; slots are numbered through the cluster."""
        sizes = [m.gpus_per_slot for m in self.machines for _ in range(m.slots)]
        return np.repeat(np.arange(len(sizes)), sizes)

    @cached_property
    def rack_of(self) -> Ints:
        """Rack of each GPU."""
        return np.array([m.rack for m in self.machines])[self.machine_of]

    @cached_property
    def n_gpus(self) -> int:
        """GPUs of the cluster."""
        return sum(m.gpus for m in self.machines)

    @cached_property
    def _units(self) -> tuple[tuple[Level, list[int]], ...]:
        """Slot, machine and rack of each GPU, as lists: `level` is asked of a few GPUs, very often."""
        units = (self.slot_of, self.machine_of, self.rack_of)
        return tuple(zip((Level.SLOT, Level.MACHINE, Level.RACK), (u.tolist() for u in units), strict=True))

    def level(self, gpus: Iterable[int]) -> Level:
        """How near to each other GPUs are: the smallest unit that holds them all. One GPU, or none, is a slot."""
        ids = list(gpus)
        for level, unit in self._units:
            if len({unit[g] for g in ids}) <= 1:
                return level
        return Level.CLUSTER

    def __str__(self) -> str:
        counts: dict[int, int] = {}
        for machine in self.machines:
            counts[machine.gpus] = counts.get(machine.gpus, 0) + 1
        mix = " + ".join(f"{n} x {gpus}" for gpus, n in sorted(counts.items(), reverse=True))
        racks = len({m.rack for m in self.machines})
        return f"{self.n_gpus} GPUs ({mix}) in {racks} rack{'' if racks == 1 else 's'}"


def _in_racks(kinds: list[tuple[int, int, int]], racks: int) -> SharedCluster:
    """Machines (count, slots, GPUs per slot), each kind dealt to the racks in turn, so that racks are alike."""
    made = [Machine(slots, per, k % racks) for count, slots, per in kinds for k in range(count)]
    return SharedCluster(tuple(made))


def themis_testbed(racks: int = 4) -> SharedCluster:
    """The testbed of Themis §6.1, 64 GPUs: 12 machines of 4 and 8 of 2. The paper does not say the racks: 4 are a
    guess, here and in the clusters below."""
    return _in_racks([(12, 4, 1), (8, 2, 1)], racks)


def themis_168(racks: int = 4) -> SharedCluster:
    """The simulated cluster as footnote 6 of Themis lists it: 16 x 8, 6 x 4, 16 x 1. That is 168 GPUs; the text says
    256. The paper does not say the racks."""
    return _in_racks([(16, 4, 2), (6, 4, 1), (16, 1, 1)], racks)


def themis_256(racks: int = 4) -> SharedCluster:
    """The 256 GPUs that Themis' text speaks of: the footnote's cluster with 28 machines of 4 GPUs instead of 6, the
    one count which makes the sum right."""
    return _in_racks([(16, 4, 2), (28, 4, 1), (16, 1, 1)], racks)
