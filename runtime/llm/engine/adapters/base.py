"""`Adapter`: what stands between a scheduler of the simulator and the model; and what all adapters have in common.

The scheduler and its block manager are the simulator's own objects; an adapter adds what they leave open: token ids.
"""

from __future__ import annotations

# torch is typed in part.
# pyright: standard
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor

from .....simulator.llm.policy.request import LLMRequest
from ..plan import Live, StepPlan
from ..sampling import Sampling, uniforms

__all__ = ["Adapter", "Emitted", "Finished", "Outcome", "begin", "draws", "finish", "take"]


@dataclass(frozen=True, slots=True)
class Emitted:
    """A new token of a request's sequence `index`."""

    request: str | int
    index: int
    token: int


@dataclass(frozen=True, slots=True)
class Finished:
    """A request that has all its tokens.

    Parameters
    ----------
    request : str or int
        Its id.
    outputs : tuple of tuple of int
        Generated tokens of each of its sequences; of beams, the best first.
    reasons : tuple of str
        Why each sequence ended, ``"length"`` or ``"stop"``.
    """

    request: str | int
    outputs: tuple[tuple[int, ...], ...]
    reasons: tuple[str, ...]


@dataclass(slots=True)
class Outcome:
    """Outcome of a step: new tokens, and requests that finished."""

    emitted: list[Emitted] = field(default_factory=list[Emitted])
    finished: list[Finished] = field(default_factory=list[Finished])


class Adapter(Protocol):
    """Between a scheduler and the model."""

    def add(self, request: LLMRequest, tokens: Sequence[int], sampling: Sampling) -> None:
        """A request arrives."""
        ...

    def lay_out(self, step: Any) -> StepPlan | None:
        """The step as a batch; None if the model has nothing to do."""
        ...

    def complete(self, step: Any, plan: StepPlan | None, logits: Tensor | None) -> Outcome:
        """Choose tokens, and tell the scheduler that the step is done."""
        ...

    def abort(self, request: str | int) -> bool:
        """A request leaves before its end; whether it was there."""
        ...

    def ignored(self, step: Any) -> list[str | int]:
        """Requests that the scheduler gave up in this step."""
        ...


def begin(request: LLMRequest, index: int, tokens: Sequence[int], sampling: Sampling, seed: int) -> Live:
    return Live(request.id, index, list(tokens), request.prompt, sampling, uniforms(sampling, seed, request.id, index))


def take(live: Live, token: int, outcome: Outcome) -> None:
    """Give a sequence a token. One that met a stop token before emits nothing more."""
    live.tokens.append(token)
    if not live.stopped:
        live.end = len(live.tokens)
        live.stopped = token in live.sampling.stop
        outcome.emitted.append(Emitted(live.request, live.index, token))


def finish(request: str | int, lives: Sequence[Live]) -> Finished:
    """The result of a finished request."""
    return Finished(
        request,
        tuple(tuple(live.tokens[live.prompt : live.end]) for live in lives),
        tuple("stop" if live.stopped else "length" for live in lives),
    )


def draws(lives: Sequence[Live]) -> list[float]:
    """The next random number of each sequence."""
    return [0.0 if live.sampling.greedy else float(live.stream.random()) for live in lives]
