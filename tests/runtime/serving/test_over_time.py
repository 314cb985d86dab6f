"""Attainment over time: windows, intervals, and failures as the simulator takes them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.profiles import ModelProfile, ParallelConfig
from meshwright.runtime.serving.breaks import Break
from meshwright.runtime.serving.compare.over_time import conditions_of, over_time, shares
from meshwright.simulator import Group, Placement, simulate
from meshwright.traces import Trace

ONE = ParallelConfig(1, 1)
PROFILES = {"a": ModelProfile.from_stages("a", {ONE: {1: [0.1]}})}
TRACE = Trace(np.arange(0.0, 10.0, 0.25), np.zeros(40, dtype=int), ("a",), 0.5)
PLACEMENT = Placement([Group(ONE, ["a"])])


def test_windows_show_when_the_group_was_away() -> None:
    conditions = conditions_of([Break(0, (0,), 2.0, 3.0), Break(0, (0,), 8.0)], {0: 1.0}, False, None)
    assert conditions.outages is not None
    assert conditions.outages.up_s.tolist() == [4.0, math.inf]
    result = simulate(PLACEMENT, TRACE, PROFILES, conditions=conditions)
    assert shares(result, 1.0).tolist() == [1, 1, 0, 0, 1, 1, 1, 1, 0, 0]
    found = over_time(result, lambda _: result, draws=3, window_s=1.0)  # type: ignore[arg-type]
    assert found.inside.all()
    assert found.attainment == found.totals.mean() == 0.6
    assert "10 of 10 windows" in str(found)
    other = simulate(PLACEMENT, TRACE, PROFILES)
    assert over_time(result, lambda _: other, draws=2, window_s=1.0).inside.sum() == 6  # type: ignore[arg-type]


def test_windows_without_arrivals_say_nothing() -> None:
    trace = Trace(np.array([0.5, 2.5]), np.zeros(2, dtype=int), ("a",), 0.5)
    result = simulate(PLACEMENT, trace, PROFILES)
    assert np.isnan(shares(result, 1.0)[1])
    assert len(over_time(result, lambda _: result, draws=2, window_s=1.0).inside) == 2  # type: ignore[arg-type]


def test_bad_numbers_are_refused() -> None:
    result = simulate(PLACEMENT, TRACE, PROFILES)
    for draws, window, said in ((1, 1.0, "draws: an interval needs"), (2, 0.0, "window: expected")):
        with pytest.raises(InputError, match=said):
            over_time(result, lambda _: result, draws=draws, window_s=window)  # type: ignore[arg-type]
