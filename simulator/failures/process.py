"""`Failures`: when devices and nodes fail and come back; `Downtimes`: the times of one run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...errors import InputError
from ...reprs import Shown
from ...seeds import generator
from ..placement import Placement
from .script import ScriptedFailure

__all__ = ["Downtime", "Downtimes", "Failures"]

MOST_FAILURES = 10**6
"""Failures of one device or node in one run: more are a slip of the pen (an MTBF in the wrong unit)."""


class Downtime(NamedTuple):
    """A device is away from `down_s` to `up_s`, seconds; `host`: what its node held in memory is lost too."""

    down_s: float
    up_s: float
    host: bool


Downtimes = tuple[tuple[Downtime, ...], ...]
"""Of each device, by `down_s`; they may overlap."""


@dataclass(frozen=True, slots=True, repr=False)
class Failures(Shown):
    """Devices and nodes fail: at random, at times from a script, or both.

    A device is up for an exponential time with mean `mtbf_s`, then away for one with mean `mttr_s`, again and again;
    a node likewise, and takes all of its devices with it, and what its memory held. Each device and each node draws
    from a stream of its own, whatever else happens to it: a device can fail while its node is away, and while it loads
    weights. So adding devices, or another placement, changes no failure.

    Parameters
    ----------
    mtbf_s, mttr_s : float, optional
        Mean time between failures of a device (from its repair to its next failure), and mean time to repair, seconds.
        Give both or none.
    node_mtbf_s, node_mttr_s : float, optional
        The same for nodes.
    events : tuple of ScriptedFailure
        Failures at known times.

    Raises
    ------
    InputError
        On a value out of its range, or no failure at all.
    """

    mtbf_s: float | None = None
    mttr_s: float | None = None
    node_mtbf_s: float | None = None
    node_mttr_s: float | None = None
    events: tuple[ScriptedFailure, ...] = ()

    def __post_init__(self) -> None:
        for mean, repair in (("mtbf", "mttr"), ("node_mtbf", "node_mttr")):
            values = (getattr(self, f"{mean}_s"), getattr(self, f"{repair}_s"))
            for name, value in zip((mean, repair), values, strict=True):
                if value is not None and not (math.isfinite(value) and value > 0):
                    raise InputError(f"failures: {name}: expected finite seconds > 0 (got {value})")
            if (values[0] is None) != (values[1] is None):
                raise InputError(f"failures: {mean} and {repair} go together; give both or none")
        events: Any = self.events
        if not isinstance(events, tuple) or not all(isinstance(e, ScriptedFailure) for e in events):  # type: ignore[misc]
            raise InputError(f"failures: events: expected a tuple of ScriptedFailure (got {events!r})")
        if not self.events and self.mtbf_s is None and self.node_mtbf_s is None:
            raise InputError("failures: nothing ever fails; give mtbf and mttr, node_mtbf and node_mttr, or a script")

    @property
    def random(self) -> bool:
        """Whether anything is drawn."""
        return self.mtbf_s is not None or self.node_mtbf_s is not None

    def check(self, n_devices: int, devices_per_node: int, groups: int | None = None) -> None:
        """Raise `InputError` if a scripted failure names what is not there; without `groups`, any group is."""
        there = {"device": n_devices, "node": -(-n_devices // devices_per_node)}
        if groups is not None:
            there["group"] = groups
        for event in self.events:
            if event.kind in there and event.number >= there[event.kind]:
                raise InputError(
                    f"failures: script: {event.kind} {event.number}: names no device; there are {event.kind}s 0 to "
                    f"{there[event.kind] - 1}"
                )

    def draw(
        self, placement: Placement, n_devices: int, devices_per_node: int, horizon_s: float, seed: int
    ) -> Downtimes:
        """When each device is away in one run.

        Parameters
        ----------
        placement : Placement
            Says which devices a scripted group has.
        n_devices, devices_per_node : int
            The cluster.
        horizon_s : float
            Nothing is drawn that fails later, seconds.
        seed : int
            Of everything drawn.
        """
        self.check(n_devices, devices_per_node, len(placement.groups))
        found: list[list[Downtime]] = [[] for _ in range(n_devices)]
        nodes = [
            range(first, min(first + devices_per_node, n_devices)) for first in range(0, n_devices, devices_per_node)
        ]
        if self.mtbf_s is not None and self.mttr_s is not None:
            for d in range(n_devices):
                lives = _lives(generator(seed, "failures", "device", d), self.mtbf_s, self.mttr_s, horizon_s)
                found[d] += [Downtime(down, up, False) for down, up in lives]
        if self.node_mtbf_s is not None and self.node_mttr_s is not None:
            for n, held in enumerate(nodes):
                lives = _lives(generator(seed, "failures", "node", n), self.node_mtbf_s, self.node_mttr_s, horizon_s)
                for d in held:
                    found[d] += [Downtime(down, up, True) for down, up in lives]
        members: dict[str, Callable[[int], Sequence[int]]] = {
            "device": lambda k: (k,),
            "node": lambda k: nodes[k],
            "group": lambda k: placement.groups[k].devices or (),
        }
        for event in self.events:
            if event.at_s <= horizon_s:
                for d in members[event.kind](event.number):
                    found[d].append(Downtime(event.at_s, event.at_s + event.repair_s, event.kind == "node"))
        return tuple(tuple(sorted(mine)) for mine in found)


def _lives(rng: np.random.Generator, mtbf_s: float, mttr_s: float, horizon_s: float) -> list[tuple[float, float]]:
    """(down, up) of one device or node up to a horizon."""
    if horizon_s / (mtbf_s + mttr_s) > MOST_FAILURES:
        raise InputError(
            f"failures: {horizon_s:g} s hold {horizon_s / (mtbf_s + mttr_s):.2g} failures of one device; expected at "
            f"most {MOST_FAILURES:.0e}: give mtbf and mttr in seconds"
        )
    found: list[tuple[float, float]] = []
    at = float(rng.exponential(mtbf_s))
    while at <= horizon_s:
        up = at + float(rng.exponential(mttr_s))
        if up > at:
            found.append((at, up))
        at = up + float(rng.exponential(mtbf_s))
    return found
