"""Bytes of a parameter under each optimiser, by counting the values that its algorithm keeps."""

from __future__ import annotations

import pytest
from meshwright.profiles.graph.memory import parameter_bytes


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("float16", (2, 2, 8)), ("bfloat16", (2, 2, 8)), ("float32", (4, 4, 4)), ("float64", (8,) * 3)],
)
def test_momentum_keeps_one_value_an_element(dtype, expected):
    assert parameter_bytes(dtype, "momentum") == expected


def test_adafactor_keeps_a_value_per_row_and_one_per_column():
    assert parameter_bytes("float16", "adafactor") == (2, 2, 4)  # no shape: a large matrix
    weight, gradient, state = parameter_bytes("float16", "adafactor", (30, 20))
    assert (weight, gradient) == (2, 2)
    assert state * 600 == pytest.approx(4 * 600 + 4 * (30 + 20))
    assert parameter_bytes("float32", "adafactor", (30, 20))[2] * 600 == pytest.approx(4 * 50)


def test_adafactor_factors_the_last_two_dimensions_and_no_vector():
    assert parameter_bytes("float32", "adafactor", (8, 30, 20))[2] * 4800 == pytest.approx(4 * 8 * 50)
    assert parameter_bytes("float32", "adafactor", (30,))[2] == 4
    assert parameter_bytes("float32", "adafactor", ())[2] == 4


def test_a_shape_changes_no_other_optimizer():
    for name in ("adam", "sgd", "momentum"):
        assert parameter_bytes("float16", name, (30, 20)) == parameter_bytes("float16", name)
