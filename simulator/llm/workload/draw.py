"""Workloads drawn at random: when requests arrive, how long they are, and conversations of several turns."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ....seeds import generator
from .requests import LLMTrace
from .times import renewal_times

__all__ = ["conversations", "draw", "renewal_times"]


def draw(
    prompt_tokens: npt.ArrayLike,
    output_tokens: npt.ArrayLike,
    n: int | None = None,
    *,
    rate: float | None = None,
    cv: float = 1.0,
    max_model_len: int | None = None,
    seed: int = 0,
) -> LLMTrace:
    """Draw requests: their lengths from given pairs, their arrivals from a renewal process.

    Parameters
    ----------
    prompt_tokens, output_tokens : array_like of int
        Lengths, as pairs.
    n : int, optional
        Number of requests, drawn from the pairs with replacement; without it, each pair is used once, in order.
    rate, cv : float, optional
        Arrival rate and coefficient of variation, see `renewal_times`; without a rate all requests arrive at time 0
        (for a closed loop).
    max_model_len : int, optional
        Pairs whose sum is larger are left out before drawing.
    seed : int
        Seed, >= 0.

    Raises
    ------
    InputError
        On lengths that are no pairs, or if none is left.
    """
    prompts, outputs = np.asarray(prompt_tokens), np.asarray(output_tokens)
    if prompts.shape != outputs.shape or prompts.ndim != 1:
        raise InputError(f"draw: expected pairs of lengths (got shapes {prompts.shape} and {outputs.shape})")
    if max_model_len is not None:
        fits = prompts + outputs <= max_model_len
        prompts, outputs = prompts[fits], outputs[fits]
    if not len(prompts):
        within = "" if max_model_len is None else f" within max_model_len {max_model_len}"
        raise InputError(f"draw: no pair of lengths{within}")
    if n is not None:
        if n < 1:
            raise InputError(f"n: expected at least one request (got {n})")
        rows = generator(seed, "llm", "lengths").integers(len(prompts), size=n)
        prompts, outputs = prompts[rows], outputs[rows]
    times = np.zeros(len(prompts)) if rate is None else renewal_times(rate, len(prompts), cv=cv, seed=seed)
    return LLMTrace(times, prompts, outputs)


def conversations(
    prompt_tokens: npt.ArrayLike,
    output_tokens: npt.ArrayLike,
    n: int,
    *,
    rate: float,
    turns: float = 3.0,
    think_s: float = 10.0,
    max_model_len: int = 2048,
    cv: float = 1.0,
    seed: int = 0,
) -> LLMTrace:
    """Draw conversations of several turns. Each prompt contains all earlier turns, and comes a while after the answer.

    Parameters
    ----------
    prompt_tokens, output_tokens : array_like of int
        Lengths of messages and answers, as pairs to draw from.
    n : int
        Number of conversations.
    rate, cv : float
        Rate and coefficient of variation with which conversations begin; see `renewal_times`.
    turns : float
        Mean number of turns (geometric), >= 1; a conversation ends before it would be longer than `max_model_len`.
    think_s : float
        Mean seconds between an answer and the next message (exponential), >= 0.
    max_model_len : int
        Tokens of the longest prompt and answer.
    seed : int
        Seed, >= 0.

    Returns
    -------
    LLMTrace
        Rows in order of their earliest arrival, which leaves out the time that answers take.
    """
    if not (math.isfinite(turns) and turns >= 1):
        raise InputError(f"turns: expected a mean >= 1 (got {turns})")
    if not (math.isfinite(think_s) and think_s >= 0):
        raise InputError(f"think_s: expected finite seconds >= 0 (got {think_s})")
    first = draw(prompt_tokens, output_tokens, n, rate=rate, cv=cv, max_model_len=max_model_len, seed=seed)
    prompts, outputs = np.asarray(prompt_tokens), np.asarray(output_tokens)
    rng = generator(seed, "llm", "conversations")
    rows: list[tuple[float, int, int, int, float]] = []  # earliest arrival, prompt, output, previous, think
    begins = zip(first.arrival.tolist(), first.prompt_tokens.tolist(), first.output_tokens.tolist(), strict=True)
    for start, p, o in begins:
        rows.append((start, p, o, -1, 0.0))
        at, history = start, p + o
        for _ in range(int(rng.geometric(1 / turns)) - 1):
            k = int(rng.integers(len(prompts)))
            think = float(rng.exponential(think_s))
            at, p, o = at + think, history + int(prompts[k]), int(outputs[k])
            if p + o > max_model_len:
                break
            rows.append((at, p, o, len(rows) - 1, think))
            history = p + o
    order = np.argsort([row[0] for row in rows], kind="stable")
    place = np.empty(len(rows) + 1, dtype=np.int64)
    place[order], place[-1] = np.arange(len(rows)), -1
    table = np.array([rows[int(i)] for i in order])
    after = place[table[:, 3].astype(np.int64)]
    return LLMTrace(table[:, 0], table[:, 1], table[:, 2], after=after, think_s=table[:, 4])
