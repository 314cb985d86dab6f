"""`slice_pipeline` against every slicing of small batches, and against the paper's case of equal cells."""

import itertools

import numpy as np
import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InfeasibleError
from meshwright.planners.terapipe import Slice, slice_pipeline, slice_tokens


def compositions(n):
    if n == 0:
        yield ()
    for first in range(1, n + 1):
        for rest in compositions(n - first):
            yield (first, *rest)


def partitions(n, most):
    if n == 0:
        yield ()
    for first in range(min(n, most), 0, -1):
        for rest in partitions(n - first, first):
            yield (first, *rest)


def every_slicing(n, batch, most):
    for groups in partitions(batch, min(batch, most)):
        for cuts in itertools.product(list(compositions(n)), repeat=len(groups)):
            yield [Slice(b, cut) for b, cut in zip(groups, cuts, strict=True)]


def taken(table, slices):
    found = []
    for piece in slices:
        start = 0
        for length in piece.tokens:
            found.append(table[piece.samples - 1, start, length - 1])
            start += length
    return found


@settings(max_examples=examples(25, anew=60), deadline=None)
@given(st.data())
def test_equals_brute_force(data):
    n, most, batch = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 2)), data.draw(st.integers(1, 3))
    shape = (most, n, n)
    size = most * n * n
    total = np.array(data.draw(st.lists(st.integers(1, 12) | st.just(np.inf), min_size=size, max_size=size)), float)
    fills = [
        np.array(data.draw(st.lists(st.integers(0, 20), min_size=size, max_size=size)), float).reshape(shape)
        for _ in range(2)
    ]
    total = total.reshape(shape)
    best = min(sum(taken(total, x)) + sum(max(taken(fill, x)) for fill in fills) for x in every_slicing(n, batch, most))
    if np.isinf(best):
        with pytest.raises(InfeasibleError, match="make up the batch"):
            slice_pipeline(total, fills, batch)
        return
    found = slice_pipeline(total, fills, batch)
    assert found.seconds == best
    assert sum(taken(total, found.slices)) == found.total_s
    assert sum(x.samples for x in found.slices) == batch


def test_two_maxima_cost_more_than_one():
    """Forward a late slice is longest, backward an early one: the paper's t_fwd + t_bwd is a bound, not the time."""
    forward = np.array([[[1.0, 9], [4, 0]]])
    backward = np.array([[[4.0, 9], [1, 0]]])
    stages = 3
    found = slice_pipeline(forward + backward, [(stages - 1) * forward, (stages - 1) * backward], 1)
    assert found.slices == (Slice(1, (1, 1)),)
    assert found.seconds == (1 + 4 + 4 + 1) + 2 * 4 + 2 * 4
    assert slice_tokens(forward + backward, stages).seconds == 10 + 2 * 5


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 30), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_equal_cells_in_one_direction_are_the_papers(stages, batch, seed):
    times = np.random.default_rng(seed).uniform(0.1, 2.0, (2, 7, 7))
    found = slice_pipeline(times, [(stages - 1) * times], batch)
    assert found.seconds == pytest.approx(slice_tokens(times, stages, batch).seconds, rel=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 20), st.floats(1e-3, 0.5), st.integers(0, 2**32 - 1))
def test_epsilon_keeps_its_promise(stages, epsilon, seed):
    rng = np.random.default_rng(seed)
    total, fills = rng.uniform(0.1, 2.0, (1, 8, 8)), [stages * rng.uniform(0.1, 2.0, (1, 8, 8)) for _ in range(2)]
    exact, near = slice_pipeline(total, fills, 2), slice_pipeline(total, fills, 2, epsilon=epsilon)
    assert exact.seconds <= near.seconds + 1e-12
    assert near.seconds <= exact.seconds + 2 * epsilon + 1e-9


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 20), st.integers(0, 2**32 - 1))
def test_more_stages_never_have_a_longer_longest_slice(stages, seed):
    """Of two optima the one for more stages weighs the maximum more: exchange both, and one is beaten."""
    times = np.random.default_rng(seed).uniform(0.1, 2.0, (1, 8, 8))
    few, many = slice_tokens(times, stages), slice_tokens(times, stages + 3)
    assert many.longest_s <= few.longest_s + 1e-12
    assert many.total_s >= few.total_s - 1e-12
