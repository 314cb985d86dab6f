"""The devices of an LLM case: one cluster, or pools of several device types."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...errors import InputError
from ...profiles.devices import DEVICES
from ...profiles.hardware import DeviceSpec, LinkSpec
from ...simulator.cluster import Cluster
from ...simulator.mixed import MixedCluster
from .case import LLMCase
from .links import links_of, with_link

if TYPE_CHECKING:
    from .data import LLMData

__all__ = ["check_types", "cluster_of", "fleet_of", "mixes", "names_of"]

MIXED = ("cost", "energy")
"""Objectives that ask what devices count, so that mixes of types are looked at."""


def mixes(case: LLMCase) -> bool:
    """Whether a case is planned among mixes of device types (`planners.vllm.mixes`)."""
    return bool(case.cluster.pools) or case.planner.objective in MIXED


def names_of(case: LLMCase) -> tuple[tuple[str, str], ...]:
    """Path of every field that names a device type, and the name."""
    c = case.cluster
    return (("cluster.device", c.device), *(("cluster.pools", name) for name in c.pools))


def cluster_of(case: LLMCase, data: LLMData) -> Cluster:
    """The devices of the case's own type: full nodes, or where these do not come out even the largest equal nodes.

    Raises
    ------
    InputError
        If the link of another type is said.
    """
    links = _links(case, data)
    return _cluster(case.cluster.devices, case, with_link(data.devices[case.cluster.device], links))


def fleet_of(case: LLMCase, data: LLMData) -> MixedCluster:
    """All devices; those of the case's own type at the price that it says, all with the links that it says.

    Raises
    ------
    InputError
        If a type is named twice, or the link of another type is said.
    """
    check_types(case, data)
    c, links = case.cluster, _links(case, data)
    own = data.devices[c.device]
    if c.price_per_hour is not None:
        own = replace(own, price_per_hour=c.price_per_hour)
    further = [_cluster(n, case, with_link(data.devices[name], links)) for name, n in c.pools.items()]
    return MixedCluster((_cluster(c.devices, case, with_link(own, links)), *further))


def check_types(case: LLMCase, data: LLMData) -> None:
    """See that no type is named twice.

    Raises
    ------
    InputError
        Naming it.
    """
    own = data.devices[case.cluster.device].name
    if own in (data.devices[name].name for name in case.cluster.pools):
        raise InputError(f"cluster.pools: {own} is the type of cluster.device already; say all of it in one place")


def _links(case: LLMCase, data: LLMData) -> dict[str, LinkSpec]:
    links, there = links_of(case, data), [data.devices[name].name for _, name in names_of(case)]
    other = next((name for name in links if name not in there), None)
    if other is not None:
        raise InputError(f"cluster.link: no device is a {other}; there are {', '.join(there)}")
    return links


def _cluster(devices: int, case: LLMCase, spec: DeviceSpec) -> Cluster:
    per_node = next(n for n in range(min(devices, case.cluster.devices_per_node), 0, -1) if devices % n == 0)
    known: Any = spec.name if DEVICES.get(spec.name) == spec else spec
    return Cluster(devices // per_node, per_node, known)
