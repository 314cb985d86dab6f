"""Workloads of the vLLM thesis beyond one answer to one prompt: prompts with a common prefix, rounds of chat."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ....seeds import generator
from ..workload.draw import renewal_times
from ..workload.requests import LLMTrace

__all__ = ["chat_rounds", "with_prefix"]

OWN = 1 << 40
"""First id of tokens that only one prompt has. Prefixes use the ids below: `LONGEST` places of `LONGEST` tokens."""
LONGEST = 1 << 20
"""Ids of a prefix, one more than it may have tokens: far beyond any model's context."""


def with_prefix(trace: LLMTrace, tokens: int, place: int = 0) -> LLMTrace:
    """The same requests, with one prefix in front of every prompt (vLLM §5.4.4).

    The prefix is told in both ways: as `shared_prefix`, for engines that reserved blocks for it, and as token ids, for
    engines that find blocks again (``vllm-v1``). All other tokens of a prompt are its own. Engines that know of neither
    compute the whole prompt.

    Parameters
    ----------
    trace : LLMTrace
        Requests without prefixes and turns: what follows the prefix.
    tokens : int
        Length of the prefix, from 1 to 1,048,575.
    place : int
        Its place in `Vllm02Config.prefixes`, >= 0.

    Raises
    ------
    InputError
        On a length or place out of its range, or a trace that has prefixes or turns.
    """
    for name, value, least, most in (("tokens", tokens, 1, LONGEST - 1), ("place", place, 0, LONGEST - 1)):
        if isinstance(value, bool) or not least <= value <= most:
            raise InputError(f"with_prefix: {name}: expected an integer from {least} to {most} (got {value!r})")
    if trace.prefix_ids is not None or trace.shared_prefix is not None or trace.after is not None:
        raise InputError("with_prefix: the trace has prefixes or turns of its own; give requests without them")
    head = tuple(range(place * LONGEST, place * LONGEST + tokens))
    begins = (OWN + np.cumsum(trace.prompt_tokens) - trace.prompt_tokens).tolist()
    own = zip(begins, trace.prompt_tokens.tolist(), strict=True)
    return LLMTrace(
        trace.arrival,
        trace.prompt_tokens + tokens,
        trace.output_tokens,
        best_of=trace.best_of,
        beam=trace.beam,
        priority=trace.priority,
        prefix_ids=[(*head, *range(begin, begin + n)) for begin, n in own],
        prefix_block=1,
        shared_prefix=np.full(len(trace), place),
    )


def chat_rounds(
    prompt_tokens: npt.ArrayLike,
    output_tokens: npt.ArrayLike,
    n: int,
    *,
    rate: float,
    rounds: float = 3.5,
    max_prompt: int = 1024,
    max_output: int = 1024,
    cv: float = 1.0,
    seed: int = 0,
) -> LLMTrace:
    """Rounds of chats whose engine remembers nothing: each prompt is the end of all that was said (vLLM §5.6.5).

    Every request is some round of some conversation: as many rounds went before as before a round that is picked at
    random, if conversations have a geometric number of them. History and message are cut to their last `max_prompt`
    tokens, answers after `max_output`. Rounds arrive at random, each by itself, and share nothing.

    Parameters
    ----------
    prompt_tokens, output_tokens : array_like of int
        Lengths of messages and answers, in pairs to draw from.
    n : int
        Requests.
    rate, cv : float
        Of the arrivals, see `renewal_times`.
    rounds : float
        Mean number of rounds of a conversation, >= 1.
    max_prompt, max_output : int
        Tokens of a prompt and of an answer at most.
    seed : int
        Seed, >= 0.

    Raises
    ------
    InputError
        On lengths that are no pairs, or a value out of its range.
    """
    prompts, outputs = np.asarray(prompt_tokens), np.asarray(output_tokens)
    if prompts.shape != outputs.shape or prompts.ndim != 1 or not len(prompts):
        raise InputError(f"chat_rounds: expected pairs of lengths (got shapes {prompts.shape} and {outputs.shape})")
    if not (math.isfinite(rounds) and rounds >= 1):
        raise InputError(f"chat_rounds: rounds: expected a mean >= 1 (got {rounds})")
    for name, value in (("max_prompt", max_prompt), ("max_output", max_output)):
        if isinstance(value, bool) or value < 1:
            raise InputError(f"chat_rounds: {name}: expected an integer >= 1 (got {value!r})")
    times = renewal_times(rate, n, cv=cv, seed=seed)
    rng = generator(seed, "llm", "chat")
    before = rng.geometric(1 / rounds, n) - 1
    rows = rng.integers(len(prompts), size=n + int(before.sum()))
    history = _sums((prompts + outputs)[rows[n:]], before)
    return LLMTrace(
        times, np.minimum(history + prompts[rows[:n]], max_prompt), np.minimum(outputs[rows[:n]], max_output)
    )


def _sums(values: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Sums of the first so many values, of the next so many, …"""
    upto = np.concatenate(([0], np.cumsum(values)))
    ends = np.cumsum(counts)
    return upto[ends] - upto[ends - counts]
