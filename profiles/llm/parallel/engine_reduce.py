"""How long an engine's all-reduce takes where no table says it: vLLM's own kernels over NVLink, NCCL's over the rest.

vLLM's kernels (``custom_all_reduce.cuh``) read all peers' buffers at once, in one shot below the sizes of `ONE_SHOT`,
in two from there on, and leave 8 MiB and more to NCCL. Each is a fixed time and bytes at a share of the links' rate.
The constants are rounded from the public tables of A100s and H100s at 2, 4 and 8 devices (aiconfigurator, vLLM 0.14.0);
those of H200s, which they were not chosen by, lie 2 and 3 % (2 and 4 devices) and 12 % (8) off in the median.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...hardware import LinkSpec

__all__ = ["NCCL_BYTES", "NCCL_SHARE", "ROUGH_S", "SLOW", "SWITCHED", "engine_all_reduce", "group_latency", "priced"]

NCCL_BYTES = 8 * 2**20
"""From this message on, vLLM's own all-reduce leaves the work to NCCL's; its tables jump there."""
ONE_SHOT = {4: 2**19, 8: 2**18}
"""Largest group -> bytes from which on it takes two shots; groups of two never do (``custom_all_reduce.cuh``)."""
SWITCHED = 130e9
"""Links from this rate on, bytes per second in one direction, are NVLink or its like: PCIe 6.0 x16 gives 128 GB/s.
Without such links vLLM turns its own kernels off above two devices."""
ROUGH_S = 10e-6
"""What shipped devices and data sheets say of a message within a node: an order of magnitude, not a measurement."""
SLOW = 1.5
"""How many times slower than this law a measured point may be: of all public ones but seven of H200s lie below 1.4."""
LATENCY_S, STEP_S, EACH_S, NCCL_S = 4.5e-6, 5.5e-6, 0.85e-6, 25e-6
ONCE_SHARE, TWICE_SHARE, NCCL_SHARE = 0.65, 0.68, 0.70
GROWTH = 0.23
"""What each further device adds to the latency of NCCL's small all-reduces, as a share of that of two: 1.46 and 2.4
times it at 4 and 8 devices; measured 1.45 and 2.3 on A100s, 1.55 and 2.5 on H100s."""


def priced(link: LinkSpec) -> bool:
    """Whether the law holds for a link: NVLink or its like, whose latency nobody measured or gave."""
    return link.bandwidth_bytes_per_s >= SWITCHED and link.latency_s == ROUGH_S


def engine_all_reduce(moved: Any, group: int, bytes_per_s: float) -> Any:
    """Seconds of one all-reduce among the devices of one node over NVLink.

    Parameters
    ----------
    moved : array of float
        Bytes of the message.
    group : int
        Devices, from 2 on.
    bytes_per_s : float
        Rate of the links by the data sheet, one direction.
    """
    size = np.asarray(moved, dtype=float)
    ring = 2 * (group - 1) / group * size / bytes_per_s
    once = LATENCY_S + (group - 1) * size / (ONCE_SHARE * bytes_per_s)
    twice = STEP_S + EACH_S * group + ring / TWICE_SHARE
    limit = NCCL_BYTES if group == 2 else next((n for most, n in ONE_SHOT.items() if group <= most), 0)
    return np.where(size < limit, once, np.where(size < NCCL_BYTES, twice, NCCL_S + ring / NCCL_SHARE))


def group_latency(latency_s: float, group: int) -> float:
    """Latency of NCCL's all-reduce of so many devices from that of two."""
    return latency_s * (1 + GROWTH * max(0, group - 2))
