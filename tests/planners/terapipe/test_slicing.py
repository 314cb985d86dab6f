"""`slice_tokens` against every slicing there is, and TeraPipe's properties."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InfeasibleError, InputError
from meshwright.planners.terapipe import Slice, score_slices, slice_tokens, uniform_slices


def compositions(n):
    """All ways to write n as an ordered sum of positive integers."""
    if n == 0:
        yield ()
    for first in range(1, n + 1):
        for rest in compositions(n - first):
            yield (first, *rest)


def partitions(n, most):
    """All multisets of positive integers up to `most` with sum n."""
    if n == 0:
        yield ()
    for first in range(min(n, most), 0, -1):
        for rest in partitions(n - first, first):
            yield (first, *rest)


def brute_force(times, stages, batch):
    n = times.shape[1]
    best = np.inf
    for groups in partitions(batch, min(batch, len(times))):
        for cuts in itertools.product(list(compositions(n)), repeat=len(groups)):
            every = []
            for samples, cut in zip(groups, cuts, strict=True):
                start = 0
                for length in cut:
                    every.append(times[samples - 1, start, length - 1])
                    start += length
            longest = max(every)
            if np.isfinite(longest):
                best = min(best, sum(every) + (stages - 1) * longest)
    return best


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_equals_brute_force(data):
    n, most = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 2))
    stages, batch = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 3))
    values = data.draw(
        st.lists(st.integers(1, 12) | st.just(np.inf), min_size=most * n * n, max_size=most * n * n), label="times"
    )
    times = np.array(values, float).reshape(most, n, n)
    expected = brute_force(times, stages, batch)
    if np.isinf(expected):
        with pytest.raises(InfeasibleError, match="possible slice"):
            slice_tokens(times, stages, batch)
        return
    found = slice_tokens(times, stages, batch)
    assert found.seconds == expected
    assert sum(s.samples for s in found.slices) == batch
    again = score_slices(times, stages, found.slices)
    assert (again.total_s, again.longest_s) == (found.total_s, found.longest_s)


def linear(n, floor, slope, context):
    """A floor below which lengths take the same time, and a cost per (token x earlier token)."""
    start, length = np.meshgrid(np.arange(n), np.arange(1, n + 1), indexing="ij")
    return np.maximum(floor, slope * length) + context * start * length


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.floats(1e-6, 0.5), st.integers(0, 2**32 - 1))
def test_epsilon_keeps_its_promise(stages, epsilon, seed):
    times = np.random.default_rng(seed).uniform(0.1, 2.0, (2, 8, 8))
    exact, near = slice_tokens(times, stages, 3), slice_tokens(times, stages, 3, epsilon=epsilon)
    assert exact.seconds <= near.seconds + 1e-12
    assert near.seconds <= exact.seconds + (stages - 1) * epsilon + 1e-9


def test_one_stage_gains_nothing_from_slices():
    assert slice_tokens(linear(16, 1.0, 0.5, 0.01), 1).slices == (Slice(1, (16,)),)


def test_later_slices_are_shorter():
    """Context makes late tokens dearer, so the optimum evens times, not lengths (§2.3.3, Fig. 2.4)."""
    found = slice_tokens(linear(64, 2.0, 0.4, 0.01), 48)
    tokens = found.slices[0].tokens
    assert len(tokens) > 3
    assert tokens[0] > tokens[-2]
    assert found.seconds < min(
        uniform_slices(linear(64, 2.0, 0.4, 0.01), 48, 1, 1, m).seconds for m in (1, 2, 4, 8, 16)
    )


def test_a_large_batch_needs_no_token_slices():
    """Settings (2) and (3) of the paper: with enough samples only the batch is cut."""
    found = slice_tokens(linear(16, 8.0, 0.5, 0.0), 4, 72)
    assert set(found.slices) == {Slice(1, (16,))}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: slice_tokens(np.ones((2, 3)), 2), "shape"),
        (lambda: slice_tokens(np.full((3, 3), np.nan), 2), "times"),
        (lambda: slice_tokens(np.ones((3, 3)), 0), "stages"),
        (lambda: slice_tokens(np.ones((3, 3)), 2, 0), "batch"),
        (lambda: slice_tokens(np.ones((3, 3)), 2, epsilon=-1), "epsilon"),
        (lambda: slice_tokens("abc", 2), "numeric"),
        (lambda: score_slices(np.ones((3, 3)), 2, [Slice(1, (1, 1))]), "sum to 3"),
        (lambda: score_slices(np.ones((3, 3)), 2, [Slice(2, (3,))]), "samples"),
        (lambda: uniform_slices(np.ones((3, 3)), 2, 1, 1, 2), "divisor"),
        (lambda: uniform_slices(np.ones((3, 3)), 2, 3, 2, 1), "divisor"),
    ],
)
def test_bad_input(call, said):
    with pytest.raises(InputError, match=said):
        call()
