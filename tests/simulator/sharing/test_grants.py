"""Grants kept in arrays are a sequence like any other."""

from __future__ import annotations

import numpy as np
import pytest
from meshwright.simulator.sharing.result.grants import Grant, Grants

PLAIN = (Grant(0.0, 2, (0, 5)), Grant(0.0, 3, (1,)), Grant(7.5, 2, (0, 4, 5)))
KEPT = Grants(
    np.array([0.0, 0.0, 7.5]), np.array([2, 3, 2]), np.array([0, 2, 3, 6]), np.array([0, 5, 1, 0, 4, 5])
)  # fmt: skip


def test_they_are_made_when_asked_for() -> None:
    assert tuple(KEPT) == PLAIN
    assert [KEPT[k] for k in range(-3, 3)] == [PLAIN[k] for k in range(-3, 3)]
    assert KEPT[1:] == PLAIN[1:]
    assert KEPT[::-1] == PLAIN[::-1]
    assert len(KEPT) == 3
    assert PLAIN[1] in KEPT
    assert type(KEPT[0].app) is int
    for k in (3, -4):
        with pytest.raises(IndexError):
            KEPT[k]


def test_equal_grants_are_equal_however_they_are_kept() -> None:
    assert PLAIN == KEPT
    assert Grants(*(x.copy() for x in (KEPT._seconds, KEPT._apps, KEPT._first, KEPT._gpus))) == KEPT
    assert PLAIN[:2] != KEPT
    assert (*PLAIN[:2], Grant(7.5, 2, (0, 4, 6))) != KEPT
