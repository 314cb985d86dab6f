"""`place_submeshes`: devices for the submeshes of a plan (Alpa, §5.2 and Theorem 1 in Appendix A).

Submeshes that span whole hosts get consecutive hosts. The others, powers of two within one host, are laid out largest
first: each starts at a multiple of its own size, so none straddles two hosts and nothing is left over. Stages with the
same shape keep their order, so neighbours in the pipeline are neighbours in the cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import InputError
from ...reprs import Shown

__all__ = ["PlacedSubmesh", "place_submeshes"]


@dataclass(frozen=True, slots=True, repr=False)
class PlacedSubmesh(Shown):
    """A rectangle of the cluster.

    Parameters
    ----------
    first_host, first_device : int
        Its corner: the host, and the device within the host.
    hosts, devices : int
        Hosts of the rectangle, and its devices on each.
    """

    first_host: int
    first_device: int
    hosts: int
    devices: int

    def device_ids(self, devices_per_host: int) -> tuple[int, ...]:
        """Devices in row-major order, numbered host · devices_per_host + device."""
        return tuple(
            host * devices_per_host + device
            for host in range(self.first_host, self.first_host + self.hosts)
            for device in range(self.first_device, self.first_device + self.devices)
        )


def place_submeshes(
    submeshes: Sequence[tuple[int, int]], num_hosts: int, devices_per_host: int
) -> tuple[PlacedSubmesh, ...]:
    """Where each submesh lies; together they cover the cluster, each device once.

    Parameters
    ----------
    submeshes : sequence of (int, int)
        Hosts and devices per host of each stage's submesh, in pipeline order: (n, devices_per_host), or (1, 2^p).
    num_hosts, devices_per_host : int
        The cluster. If there are submeshes smaller than a host, a host must have a power of two devices.

    Raises
    ------
    InputError
        On a shape that the theorem does not allow, or if the devices do not add up to the cluster's.
    """
    if num_hosts < 1 or devices_per_host < 1:
        raise InputError(f"place_submeshes: the cluster has no devices (got {num_hosts} × {devices_per_host})")
    for stage, (hosts, devices) in enumerate(submeshes):
        whole = 1 <= hosts <= num_hosts and devices == devices_per_host
        part = hosts == 1 and 1 <= devices < devices_per_host and devices & (devices - 1) == 0
        if not whole and not (part and devices_per_host & (devices_per_host - 1) == 0):
            raise InputError(
                f"place_submeshes: stage {stage}: a submesh of {num_hosts} × {devices_per_host} is"
                f" (n, {devices_per_host}) or, where {devices_per_host} is a power of two, (1, a power of two)"
                f" (got ({hosts}, {devices}))"
            )
    used = sum(hosts * devices for hosts, devices in submeshes)
    if used != num_hosts * devices_per_host:
        raise InputError(
            f"place_submeshes: submeshes have {used} devices, the cluster {num_hosts * devices_per_host};"
            " every device must be used once"
        )
    # Largest first (Theorem 1); the sort is stable, so stages of one shape stay neighbours in pipeline order.
    order = sorted(range(len(submeshes)), key=lambda stage: -submeshes[stage][0] * submeshes[stage][1])
    placed: dict[int, PlacedSubmesh] = {}
    at = 0
    for stage in order:
        hosts, devices = submeshes[stage]
        placed[stage] = PlacedSubmesh(at // devices_per_host, at % devices_per_host, hosts, devices)
        at += hosts * devices
    return tuple(placed[stage] for stage in range(len(submeshes)))
