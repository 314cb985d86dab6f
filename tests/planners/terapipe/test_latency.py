"""Eq. 2.9: what a fit gives back, what it says of itself, and what it refuses."""

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.planners.terapipe import SliceLatency, fit_latency, slice_tokens
from meshwright.seeds import generator

A = (2e-5, 3e-8, 5e-8, 4e-10)


def truth(b, i, j):
    """A floor below 256 tokens (Fig. 2.3), and an overhead of context that is linear as the paper's is."""
    overhead = np.where(j > 0, A[0] + A[1] * b * i + A[2] * b * j + A[3] * b * i * j, 0.0)
    return 1e-3 * np.maximum(b * i, 256) / 256 + overhead


def pairs(samples=(1,)):
    found = []
    for b in samples:
        for i in range(64, 1025, 64):
            found.append((b, i, 0))
            found += [(b, i, j) for j in range(128, 1025 - i, 128)]
    return np.array(found, float).T


@pytest.mark.parametrize("samples", [(1,), (1, 2, 4)])
def test_a_linear_overhead_is_found_exactly(samples):
    b, i, j = pairs(samples)
    fit = fit_latency(i, j, truth(b, i, j), b)
    assert fit.context == pytest.approx(A, rel=1e-6)
    assert fit.overhead_error < 1e-6
    assert fit.held_out > 10
    assert fit.seconds(192, 320, samples[-1]) == pytest.approx(truth(samples[-1], 192.0, 320.0))


def test_the_error_is_that_of_pairs_that_were_not_fitted():
    """An overhead with a kink: the error reported is near the one on all pairs, computed anew."""
    b, i, j = pairs()
    seconds = truth(b, i, j) + np.where(j > 512, 3e-8 * (j - 512) * i / 256, 0.0)
    fit = fit_latency(i, j, seconds)
    with_context = j > 0
    wrong = np.abs(fit.seconds(i, j) - seconds)[with_context]
    overhead = (seconds - truth(b, i, 0 * j))[with_context]
    everywhere = wrong.mean() / overhead.mean()
    assert 0.01 < everywhere < 1
    assert fit.overhead_error == pytest.approx(everywhere, rel=0.5)
    assert fit.error < fit.overhead_error


def test_noise_leaves_the_plane_where_it_is():
    b, i, j = pairs()
    noise = generator(3, "slice latency").normal(1.0, 0.001, len(i))
    fit = fit_latency(i, j, truth(b, i, j) * noise)
    assert fit.context[3] == pytest.approx(A[3], rel=0.1)
    assert 0.0002 < fit.error < 0.002


def test_tables_are_those_that_slice_tokens_takes():
    b, i, j = pairs((1, 2))
    table = fit_latency(i, j, truth(b, i, j), b).table(1024, 64, (1, 2))
    assert table.shape == (2, 16, 16)
    assert table[1, 3, 4] == pytest.approx(truth(2, 5 * 64.0, 3 * 64.0))
    found = slice_tokens(table, 12, 4)
    assert sum(s.samples for s in found.slices) == 4
    assert all(sum(s.tokens) == 16 for s in found.slices)


def test_samples_that_were_not_measured_are_no_slices():
    b, i, j = pairs((1, 4))
    table = fit_latency(i, j, truth(b, i, j), b).table(1024, 64, (1, 4))
    assert np.isinf(table[1:3]).all()
    assert {s.samples for s in slice_tokens(table, 4, 8).slices} <= {1, 4}


def test_between_lengths_a_line_and_beyond_them_the_last_rate():
    fit = fit_latency([100, 200], [0, 0], [1.0, 3.0])
    assert fit.seconds([100, 150, 400]).tolist() == [1.0, 2.0, 6.0]
    with pytest.raises(InputError, match="shortest measured slice has 100"):
        fit.seconds(50)


def test_equal_measurements_are_averaged():
    assert float(fit_latency([8, 8, 16], [0, 0, 0], [1.0, 3.0, 5.0]).seconds(8)) == 2.0


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: fit_latency([1, 2], [0, 0], [1.0]), "one for each"),
        (lambda: fit_latency([1, 2], [0, 0], [1.0, -1.0]), "seconds > 0"),
        (lambda: fit_latency([1, 2], [0, 0], [1.0, np.nan]), "seconds > 0"),
        (lambda: fit_latency([0, 2], [0, 0], [1.0, 1.0]), "lengths: expected integers >= 1"),
        (lambda: fit_latency([1, 2], [0, 1.5], [1.0, 1.0]), "contexts: expected integers >= 0"),
        (lambda: fit_latency([1, 2], [4, 4], [1.0, 1.0]), "without context"),
        (lambda: fit_latency([1, 2, 1], [0, 0, 4], [1.0, 1.0, 1.0]), "four slices"),
        (lambda: fit_latency([8, 16, 8], [0, 0, 0], [1.0, 2.0, 1.0], [1, 1, 2]), "16 tokens without context for 2"),
        (lambda: fit_latency("a", [0], [1.0]), "numbers"),
        (lambda: SliceLatency(np.array([8]), {1: np.array([1.0])}).seconds(8, 0, 3), "3 samples"),
        (lambda: SliceLatency(np.array([8]), {1: np.array([1.0])}).table(64, 7, (1,)), "use 8"),
    ],
)
def test_bad_input(call, said):
    with pytest.raises(InputError, match=said):
        call()
