"""`StepTimes`: a recording of steps keeps their mean and their kinds apart; plain data; what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.profiles.llm import StepTimes
from meshwright.profiles.spread import Spread


def recorded(n=4000, seed=0):
    """Steps of 5 ms in a row: a third with prompts, slow seconds, kinds of unlike noise."""
    rng = np.random.default_rng(seed)
    prompts = rng.random(n) < 1 / 3
    expected = np.where(prompts, 0.008, 0.003)
    slow = 1 + 0.1 * np.sin(np.arange(n) / 300)
    seconds = expected * slow * np.where(prompts, rng.lognormal(0, 0.2, n), rng.lognormal(0, 0.05, n))
    start = np.concatenate(([0.0], np.cumsum(seconds)[:-1]))
    return start, seconds, expected, prompts


def test_a_recording_keeps_mean_path_and_kinds():
    start, seconds, expected, prompts = recorded()
    times = StepTimes.of_steps(start, seconds, expected, prompts)
    decodes, mixed = times.steps, times.of_prompts
    for kind, spread in ((~prompts, decodes), (prompts, mixed)):
        # Windows weigh as time does here and as steps do there: a fraction of a percent.
        assert spread.mean == pytest.approx(seconds[kind].sum() / expected[kind].sum(), rel=0.01)
    (path,) = times.steps.paths
    assert len(path) == int(start[-1] / 0.1) + 1
    middle = np.interp((np.arange(len(path)) + 0.5) * 0.1, start, 1 + 0.1 * np.sin(np.arange(len(start)) / 300))
    assert np.corrcoef(path, middle)[0, 1] > 0.7
    own = [np.std(np.log(visits)) for visits in (decodes.visits, mixed.visits)]
    # Windows of some twenty steps wander with their prompts: 0.2 times their share of the time, over the root of 7.
    assert own == pytest.approx([np.hypot(0.05, 0.2 * 0.57 / np.sqrt(7)), 0.2], rel=0.15)


def test_windows_without_a_step_take_the_nearest():
    start = np.array([0.0, 0.05, 1.0])
    times = StepTimes.of_steps(start, np.array([2.0, 2.0, 3.0]), np.ones(3), np.zeros(3, dtype=bool))
    assert times.steps.paths == ((2.0,) * 6 + (3.0,) * 5,)
    assert times.prompts == ()


def test_plain_data_and_back():
    times = StepTimes(Spread(visits=(0.9, 1.1), paths=((1.0, 1.2),), window_s=0.5), (0.8, 1.3), 2)
    assert StepTimes.from_dict(times.to_dict()) == times
    assert StepTimes.from_dict(StepTimes().to_dict()) == StepTimes()
    assert StepTimes().constant
    assert not times.constant


def test_scaled_and_normalised():
    for times in (StepTimes(Spread(visits=(0.9, 1.2)), (0.8, 1.5)), StepTimes(Spread(paths=((1.0, 1.4),)), (0.8, 1.5))):
        twice, level = times.scaled(2.0), times.normalised()
        assert (twice.steps.mean, twice.of_prompts.mean) == pytest.approx(
            (2 * times.steps.mean, 2 * times.of_prompts.mean)
        )
        assert (level.steps.mean, level.of_prompts.mean) == pytest.approx((1, 1))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"prompts": [1.0, -0.5]}, "positive finite factors"),
        ({"prompts": [float("nan")]}, "positive finite factors"),
        ({"prompts": [1.2, 1.0]}, "ascending"),
        ({"steps": {"visits": [0.0]}}, "positive finite factors"),
        ({"ranks": 0}, "ranks: expected an integer >= 1"),
        ({"ranks": "two"}, "ranks: expected an integer >= 1"),
        ({"colour": 1}, "unknown field 'colour'; expected steps, prompts, ranks"),
    ],
)
def test_what_is_wrong_is_said(data, said):
    with pytest.raises(InputError, match=said):
        StepTimes.from_dict(data)


def test_steps_that_took_no_time_are_refused():
    one = np.ones(1)
    with pytest.raises(InputError, match="positive finite seconds"):
        StepTimes.of_steps(one, 0 * one, one, one > 0)
    with pytest.raises(InputError, match="no step was measured"):
        StepTimes.of_steps(one[:0], one[:0], one[:0], one[:0] > 0)
