"""Collectives between the GPUs of one group, in the usual ring terms: what each GPU sends, in how many steps.

Volumes are those of ring algorithms (Patarasuk and Yuan 2009; the same terms as NCCL's "bus bandwidth"): what one GPU
sends, which is what it receives. Times are latency-bandwidth sums over one `LinkSpec`: every step is one message.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ....errors import InputError
from ...hardware import LinkSpec

__all__ = ["Collective", "all_gather", "all_reduce", "all_to_all", "allreduce_lines", "reduce_scatter", "send"]

Kind = Literal["all-gather", "all-reduce", "all-to-all", "reduce-scatter", "send"]


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective operation of a group.

    Parameters
    ----------
    name : str
        What is moved: "queries", "partial results" and the like.
    kind : str
        "all-gather", "all-reduce", "all-to-all", "reduce-scatter" or "send".
    group : int
        GPUs that take part.
    sent_bytes : float
        Bytes that each GPU sends in all steps together.
    steps : int
        Messages that wait for one another.
    """

    name: str
    kind: Kind
    group: int
    sent_bytes: float
    steps: int

    def seconds(self, link: LinkSpec) -> float:
        """Seconds on `link`: ``steps x latency + sent bytes / bandwidth``; none in a group of one."""
        return self.steps * link.time(self.sent_bytes / self.steps) if self.steps else 0.0


def all_gather(name: str, gathered_bytes: float, group: int) -> Collective:
    """Everyone gets every share: each sends ``(N - 1) / N`` of what is gathered, in N - 1 steps round the ring."""
    return Collective(name, "all-gather", group, (group - 1) / group * gathered_bytes, group - 1)


def reduce_scatter(name: str, buffer_bytes: float, group: int) -> Collective:
    """Everyone gets its share of the sum: each sends ``(N - 1) / N`` of the buffer, in N - 1 steps round the ring."""
    return Collective(name, "reduce-scatter", group, (group - 1) / group * buffer_bytes, group - 1)


def all_reduce(name: str, buffer_bytes: float, group: int) -> Collective:
    """Everyone gets the sum: a reduce-scatter and an all-gather, ``2 (N - 1) / N`` of the buffer in 2 (N - 1) steps."""
    return Collective(name, "all-reduce", group, 2 * (group - 1) / group * buffer_bytes, 2 * (group - 1))


def all_to_all(name: str, buffer_bytes: float, group: int, *, pairwise: bool = False) -> Collective:
    """Everyone sends each other GPU its own ``1 / N`` of the buffer: ``(N - 1) / N`` of it in all.

    Parameters
    ----------
    name : str
        Name of what is sent.
    buffer_bytes : float
        What one GPU holds for all GPUs together, its own part included.
    group : int
        GPUs that take part.
    pairwise : bool
        One partner after another, N - 1 steps. By default all messages are posted at once: one step, as switched
        links allow.
    """
    steps = (group - 1) if pairwise else min(1, group - 1)
    return Collective(name, "all-to-all", group, (group - 1) / group * buffer_bytes, steps)


def send(name: str, n_bytes: float) -> Collective:
    """One message to one other GPU."""
    return Collective(name, "send", 2, n_bytes, 1)


def allreduce_lines(link: LinkSpec, groups: Iterable[int]) -> dict[int, LinkSpec]:
    """All-reduce lines for `CommModel` from one link: latency ``2 (N - 1)`` messages, bandwidth ``N / (2 (N - 1))``.

    Parameters
    ----------
    link : LinkSpec
        The link between neighbours of the ring.
    groups : iterable of int
        Group sizes, each >= 2.

    Raises
    ------
    InputError
        On a group below two.
    """
    lines: dict[int, LinkSpec] = {}
    for n in groups:
        if isinstance(n, bool) or n < 2:
            raise InputError(f"allreduce_lines: groups: expected sizes >= 2 (got {n!r})")
        steps = 2 * (n - 1)
        lines[n] = LinkSpec(link.bandwidth_bytes_per_s * n / steps, link.latency_s * steps)
    return lines
