"""The merge of partial attention results: equal to full attention in fp64, in any order, with empty pieces."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.profiles.llm.parallel import merge as pm
from meshwright.profiles.llm.parallel.split import Split, owners
from meshwright.seeds import generator


def problem(seed: int, tokens: int, heads: int = 4, kv_heads: int = 2, width: int = 8, scale: float = 1.0):
    rng = generator(seed, "attention")
    q = scale * rng.standard_normal((heads, width))
    return q, rng.standard_normal((tokens, kv_heads, width)), rng.standard_normal((tokens, kv_heads, width))


def softmax_attention(q, k, v):
    """All at once, head by head."""
    found = np.empty((len(q), v.shape[2]))
    for h in range(len(q)):
        g = h // (len(q) // k.shape[1])
        score = k[:, g] @ q[h] / np.sqrt(q.shape[1])
        weight = np.exp(score - score.max())
        found[h] = weight @ v[:, g] / weight.sum()
    return found


def same(a: pm.Partial, b: pm.Partial) -> None:
    np.testing.assert_allclose(a.lse, b.lse, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(a.o, b.o, rtol=1e-11, atol=1e-12)


@given(
    seed=st.integers(0, 10_000),
    tokens=st.integers(1, 40),
    shards=st.integers(1, 12),
    interleave=st.integers(1, 5),
    scale=st.sampled_from([0.01, 1.0, 300.0]),
)
@settings(max_examples=80, deadline=None)
def test_merged_pieces_are_full_attention(seed, tokens, shards, interleave, scale):
    q, k, v = problem(seed, tokens, scale=scale)
    owner = owners(tokens, shards, Split(interleave=interleave))
    parts = [pm.partial_attention(q, k[owner == r], v[owner == r]) for r in range(shards)]
    whole = pm.merge(parts)
    np.testing.assert_allclose(whole.o, softmax_attention(q, k, v), rtol=1e-9, atol=1e-10)
    same(whole, pm.partial_attention(q, k, v))
    lse, o = pm.merge_lse([p.lse for p in parts], [p.o for p in parts])
    np.testing.assert_allclose(lse, whole.lse, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(o, whole.o, rtol=1e-9, atol=1e-10)


@given(seed=st.integers(0, 10_000), sizes=st.tuples(*[st.integers(0, 4)] * 3))
@settings(max_examples=40, deadline=None)
def test_the_merge_is_associative_and_commutative(seed, sizes):
    q, k, v = problem(seed, sum(sizes))
    ends = np.cumsum((0, *sizes))
    a, b, c = (pm.partial_attention(q, k[i:j], v[i:j]) for i, j in pairwise(ends))
    whole = pm.merge([a, b, c])
    same(pm.merge([pm.merge([a, b]), c]), whole)
    same(pm.merge([a, pm.merge([b, c])]), whole)
    for order in permutations((a, b, c)):
        same(pm.merge(order), whole)


def test_empty_shards_change_nothing_whatever_their_output_holds():
    q, k, v = problem(1, 5)
    some, none = pm.partial_attention(q, k, v), pm.partial_attention(q, k[:0], v[:0])
    assert np.isneginf(none.m).all()
    assert not none.s.any()
    undefined = pm.Partial(np.full(4, np.nan), none.s, np.full_like(none.o, np.nan))
    with np.errstate(all="raise"):
        for parts in ([some, none], [none, some], [undefined, some, none]):
            same(pm.merge(parts), some)
        nothing = pm.merge([none, none])
        lse, o = pm.merge_lse([none.lse, some.lse], [undefined.o, some.o])
        empty_lse, empty_o = pm.merge_lse([none.lse] * 2, [undefined.o] * 2)
    for sums, outputs in ((nothing.lse, nothing.o), (empty_lse, empty_o)):
        assert np.isneginf(sums).all()
        assert not outputs.any()
    np.testing.assert_allclose(lse, some.lse, rtol=1e-14)
    np.testing.assert_allclose(o, some.o, rtol=1e-14)


def test_normalised_outputs_need_their_sums_as_weights():
    """The thesis writes `o` as a softmax's result: without `s` in the weight the merge is wrong."""
    q, k, v = problem(3, 9)
    parts = [pm.partial_attention(q, k[:1], v[:1]), pm.partial_attention(q, k[1:], v[1:])]
    m = np.max([p.m for p in parts], axis=0)
    unweighted = np.sum([p.o * np.exp(p.m - m)[:, None] for p in parts], axis=0)
    unweighted /= np.sum([p.s * np.exp(p.m - m) for p in parts], axis=0)[:, None]
    assert abs(unweighted - softmax_attention(q, k, v)).max() > 0.05
    assert abs(pm.merge(parts).o - softmax_attention(q, k, v)).max() < 1e-12


def test_merge_wants_parts_that_fit():
    q, k, v = problem(0, 3)
    with pytest.raises(InputError, match="at least one"):
        pm.merge([])
    with pytest.raises(InputError, match="as many sums as outputs"):
        pm.merge_lse([np.zeros(4)], [])
    with pytest.raises(InputError, match="do not fit"):
        pm.partial_attention(q[:3], k, v)
