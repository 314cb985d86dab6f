"""What device measurements were taken on: its name, clock and memory, and what it can do at best."""

from __future__ import annotations

import math
import os
import platform
from dataclasses import dataclass, replace
from pathlib import Path

from ..devices import DEVICES
from ..hardware import DeviceSpec, LinkSpec, device
from .pool import Worker, WorkerPool

__all__ = ["DeviceFacts", "cited_spec", "device_facts", "measure_device"]

USABLE = 0.75
"""Share of a core's memory that may hold weights; the rest is activations, torch and the system."""


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What one worker found out about its device.

    Parameters
    ----------
    name : str
        CPU model or GPU name.
    clock : str
        Clock rate and what timed.
    memory_bytes, free_bytes : int
        Memory of the device (of the whole machine for a CPU), and what is free of it, bytes.
    versions : dict of str to str
        Versions of Python, torch and, on a GPU, CUDA.
    """

    name: str
    clock: str
    memory_bytes: int
    free_bytes: int
    versions: dict[str, str]


def device_facts(worker: Worker) -> DeviceFacts:
    """The facts of this worker's device."""
    import torch

    from ...kernels.timing import clock_note

    versions = {"python": platform.python_version(), "torch": str(torch.__version__)}
    if worker.device.startswith("cuda"):
        versions["cuda"] = str(torch.version.cuda)
        free, total = torch.cuda.mem_get_info(worker.device)
        name = torch.cuda.get_device_name(worker.device)
        return DeviceFacts(name, clock_note(worker.device), total, free, versions)
    rate = _proc_field("cpuinfo", "cpu MHz")
    clock = clock_note(worker.device) + (f", core at {float(rate):.0f} MHz" if rate else "")
    total, free = _memory()
    name = _proc_field("cpuinfo", "model name") or platform.processor() or platform.machine()
    return DeviceFacts(name, clock, total, free, versions)


def _proc_field(file: str, field: str) -> str:
    """First value of a field of a /proc file; "" where there is none (other systems than Linux)."""
    path = Path("/proc") / file
    if not path.is_file():
        return ""
    for line in path.read_text("utf-8", errors="replace").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == field:
            return value.strip()
    return ""


def _memory() -> tuple[int, int]:
    """Total and available memory of the machine, bytes."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    available = _proc_field("meminfo", "MemAvailable").removesuffix("kB").strip()
    return total, int(available) * 1024 if available else total // 2


def cited_spec(facts: DeviceFacts, kind: str) -> DeviceSpec:
    """The shipped spec of the device: by name for a known GPU, else the one whose memory is nearest."""
    if kind == "cpu":
        return device("cpu-core")
    words = facts.name.lower().replace("-", " ").split()
    gpus = [spec for spec in DEVICES.values() if spec.name != "cpu-core"]
    named = [spec for spec in gpus if any(spec.name.split("-")[0] in word for word in words)]
    return min(named or gpus, key=lambda spec: abs(spec.memory_bytes - facts.memory_bytes))


def measure_device(pool: WorkerPool, facts: DeviceFacts, link: LinkSpec, kind: str) -> DeviceSpec:
    """A device spec whose memory, peak rate, memory bandwidth and links are those measured here, all devices busy."""
    rates = pool.call(_rates)
    peak, bandwidth = (min(column) for column in zip(*rates, strict=True))
    memory = facts.memory_bytes // os_cores() if kind == "cpu" else facts.memory_bytes
    cited = cited_spec(facts, kind)
    if math.isinf(link.bandwidth_bytes_per_s):  # no size took longer than another; a plan needs a finite figure
        link = replace(link, bandwidth_bytes_per_s=cited.intra_node.bandwidth_bytes_per_s)
    return replace(
        cited,
        memory_bytes=memory,
        usable_memory_bytes=int(USABLE * memory) if kind == "cpu" else min(cited.usable_memory_bytes, memory),
        peak_flops=peak,
        memory_bandwidth_bytes_per_s=bandwidth,
        intra_node=link,
        source=f"measured on {facts.name}, all devices busy; links between nodes: {cited.source}",
    )


def os_cores() -> int:
    """Cores of the machine, which share its memory."""
    return os.cpu_count() or 1


def _rates(worker: Worker) -> tuple[float, float]:
    """Matrix-product FLOP/s and copy bytes/s of this worker's device."""
    from ...kernels.bandwidth import copy_bandwidth, matmul_peak

    dtype, size = ("float16", 4096) if worker.device.startswith("cuda") else ("float32", 768)
    worker.barrier()
    peak = matmul_peak(worker.device, dtype=dtype, size=size, budget_s=0.3)
    worker.barrier()
    return peak, copy_bandwidth(worker.device, budget_s=0.3)
