"""Dealing gives every deployment its share of any stretch of requests, and conversations whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from meshwright.simulator.llm import LLMTrace, conversations
from meshwright.simulator.llm.policy.deal import dealt


def requests(n: int) -> LLMTrace:
    return LLMTrace(np.arange(n, dtype=float), [10] * n, [5] * n)


@given(st.lists(st.integers(1, 20), min_size=1, max_size=4), st.integers(1, 400))
def test_every_request_goes_to_one(parts: list[int], n: int) -> None:
    rows = dealt(requests(n), [p / sum(parts) for p in parts])
    assert sorted(np.concatenate(rows).tolist()) == list(range(n))


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.05, 0.95), (0.3, 0.3, 0.4)])
def test_of_any_stretch_each_gets_its_share(shares: tuple[float, ...]) -> None:
    """Within two requests, wherever the stretch begins and however long it is."""
    for mine, share in zip(dealt(requests(3000), shares), shares, strict=True):
        taken = np.zeros(3001)
        taken[mine + 1] = 1
        upto = np.cumsum(taken) - share * np.arange(3001)
        for length in (1, 7, 100, 1000):
            assert np.abs(upto[length:] - upto[:-length]).max() < 2.5


def test_turns_of_a_conversation_stay_together() -> None:
    chats = conversations([10, 20], [5, 6], 60, rate=1.0, seed=0)
    assert chats.after is not None
    home = np.empty(len(chats), dtype=int)
    for number, rows in enumerate(dealt(chats, (0.25, 0.75))):
        home[rows] = number
    later = np.flatnonzero(chats.after >= 0)
    assert len(later)
    assert (home[later] == home[chats.after[later]]).all()
    assert 0.1 < (home == 0).mean() < 0.4
