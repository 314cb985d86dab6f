"""Placements: which devices form a group, how the group is cut, and which models it holds."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

import numpy as np

from ..errors import InfeasibleError, InputError
from ..profiles.config import ParallelConfig
from ..profiles.profile import ModelProfile
from ..reprs import Shown
from .cluster import Cluster

__all__ = ["Group", "ParallelConfig", "Placement", "PlacementSchedule", "device_ranges", "model_runs"]


@dataclass(frozen=True, repr=False)
class Group(Shown):
    """Devices that share one parallel configuration and hold the same model replicas.

    Parameters
    ----------
    config : ParallelConfig
        How every model in the group is cut.
    models : sequence of str
        Models that the group holds, one replica each.
    devices : sequence of int, optional
        Devices of the group, stage by stage (`config.op` of them for each stage). Left out, a `Placement`
        hands out devices in order.
    """

    config: ParallelConfig
    models: tuple[str, ...] = ()
    devices: tuple[int, ...] | None = None

    def __init__(
        self, config: ParallelConfig, models: Iterable[str] = (), devices: Iterable[int] | None = None
    ) -> None:
        if not isinstance(config, ParallelConfig):
            raise InputError(f"Group.config: expected a ParallelConfig (got {config!r})")
        if isinstance(models, str):
            raise InputError(f"Group.models: expected a sequence of names (got the string {models!r})")
        names = tuple(models)
        if len(set(names)) != len(names):
            twice = next(m for m in names if names.count(m) > 1)
            raise InputError(f"Group.models: a group holds a model once (got {twice!r} twice)")
        given = None if devices is None else tuple(int(d) for d in devices)
        if given is not None and (len(given) != config.n_devices or len(set(given)) != len(given)):
            raise InputError(f"Group.devices: {config} needs {config.n_devices} distinct devices (got {given})")
        object.__setattr__(self, "config", config)
        object.__setattr__(self, "models", names)
        object.__setattr__(self, "devices", given)

    @property
    def n_devices(self) -> int:
        """Devices in the group."""
        return self.config.n_devices

    def stage_devices(self, stage: int) -> tuple[int, ...]:
        """Devices that run pipeline stage `stage`."""
        if self.devices is None:
            raise InputError("Group.stage_devices: the group has no devices yet; put it in a Placement first")
        op = self.config.op
        return self.devices[stage * op : (stage + 1) * op]

    def memory_bytes(self, profiles: Mapping[str, ModelProfile]) -> tuple[float, ...]:
        """Weight bytes on each device of each stage: the sum over the group's models, shape ``(pp,)``."""
        total = [0.0] * self.config.pp
        for name in self.models:
            for k, weight in enumerate(_profile(profiles, name).weight_bytes(self.config)):
                total[k] += weight
        return tuple(total)


@dataclass(frozen=True, repr=False)
class Placement(Shown):
    """A cluster group partition with a model selection and a parallel configuration for each group.

    Parameters
    ----------
    groups : sequence of Group
        The groups. Those without devices get the lowest free ones, in order.
    """

    groups: tuple[Group, ...]

    def __init__(self, groups: Iterable[Group]) -> None:
        given = tuple(groups)
        if not given:
            raise InputError("Placement: expected at least one group")
        taken: set[int] = set()
        for g, group in enumerate(given):
            if not isinstance(group, Group):
                raise InputError(f"Placement.groups[{g}]: expected a Group (got {type(group).__name__})")
            if group.devices is not None:
                both = taken.intersection(group.devices)
                if both:
                    raise InputError(f"Placement.groups[{g}]: device {min(both)} belongs to an earlier group")
                taken.update(group.devices)
        free = (d for d in range(sum(g.n_devices for g in given) + len(taken)) if d not in taken)
        placed = tuple(
            g if g.devices is not None
            else Group(g.config, g.models, [next(free) for _ in range(g.n_devices)])
            for g in given
        )  # fmt: skip
        object.__setattr__(self, "groups", placed)

    def _headline(self) -> str:
        kinds = Counter(str(group.config) for group in self.groups)
        said = ", ".join(f"{n} x {config}" for config, n in kinds.most_common(4)) + (" …" if len(kinds) > 4 else "")
        return f"{len(self.models)} models in {len(self.groups)} groups on {self.n_devices} devices: {said}"

    def shown_rows(self) -> Iterable[tuple[str, object]]:
        return [(f"group {k}: {g.config}", ", ".join(g.models)) for k, g in enumerate(self.groups[:50])]

    @property
    def n_devices(self) -> int:
        """Devices that the placement uses."""
        return sum(group.n_devices for group in self.groups)

    @property
    def models(self) -> tuple[str, ...]:
        """Models that are held somewhere, in order of first appearance."""
        return tuple(dict.fromkeys(name for group in self.groups for name in group.models))

    def groups_of(self, model: str) -> tuple[int, ...]:
        """Indices of the groups that hold `model`."""
        return tuple(g for g, group in enumerate(self.groups) if model in group.models)

    def check(self, cluster: Cluster, profiles: Mapping[str, ModelProfile]) -> None:
        """Check that the placement fits a cluster.

        Raises
        ------
        InputError
            If a group uses a device that the cluster does not have, or a model has no profile.
        InfeasibleError
            If the weights on a device exceed its usable memory; says by how much.
        OutOfProfileError
            If a model was not profiled under its group's configuration.
        """
        problems: list[str] = []
        for g, group in enumerate(self.groups):
            over = [d for d in group.devices or () if d < 0 or d >= cluster.n_devices]
            if over:
                raise InputError(
                    f"Placement.groups[{g}]: device {over[0]} does not exist; the cluster has {cluster.n_devices} "
                    f"devices ({cluster})"
                )
            for k, used in enumerate(group.memory_bytes(profiles)):
                if used > cluster.memory_bytes:
                    problems.append(
                        f"group {g}, stage {k}: weights need {used / 2**30:.2f} GiB on each device, "
                        f"{cluster.memory_bytes / 2**30:.2f} GiB are usable; take a model off it or cut it finer"
                    )
        if problems:
            raise InfeasibleError("Placement does not fit: " + "; ".join(problems))

    def __str__(self) -> str:
        return "\n".join(
            f"group {g}: {group.config} on devices {device_ranges(group.devices or ())}: "
            f"{', '.join(model_runs(group.models)) or '—'}"
            for g, group in enumerate(self.groups)
        )


@dataclass(frozen=True, repr=False)
class PlacementSchedule(Shown):
    """Placements that follow one another, as Clockwork++ re-places models at the boundary of two windows.

    A request is served by the placement that holds when it arrives. Changing it costs no time unless `load_s` says so.

    Parameters
    ----------
    starts : sequence of float
        When each placement begins, seconds, strictly increasing; the first is 0.
    placements : sequence of Placement
        One for each start.
    carry : bool
        False (the AlpaServe authors' rule): every device is free at a boundary, requests in flight finish beside
        the new ones. True: a stage of the new placement is free when the devices that it runs on are.
    load_s : sequence of Mapping, optional
        For each placement: device -> seconds that it loads weights which it does not hold yet. It loads when the
        placement begins and its last work is done, and works afterwards. Needs `carry`.
    """

    starts: tuple[float, ...]
    placements: tuple[Placement, ...]
    carry: bool = False
    load_s: tuple[Mapping[int, float], ...] | None = None

    def __init__(
        self,
        starts: Sequence[float],
        placements: Sequence[Placement],
        carry: bool = False,
        load_s: Sequence[Mapping[int, float]] | None = None,
    ) -> None:
        for i, placement in enumerate(placements):
            if not isinstance(placement, Placement):
                raise InputError(
                    f"PlacementSchedule.placements[{i}]: expected a Placement (got {type(placement).__name__})"
                )
        times = tuple(float(s) for s in starts)
        if len(times) != len(placements) or not times:
            raise InputError(
                f"PlacementSchedule: expected one start for each placement (got {len(times)} and {len(placements)})"
            )
        if times[0] != 0 or any(b <= a for a, b in pairwise(times)) or not np.isfinite(times).all():
            raise InputError(f"PlacementSchedule.starts: expected 0 = t0 < t1 < … (got {times[:5]})")
        object.__setattr__(self, "starts", times)
        object.__setattr__(self, "placements", tuple(placements))
        if load_s is not None and not carry:
            raise InputError("PlacementSchedule.load_s: devices that load are busy over a boundary; set carry=True")
        if load_s is not None and (
            len(load_s) != len(times) or not all(0 <= s < np.inf for one in load_s for s in one.values())
        ):
            raise InputError("PlacementSchedule.load_s: expected finite seconds >= 0 of devices for each placement")
        object.__setattr__(self, "carry", bool(carry))
        object.__setattr__(self, "load_s", None if load_s is None else tuple(MappingProxyType(dict(s)) for s in load_s))

    def __reduce__(self) -> tuple[type[PlacementSchedule], tuple[object, ...]]:
        """Make instances picklable for our own processes: a read-only view cannot be pickled as it is."""
        load_s = None if self.load_s is None else tuple(dict(one) for one in self.load_s)
        return PlacementSchedule, (self.starts, self.placements, self.carry, load_s)


def _profile(profiles: Mapping[str, ModelProfile], name: str) -> ModelProfile:
    try:
        return profiles[name]
    except KeyError:
        known = ", ".join(list(profiles)[:10])
        raise InputError(f"no profile for model {name!r}; profiled models: {known}") from None


def device_ranges(devices: Sequence[int]) -> str:
    """Devices in words: ``(0, 1, 2, 5)`` -> ``"0-2,5"``."""
    parts: list[str] = []
    start = previous = None
    for d in [*devices, None]:
        if previous is not None and d == previous + 1:
            previous = d
            continue
        if start is not None:
            parts.append(str(start) if start == previous else f"{start}-{previous}")
        start = previous = d
    return ",".join(parts)


def model_runs(names: Sequence[str]) -> list[str]:
    """``("a-0", "a-1", "a-2", "b")`` -> ``["a-0…2", "b"]``: instances of one model that follow one another as a run."""
    parts: list[tuple[str, int | None, int | None]] = []
    for name in names:
        stem, dash, number = name.rpartition("-")
        if not (dash and number.isdecimal() and str(int(number)) == number):
            parts.append((name, None, None))
            continue
        if parts and parts[-1][0] == stem and parts[-1][2] is not None and parts[-1][2] + 1 == int(number):
            parts[-1] = (stem, parts[-1][1], int(number))
        else:
            parts.append((stem, int(number), int(number)))
    return [
        stem if first is None else f"{stem}-{first}" if first == last else f"{stem}-{first}…{last}"
        for stem, first, last in parts
    ]
