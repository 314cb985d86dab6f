"""`Spread`: what it refuses, its moments, and recordings of visits."""

import json

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.profiles.spread import CONSTANT, Spread


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"visits": ()}, "visits: expected at least one factor"),
        ({"visits": (1.0, float("nan"))}, "visits: expected positive finite factors"),
        ({"visits": (-0.5, 1.0)}, "visits: expected positive finite factors .got -0.5"),
        ({"visits": (1.2, 1.0)}, "visits: expected quantiles in ascending order"),
        ({"runs": (0.9, 1.1)}, "runs: needs correlation_s > 0"),
        ({"runs": (0.9, 1.1), "correlation_s": 1.0, "paths": ((1.0,),)}, "one of runs"),
        ({"paths": ((1.0, 2.0), (1.0,))}, "paths: expected one length"),
        ({"paths": ((1.0, 0.0),)}, r"paths\[0\]: expected positive finite"),
        ({"window_s": 0.0}, "window_s: expected finite seconds > 0"),
        ({"correlation_s": -1.0}, "correlation_s: expected finite seconds >= 0"),
        ({"level_sd": 0.9}, "level_sd: expected a share"),
        ({"rests": ((0.1, 1.2), (0.1, 1.3))}, "rests: expected finite seconds >= 0 in ascending order"),
        ({"rests": ((-0.1, 1.2),)}, "rests: expected finite seconds >= 0"),
        ({"rests": ((0.1, 0.0),)}, "rests: expected positive finite"),
    ],
)
def test_bad_spreads_are_refused_in_a_line(fields, words):
    with pytest.raises(InputError, match=words) as caught:
        Spread(**fields)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"visit": [1.0]}, "unknown field 'visit'"),
        ({"visits": 1.0}, "visits: expected a list"),
        ({"paths": [["a"]]}, "paths: expected numbers .got 'a'"),
        ({"window_s": "1"}, "window_s: expected a number"),
        ({"rests": [[0.1]]}, "rests: expected pairs of seconds and a factor"),
    ],
)
def test_bad_data_is_refused_in_a_line(data, words):
    with pytest.raises(InputError, match=words):
        Spread.from_dict(data)


@pytest.mark.parametrize(
    "spread",
    [
        CONSTANT,
        Spread(visits=(0.9, 1.0, 1.2)),
        Spread(runs=(0.9, 1.3), correlation_s=2.0, level_sd=0.02),
        Spread(paths=((1.0, 1.1), (0.9, 1.0)), window_s=0.5),
        Spread(rests=((0.0, 0.98), (0.005, 1.03))),
    ],
)
def test_plain_data_and_back(spread):
    assert Spread.from_dict(json.loads(json.dumps(spread.to_dict()))) == spread


def test_moments_of_independent_factors():
    spread = Spread(visits=(0.5, 1.0, 2.0), paths=((1.0, 3.0),), window_s=1.0)
    assert spread.mean == pytest.approx(3.5 / 3 * 2.0)
    assert spread.normalised().mean == pytest.approx(1.0)
    assert spread.quantile(0.0) == pytest.approx(0.5)
    assert spread.quantile(1.0) == pytest.approx(6.0, rel=0.02)


def test_a_recording_keeps_slow_times_and_what_devices_shared():
    start = np.arange(200) * 0.1
    slow = np.where((start >= 5) & (start < 10), 2.0, 1.0)  # five slow seconds, on both devices
    spread = Spread.of_visits(
        np.tile(start, 2), np.tile(0.1 * slow, 2), np.full(400, 0.1), np.repeat([0, 1], 200), window_s=0.1
    )
    first, second = np.array(spread.paths)
    assert spread.mean == pytest.approx(1.0, abs=1e-3)
    np.testing.assert_array_equal(first, second)
    assert first[60] / first[20] == pytest.approx(2.0, rel=1e-3)
    assert spread.recorded_s == pytest.approx(20.0, abs=0.2)


def test_time_in_which_all_devices_are_idle_is_left_out():
    start, took = np.array([0.0, 9.0]), np.array([0.9, 1.8])
    spread = Spread.of_visits(start, took, np.full(2, 0.9), np.zeros(2, int), window_s=0.1)
    path = np.array(spread.paths[0])
    assert len(path) == pytest.approx(28, abs=2)
    assert path[:9].tolist() == [path[0]] * 9
    assert path[11:].tolist() == [path[-1]] * (len(path) - 11)
    assert path[-1] == pytest.approx(2 * path[0], rel=1e-3)
