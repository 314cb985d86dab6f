"""The link between the devices of tables by layer, which hold no communication: given, measured, or assumed by name."""

from __future__ import annotations

from dataclasses import dataclass

from ...hardware import LinkSpec, device
from ..parallel.engine_reduce import NCCL_SHARE, ROUGH_S, SWITCHED, group_latency

__all__ = ["PCIE", "Link", "link_between"]

PCIE = LinkSpec(36.5e9, 14e-6)
"""NCCL's all-reduce between two GPUs on PCIe 5.0 x16: the line through LLMServingSim's published measurements of one
such machine (13 us at 4 KB, 30 at 512 KB, 587 at 21 MB). Another recorder of such a machine states 16 GB/s and 20 us,
so whatever rests on this is said first."""
NAMES = (
    ("GB200", "gb200-186gb"),
    ("B200", "b200-180gb"),
    ("H200", "h200-141gb"),
    ("H100 80GB HBM3", "h100-80gb"),
    ("H100-SXM", "h100-80gb"),
    ("H100_SXM", "h100-80gb"),
    ("A100-SXM4", "a100-80gb"),
)
"""Words of drivers' names that only devices on NVLink have -> the shipped device. H100s on PCIe have HBM2e."""


@dataclass(frozen=True, slots=True)
class Link:
    """A link, and what is to be said of it.

    Parameters
    ----------
    spec : LinkSpec
        The link.
    assumed : str
        What it was taken for; empty where somebody gave or measured it.
    """

    spec: LinkSpec
    assumed: str = ""


def link_between(given: LinkSpec | None, measured: LinkSpec | None, names: str, group: int) -> Link:
    """The link that all-reduces of a group run over.

    Parameters
    ----------
    given : LinkSpec, optional
        What the caller says; counts as it is.
    measured : LinkSpec, optional
        The line through NCCL's all-reduces of two devices. Over NVLink the engine has kernels of its own, which start
        sooner: the rate counts, and not the latency. Elsewhere the latency grows with the group.
    names : str
        Names of the device, by which a link is assumed where there is neither.
    group : int
        Devices of a group, from 2 on.
    """
    if given is not None:
        return Link(given)
    if measured is not None:
        if measured.bandwidth_bytes_per_s >= SWITCHED:
            return Link(LinkSpec(measured.bandwidth_bytes_per_s / NCCL_SHARE, ROUGH_S))
        return Link(LinkSpec(measured.bandwidth_bytes_per_s, group_latency(measured.latency_s, group)))
    found = next((shipped for word, shipped in NAMES if word.lower() in names.lower()), None)
    if found is not None and "H200 NVL" not in names:  # a PCIe card
        spec = device(found).intra_node
        return Link(spec, f"NVLink of {found}, {spec.bandwidth_bytes_per_s / 1e9:.0f} GB/s, by the tables' name")
    spec = LinkSpec(PCIE.bandwidth_bytes_per_s, group_latency(PCIE.latency_s, group))
    who = "two" if group == 2 else str(group)
    figures = f"{spec.bandwidth_bytes_per_s / 1e9:.1f} GB/s and {1e6 * spec.latency_s:.0f} us"
    return Link(spec, f"that of NCCL between {who} GPUs on PCIe 5.0 x16, {figures}")
