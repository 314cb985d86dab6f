"""What a line says of errors, and what it must say."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from meshwright.errors import InputError
from meshwright.reproduce.accuracy.line import Errors, Line

LINE = Line(
    "published", "training", "seconds", "a model", "they", "1 GPU", "2020", "out", "nothing was fitted", "a paper",
    Errors.of([1.0], "%"),
)  # fmt: skip


def test_errors_by_hand() -> None:
    found = Errors.relative([1.1, 0.8, 1.0, 1.0], [1.0, 1.0, 1.0, 2.0], inside=[True, False, True, False])
    assert (found.n, found.inside, found.unit) == (4, 2, "%")
    assert found.worst == pytest.approx(-50.0)
    assert found.median == pytest.approx((10 + 20) / 2)  # of 0, 10, 20, 50
    assert found.bias == pytest.approx((-20 + 0) / 2)  # of -50, -20, 0, 10
    assert found.words() == ("15.0 %", "-50.0 %", "-10.0 %", "2 of 4")


def test_points_have_no_interval_unless_they_are_given_one() -> None:
    assert Errors.of([-1.5, 0.5], "points").words() == ("1.0 points", "-1.5 points", "-0.5 points", "")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Errors.of([], "%"),
        lambda: Errors.of([math.nan], "%"),
        lambda: Errors.of([1.0, math.inf], "%"),
        lambda: Errors.of([1.0], "%", [True, False]),
        lambda: Errors("%", 1, 0.0, 0.0, 0.0, inside=2),
        lambda: replace(LINE, kind="rumour"),
        lambda: replace(LINE, sample="mostly"),
        lambda: replace(LINE, why=""),
        lambda: replace(LINE, errors=None),
        lambda: replace(LINE, missing="no time"),
    ],
)
def test_a_line_without_its_facts_is_refused(wrong) -> None:
    with pytest.raises(InputError, match="accuracy"):
        wrong()
