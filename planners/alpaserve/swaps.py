"""What Clockwork++ pays where swapping costs: which device holds what, what it must load, and whether that pays."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment

from ...simulator.placement import Group, Placement, PlacementSchedule
from ...simulator.serving.loading import Load, Loading
from ...simulator.serving.simulate import simulate
from ...traces.trace import Trace
from .instance import Instance

__all__ = ["Swaps"]


class Swaps:
    """Placements of single devices that follow one another.

    Parameters
    ----------
    instance : Instance
        The problem.
    loading : Loading
        What loading costs. Hosts begin empty, and the first placement is there: its weights cost nothing.
    """

    def __init__(self, instance: Instance, loading: Loading) -> None:
        self.instance, self.loading = instance, loading
        self._hosts: dict[int, OrderedDict[str, float]] = {}

    def schedule(
        self, starts: Sequence[float], bounds: Sequence[int], wanted: Sequence[Placement], clairvoyant: bool
    ) -> PlacementSchedule:
        """The schedule that changes to the next wanted placement where that pays.

        Parameters
        ----------
        starts : sequence of float
            Beginnings of the windows, seconds.
        bounds : sequence of int
            First request of each window, and the number of requests.
        wanted : sequence of Placement
            What a swap at no cost would have in each window.
        clairvoyant : bool
            Whether a window is judged by its own requests, or by those of the window before.
        """
        placements, loads = [wanted[0]], [dict[int, float]()]
        self._keep(wanted[0])
        for k in range(1, len(starts)):
            held = placements[-1]
            aligned = self._aligned(held, wanted[k])
            load_s = self._load_s(held, aligned)
            seen = k if clairvoyant else k - 1
            rows = slice(bounds[seen], bounds[seen + 1])
            if not load_s or self._attained(aligned, load_s, rows, starts[seen]) <= self._attained(
                held, {}, rows, starts[seen]
            ):
                aligned, load_s = held, {}
            placements.append(aligned)
            loads.append(load_s)
            self._keep(aligned)
        return PlacementSchedule(starts, placements, carry=True, load_s=loads)

    def _bytes(self, group: Group, names: Sequence[str]) -> float:
        return sum(self.instance.profiles[name].weight_bytes(group.config)[0] for name in names)

    def _aligned(self, held: Placement, wanted: Placement) -> Placement:
        """The wanted groups on the devices that hold most of their weights already."""
        kept = np.array(
            [
                [self._bytes(new, [m for m in new.models if m in old.models]) for old in held.groups]
                for new in wanted.groups
            ]
        )
        rows, columns = linear_sum_assignment(kept, maximize=True)
        groups: list[Group] = list(held.groups)
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
            new = wanted.groups[row]
            groups[column] = Group(new.config, new.models, held.groups[column].devices)
        return Placement(groups)

    def _load_s(self, held: Placement, wanted: Placement) -> dict[int, float]:
        """Seconds that each device loads what it does not hold, all beginning at once."""
        devices: list[int] = []
        loads: list[Load] = []
        for old, new in zip(held.groups, wanted.groups, strict=True):
            (device,) = new.devices or (0,)
            node = self.instance.cluster.node_of(device)
            missing = [m for m in new.models if m not in old.models]
            warm = self._bytes(new, [m for m in missing if m in self._hosts.get(node, {})])
            whole = self._bytes(new, missing)
            if missing:
                devices.append(device)
                loads.append(Load(node, whole - warm, warm))
        seconds = [self.loading.start_s + s for s in self.loading.seconds(loads)]
        return {d: s for d, s in zip(devices, seconds, strict=True) if s > 0}

    def _keep(self, placement: Placement) -> None:
        """Hosts keep what their devices hold now; what was used longest ago goes first."""
        for group in placement.groups:
            (device,) = group.devices or (0,)
            host = self._hosts.setdefault(self.instance.cluster.node_of(device), OrderedDict())
            for name in group.models:
                host[name] = self._bytes(group, [name])
                host.move_to_end(name)
            while host and sum(host.values()) > self.loading.cache:
                host.popitem(last=False)

    def _attained(self, placement: Placement, load_s: dict[int, float], rows: slice, start: float) -> int:
        """Requests of a window that are attained if it begins with idle devices and this loading."""
        trace, i = self.instance.trace, self.instance
        if rows.start == rows.stop:
            return 0
        window = Trace(trace.arrival[rows] - start, trace.model[rows], trace.models, trace.slo[rows])
        schedule = PlacementSchedule([0.0], [placement], carry=True, load_s=[load_s])
        result = simulate(
            schedule, window, i.profiles, dispatch=i.dispatch, admission=i.admission, overhead=i.overhead
        )  # fmt: skip
        return int(result.attained.sum())
