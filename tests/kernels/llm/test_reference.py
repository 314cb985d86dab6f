"""The torch reference of the LLM kernels against sums taken head by head in fp64, and what it refuses."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from meshwright.kernels.llm import kernels_for  # noqa: E402
from meshwright.kernels.llm.reference.gathered import similar  # noqa: E402

KERNELS = kernels_for("cpu", "torch")
TOLERANCE = {"float64": 1e-12, "float32": 2e-5, "float16": 5e-3}


def tensors(arguments):
    return [torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in arguments]


shapes = st.fixed_dictionaries(
    {
        "kv_heads": st.sampled_from([1, 2, 3]),
        "width": st.sampled_from([1, 8, 20]),
        "block_size": st.sampled_from([1, 4, 16]),
        "dtype": st.sampled_from(["float64", "float32", "float16"]),
        "seed": st.integers(0, 99),
    }
)


@settings(max_examples=30, deadline=None)
@given(lens=st.lists(st.integers(0, 40), min_size=1, max_size=5), group=st.sampled_from([1, 3, 8]), shape=shapes)
def test_decode_is_attention_over_the_blocks_of_the_table(make_case, lens, group, shape):
    case = make_case(lens, heads=group * shape["kv_heads"], **shape)
    found = KERNELS.paged_decode(*tensors(case.arguments()))
    assert np.abs(found.numpy() - case.decoded()).max() < TOLERANCE[shape["dtype"]]


@settings(max_examples=25, deadline=None)
@given(
    lens=st.lists(st.integers(0, 50), min_size=1, max_size=4),
    splits=st.integers(1, 9),
    shape=shapes,
    keep=st.booleans(),
)
def test_pieces_and_their_merge(make_case, lens, splits, shape, keep):
    case = make_case(lens, heads=2 * shape["kv_heads"], **shape)
    found = KERNELS.paged_decode_partial(*tensors(case.arguments()), splits)
    for mine, whole in zip(found, case.pieces(splits), strict=True):
        assert mine.dtype == (torch.float64 if shape["dtype"] == "float64" else torch.float32)
        assert np.allclose(mine.numpy(), whole, atol=TOLERANCE[shape["dtype"]], rtol=1e-2)
    o, m, s = found
    if not keep:  # what an empty piece holds is never read
        o = torch.where((s > 0)[..., None], o, torch.nan)
        m = torch.where(s > 0, m, torch.inf)
    merged = KERNELS.merge_partials(o, m, s)
    assert np.abs(merged.numpy() - case.decoded()).max() < TOLERANCE[shape["dtype"]]


@settings(max_examples=30, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=5),
    group=st.sampled_from([1, 4]),
    shape=shapes,
)
def test_prefill_sees_all_up_to_itself(make_case, rows, group, shape):
    lens, queries = [new + old for new, old in rows], [new for new, _ in rows]
    case = make_case(lens, queries=queries, heads=group * shape["kv_heads"], **shape)
    found = KERNELS.prefill_attention(*tensors(case.prefill_arguments()))
    assert found.shape == case.q.shape
    assert np.abs(found.numpy() - case.prefilled()).max(initial=0) < TOLERANCE[shape["dtype"]]


def test_merging_uses_the_convention_of_the_cost_model(make_case):
    from meshwright.profiles.llm.parallel.merge import Partial, merge

    case = make_case([30, 3], dtype="float64")
    o, m, s = (x.numpy() for x in KERNELS.paged_decode_partial(*tensors(case.arguments()), 4))
    theirs = merge([Partial(m[..., j], s[..., j], o[:, :, j]) for j in range(4)]).o
    mine = KERNELS.merge_partials(*(torch.from_numpy(x) for x in (o, m, s)))
    assert np.abs(mine.numpy() - theirs).max() < 1e-14


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_writes_go_to_their_slots_and_nowhere_else(dtype):
    cache = torch.full((3, 4, 2, 8), 9.0, dtype=dtype)
    k_cache, v_cache = cache.clone(), cache.clone()
    fused = torch.randn(5, 3, 2, 8).to(dtype)  # k and v as views of one projection
    slots = torch.tensor([11, -1, 0, 5, -1])
    KERNELS.reshape_and_cache(fused[:, 1], fused[:, 2], k_cache, v_cache, slots)
    for written, given_ in ((k_cache, fused[:, 1]), (v_cache, fused[:, 2])):
        flat = written.flatten(0, 1)
        assert torch.equal(flat[[11, 0, 5]], given_[[0, 2, 3]])
        assert (flat[[i for i in range(12) if i not in (11, 0, 5)]] == 9).all()


def test_all_pairs_are_copied_at_once():
    k_cache, v_cache = torch.randn(6, 4, 2, 8), torch.randn(6, 4, 2, 8)
    k, v = k_cache.clone(), v_cache.clone()
    KERNELS.copy_blocks(k_cache, v_cache, torch.tensor([[0, 3], [0, 4], [5, 1]]))
    for now, before in ((k_cache, k), (v_cache, v)):
        assert torch.equal(now, before[[0, 5, 2, 0, 0, 5]])
    KERNELS.copy_blocks(k_cache, v_cache, torch.empty((0, 2), dtype=torch.int64))


@given(lens=st.lists(st.integers(0, 300), max_size=20), size=st.sampled_from([1, 16]), tokens=st.integers(0, 1000))
def test_what_is_gathered_together_fits_and_is_similar(lens, size, tokens):
    seen = []
    for rows, longest, ragged in similar(lens, size, tokens):
        held = [lens[row] for row in rows]
        assert longest == max(held) <= 2 * min(held)
        assert ragged == (min(held) < longest)
        assert len(rows) == 1 or len(rows) * -(-longest // size) * size <= tokens
        seen += rows
    assert sorted(seen) == [row for row, length in enumerate(lens) if length]


def test_what_does_not_fit_is_refused(make_case):
    case = make_case([5, 9])
    q, k, v, tables, lens, scale = tensors(case.arguments())
    starts = torch.from_numpy(case.starts)
    decode, prefill = KERNELS.paged_decode, KERNELS.prefill_attention
    for call, message in (
        (lambda: decode(q[:, :3], k, v, tables, lens, scale), "multiple of the 2 KV heads"),
        (lambda: decode(q[..., :8], k, v, tables, lens, scale), r"expected q \[tokens, heads, 16\]"),
        (lambda: decode(q.double(), k, v, tables, lens, scale), "the cache's type"),
        (lambda: decode(q, k, v[:-1], tables, lens, scale), "of one shape"),
        (lambda: decode(q, k.transpose(0, 1), v.transpose(0, 1), tables, lens, scale), "contiguous"),
        (lambda: decode(q, k, v, tables[:1], lens, scale), r"block_tables \[2, width\]"),
        (lambda: decode(q, k, v, tables, lens + 99, scale), "context_lens must be 0 to 16"),
        (lambda: KERNELS.paged_decode_partial(q, k, v, tables, lens, scale, 0), "splits must be at least 1"),
        (lambda: prefill(q, k, v, tables, starts + 1, lens, scale), "query_starts must run from 0"),
        (lambda: prefill(q, k, v, tables, torch.tensor([0, 0, 2]), lens - 8, scale), "context_lens must be 0"),
        (lambda: prefill(q, k, v, tables, torch.tensor([0, 0, 2]), lens.clamp(max=1), scale), "0 to 1 queries"),
        (lambda: KERNELS.merge_partials(q, q, q), "expected o"),
        (lambda: KERNELS.reshape_and_cache(q, q, k, v, lens), "expected k and v of shape"),
        (lambda: KERNELS.reshape_and_cache(q[:, :2], q[:, :2], k, v, lens[:1]), "one slot per token"),
        (lambda: KERNELS.copy_blocks(k, v, lens), "pairs of blocks"),
        (lambda: kernels_for("tpu"), "device must be cpu or cuda"),
        (lambda: kernels_for("cpu", "cuda"), "backend must be one of"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_the_processor_gets_torch_without_triton():
    import subprocess
    import sys

    code = (
        "import sys; from meshwright.kernels.llm import kernels_for; print(kernels_for('cpu').name);"
        "assert not {'triton', 'simpy', 'ortools', 'pydantic', 'pandas'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("torch\n", 0), done.stderr
