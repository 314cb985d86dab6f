"""Sharding specs: the paper's Table 1, device by device."""

from __future__ import annotations

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.planners.alpa.intra import ShardingSpec, all_specs

# Rows and columns of A that devices 0 to 3 of a 2 x 2 mesh hold, transcribed from Table 1 with N = M = 4.
WHOLE, LOW, HIGH = (0, 4), (0, 2), (2, 4)
QUARTERS = ((0, 1), (1, 2), (2, 3), (3, 4))
TABLE_1 = {
    "RR": [(WHOLE, WHOLE)] * 4,
    "S0S1": [(LOW, LOW), (LOW, HIGH), (HIGH, LOW), (HIGH, HIGH)],
    "S1S0": [(LOW, LOW), (HIGH, LOW), (LOW, HIGH), (HIGH, HIGH)],
    "S0R": [(LOW, WHOLE), (LOW, WHOLE), (HIGH, WHOLE), (HIGH, WHOLE)],
    "S1R": [(LOW, WHOLE), (HIGH, WHOLE), (LOW, WHOLE), (HIGH, WHOLE)],
    "RS0": [(WHOLE, LOW), (WHOLE, LOW), (WHOLE, HIGH), (WHOLE, HIGH)],
    "RS1": [(WHOLE, LOW), (WHOLE, HIGH), (WHOLE, LOW), (WHOLE, HIGH)],
    "S01R": [(q, WHOLE) for q in QUARTERS],
    "RS01": [(WHOLE, q) for q in QUARTERS],
}


@pytest.mark.parametrize("text", TABLE_1)
def test_table_1(text):
    spec = ShardingSpec.parse(text)
    for device, (rows, columns) in enumerate(TABLE_1[text]):
        at = divmod(device, 2)
        assert spec.slices((4, 4), (2, 2), at) == (slice(*rows), slice(*columns))
    assert str(spec) == text


def test_all_specs_of_a_matrix_are_those_of_table_1():
    assert {str(s) for s in all_specs((4, 4), (2, 2))} == set(TABLE_1)


def test_only_even_cuts_are_valid():
    assert {str(s) for s in all_specs((6, 3), (2, 4))} == {"RR", "S0R"}
    assert [str(s) for s in all_specs((), (2, 4))] == [""]
    assert {str(s) for s in all_specs((8,), (1, 4))} == {"R", "S1"}  # an axis of one device cuts nothing


@pytest.mark.parametrize("mesh", [(2, 2), (2, 4), (4, 1), (3, 2)])
@pytest.mark.parametrize("shape", [(12,), (24, 12), (2, 8, 12)])
def test_slices_cover_a_tensor_as_often_as_it_is_repeated(shape, mesh):
    for spec in all_specs(shape, mesh):
        held = np.zeros(shape, int)
        for device in np.ndindex(*mesh):
            part = spec.slices(shape, mesh, device)
            held[part] += 1
            assert held[part].shape == spec.local_shape(shape, mesh)
        repeats = mesh[0] * mesh[1] // np.prod(spec.pieces(mesh))
        assert (held == repeats).all()
        assert spec.local_bytes(shape, 2, mesh) * mesh[0] * mesh[1] == held.sum() * 2


@pytest.mark.parametrize("text", ["S", "X", "S2R", "S10", "rS0", "S0S0", "S01S1"])
def test_what_is_no_spec(text):
    with pytest.raises(InputError, match="sharding spec"):
        ShardingSpec.parse(text)


def test_a_spec_that_does_not_divide():
    with pytest.raises(InputError, match=r"S01R.*\(6, 4\).*\(2, 2\)"):
        ShardingSpec.parse("S01R").local_shape((6, 4), (2, 2))
