"""Token ids for requests of which only lengths are known, and for those whose prompts share texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....seeds import generator, seed_sequence

__all__ = ["drawn_prompt", "mapped_prompt"]


def drawn_prompt(seed: int, name: str | int, length: int, vocab: int) -> list[int]:
    """Tokens at random, the same for the same seed and name."""
    return generator(seed, "llm-engine", "prompt", name).integers(vocab, size=length).tolist()


def mapped_prompt(ids: Sequence[int], vocab: int, seed: int = 0) -> list[int]:
    """Tokens of a vocabulary for ids of any size: equal ids give equal tokens.

    Ids within the vocabulary stay as they are. Others are mixed (splitmix64), so that blocks of ids in a row do not
    become the same tokens; two texts could agree in a whole block of `b` tokens with chance ``vocab ** -b``.
    """
    if 0 <= min(ids) <= max(ids) < vocab:
        return list(ids)
    x = np.array(ids, dtype=np.int64).astype(np.uint64)
    x = x + np.uint64(seed_sequence(seed, "llm-engine", "ids").generate_state(1, np.uint64)[0])
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return ((x ^ (x >> np.uint64(31))) % np.uint64(vocab)).astype(np.int64).tolist()
