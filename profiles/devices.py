"""The shipped devices (`DEVICES`): accelerators by their vendors' data sheets, and a core.

Rates are dense ones: of two figures that a data sheet gives, the one without sparsity. Memory is what the driver's
tool reports (``nvidia-smi``, ``rocm-smi``), which is below what is printed on the box. Prices are those of one device
in a rented node, on demand, where one is named; they change, and 0 stands for unknown.
"""

from __future__ import annotations

from .hardware import DeviceSpec, LinkSpec

__all__ = ["DEVICES"]

GIB, MIB = 2**30, 2**20
LINK_S, FAR_S = 10e-6, 30e-6  # orders of magnitude of a message within a node and between nodes
USABLE = 0.92
"""Share of the memory that is left for weights where nobody measured it: what 74 of 80 GiB are; a guess."""

# name, memory, usable, bf16 FLOP/s, memory B/s, intra-node B/s, inter-node B/s, price an hour, devices per adapter,
# source
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
        *("h200-141gb", 143771 * MIB, None, 989e12, 4800e9, 450e9, 50e9, 13.0, 1),
        "NVIDIA H200 SXM datasheet; 143,771 MiB: nvidia-smi",
    ),
    (
        *("b200-180gb", 183359 * MIB, None, 2250e12, 8000e9, 900e9, 50e9, 14.24, 1),
        "NVIDIA HGX B200 datasheet (72 PFLOP/s fp4 dense of eight); 183,359 MiB: nvidia-smi; p6-b200.48xlarge's price",
    ),
    (
        *("gb200-186gb", 189471 * MIB, None, 2500e12, 8000e9, 900e9, 50e9, 0.0, 1),
        "NVIDIA GB200 NVL72 datasheet (360 TB/s and 720 PFLOP/s fp8 sparse of 72); 189,471 MiB: nvidia-smi",
    ),
    (
        *("l4-24gb", 23034 * MIB, None, 121e12, 300e9, 32e9, 12.5e9, 0.71, 0),
        "NVIDIA L4 datasheet (sparse figures halved), PCIe 4.0 x16; 23,034 MiB: nvidia-smi; g2-standard-4's price",
    ),
    (
        *("l40s-48gb", 46068 * MIB, None, 362.05e12, 864e9, 32e9, 25e9, 1.86, 0),
        "NVIDIA L40S datasheet, PCIe 4.0 x16; 46,068 MiB: nvidia-smi; g6e.xlarge's price",
    ),
    (
        *("rtx-4090-24gb", 24564 * MIB, None, 165.2e12, 1008e9, 32e9, 12.5e9, 0.0, 0),
        "NVIDIA Ada whitepaper (products summed up in fp32), PCIe 4.0 x16; 24,564 MiB: nvidia-smi",
    ),
    (
        *("rtx-pro-6000-96gb", 97887 * MIB, None, 467.8e12, 1792e9, 64e9, 50e9, 0.0, 0),
        "NVIDIA RTX PRO 6000 Blackwell Server Edition at 2,430 MHz, PCIe 5.0 x16; 97,887 MiB: nvidia-smi; all as "
        "aiconfigurator's rtx_pro_6000_server.yaml states them",
    ),
    (
        *("mi300x-192gb", 196592 * MIB, None, 1307.4e12, 5300e9, 448e9, 50e9, 0.0, 1),
        "AMD MI300X datasheet, seven links of 64 GB/s each way; 196,592 MiB: rocm-smi",
    ),
    (
        *("mi325x-256gb", 262128 * MIB, None, 1307.4e12, 6000e9, 448e9, 50e9, 0.0, 1),
        "AMD MI325X datasheet, seven links of 64 GB/s each way; 262,128 MiB: rocm-smi",
    ),
    (
        *("cpu-core", 4 * GIB, 3 * GIB, 80e9, 10e9, 2e9, 1e9, 0.0, 0),
        "order of magnitude for one server core; `meshwright measure` replaces it",
    ),
)

# name -> dense FLOP/s in fp8 and in fp4, watts; same data sheets
_MORE = {
    "v100-16gb": (0.0, 0.0, 300.0),
    "v100-32gb": (0.0, 0.0, 300.0),
    "a100-40gb": (0.0, 0.0, 400.0),
    "a100-80gb": (0.0, 0.0, 400.0),
    "h100-80gb": (1978e12, 0.0, 700.0),
    "h200-141gb": (1978e12, 0.0, 700.0),
    "b200-180gb": (4500e12, 9000e12, 1000.0),
    "gb200-186gb": (5000e12, 10000e12, 1200.0),
    "l4-24gb": (242.5e12, 0.0, 72.0),
    "l40s-48gb": (733e12, 0.0, 350.0),
    "rtx-4090-24gb": (330.3e12, 0.0, 450.0),
    "rtx-pro-6000-96gb": (935.6e12, 1871.2e12, 600.0),
    "mi300x-192gb": (2614.9e12, 0.0, 750.0),
    "mi325x-256gb": (2614.9e12, 0.0, 1000.0),
}

DEVICES: dict[str, DeviceSpec] = {
    name: DeviceSpec(
        name,
        memory,
        round(USABLE * memory) if usable is None else usable,
        flops,
        memory_rate,
        LinkSpec(intra, LINK_S),
        LinkSpec(inter, FAR_S),
        source,
        price,
        shared,
        *_MORE.get(name, (0.0, 0.0, 0.0)),
    )
    for name, memory, usable, flops, memory_rate, intra, inter, price, shared, source in _ROWS
}
"""Name -> device."""
