"""What a case says of how requests are sent, and the ways in which they may be where it says that nobody knows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from ..limits import MAX_FACTOR, MAX_SEATS, MAX_SECONDS
from .part import Part

if TYPE_CHECKING:  # help texts need the fields, and no simulator
    from ...simulator.llm.workload.clients import Clients, FrontEnd

__all__ = ["ClientsCase"]

BURSTS = 2.0
"""CV of the bursty way that requests may come where nobody knows: a guess, between Poisson and Azure's functions."""


class ClientsCase(Part):
    """How requests are sent, and what stands between those who send them and the engine."""

    arrivals: Literal["poisson", "gamma", "constant", "at_once", "closed", "unknown"] | None = Field(
        default=None,
        description="poisson, gamma (by cv), constant, at_once, closed (clients with a request each), or "
        "unknown: Poisson, and what not knowing costs; if left out, gamma",
    )
    concurrency: int | None = Field(
        default=None, gt=0, le=MAX_SEATS, description="number of clients of closed arrivals"
    )
    think: float = Field(
        default=0.0, ge=0, le=MAX_SECONDS,
        description="seconds between an answer and the next request of its client, mean of an exponential; of closed",
    )  # fmt: skip
    front_end: Literal["engine", "separate", "in_process", "unknown"] = Field(
        default="engine",
        description="engine: times from its queue on; separate: HTTP server in a process of its own; in_process; or "
        "unknown: separate, and what not knowing costs",
    )
    front_end_s: float | None = Field(
        default=None, ge=0, le=MAX_SECONDS, description="seconds of a request in the front end; else a guess"
    )
    output_cv: float | None = Field(
        default=None, ge=0, le=MAX_FACTOR,
        description="coefficient of variation of generated output lengths, a ratio; else that of lengths",
    )  # fmt: skip

    @property
    def rateless(self) -> bool:
        """Whether no rate says how often they send."""
        return self.arrivals in ("at_once", "closed")

    @property
    def unknown(self) -> bool:
        """Whether it says that nobody knows."""
        return "unknown" in (self.arrivals, self.front_end)

    @property
    def said(self) -> bool:
        """Whether it says anything about times."""
        return self.arrivals is not None or self.front_end != "engine" or self.front_end_s is not None

    def clients(self, cv: float) -> Clients | None:
        """The clients, with gaps of this CV; None where nothing is said of them."""
        return self._clients(cv, self.arrivals, self.front_end) if self.said else None

    def ways(self, cv: float) -> Iterator[tuple[str, Clients]]:
        """Every way in which requests may be sent, by what is not known of it."""
        from ...simulator.llm.workload.clients import FRONT_ENDS

        arrivals = ("constant", "poisson", "gamma") if self.arrivals == "unknown" else (self.arrivals,)
        fronts = tuple(FRONT_ENDS) if self.front_end == "unknown" else (self.front_end,)
        for how in arrivals:
            for front in fronts:
                found = self._clients(BURSTS if self.arrivals == "unknown" else cv, how, front)
                yield found.explain(), found

    def _clients(self, cv: float, arrivals: str | None, front_end: str) -> Clients:
        from ...simulator.llm.workload.clients import Clients

        how = {"unknown": "poisson", None: "gamma"}.get(arrivals, str(arrivals))
        closed: dict[str, Any] = (
            {"concurrency": self.concurrency or 0, "think_s": self.think} if how == "closed" else {}
        )
        return Clients(how, cv if how == "gamma" else 1.0, front=self._front(front_end), **closed)

    def _front(self, name: str) -> FrontEnd:
        from ...simulator.llm.workload.clients import FRONT_ENDS, FrontEnd

        known = FRONT_ENDS["separate" if name == "unknown" else name]
        if self.front_end_s is None or known.none:
            return known
        return FrontEnd(known.name, self.front_end_s, known.sequence_s, known.where)
