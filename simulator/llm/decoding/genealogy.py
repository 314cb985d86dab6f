"""Which beams survive: a seeded model of beam search, and the interface through which a real engine can say it instead.

After every token, beam search keeps `k` of the `2k` best candidates; each kept one has a parent among the beams of the
step before. Whose children they are decides what blocks are shared, copied and freed (vLLM §5.4.4); it depends on the
request and the step alone, so every policy sees the same family tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ....errors import InputError
from ....seeds import generator
from ..policy.request import LLMRequest

__all__ = ["SURVIVAL", "Genealogy", "Survivors"]

SURVIVAL = 0.83
"""Default chance that a beam goes on in its own place. Fitted on one bar of the vLLM thesis' Fig. 5.15 (two beams on
Alpaca), because no paper says how often beams die; the figure's other bars test it."""

CHUNK = 64
"""Steps that are drawn at once: making a random stream costs more than the numbers of one step. A guess; another value
draws other family trees."""
REMEMBERED = 4096
"""Requests whose present chunk is kept, so that memory stays bounded; others are drawn again, to the same result."""


class Survivors(Protocol):
    """Says which candidates of a beam search survive: a model of beam search, or the record of a real engine."""

    def parents(self, request: LLMRequest, step: int) -> Sequence[int]:
        """The parents of the next beams.

        Parameters
        ----------
        request : LLMRequest
            A request of ``beam=True`` whose beams have one token each.
        step : int
            Tokens that each beam has generated so far, >= 1. (At step 0 all beams are children of the prompt.)

        Returns
        -------
        sequence of int, shape (request.best_of,)
            For each new beam, the place of its parent among the present ones. The first child of a parent goes on in
            its parent's sequence, further ones fork it; a parent without children dies.
        """
        ...


class Genealogy:
    """Beam search without a language model: which beams survive is drawn at random.

    The best candidate of a beam stays in its place with chance `survival`; else the place goes to a child of a beam
    drawn at random, the same one included. At 0 the children choose their parents at random (the neutral model of
    Wright and Fisher), at 1 no beam ever dies. Two beams come from one parent with chance (1 - survival²) / k.

    Parameters
    ----------
    seed : int
        Seed, >= 0. The draws of a request depend on it, the request's id and `best_of`, and the step; on nothing else.
    survival : float
        Chance in [0, 1]. The default is fitted on one bar of the vLLM thesis' Fig. 5.15 (`reproduce.vllm.fig15`).

    Raises
    ------
    InputError
        On a survival outside [0, 1] or a bad seed.
    """

    def __init__(self, seed: int = 0, survival: float = SURVIVAL) -> None:
        if isinstance(survival, bool) or not 0 <= survival <= 1:
            raise InputError(f"survival: expected a chance in [0, 1] (got {survival!r})")
        generator(seed, "llm", "beams")  # a bad seed is an error now, and not only at the first beam
        self.seed, self.survival = seed, float(survival)
        self._chunks: dict[tuple[str | int, int], tuple[int, list[tuple[int, ...]]]] = {}

    def parents(self, request: LLMRequest, step: int) -> tuple[int, ...]:
        """See `Survivors`."""
        key, (chunk, row) = (request.id, request.best_of), divmod(step, CHUNK)
        known = self._chunks.get(key)
        if known is None or known[0] != chunk:
            if known is None and len(self._chunks) >= REMEMBERED:
                del self._chunks[next(iter(self._chunks))]  # the oldest: the likeliest to have finished
            known = self._chunks[key] = chunk, self._draw(request, chunk)
        return known[1][row]

    def _draw(self, request: LLMRequest, chunk: int) -> list[tuple[int, ...]]:
        """Parents in the steps of a chunk."""
        k = request.best_of
        rng = generator(self.seed, "llm", "beams", request.id, k, chunk)
        stays = rng.random((CHUNK, k)) < self.survival
        drawn = rng.integers(k, size=(CHUNK, k))
        return [tuple(row) for row in np.where(stays, np.arange(k), drawn).tolist()]
