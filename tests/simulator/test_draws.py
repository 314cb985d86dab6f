"""`draw`: the same number whoever asks, streams that do not touch each other, and the moments that were promised."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.jit import kernel
from meshwright.profiles.spread import CONSTANT, Spread
from meshwright.simulator.draws import draw
from meshwright.simulator.ratio import ratio

factors = st.lists(st.floats(0.1, 10.0), min_size=1, max_size=7).map(lambda row: tuple(sorted(row)))
spreads = st.one_of(
    st.builds(Spread, visits=factors),
    st.builds(Spread, visits=factors, runs=factors, correlation_s=st.floats(0.01, 3.0), level_sd=st.floats(0, 0.2)),
    st.builds(
        Spread,
        visits=factors,
        paths=st.lists(st.tuples(*[st.floats(0.1, 10.0)] * 5), min_size=1, max_size=3).map(tuple),
        window_s=st.floats(0.01, 2.0),
    ),
)


@kernel
def _all(slow, window_s, keys, visits, device, at, visit, out):
    for i in range(out.shape[0]):
        out[i] = ratio(slow, window_s, keys, visits, device[i], at[i], visit[i])


@given(spread=spreads, seed=st.integers(0, 2**32))
def test_python_and_compiled_give_the_same_factor(spread, seed):
    drawn = draw(spread, 3, 20.0, seed)
    rng = np.random.default_rng(seed)
    device, at, visit = rng.integers(0, 3, 50), rng.uniform(0, 60.0, 50), rng.integers(0, 10**6, 50)
    out = np.empty(50)
    _all(drawn.slow, drawn.window_s, drawn.keys, drawn.visits, device, at, visit, out)
    assert out.tolist() == [drawn.ratio(int(d), float(t), int(k)) for d, t, k in zip(device, at, visit, strict=True)]


@given(spread=spreads, seed=st.integers(0, 2**32))
def test_one_more_device_changes_nothing_for_the_others(spread, seed):
    few, many = draw(spread, 2, 5.0, seed), draw(spread, 5, 5.0, seed)
    np.testing.assert_array_equal(few.slow, many.slow[:2])
    np.testing.assert_array_equal(few.keys, many.keys[:2])


def test_no_variation_is_one():
    drawn = draw(CONSTANT, 2, 10.0, 0)
    assert {drawn.ratio(d, t, k) for d in (0, 1) for t in (0.0, 7.3) for k in (0, 5)} == {1.0}


def test_visits_have_the_quantiles_mean_and_independence():
    spread = Spread(visits=(0.5, 0.9, 1.0, 1.6))
    drawn = draw(spread, 2, 1.0, 3)
    one, other = (np.array([drawn.ratio(d, 0.0, k) for k in range(20_000)]) for d in (0, 1))
    assert one.mean() == pytest.approx(spread.mean, abs=4 * one.std() / 20_000**0.5)
    assert np.quantile(one, [0.125, 0.375, 0.625, 0.875]) == pytest.approx(spread.visits, abs=0.03)
    assert abs(np.corrcoef(one[1:], one[:-1])[0, 1]) < 0.03
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.03


def test_runs_have_the_quantiles_and_the_correlation_time():
    spread = Spread(runs=(0.8, 1.0, 1.2), correlation_s=2.0)
    drawn = draw(spread, 1, 40_000.0, 1)
    path = drawn.slow[0]
    assert np.quantile(path, [1 / 6, 0.5, 5 / 6]) == pytest.approx(spread.runs, abs=0.02)
    lag = round(2.0 / drawn.window_s)
    assert np.corrcoef(path[lag:], path[:-lag])[0, 1] == pytest.approx(np.exp(-1), abs=0.04)


def test_a_recording_is_replayed_from_one_place_on_all_devices():
    paths = (tuple(np.linspace(1, 2, 50).tolist()), tuple(np.linspace(3, 4, 50).tolist()))
    drawn = draw(Spread(paths=paths, window_s=0.1), 3, 5.0, 7)
    np.testing.assert_allclose(drawn.slow[1] - drawn.slow[0], 2.0)
    np.testing.assert_array_equal(drawn.slow[2], drawn.slow[0])
    assert sorted(drawn.slow[0][:50]) == pytest.approx(paths[0])  # whole, only begun elsewhere
    assert drawn.slow[0][0] != draw(Spread(paths=paths, window_s=0.1), 3, 5.0, 8).slow[0][0]


def test_the_level_is_one_for_all_devices_of_a_run():
    spread = Spread(level_sd=0.05)
    levels = np.array([draw(spread, 2, 1.0, seed).slow[:, 0] for seed in range(400)])
    np.testing.assert_array_equal(levels[:, 0], levels[:, 1])
    assert levels.std() == pytest.approx(0.05, rel=0.15)


def test_rests_are_refused_where_nobody_knows_of_them():
    spread = Spread(rests=((0.01, 1.1),))
    with pytest.raises(InputError, match="rests: only the stages of a serving plan"):
        draw(spread, 1, 1.0, 0)
    drawn = draw(spread, 1, 1.0, 0, resting=True)
    assert [drawn.rested(s) for s in (0.0, 0.009, 0.01, 5.0)] == [1.0, 1.0, 1.1, 1.1]


@pytest.mark.parametrize(("devices", "horizon"), [(0, 1.0), (1, -1.0), (1, float("nan"))])
def test_bad_arguments_are_refused(devices, horizon):
    with pytest.raises(InputError, match="draws: "):
        draw(CONSTANT, devices, horizon, 0)
