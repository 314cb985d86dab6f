"""The communication volumes of the thesis on cache parallelism exactly as printed, and where they are not ring terms.

Thesis §4.4: "communication volume per GPU", 1 byte per number, N GPUs, B requests in the batch, E the width of the
model, H attention heads, multi-head attention (keys and values as wide as queries).
"""

from __future__ import annotations

from dataclasses import dataclass

from ....errors import InputError
from .collectives import all_gather, all_reduce, all_to_all

__all__ = [
    "Difference",
    "ring_cp",
    "ring_tp",
    "thesis_all_gather",
    "thesis_all_reduces",
    "thesis_all_to_all",
    "thesis_cp",
    "thesis_differences",
    "thesis_tp",
]


@dataclass(frozen=True, slots=True)
class Difference:
    """One printed term beside the ring's.

    Parameters
    ----------
    term : str
        Name of the thesis' term.
    printed, ring : float
        Bytes that one GPU sends: as the thesis prints it, and by a ring (all-to-all: direct messages).
    reason : str
        What the printed term is instead, "" where both agree for every N.
    """

    term: str
    printed: float
    ring: float
    reason: str

    @property
    def factor(self) -> float:
        """Printed over ring."""
        return self.printed / self.ring


def thesis_all_gather(devices: int, batch: float, hidden: int) -> float:
    """All-gather of queries, keys and values as printed: ``(N - 1) 3 B E / N``."""
    return (devices - 1) * 3 * batch * hidden / devices


def thesis_all_to_all(devices: int, batch: float, hidden: int, heads: int) -> float:
    """All-to-all of partial results as printed: ``(N - 1) B (E + 2 H) / 2``."""
    return (devices - 1) * batch * (hidden + 2 * heads) / 2


def thesis_all_reduces(devices: int, batch: float, hidden: int) -> float:
    """Two all-reduces of tensor parallelism as printed: ``4 (N - 1) B E``."""
    return 4 * (devices - 1) * batch * hidden


def thesis_cp(devices: int, batch: float, hidden: int, heads: int) -> float:
    """Cache parallelism as printed: all-gather and all-to-all."""
    return thesis_all_gather(devices, batch, hidden) + thesis_all_to_all(devices, batch, hidden, heads)


def thesis_tp(devices: int, batch: float, hidden: int) -> float:
    """Tensor parallelism as printed."""
    return thesis_all_reduces(devices, batch, hidden)


def ring_cp(devices: int, batch: float, hidden: int, heads: int) -> float:
    """Cache parallelism of the thesis in ring terms: ``(N - 1) / N x B (4 E + 2 H)``."""
    return (
        all_gather("queries, keys, values", 3 * batch * hidden, devices).sent_bytes
        + all_to_all("partial results", batch * (hidden + 2 * heads), devices).sent_bytes
    )


def ring_tp(devices: int, batch: float, hidden: int) -> float:
    """Tensor parallelism in ring terms: ``(N - 1) / N x 4 B E``."""
    return 2 * all_reduce("outputs", batch * hidden, devices).sent_bytes


def thesis_differences(devices: int, batch: float, hidden: int, heads: int) -> tuple[Difference, ...]:
    """Each printed term beside the ring's, and by which factor they differ.

    Returns
    -------
    tuple of Difference
        All-gather (factor 1), all-to-all (N / 2: equal at two GPUs), all-reduces (N), then CP and TP as sums.

    Raises
    ------
    InputError
        On fewer than two devices, where nothing is sent.
    """
    if devices < 2:
        raise InputError(f"thesis_differences: expected >= 2 devices (got {devices})")
    partials = all_to_all("partial results", batch * (hidden + 2 * heads), devices).sent_bytes
    gathered = all_gather("queries, keys, values", 3 * batch * hidden, devices).sent_bytes
    return (
        Difference("all-gather", thesis_all_gather(devices, batch, hidden), gathered, ""),
        Difference(
            "all-to-all",
            thesis_all_to_all(devices, batch, hidden, heads),
            partials,
            "the load of a link if messages travel round a ring in one direction, sum of d M / N for d < N = M (N - 1) "
            "/ 2, and not what a GPU sends of its own, (N - 1) M / N",
        ),
        Difference(
            "all-reduces",
            thesis_all_reduces(devices, batch, hidden),
            ring_tp(devices, batch, hidden),
            "what all N GPUs send together; one GPU sends 2 (N - 1) / N of each buffer",
        ),
        Difference(
            "CP",
            thesis_cp(devices, batch, hidden, heads),
            ring_cp(devices, batch, hidden, heads),
            "by its all-to-all",
        ),
        Difference("TP", thesis_tp(devices, batch, hidden), ring_tp(devices, batch, hidden), "by its all-reduces"),
    )
