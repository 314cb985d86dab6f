"""How the next token is chosen from logits: greedy, or at random from a stream of the request's own."""

from __future__ import annotations

# torch is typed in part.
# pyright: standard
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ....errors import InputError
from ....seeds import generator

__all__ = ["GREEDY", "Sampling", "choose", "uniforms"]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a request's tokens are chosen.

    Parameters
    ----------
    temperature : float
        0: the most likely token; else the softmax of ``logits / temperature``.
    top_p : float
        Only the likeliest tokens that together have this probability, in (0, 1].
    seed : int, optional
        Seed of the request's own stream; without it the engine's seed and the request's id name the stream. What
        else is in the batch, and whether it is preempted, changes nothing.
    stop : frozenset of int
        Tokens that end an output; the output keeps them.

    Raises
    ------
    InputError
        On a value out of its range.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    stop: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise InputError(f"temperature: expected a finite number >= 0 (got {self.temperature})")
        if not 0 < self.top_p <= 1:
            raise InputError(f"top_p: expected a share in (0, 1] (got {self.top_p})")
        if self.seed is not None and self.seed < 0:
            raise InputError(f"seed: expected an integer >= 0 (got {self.seed})")

    @property
    def greedy(self) -> bool:
        """Whether no chance is in it."""
        return self.temperature == 0


GREEDY = Sampling()
"""The most likely token, always."""


def uniforms(sampling: Sampling, seed: int, name: str | int, index: int) -> np.random.Generator:
    """The stream of one sequence: one number in [0, 1) for each of its tokens.

    Parameters
    ----------
    sampling : Sampling
        Whose seed goes first.
    seed : int
        The engine's.
    name, index : str or int, int
        The request, and the number of the sequence in it.
    """
    if sampling.seed is not None:
        return generator(sampling.seed, "llm-engine", "sample", index)
    return generator(seed, "llm-engine", "sample", name, index)


def choose(logits: Tensor, how: Sequence[Sampling], uniform: Sequence[float]) -> list[int]:
    """One token from each row.

    Parameters
    ----------
    logits : Tensor, shape (rows, vocab)
        Of the next token.
    how : sequence of Sampling
        One for each row.
    uniform : sequence of float
        A number in [0, 1) for each row, of no meaning in greedy ones: the token is where the cumulated probabilities
        pass it.
    """
    best = logits.argmax(-1)
    rows = [i for i, one in enumerate(how) if not one.greedy]
    if rows:
        some = logits[rows].double()
        heat = torch.tensor([how[i].temperature for i in rows], dtype=some.dtype, device=some.device)
        chances = torch.softmax(some / heat[:, None], -1)
        if any(how[i].top_p < 1 for i in rows):
            chances = _likeliest(
                chances, torch.tensor([how[i].top_p for i in rows], dtype=some.dtype, device=some.device)
            )
        # The level is a share of the last sum, which rounding leaves near 1 and top_p far below; in fp64, so that what
        # else is in the batch does not move it.
        upto = chances.cumsum(-1)
        level = torch.tensor([uniform[i] for i in rows], dtype=some.dtype, device=some.device)[:, None] * upto[:, -1:]
        best[rows] = torch.searchsorted(upto, level, right=True)[:, 0].clamp_(max=logits.shape[1] - 1)
    return best.tolist()


def _likeliest(chances: Tensor, share: Tensor) -> Tensor:
    """Chances of the likeliest tokens that reach a share together, 0 for the others."""
    ranked, order = chances.sort(-1, descending=True)
    ranked[ranked.cumsum(-1) - ranked >= share[:, None]] = 0.0  # the token that reaches the share stays
    return torch.zeros_like(chances).scatter_(-1, order, ranked)
