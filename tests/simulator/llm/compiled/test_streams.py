"""Random streams compiled: the numbers of NumPy's generators, draw for draw."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.jit import kernel
from meshwright.seeds import generator
from meshwright.simulator.llm.compiled.streams import agree, below, entropy_of, keys_of, seeded, uniform


@kernel(cache=False)
def drawn(entropy, key, stream, numbers, integers, limit):
    """Numbers, integers and numbers again: halves of words are left over between them."""
    seeded(stream, entropy, key)
    for i in range(len(numbers) // 2):
        numbers[i] = uniform(stream)
    for i in range(len(integers)):
        integers[i] = below(stream, limit)
    for i in range(len(numbers) // 2, len(numbers)):
        numbers[i] = uniform(stream)


@settings(max_examples=40, deadline=None)
@given(
    st.one_of(st.integers(0, 9), st.integers(0, 2**160)), st.lists(st.one_of(st.text(max_size=9), st.integers())),
    st.sampled_from([2, 3, 5, 2**31 + 1, 2**32 - 1]), st.integers(0, 40), st.integers(0, 40),
)  # fmt: skip
def test_all_draws_are_those_of_numpy(seed, names, limit, some, many):
    stream, numbers, integers = np.zeros(5, dtype=np.uint64), np.zeros(2 * some), np.zeros(many, dtype=np.int64)
    drawn(entropy_of(seed), keys_of([tuple(names)])[0], stream, numbers, integers, limit)
    rng = generator(seed, *names)
    np.testing.assert_array_equal(numbers[:some], rng.random(some))
    np.testing.assert_array_equal(integers, rng.integers(limit, size=many))
    np.testing.assert_array_equal(numbers[some:], rng.random(some))


def test_another_numpy_is_noticed(monkeypatch):
    assert agree()
    agree.cache_clear()
    monkeypatch.setattr("meshwright.simulator.llm.compiled.streams.generator", lambda *_: np.random.default_rng(1))
    assert not agree()
    agree.cache_clear()
