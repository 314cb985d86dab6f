"""`Clients`: how requests are sent, and what stands between those who send them and the engine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....errors import InputError
from ....seeds import generator
from .times import renewal_times

__all__ = ["ARRIVALS", "FRONT_ENDS", "Clients", "FrontEnd"]

ARRIVALS = ("poisson", "gamma", "constant", "at_once", "closed")
"""At a rate: with gaps that are exponential, Gamma, or equal. Without one: all at time 0; or so many clients, each of
which sends its next request when the last one is answered."""
RATELESS = ("at_once", "closed")


@dataclass(frozen=True, slots=True)
class FrontEnd:
    """Where HTTP, chat template and tokenising take place, and what they take.

    Parameters
    ----------
    name : str
        Its name in `FRONT_ENDS`.
    request_s : float
        Seconds of a request on its way to the engine and back.
    sequence_s : float
        Seconds to detokenise and send a token of one sequence: a first token waits for those of the other sequences of
        its step.
    where : str
        In words.
    """

    name: str
    request_s: float
    sequence_s: float
    where: str

    @property
    def none(self) -> bool:
        """Whether it takes no time."""
        return self.request_s == 0 and self.sequence_s == 0

    def explain(self) -> str:
        """It and its times, in words."""
        if self.none:
            return f"front end {self.name}: {self.where}"
        return (
            f"front end {self.name}: {self.where}: {1e3 * self.request_s:g} ms a request, "
            f"{1e3 * self.sequence_s:g} ms a running sequence"
        )


FRONT_ENDS: Mapping[str, FrontEnd] = {
    "engine": FrontEnd("engine", 0.0, 0.0, "times begin at the engine's queue, nothing is added"),
    # Guesses, round figures of a Python server; a request's is that of some hundred tokens of prompt.
    "separate": FrontEnd("separate", 5e-3, 0.2e-3, "an HTTP server in a process of its own, as vllm serve has it"),
    # A guess: no HTTP; tokenising some hundred tokens. Detokenising is in the host's time of a step (`host_times`).
    "in_process": FrontEnd("in_process", 1e-3, 0.0, "calls in the engine's process, as vLLM's class LLM has it"),
}
"""Name -> front end. No times of these were measured: all are guesses."""


@dataclass(frozen=True, slots=True)
class Clients:
    """How requests are sent.

    Parameters
    ----------
    arrivals : str
        One of `ARRIVALS`.
    cv : float
        Coefficient of variation of the gaps, of ``gamma``.
    concurrency : int
        Clients of ``closed``, each with one request at a time.
    think_s : float
        Mean seconds between an answer and the next request of its client, exponential; of ``closed``.
    front : FrontEnd
        What stands between them and the engine.

    Raises
    ------
    InputError
        On a value out of its range, or one that these arrivals do not have.
    """

    arrivals: str = "poisson"
    cv: float = 1.0
    concurrency: int = 0
    think_s: float = 0.0
    front: FrontEnd = FRONT_ENDS["engine"]

    def __post_init__(self) -> None:
        if self.arrivals not in ARRIVALS:
            raise InputError(f"clients.arrivals: expected one of {', '.join(ARRIVALS)} (got {self.arrivals!r})")
        if self.closed != (self.concurrency > 0):
            why = (
                "closed: give concurrency, the number of clients"
                if self.closed
                else f"{self.arrivals} has no concurrency"
            )
            raise InputError(f"clients.arrivals: {why} (got {self.concurrency})")
        if not (math.isfinite(self.think_s) and self.think_s >= 0) or (self.think_s and not self.closed):
            raise InputError(f"clients.think: expected seconds >= 0, and arrivals closed (got {self.think_s})")

    @property
    def closed(self) -> bool:
        """Whether a request waits for an earlier one of its client."""
        return self.arrivals == "closed"

    @property
    def rateless(self) -> bool:
        """Whether no rate says how often they send."""
        return self.arrivals in RATELESS

    def columns(self, n: int, rate: float, seed: int) -> dict[str, Any]:
        """When `n` requests come: columns of an `LLMTrace`, by its names.

        Parameters
        ----------
        n : int
            Requests.
        rate : float
            Requests per second, of arrivals that have one.
        seed : int
            Seed of the streams of gaps and of thinking.
        """
        if self.arrivals == "at_once":
            return {"arrival": np.zeros(n)}
        if not self.closed:
            cv = {"poisson": 1.0, "constant": 0.0}.get(self.arrivals, self.cv)
            return {"arrival": renewal_times(rate, n, cv=cv, seed=seed)}
        before = np.maximum(np.arange(n) - self.concurrency, -1)
        # The front end's part of an answer and of the next request pass outside the engine.
        think = np.full(n, self.front.request_s)
        if self.think_s:
            think += generator(seed, "llm", "thinking").exponential(self.think_s, n)
        return {"arrival": np.zeros(n), "after": before, "think_s": np.where(before < 0, 0.0, think)}

    def explain(self) -> str:
        """Everything that is assumed, in a line."""
        if self.closed:
            thinking = f", thinking {self.think_s:g} s on average" if self.think_s else ""
            how = f"{self.concurrency} clients in a closed loop{thinking}, all beginning at once"
        else:
            gamma = f"Gamma arrivals (CV {self.cv:g})"
            how = {"poisson": "Poisson arrivals", "constant": "constant gaps", "at_once": "all at once"}.get(
                self.arrivals, gamma
            )
        return f"{how}; {self.front.explain()}"
