"""`DeviceSpec`: a device's memory, rates and links, and the shipped ones (`DEVICES`)."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
import difflib
from dataclasses import dataclass

from ..errors import InputError
from ..reprs import Shown

__all__ = ["DEVICES", "DeviceSpec", "LinkSpec", "device"]

GIB = 2**30


@dataclass(frozen=True, slots=True, repr=False)
class LinkSpec(Shown):
    """One class of link between two devices.

    Parameters
    ----------
    bandwidth_bytes_per_s : float
        Sustained bandwidth in one direction, bytes per second.
    latency_s : float
        Fixed cost of one message, seconds.
    """

    bandwidth_bytes_per_s: float
    latency_s: float

    def __post_init__(self) -> None:
        if not self.bandwidth_bytes_per_s > 0:
            raise InputError(f"LinkSpec.bandwidth_bytes_per_s: expected > 0 (got {self.bandwidth_bytes_per_s})")
        if not self.latency_s >= 0:
            raise InputError(f"LinkSpec.latency_s: expected >= 0 (got {self.latency_s})")

    def time(self, n_bytes: float) -> float:
        """Seconds that one message of `n_bytes` takes (latency-bandwidth model)."""
        return self.latency_s + n_bytes / self.bandwidth_bytes_per_s


@dataclass(frozen=True, slots=True, repr=False)
class DeviceSpec(Shown):
    """One type of device.

    Parameters
    ----------
    name : str
        Name of the device, which clusters and plans use.
    memory_bytes : int
        Memory on the device, bytes.
    usable_memory_bytes : int
        What is left for weights after activations and the runtime's own context, bytes.
    peak_flops : float
        Dense half-precision (or, for CPUs, single-precision) peak, FLOP per second.
    memory_bandwidth_bytes_per_s : float
        Memory bandwidth, bytes per second.
    intra_node, inter_node : LinkSpec
        Links between devices of one node and of two nodes; the latter is one network adapter's.
    source : str
        Where the figures come from.
    price_per_hour : float
        Price of one device-hour, in whatever currency the user plans in; 0 for unknown.
    devices_per_adapter : int
        Adjacent devices of a node that share a network adapter; 0: all of them.
    """

    name: str
    memory_bytes: int
    usable_memory_bytes: int
    peak_flops: float
    memory_bandwidth_bytes_per_s: float
    intra_node: LinkSpec
    inter_node: LinkSpec
    source: str
    price_per_hour: float = 0.0
    devices_per_adapter: int = 0

    def __post_init__(self) -> None:
        shared = self.devices_per_adapter
        if isinstance(shared, bool) or not isinstance(shared, int) or shared < 0:
            raise InputError(
                f"DeviceSpec {self.name!r}: devices_per_adapter: expected an integer >= 0, 0 for all devices of a node "
                f"(got {shared!r})"
            )
        if not 0 < self.usable_memory_bytes <= self.memory_bytes:
            raise InputError(
                f"DeviceSpec {self.name!r}: expected 0 < usable_memory_bytes <= memory_bytes "
                f"(got {self.usable_memory_bytes} and {self.memory_bytes})"
            )


# name, memory, usable, FLOP/s, memory B/s, intra-node B/s, inter-node B/s, price per hour, devices per adapter, source
_ROWS = (
    (
        *("v100-16gb", 16 * GIB, 13 * GIB, 125e12, 900e9, 150e9, 3.1e9, 3.06, 0),
        "NVIDIA V100 SXM2 datasheet; p3.16xlarge 25 Gb/s network; 13 GiB usable: AlpaServe §6.2 footnote 6",
    ),
    (
        *("v100-32gb", 32 * GIB, 28 * GIB, 125e12, 900e9, 150e9, 3.1e9, 3.9, 0),
        "NVIDIA V100 SXM2 datasheet; p3dn network taken as p3.16xlarge's",
    ),
    (*("a100-40gb", 40 * GIB, 36 * GIB, 312e12, 1555e9, 300e9, 12.5e9, 4.1, 1), "NVIDIA A100 datasheet"),
    (*("a100-80gb", 80 * GIB, 74 * GIB, 312e12, 2039e9, 300e9, 12.5e9, 5.1, 1), "NVIDIA A100 80GB datasheet"),
    (*("h100-80gb", 80 * GIB, 74 * GIB, 989e12, 3350e9, 450e9, 50e9, 12.3, 1), "NVIDIA H100 SXM datasheet"),
    (
        *("h200-141gb", 141 * 10**9, 131 * 10**9, 989e12, 4800e9, 450e9, 50e9, 13.0, 1),
        "NVIDIA H200 SXM datasheet",
    ),
    (
        *("cpu-core", 4 * GIB, 3 * GIB, 80e9, 10e9, 2e9, 1e9, 0.0, 0),
        "order of magnitude for one server core; `meshwright measure` replaces it",
    ),
)

DEVICES: dict[str, DeviceSpec] = {
    name: DeviceSpec(
        name,
        memory,
        usable,
        flops,
        memory_rate,
        LinkSpec(intra, 10e-6),
        LinkSpec(inter, 30e-6),
        source,
        price,
        shared,
    )
    for name, memory, usable, flops, memory_rate, intra, inter, price, shared, source in _ROWS
}


def device(name: str) -> DeviceSpec:
    """Look up a shipped device by name.

    Raises
    ------
    InputError
        If no such device is shipped; the message names the nearest one.
    """
    try:
        return DEVICES[name]
    except KeyError:
        near = difflib.get_close_matches(str(name), DEVICES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known devices: {', '.join(DEVICES)}"
        raise InputError(f"device: unknown device {name!r}; {hint}") from None
