"""Readings of Eqs. 2.5 and 2.9: those that made latencies are found again, and the paper's odd point by none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from meshwright.reproduce.terapipe import readings
from meshwright.reproduce.terapipe.readings import POINTS, READINGS, Reading, bump, fitted

LINE = Reading("a line", "tokens before", "slices with context", "Eq. 2.5")


def test_terms_by_hand():
    """Two slices of 1536 and 512 tokens: 1, i of t(i, 0); 1, i, j, i j of context, which the first does not pay."""
    terms = LINE.terms((1536, 512))
    assert terms.tolist() == [[1, 1536, 0, 0, 0, 0], [1, 512, 1, 512, 1536, 1536 * 512]]
    tiles = replace(LINE, first="tiles of 256", context="whole sequence", where="every slice")
    assert tiles.terms((300,)).tolist() == [[1, 512, 1, 300, 2048, 300 * 2048]]


def test_seconds_are_eq_2_5():
    """Eight sequences in four slices of t = 512 s, 48 stages: 32 t and 47 t more."""
    r, each = POINTS["4"], np.array([0.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    assert LINE.seconds(r, each) == pytest.approx((32 + 47) * 512)
    assert replace(LINE, passes="K stages").seconds(r, each) == pytest.approx((32 + 48) * 512)


def test_coefficients_that_made_latencies_are_found_again(monkeypatch):
    made = np.array([4e-3, 2e-5, 0.0, 0.0, 1e-6, 2e-9])
    points = {name: replace(r, seconds=LINE.seconds(r, made)) for name, r in POINTS.items()}
    monkeypatch.setattr(readings, "POINTS", points)
    found = fitted(LINE)
    assert found == pytest.approx({name: r.seconds for name, r in points.items()}, rel=1e-3)
    assert fitted(LINE, ("8",))["8"] == pytest.approx(points["8"].seconds, rel=0.02)


def test_no_reading_has_eight_slices_slower_than_four_and_sixteen():
    assert len(READINGS) == 96
    for reading in READINGS[::7]:
        found = fitted(reading)
        assert min(found["8"] / found["4"], found["8"] / found["16"]) < 0.95
    assert bump() == pytest.approx(0.135, abs=0.005)
