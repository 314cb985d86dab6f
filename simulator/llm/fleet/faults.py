"""`Faults`: when engines fail, how long they are away, and what becomes of their requests."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ....errors import InputError
from ....reprs import Shown
from ....seeds import generator

__all__ = ["Fault", "Faults"]


@dataclass(frozen=True, slots=True, repr=False)
class Fault(Shown):
    """One engine fails at a known time.

    Parameters
    ----------
    engine : int
        Number of the engine.
    at_s : float
        Time of the failure, seconds, > 0. Nothing happens if the engine is not there at that time.
    repair_s : float
        Seconds until it is repaired; infinite if never.

    Raises
    ------
    InputError
        On a value out of its range.
    """

    engine: int
    at_s: float
    repair_s: float = 0.0

    def __post_init__(self) -> None:
        number: Any = self.engine
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise InputError(f"fault: engine: expected an integer >= 0 (got {number!r})")
        if not (math.isfinite(self.at_s) and self.at_s > 0):
            raise InputError(f"fault: at_s: expected finite seconds > 0 (got {self.at_s})")
        if not self.repair_s >= 0:
            raise InputError(f"fault: repair_s: expected seconds >= 0 (got {self.repair_s})")


@dataclass(frozen=True, slots=True, repr=False)
class Faults(Shown):
    """Engines fail: at times from a list, at random, or both.

    An engine that fails loses its KV memory, its prefix cache, and the iteration under way. Its requests are sent to
    other engines (by the router, in the order in which they came to it), and wait if there is none.

    Parameters
    ----------
    events : tuple of Fault
        Failures at known times.
    mtbf_s, mttr_s : float, optional
        Mean time between failures, from the moment when an engine serves, and mean time to repair, both exponential;
        each engine draws from a random stream of its own. Give both or none.
    load_s : float
        Seconds from the repair until the engine serves again: loading the model.
    tokens : {"lose", "keep"}
        What becomes of the tokens that a request had. ``"lose"``: it starts again, and its first token is that of the
        last try. ``"keep"``: they become part of the prompt, since the client or a gateway has them.
    max_retries : int
        A request that is hit by more failures than this fails.
    retry_s : float
        Seconds from a failure until its requests are sent elsewhere: how long it takes to notice.

    Raises
    ------
    InputError
        On a value out of its range, or no fault at all.
    """

    events: tuple[Fault, ...] = ()
    mtbf_s: float | None = None
    mttr_s: float | None = None
    load_s: float = 0.0
    tokens: str = "lose"
    max_retries: int = 3  # a guess: gateways commonly retry a few times
    retry_s: float = 0.0

    def __post_init__(self) -> None:
        events: Any = self.events
        if not isinstance(events, tuple) or not all(isinstance(e, Fault) for e in events):  # type: ignore[misc]
            raise InputError(f"faults: events: expected a tuple of Fault (got {events!r})")
        if (self.mtbf_s is None) != (self.mttr_s is None):
            raise InputError("faults: mtbf_s and mttr_s go together; give both or none")
        if not self.events and self.mtbf_s is None:
            raise InputError("faults: nothing ever fails; give events, or mtbf_s and mttr_s")
        for name in ("mtbf_s", "mttr_s"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise InputError(f"faults: {name}: expected finite seconds > 0 (got {value})")
        for name in ("load_s", "retry_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise InputError(f"faults: {name}: expected finite seconds >= 0 (got {value})")
        if self.tokens not in ("lose", "keep"):
            raise InputError(f"faults: tokens: expected 'lose' or 'keep' (got {self.tokens!r})")
        most: Any = self.max_retries
        if isinstance(most, bool) or not isinstance(most, int) or most < 0:
            raise InputError(f"faults: max_retries: expected an integer >= 0 (got {most!r})")

    def lives(self, engine: int, seed: int) -> Iterator[tuple[float, float]]:
        """Yield, for one engine, seconds until it fails and seconds of the repair, again and again."""
        if self.mtbf_s is None or self.mttr_s is None:
            return
        rng = generator(seed, "llm", "faults", engine)
        while True:
            yield float(rng.exponential(self.mtbf_s)), float(rng.exponential(self.mttr_s))
