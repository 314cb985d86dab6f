"""`Limited`: a number that was computed under latency limits, and that can be asked under other limits too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

__all__ = ["Limited"]

INF = float("inf")


class Limited(float):
    """A number; called with limits (seconds), the same figure under those.

    In every world ``result.attainment`` is a number. Of language models the limits are often what one wants to vary
    after the simulation: ``result.attainment(ttft=0.5)``.
    """

    _ask: Callable[[float, float], float]

    @classmethod
    def of(cls, ask: Callable[[float, float], float], ttft: float, tpot: float) -> Self:
        """The figure that `ask` gives under these limits."""
        made = cls(ask(ttft, tpot))
        made._ask = ask
        return made

    def __call__(self, *, ttft: float = INF, tpot: float = INF) -> float:
        """The figure under other limits (seconds)."""
        return self._ask(ttft, tpot)

    def __reduce__(self) -> tuple[type[float], tuple[float]]:
        return float, (float(self),)  # a number in a file or another process; the result stays here
