"""Designs: which combinations are evaluated; ranges: which values."""

from __future__ import annotations

import itertools
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from meshwright import seeds
from meshwright.studies import Study
from meshwright.studies.design.axes import Axis
from meshwright.studies.design.designs import Design, Grid, LatinHypercube, Listed, Zipped
from meshwright.studies.design.ranges import Range

LISTS = st.lists(st.lists(st.integers(), min_size=1, max_size=4), min_size=0, max_size=4)
BASE: dict[str, Any] = {"study": 1, "cluster": {"devices": 8}, "models": "S1", "workload": {"rate": 10, "slo_scale": 5}}


def values(axes: dict[str, Any], design: Any = "grid") -> list[tuple[Any, ...]]:
    return [tuple(v for _, v in row) for row in Study.from_dict(BASE | {"axes": axes, "design": design}).design]


@given(LISTS)
def test_a_grid_is_the_product_of_its_axes_the_last_fastest(lists: list[list[int]]) -> None:
    grid = Grid(tuple(Axis(f"a{i}", tuple(found)) for i, found in enumerate(lists)))
    expected = [tuple((f"a{i}", v) for i, v in enumerate(row)) for row in itertools.product(*lists)]
    assert list(grid) == [grid[i] for i in range(len(grid))] == expected
    assert grid[-1] == expected[-1]
    with pytest.raises(IndexError):
        grid[len(grid)]


def test_a_huge_grid_is_indexed_without_being_made() -> None:
    axes = tuple(Axis(f"a{i}", Range(0, 999_999, 1_000_000, whole=True)) for i in range(3))
    grid = Grid(axes)
    assert len(grid) == 10**18
    assert grid[123_456_789_012_345_678] == (("a0", 123_456), ("a1", 789_012), ("a2", 345_678))
    assert len(pickle.dumps(grid)) < 1000


@given(st.lists(st.tuples(st.integers(), st.integers()), min_size=1, max_size=9))
def test_zipped_and_listed_designs_are_their_rows(rows: list[tuple[int, int]]) -> None:
    first, second = zip(*rows, strict=True)
    zipped = Zipped((Axis("a", first), Axis("b", second)))
    listed = Listed(tuple((("a", a), ("b", b)) for a, b in rows))
    for design in (zipped, listed):
        assert list(design) == [design[i] for i in range(len(design))] == [(("a", a), ("b", b)) for a, b in rows]


@given(st.integers(1, 60), st.integers(0, 1000))
def test_a_latin_hypercube_hits_each_stratum_of_each_axis_once(count: int, seed: int) -> None:
    design = LatinHypercube(
        (
            Axis("linear", Range(2.0, 5.0, 2)),
            Axis("log", Range(0.1, 1000.0, 2, "log")),
            Axis("list", tuple("abc")),
            Axis("whole", Range(1, 4, 2, whole=True)),
        ),
        count,
        seed,
    )
    columns = list(zip(*([v for _, v in row] for row in design), strict=True))
    parts = [[(x - 2.0) / 3.0 for x in columns[0]], [math.log(x / 0.1, 1e4) for x in columns[1]]]
    for part in parts:  # 12 digits may put a value on the edge of its stratum, never beyond
        strata = sorted(part)
        assert all(i / count - 1e-9 <= p <= (i + 1) / count + 1e-9 for i, p in enumerate(strata))
    for column, options in ((columns[2], "abc"), (columns[3], (1, 2, 3, 4))):
        shares = [sum(v == option for v in column) for option in options]
        assert sum(shares) == count
        assert all(abs(share - count / len(options)) < 2 for share in shares)
    assert list(design) == [design[i] for i in range(count)]


def test_a_latin_hypercube_is_drawn_from_its_named_stream_axis_by_axis() -> None:
    axes = tuple(Axis(name, Range(0.0, 1.0, 2)) for name in "abc")
    rng = seeds.generator(3, "latin hypercube")
    expected = (rng.permutation(10) + rng.random(10)) / 10
    drawn = [row[0][1] for row in LatinHypercube(axes, 10, 3)]
    np.testing.assert_allclose(drawn, expected, rtol=1e-11)
    shorter: Design = LatinHypercube(axes[:1], 10, 3)
    assert [row[0][1] for row in shorter] == drawn
    assert [row[0][1] for row in LatinHypercube(axes, 10, 4)] != drawn


@pytest.mark.parametrize(
    ("axis", "expected"),
    [
        ({"rate": {"from": 1, "to": 2, "points": 5}}, [1.0, 1.25, 1.5, 1.75, 2.0]),
        ({"rate": {"from": 0.1, "to": 0.7, "step": 0.1}}, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]),
        ({"rate": {"from": 1, "to": 2, "step": 0.4}}, [1.0, 1.4, 1.8]),
        ({"cv": {"from": 1, "to": 8, "points": 4, "scale": "log"}}, [1.0, 2.0, 4.0, 8.0]),
        ({"devices": {"from": 1, "to": 64, "points": 7, "scale": "log"}}, [1, 2, 4, 8, 16, 32, 64]),
        ({"devices": {"from": 1, "to": 8, "points": 4}}, [1, 3, 6, 8]),
        ({"devices": {"from": 2, "to": 9, "step": 3}}, [2, 5, 8]),
        ({"seed": {"from": 0, "to": 3, "step": 1}}, [0, 1, 2, 3]),
        ({"memory": {"from": "1 GiB", "to": "2 GiB", "step": "512 MiB"}}, [2**30, 3 * 2**29, 2**31]),
        ({"options.depth": {"from": 1, "to": 5, "points": 3}}, [1, 3, 5]),
        ({"options.depth": {"from": 1, "to": 2, "points": 3}}, [1.0, 1.5, 2.0]),
    ],
)
def test_ranges(axis: dict[str, Any], expected: list[float]) -> None:
    found = [row[0] for row in values(axis)]
    assert found == expected
    assert [type(v) for v in found] == [type(v) for v in expected]


@given(
    st.floats(1e-6, 1e6), st.floats(1.001, 1e6), st.integers(2, 200), st.sampled_from(["linear", "log"]), st.booleans()
)
def test_a_range_goes_up_from_end_to_end(low: float, ratio: float, n: int, scale: Any, whole: bool) -> None:
    high = low * ratio
    if whole:
        low, high = math.ceil(low), math.ceil(low) + math.ceil(high)
    found = Range(low, high, n, scale, whole)
    said = list(found)
    assert len(said) == n
    assert said == sorted(said)
    assert math.isclose(said[0], low, rel_tol=1e-11)
    assert math.isclose(said[-1], high, rel_tol=1e-11)
    assert all(v == float(f"{v:.12g}") for v in said if not whole)
    assert found[1:] == tuple(said[1:])
    inside = [found.at(part) for part in np.linspace(0, 1, 50, endpoint=False).tolist()]
    assert all(low - 1e-11 * low <= v <= high + 1e-11 * high for v in inside)
    assert inside == sorted(inside)


def test_a_latin_hypercube_of_a_study_samples_continuously_and_evenly() -> None:
    axes = {"rate": {"from": 1, "to": 9}, "devices": {"from": 1, "to": 4, "points": 2}, "models": ["S1", "S2"]}
    found = values(axes, {"latin_hypercube": 8})
    assert sorted(int(rate) for rate, _, _ in found) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert sorted(devices for _, devices, _ in found) == [1, 1, 2, 2, 3, 3, 4, 4]
    assert sorted(models for _, _, models in found) == ["S1"] * 4 + ["S2"] * 4
