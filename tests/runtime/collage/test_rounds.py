"""Ways are timed in turn, beside the first against itself."""

from __future__ import annotations

import os
from collections import Counter

import pytest
from meshwright.errors import InputError
from meshwright.runtime.collage.rounds import CONTROL, Rounds, in_rounds, one_core

torch = pytest.importorskip("torch")


def test_everyone_goes_first_as_often_as_others_and_is_warmed_up() -> None:
    """Three ways and the control over eight rounds; five calls each before."""
    called = list[str]()
    ways = {name: lambda _, name=name: called.append(name) for name in "abc"}
    found = in_rounds(ways, [None], 8)
    assert Counter(called[:15]) == {"a": 5, "b": 5, "c": 5}
    rounds = [called[15 + 4 * k : 19 + 4 * k] for k in range(8)]
    assert all(Counter(one) == {"a": 2, "b": 1, "c": 1} for one in rounds)
    assert Counter(one[0] for one in rounds) == {"a": 4, "b": 2, "c": 2}
    assert list(found.ms) == ["a", "b", "c", CONTROL]
    assert {len(each) for each in found.ms.values()} == {8}


def test_ratios_are_within_rounds() -> None:
    """A round that was disturbed disturbs both sides of its ratio."""
    found = Rounds({"a": (1.0, 1.0, 50.0), "b": (2.0, 2.0, 100.0), CONTROL: (1.0, 1.25, 60.0)})
    assert found.ratio("b", "a") == 2.0
    assert found.median("b") == 2.0
    assert found.noise == pytest.approx(0.2)


def test_cores_and_threads_are_as_before() -> None:
    """Also after an error."""
    before = torch.get_num_threads(), os.sched_getaffinity(0)
    within = list[tuple[int, int]]()

    def failing() -> None:
        with one_core():
            within.append((torch.get_num_threads(), len(os.sched_getaffinity(0))))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        failing()
    assert within == [(1, 1)]
    assert (torch.get_num_threads(), os.sched_getaffinity(0)) == before


def test_nothing_to_time_is_refused() -> None:
    """No way, a way with the control's name."""
    with pytest.raises(InputError, match="expected ways"):
        in_rounds({}, [], 5)
    with pytest.raises(InputError, match="expected ways"):
        in_rounds({CONTROL: print}, [], 5)
