"""Sharding specs: Table 1 of the paper, and what every spec must satisfy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.simulator.sharding import ShardingSpec

TABLE_1 = {  # spec -> on a 2 x 2 mesh, (rows, columns) of an (N, M) tensor in quarters, per device in row-major order
    "RR": [((0, 4), (0, 4))] * 4,
    "S0S1": [((0, 2), (0, 2)), ((0, 2), (2, 4)), ((2, 4), (0, 2)), ((2, 4), (2, 4))],
    "S1S0": [((0, 2), (0, 2)), ((2, 4), (0, 2)), ((0, 2), (2, 4)), ((2, 4), (2, 4))],
    "S0R": [((0, 2), (0, 4)), ((0, 2), (0, 4)), ((2, 4), (0, 4)), ((2, 4), (0, 4))],
    "S1R": [((0, 2), (0, 4)), ((2, 4), (0, 4)), ((0, 2), (0, 4)), ((2, 4), (0, 4))],
    "RS0": [((0, 4), (0, 2)), ((0, 4), (0, 2)), ((0, 4), (2, 4)), ((0, 4), (2, 4))],
    "RS1": [((0, 4), (0, 2)), ((0, 4), (2, 4)), ((0, 4), (0, 2)), ((0, 4), (2, 4))],
    "S01R": [((i, i + 1), (0, 4)) for i in range(4)],
    "RS01": [((0, 4), (i, i + 1)) for i in range(4)],
}


@pytest.mark.parametrize("text", TABLE_1)
def test_table_1(text):
    spec = ShardingSpec.parse(text)
    assert str(spec) == text
    for device, (rows, columns) in enumerate(TABLE_1[text]):
        got = spec.slices((8, 12), (2, 2), device)
        assert got == (slice(2 * rows[0], 2 * rows[1]), slice(3 * columns[0], 3 * columns[1]))


@st.composite
def placed(draw):
    rank = draw(st.integers(0, 3))
    dims, left = [], {0, 1}
    for _ in range(rank):
        axes = draw(st.sampled_from([a for a in ((), (0,), (1,), (0, 1)) if set(a) <= left]))
        left -= set(axes)
        dims.append(axes)
    mesh = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    spec = ShardingSpec(tuple(dims))
    shape = tuple(n * draw(st.integers(1, 3)) for n in spec.pieces(mesh))
    return spec, mesh, shape


@given(placed())
def test_every_element_is_held_equally_often(case):
    spec, mesh, shape = case
    held = np.zeros(shape)
    for device in range(mesh[0] * mesh[1]):
        held[spec.slices(shape, mesh, device)] += 1
    copies = mesh[0] * mesh[1] * spec.fraction(mesh)
    assert np.allclose(held, copies)
    assert copies == pytest.approx(np.prod([mesh[a] for a in spec.repeating_axes]))
    assert ShardingSpec.parse(str(spec)) == spec


@pytest.mark.parametrize("text", ["S2", "RX", "S10", "r", "S0S0", "S01S1", "R R"])
def test_no_spec(text):
    with pytest.raises(InputError, match="sharding spec"):
        ShardingSpec.parse(text)


def test_shapes_that_cannot_be_cut():
    with pytest.raises(InputError, match="dimension 1 of size 6 cannot be cut into 4"):
        ShardingSpec.parse("RS01").slices((8, 6), (2, 2), 0)
    with pytest.raises(InputError, match="of 2 dimensions"):
        ShardingSpec.parse("RR").check((8,), (2, 2))
