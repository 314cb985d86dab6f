"""`DeviceSpec`: a device's memory, rates and links; `device` finds one by name or in a file."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
import difflib
import math
from dataclasses import dataclass

from ..errors import InputError
from ..reprs import Shown

__all__ = ["DeviceSpec", "LinkSpec", "device"]


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
        Memory on the device as its driver reports it, bytes.
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
    fp8_flops, fp4_flops : float
        Dense peaks in 8 and 4 bits; 0 where the device has no such units.
    watts : float
        Most power that the board takes; 0 for unknown.

    Raises
    ------
    InputError
        On a memory, price, power or further peak out of its range.
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
    fp8_flops: float = 0.0
    fp4_flops: float = 0.0
    watts: float = 0.0

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
        for name in ("price_per_hour", "fp8_flops", "fp4_flops", "watts"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InputError(
                    f"DeviceSpec {self.name!r}: {name}: expected a finite number >= 0 (got {getattr(self, name)})"
                )


def device(name: str) -> DeviceSpec:
    """A shipped device by name, or the device of a YAML or JSON file (`device_file.read_device`).

    Upper case, ``_`` for ``-`` and a missing memory are understood where one device is meant: ``H100_SXM``, ``l40s``.

    Raises
    ------
    InputError
        If no such device is shipped; the message names the nearest one.
    """
    from .devices import DEVICES

    if name in DEVICES:
        return DEVICES[name]
    if str(name).lower().endswith((".yaml", ".yml", ".json")):
        from .device_file import read_device

        return read_device(name)
    short = str(name).lower().replace("_", "-").removesuffix("-sxm")
    meant = [known for known in DEVICES if known == short or known.startswith(f"{short}-")]
    if len(meant) == 1:
        return DEVICES[meant[0]]
    near = [n for n in DEVICES if n.startswith(short)] or difflib.get_close_matches(short, DEVICES, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known devices: {', '.join(DEVICES)}"
    if meant:
        hint = f"several begin so: {', '.join(meant)}"
    raise InputError(f"device: unknown device {name!r}; {hint}; a file that describes one works, too (my-gpu.yaml)")
