"""Bands around predicted times, worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from meshwright.profiles import device
from meshwright.profiles.llm import NO_OVERHEADS, Iteration, Part, decoder, iteration_cost
from meshwright.profiles.llm.cost.bands import band, interpolation_error
from meshwright.profiles.llm.tables.grid import Grid


def test_kinds_err_independently_and_parts_of_one_kind_together() -> None:
    parts = [Part("a", 2.0, "measured"), Part("b", 2.0, "interpolated"), Part("c", 4.0, "extrapolated by roofline")]
    found = band([*parts, Part("d", 2.0, "overhead")])
    assert found.share == pytest.approx(math.sqrt((0.4 * 0.07) ** 2 + (0.4 * 0.3) ** 2 + (0.2 * 0.5) ** 2))
    assert found.shares == pytest.approx(
        {"measured": 0.2, "interpolated": 0.2, "extrapolated by roofline": 0.4, "overhead": 0.2}
    )
    wider = band([Part("b", 1.0, "interpolated")], interpolation=0.24)
    assert wider.share == pytest.approx(0.25)  # 7, 24, 25
    assert band([]).share == 0


def test_a_roofline_says_30_percent() -> None:
    cost = iteration_cost(decoder("Llama-3.1-8B"), device("h100-80gb"), overheads=NO_OVERHEADS, max_tokens=64)
    step = Iteration((), 16, 16 * 500, 16)
    assert cost.band(step).share == pytest.approx(0.3, abs=0.01)
    assert "± 30%: " in cost.report(step)


def test_leaving_points_out_says_how_far_reading_between_them_errs() -> None:
    """A square law at 1, 2, 3, 4, 5: between 1 and 9 a line says 5 for 4, between 9 and 25 it says 17 for 16."""
    x = np.arange(1.0, 6)
    grid = Grid.build(("x",), (x,), x**2, lambda x: x)
    assert interpolation_error([grid]) == pytest.approx(np.quantile([0.25, 0.0625], 0.9))
    affine = Grid.build(("x",), (x,), 3 + x, lambda x: x)
    assert interpolation_error([affine]) == pytest.approx(0, abs=1e-12)
    assert interpolation_error([]) == 0
