"""When transfers between engines begin and end: one at a time through each NIC, in the order asked for."""

from __future__ import annotations

from collections import defaultdict

from ....profiles.hardware import LinkSpec

__all__ = ["Network"]


class Network:
    """NICs of engines.

    A transfer of `n` bytes begins when the NICs that it needs are free, keeps them for ``n / bandwidth`` seconds, and
    has arrived `latency_s` later.

    Parameters
    ----------
    link : LinkSpec
        Bandwidth of a NIC in one direction, and latency.
    serialise : {"both", "sender", "receiver", "none"}
        Which NICs carry one transfer at a time.
    """

    def __init__(self, link: LinkSpec, serialise: str) -> None:
        self.link, self.serialise = link, serialise
        self.out: dict[int, float] = defaultdict(float)  # engine -> when its NIC has sent everything
        self.into: dict[int, float] = defaultdict(float)

    def begin(self, sender: int, receiver: int, seconds: float, now: float) -> tuple[float, float]:
        """Ask for a transfer that occupies its NICs for some seconds; when it begins, and when it has arrived."""
        start = now
        if self.serialise in ("both", "sender"):
            start = max(start, self.out[sender])
        if self.serialise in ("both", "receiver"):
            start = max(start, self.into[receiver])
        self.out[sender] = self.into[receiver] = start + seconds
        return start, start + seconds + self.link.latency_s

    def reset(self, engine: int) -> None:
        """An engine died: what its NICs still had to do is void."""
        self.out.pop(engine, None)
        self.into.pop(engine, None)
