"""`World`: what both engines are given. `Records`: what they note of each request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...profiles.llm.iteration import IterationCost
from .decoding.genealogy import Survivors
from .memory.adapters import AdapterCost
from .memory.swapping import SwapCost
from .policy.catalogue import Policy
from .policy.router import Router
from .times import StepDraws
from .workload.requests import LLMTrace

if TYPE_CHECKING:
    from .fleet.options import Fleet

__all__ = ["Records", "World"]


@dataclass(frozen=True)
class World:
    """All inputs of a simulation, checked.

    Parameters
    ----------
    trace : LLMTrace
        The requests.
    policy, config : Policy, its options
        The scheduler of every engine.
    cost : IterationCost
        Seconds of an iteration.
    swap : SwapCost or None
        Seconds of swapping; with None it takes no time.
    engines : int
        Number of engines.
    router : Router
        Chooses the engine for a request.
    concurrency : int or None
        Closed loop with so many requests in flight; None for an open loop.
    padded : bool
        Whether padding counts as computed.
    dropped : frozenset of int
        Rows that no engine takes.
    survivors : Survivors or None
        Decides which beams survive; with None every beam continues itself.
    fleet : Fleet or None
        Pools, faults and autoscaling; None: plain engines.
    times : StepDraws or None
        Factors on the cost of each step; None: it takes its cost.
    adapters : AdapterCost or None
        Seconds of bringing LoRA adapters to the device; with None it takes no time.
    """

    trace: LLMTrace
    policy: Policy
    config: Any
    cost: IterationCost
    swap: SwapCost | None
    engines: int
    router: Router
    concurrency: int | None
    padded: bool
    dropped: frozenset[int]
    survivors: Survivors | None = None
    fleet: Fleet | None = None
    times: StepDraws | None = None
    adapters: AdapterCost | None = None


class Records:
    """Outcome of each request, by row of the workload, filled in while the simulation runs."""

    def __init__(self, n: int) -> None:
        self.arrival, self.scheduled, self.first_token, self.finish = (np.full(n, np.nan) for _ in range(4))
        self.generated, self.preemptions, self.cached_tokens = (np.zeros(n, dtype=np.int64) for _ in range(3))
        self.engine = np.full(n, -1, dtype=np.int64)
        self.ignored = np.zeros(n, dtype=bool)

    def columns(self) -> dict[str, Any]:
        """All but the arrivals, by the names of `LLMResult`'s columns."""
        return {name: column for name, column in vars(self).items() if name != "arrival"}
