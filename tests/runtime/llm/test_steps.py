"""Steps of the real engine: what each one's time is, and what they say of the level of the machine."""

from __future__ import annotations

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.profiles.llm import ConstantCost, Iteration
from meshwright.runtime.llm.steps import (
    EngineStep,
    Moment,
    level_of,
    level_sd,
    moves,
    steps_of,
    stretches,
    times_of_steps,
    undisturbed,
)

ONE = Iteration((), 1, 10, 1)
COST = ConstantCost(0.01)


def test_a_step_begins_at_the_end_of_the_one_before_and_a_pause_is_nobodys():
    """Three steps with gaps of 1 ms between; then a second of idling."""
    moments = [
        Moment(0.0, 0.0, 0.010, 0.010, ONE, True),
        Moment(0.011, 0.011, 0.021, 0.021, ONE, True),
        Moment(0.022, 0.022, 0.032, 0.030, ONE, False),
        Moment(1.0, 0.031, 1.01, 0.041, ONE, False),
    ]
    steps = steps_of(moments)
    assert [step.start for step in steps] == pytest.approx([0, 0.010, 0.021, 1.0])
    assert [step.seconds for step in steps] == pytest.approx([0.010, 0.011, 0.011, 0.010])
    assert [step.core_s for step in steps] == pytest.approx([0.010, 0.011, 0.009, 0.010])
    assert len(undisturbed(steps)) == 3
    assert steps_of([]) == []
    woken = steps_of(moments, [0.0, 0.005, 0.998])
    assert [step.seconds for step in woken] == pytest.approx([0.010, 0.011, 0.011, 0.012])
    assert woken[3].start == 0.998


def in_a_row(factors):
    seconds = 0.01 * np.asarray(factors)
    start = np.concatenate(([0.0], np.cumsum(seconds)[:-1]))
    return [EngineStep(float(a), float(b), float(b), ONE) for a, b in zip(start, seconds, strict=True)]


def test_levels():
    steps = in_a_row([1.0] * 100 + [1.2] * 100)
    assert level_of(steps, COST) == pytest.approx(1.1)
    assert times_of_steps(steps, COST).steps.mean == pytest.approx(1.1, rel=0.01)
    assert level_sd([in_a_row([1.0] * 400)], [COST]) == pytest.approx(0, abs=1e-9)


def test_white_noise_of_many_steps_leaves_the_level_alone_and_slow_quarters_do_not():
    rng = np.random.default_rng(0)
    white = level_sd([in_a_row(rng.lognormal(0, 0.2, 4000)) for _ in range(8)], [COST] * 8)
    # Quarters of 1,000 steps: 0.2 / sqrt(1000) each, their differences sqrt(2) of that.
    assert white == pytest.approx(0.2 * np.sqrt(2 / 1000), rel=0.35)
    slow = level_sd([in_a_row(np.repeat(rng.normal(1, 0.05, 4), 500)) for _ in range(40)], [COST] * 40)
    assert slow == pytest.approx(0.05 * np.sqrt(2), rel=0.25)


def test_stretches_alternate_and_tell_how_far_neighbours_differ():
    """Steps of 10 ms for 1 s at level 1, then 1 s at level 1.2: two stretches, whose levels differ by 0.2 of 1.1."""
    steps = [EngineStep(0.01 * k, 0.01 if k < 100 else 0.012, 0.01, ONE) for k in range(200)]
    row = stretches([step._replace(start=step.start + 1e-6) for step in steps], 1.0)
    assert [len(one) for one in row] == [100, 100]
    assert moves([row], [COST]) == pytest.approx(0.2 / 1.1)
    assert moves([[row[0], [], row[1]]], [COST]) == 0  # an empty stretch has no level
    assert stretches([], 1.0) == []


def test_nothing_to_learn_from():
    with pytest.raises(InputError, match="no step to learn from"):
        level_of([], COST)
