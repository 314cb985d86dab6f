"""`Member`: an engine of a fleet, which can start, fail, be drained, and go."""

from __future__ import annotations

from ..policy.request import LLMRequest
from .engine import Engine, EngineKind, Host

__all__ = ["STATES", "Member"]

STATES = ("starting", "up", "draining", "down", "gone")
"""Loading the model; serving; serving what it has; broken; given back."""


class Member(Engine):
    """An engine with a state.

    Parameters
    ----------
    run : Host
        The simulation that it belongs to.
    index : int
        Its number in the fleet.
    kind : EngineKind
        Scheduler, options and costs that it shares with engines of its kind.
    state : str
        One of `STATES`.
    """

    def __init__(self, run: Host, index: int, kind: EngineKind, state: str = "up") -> None:
        super().__init__(run, index, kind)
        self.rows: dict[int, LLMRequest] = {}  # requests that it holds blocks of, or is to decode
        self.state, self.since = state, run.clock.now
        self.spans: list[tuple[str, float, float]] = []
        self.returns = False  # down, and under repair
        self.turns = 0  # changes of state: what was foreseen for an earlier state is void

    @property
    def role(self) -> str:
        """What the engine serves: "prefill", "decode" or "both"."""
        return self.kind.role

    def become(self, state: str) -> None:
        """Change the state."""
        now = self.run.clock.now
        self.spans.append((self.state, self.since, now))
        self.state, self.since = state, now
        self.turns += 1

    def take(self, request: LLMRequest) -> None:
        """Make this engine responsible for a request."""
        self.rows[int(request.id)] = request
        self.outstanding += 1
        self.outstanding_tokens += request.prompt

    def let_go(self, row: int) -> None:
        """End this engine's responsibility for a request."""
        request = self.rows.pop(row)
        self.outstanding -= 1
        self.outstanding_tokens -= request.prompt
