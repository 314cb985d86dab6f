"""ShareGPT- and Alpaca-like lengths: the moments that they claim, and the truncation that must not move them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.traces.lengths import (
    ALPACA,
    FOUND,
    IMPLIED_CV,
    LENGTHS,
    SHAREGPT,
    LengthProfile,
    _fitted,
    length_profile,
)


@pytest.mark.parametrize("name", sorted(LENGTHS))
def test_means_and_spreads_come_out_despite_the_truncation(name):
    profile = LENGTHS[name]
    said = (profile.prompt_mean, profile.prompt_cv, profile.output_mean, profile.output_cv)
    assert profile.moments() == pytest.approx(said, rel=1e-8)
    n = 100_000
    drawn = profile.sample(n, seed=1)
    for tokens, mean, cv in ((drawn.prompt, *said[:2]), (drawn.output, *said[2:])):
        assert abs(tokens.mean() - mean) < 4 * cv * mean / np.sqrt(n)
        assert tokens.std() / tokens.mean() == pytest.approx(cv, rel=0.03)
        assert tokens.min() >= 1
    assert (drawn.prompt + drawn.output).max() <= profile.longest


def test_the_fixed_points_that_are_kept_are_those_that_are_found(monkeypatch):
    kept = {profile: _fitted(profile) for profile in FOUND}
    monkeypatch.setattr("meshwright.traces.lengths.FOUND", {})
    for profile, fitted in kept.items():
        for mine, theirs in zip(fitted, _fitted.__wrapped__(profile), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-12)


def test_ratios_are_those_of_the_paper():
    """§5.6.1: prompts 8.4 times and outputs 5.8 times as long."""
    assert SHAREGPT.prompt_mean / ALPACA.prompt_mean == pytest.approx(8.4, abs=0.05)
    assert SHAREGPT.output_mean / ALPACA.output_mean == pytest.approx(5.8, abs=0.05)
    long, short = SHAREGPT.sample(50_000), ALPACA.sample(50_000)
    assert long.prompt.mean() / short.prompt.mean() == pytest.approx(8.4, rel=0.03)
    assert long.output.mean() / short.output.mean() == pytest.approx(5.8, rel=0.03)


def test_the_spread_is_the_one_that_the_figure_implies():
    """13.3 % of 15,728 slots reserved by 7 requests: E[O²] / 2 E[O] = 299 tokens."""
    assert pytest.approx(0.877, abs=0.001) == IMPLIED_CV
    output = SHAREGPT.sample(400_000).output
    assert (output**2).mean() / (2 * output.mean()) == pytest.approx(299, rel=0.01)


def test_a_seed_is_a_workload_and_profiles_have_streams_of_their_own():
    a, b = SHAREGPT.sample(1000, seed=3), SHAREGPT.sample(1000, seed=3)
    assert (a.prompt == b.prompt).all()
    assert (a.output == b.output).all()
    assert (a.output != SHAREGPT.sample(1000, seed=4).output).any()
    assert len(a) == 1000
    assert len(SHAREGPT.sample(0)) == 0


def test_prompts_and_outputs_are_independent_where_nothing_is_cut():
    drawn = ALPACA.sample(50_000)
    assert abs(np.corrcoef(drawn.prompt, drawn.output)[0, 1]) < 4 / np.sqrt(50_000)


@given(st.floats(5, 300), st.floats(5, 300), st.floats(0.2, 1.0), st.floats(0.2, 1.0), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_any_profile_that_is_met_is_met_exactly(prompt, output, cv_in, cv_out, scale):
    profile = LengthProfile("any", prompt, output, cv_in, cv_out, longest=2048 * scale)
    assert profile.moments() == pytest.approx((prompt, cv_in, output, cv_out), rel=1e-8)
    drawn = profile.sample(300)
    assert (drawn.prompt + drawn.output).max() <= profile.longest


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: LengthProfile("x", 0, 10), "prompt_mean: expected a positive number"),
        (lambda: LengthProfile("x", 10, 10, output_cv=float("nan")), "output_cv"),
        (lambda: LengthProfile("x", 1500, 900), "below the longest sequence, 2048"),
        (lambda: LengthProfile("x", 900, 900, 3.0, 3.0).sample(1), "no truncated log-normals"),
        (lambda: SHAREGPT.sample(-1), "number of requests >= 0"),
        (lambda: length_profile("sharegtp"), "did you mean 'sharegpt'"),
    ],
)
def test_bad_input(make, says):
    with pytest.raises(InputError, match=says):
        make()
