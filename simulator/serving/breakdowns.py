"""From devices that fail to `Outages` of a placement: a group is away until all its devices are back and loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ...errors import InputError
from ...profiles.profile import ModelProfile
from ...reprs import Shown
from ..cluster import Cluster
from ..failures import Downtimes, Failures
from ..placement import Placement
from .loading import Load, Loading
from .outages import Outages

__all__ = ["Breakdowns", "cold_start_s", "start_s"]


@dataclass(frozen=True, slots=True, repr=False)
class Breakdowns(Shown):
    """Machines that fail under a placement; `outages` gives those of one run.

    A group is away from the failure of any of its devices until all are back, and for as long again as loading its
    weights takes. A device that fails while the group loads begins another outage, which ends with another load.
    Groups whose devices come back at one instant load at once, and share what they load from. A device failure leaves
    the weights in its host's memory, as far as `Loading.cache` keeps those of the node's devices (lowest device
    first); a node failure takes them, of all nodes of a group that was away for it.

    Parameters
    ----------
    failures : Failures, optional
        What fails. If left out, nothing: groups begin with a cold start.
    loading : Loading, optional
        What loading costs; nothing if left out.
    in_flight : {"retried", "lost"}
        What becomes of the requests that a group held.
    cold_start : bool
        Whether groups begin without weights: they are away from time 0 until they are loaded, from empty hosts.

    Raises
    ------
    InputError
        If a cold start is asked for without saying what loading costs.
    """

    failures: Failures | None = None
    loading: Loading | None = None
    in_flight: Literal["retried", "lost"] = "retried"
    cold_start: bool = False

    def __post_init__(self) -> None:
        if self.cold_start and self.loading is None:
            raise InputError("loading: a cold start needs the bandwidths that weights are loaded at; give loading.disk")

    def outages(
        self, placement: Placement, cluster: Cluster, profiles: Mapping[str, ModelProfile], horizon_s: float, seed: int
    ) -> Outages:
        """When the groups are away in one run of `horizon_s` seconds.

        Raises
        ------
        InputError
            If a scripted failure names what is not there.
        """
        rows: list[tuple[int, float, float]] = []
        if self.cold_start:
            ready = _together(
                placement, range(len(placement.groups)), cluster, profiles, self.loading, hosts_empty=True
            )
            rows += [(g, 0.0, seconds) for g, seconds in ready.items()]
        if self.failures is not None:
            downtimes = self.failures.draw(placement, cluster.n_devices, cluster.devices_per_node, horizon_s, seed)
            rows += self._of_failures(placement, cluster, profiles, downtimes)
        rows = [row for row in rows if row[2] > row[1]]
        rows.sort()
        group = np.array([g for g, _, _ in rows], dtype=np.int64)
        return Outages(group, [down for _, down, _ in rows], [up for _, _, up in rows], self.in_flight)

    def _of_failures(
        self, placement: Placement, cluster: Cluster, profiles: Mapping[str, ModelProfile], downtimes: Downtimes
    ) -> list[tuple[int, float, float]]:
        spans: list[tuple[float, float, bool, int]] = []  # up, down, whether a host's memory was lost, group
        for g, group in enumerate(placement.groups):
            mine = sorted(span for d in group.devices or () for span in downtimes[d])
            merged: list[tuple[float, float, bool]] = []
            for down, up, host in mine:
                if merged and down <= merged[-1][1]:
                    begun, until, lost = merged[-1]
                    merged[-1] = (begun, max(until, up), lost or host)
                else:
                    merged.append((down, up, host))
            spans += [(up, down, host, g) for down, up, host in merged]
        rows: list[tuple[int, float, float]] = []
        back: dict[tuple[float, bool], list[tuple[int, float]]] = {}
        for up, down, host, g in spans:
            back.setdefault((up, host), []).append((g, down))
        for (up, host), groups in back.items():
            ready = _together(placement, [g for g, _ in groups], cluster, profiles, self.loading, hosts_empty=host)
            rows += [(g, down, up + ready[g]) for g, down in groups]
        return rows


def cold_start_s(
    placement: Placement, cluster: Cluster, profiles: Mapping[str, ModelProfile], loading: Loading
) -> list[float]:
    """Seconds until each group serves if all begin to load at once, from empty hosts."""
    ready = _together(placement, range(len(placement.groups)), cluster, profiles, loading, hosts_empty=True)
    return [ready[g] for g in range(len(placement.groups))]


def start_s(
    placement: Placement, group: int, cluster: Cluster, profiles: Mapping[str, ModelProfile], loading: Loading | None
) -> float:
    """Seconds until a group serves that begins to load alone, from empty hosts; 0 if loading costs nothing."""
    return _together(placement, [group], cluster, profiles, loading, hosts_empty=True)[group]


def _together(
    placement: Placement,
    groups: range | list[int],
    cluster: Cluster,
    profiles: Mapping[str, ModelProfile],
    loading: Loading | None,
    *,
    hosts_empty: bool,
) -> dict[int, float]:
    """Seconds until each of `groups` serves, if they begin to load at one instant."""
    if loading is None:
        return dict.fromkeys(groups, 0.0)
    kept = {} if hosts_empty else _kept(placement, cluster, profiles, loading.cache)
    loads: list[tuple[int, Load]] = []
    for g in groups:
        group = placement.groups[g]
        each = group.memory_bytes(profiles)
        for place, device in enumerate(group.devices or ()):
            weights = each[place // group.config.op]
            warm = min(kept.get(device, 0.0), weights)
            loads.append((g, Load(cluster.node_of(device), weights - warm, warm)))
    ready = dict.fromkeys(groups, loading.start_s)
    for (g, _), seconds in zip(loads, loading.seconds([load for _, load in loads]), strict=True):
        ready[g] = max(ready[g], loading.start_s + seconds)
    return ready


def _kept(
    placement: Placement, cluster: Cluster, profiles: Mapping[str, ModelProfile], cache: float
) -> dict[int, float]:
    """Bytes of each device's weights that its host's memory holds; devices of a node in their order."""
    held: dict[int, float] = {}
    left: dict[int, float] = {}
    weights = {
        device: each[place // group.config.op]
        for group in placement.groups
        for each in [group.memory_bytes(profiles)]
        for place, device in enumerate(group.devices or ())
    }
    for device in sorted(weights):
        node = cluster.node_of(device)
        held[device] = min(weights[device], left.get(node, cache))
        left[node] = left.get(node, cache) - held[device]
    return held
