"""The Triton kernels against sums in fp64: under the CPU interpreter always, on a GPU where there is one.

The interpreter multiplies bf16 wrongly (its products are numpy's, which has no bf16), so fp16 and fp32 only. A program
takes it milliseconds: cases are small, at most 100 programs each.
"""

import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

ATTENTION, SET, GEMM = (f"meshwright.kernels.llm.triton.{name}" for name in ("attention", "kernels", "gemm"))
TOLERANCE = {"float32": 3e-5, "float16": 6e-3}
few = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
shapes = st.fixed_dictionaries(
    {
        "kv_heads": st.sampled_from([1, 2]),
        "width": st.sampled_from([16, 20, 64]),
        "block_size": st.sampled_from([1, 3, 16]),
        "dtype": st.sampled_from(["float32", "float16"]),
        "seed": st.integers(0, 99),
    }
)


def near(found, expected, dtype="float32"):
    return found.shape == expected.shape and np.abs(found - expected).max(initial=0) < TOLERANCE[dtype]


@few
@given(lens=st.lists(st.integers(0, 80), min_size=1, max_size=3), group=st.sampled_from([1, 3, 17, 70]), shape=shapes)
def test_paged_decode(triton_call, make_case, lens, group, shape):
    case = make_case(lens, heads=group * shape["kv_heads"], **shape)
    found, _ = triton_call(ATTENTION, "paged_decode", *case.arguments())
    assert found.dtype == shape["dtype"]
    assert near(found, case.decoded(), shape["dtype"])


@few
@given(lens=st.lists(st.integers(0, 80), min_size=1, max_size=3), splits=st.sampled_from([1, 2, 5, 9]), shape=shapes)
def test_pieces_empty_ones_too(triton_call, make_case, lens, splits, shape):
    case = make_case(lens, heads=2 * shape["kv_heads"], **shape)
    found, _ = triton_call(ATTENTION, "paged_decode_partial", *case.arguments(), splits)
    for mine, whole in zip(found, case.pieces(splits), strict=True):
        assert mine.dtype == np.float32
        assert np.allclose(mine, whole, atol=TOLERANCE[shape["dtype"]], rtol=1e-2)
    o, m, s = found
    merged, _ = triton_call(ATTENTION, "merge_partials", np.where((s > 0)[..., None], o, np.nan), m, s)
    assert near(merged, case.decoded(), shape["dtype"])


def test_long_contexts_are_cut_and_merged(triton_call, make_case):
    """700 tokens of room and two programs: `splits_for` cuts; pieces of 256 tokens at least, some of them empty."""
    case = make_case([700, 90], heads=4, kv_heads=1, width=32, block_size=16, dtype="float16")
    found, _ = triton_call(ATTENTION, "paged_decode", *case.arguments())
    assert near(found, case.decoded(), "float16")
    found, _ = triton_call(ATTENTION, "paged_decode", *case.arguments(), splits=7)
    assert near(found, case.decoded(), "float16")


def test_a_contiguous_cache_gives_the_same(triton_call, make_case):
    case = make_case([300, 1, 0, 65], heads=4, kv_heads=2, width=32, block_size=16)
    k, v = (np.full((4, 310, 2, 32), np.nan, np.float32) for _ in range(2))
    for row, length in enumerate(case.lens):
        k[row, :length], v[row, :length] = case.tokens(row)
    found, _ = triton_call(ATTENTION, "contiguous_decode", case.q, k, v, case.lens, case.scale)
    assert near(found, case.decoded())


@few
@given(
    rows=st.lists(st.tuples(st.integers(0, 70), st.integers(0, 70)), min_size=1, max_size=3),
    group=st.sampled_from([1, 4]),
    tile=st.sampled_from([(16, 16), (16, 64), (64, 32)]),
    shape=shapes,
)
def test_prefill(triton_call, make_case, rows, group, tile, shape):
    """Whole prompts, chunks after cached prefixes, single queries and requests with none, cut by small tiles."""
    from meshwright.kernels.llm.tiles import Tiles

    lens, queries = [new + old for new, old in rows], [new for new, _ in rows]
    case = make_case(lens, queries=queries, heads=group * shape["kv_heads"], **shape)
    tiles = Tiles(m=tile[0], n=tile[1])
    found, _ = triton_call(ATTENTION, "prefill_attention", *case.prefill_arguments(), tiles=tiles)
    assert near(found, case.prefilled(), shape["dtype"])


def test_prefill_with_the_tiles_of_a_device(triton_call, make_case):
    case = make_case([200, 150], queries=[200, 20], heads=2, kv_heads=1, width=64, block_size=16, dtype="float16")
    found, _ = triton_call(ATTENTION, "prefill_attention", *case.prefill_arguments())
    assert near(found, case.prefilled(), "float16")


def test_writes_go_to_their_slots_and_nowhere_else(triton_call):
    random = np.random.default_rng(0)
    k, v = random.standard_normal((2, 7, 3, 20)).astype(np.float16)
    cache = np.full((4, 5, 3, 20), 9, np.float16)
    slots = np.array([19, -1, 0, 7, 8, -1, 4])
    _, (_, _, k_cache, v_cache, _) = triton_call(SET, "reshape_and_cache", k, v, cache, cache.copy(), slots)
    kept = slots >= 0
    for written, given_ in ((k_cache, k), (v_cache, v)):
        expected = np.full((20, 3, 20), 9, np.float16)
        expected[slots[kept]] = given_[kept]
        assert np.array_equal(written.reshape(20, 3, 20), expected)


def test_all_pairs_are_copied_at_once(triton_call):
    random = np.random.default_rng(0)
    k, v = random.standard_normal((2, 6, 16, 3, 50)).astype(np.float32)  # 2400 numbers a block: two chunks
    pairs = np.array([[0, 3], [0, 4], [5, 1]])
    _, (k_cache, v_cache, _) = triton_call(SET, "copy_blocks", k, v, pairs)
    assert np.array_equal(k_cache, k[[0, 5, 2, 0, 0, 5]])
    assert np.array_equal(v_cache, v[[0, 5, 2, 0, 0, 5]])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_matrix_product(triton_call, dtype):
    from meshwright.kernels.llm.tiles import Tiles

    random = np.random.default_rng(0)
    a, b = random.standard_normal((70, 100)).astype(dtype), random.standard_normal((100, 90)).astype(dtype)
    found, _ = triton_call(GEMM, "gemm", a, b, tiles=Tiles(m=16, n=32, k=32))
    assert np.allclose(found, a.astype(float) @ b.astype(float), atol=10 * TOLERANCE[dtype], rtol=1e-2)


def test_what_triton_cannot_do_is_refused(make_case):
    if find_spec("triton") is None:
        pytest.skip("Triton is not installed (pip install triton)")
    from meshwright.kernels.llm import kernels_for
    from meshwright.kernels.llm.triton import attention as triton_attention

    tensors = [torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in make_case([5]).arguments()]
    tensors[:3] = [x.double() for x in tensors[:3]]
    with pytest.raises(ValueError, match="takes float16, bfloat16 or float32"):
        triton_attention.paged_decode(*tensors)
    case = [torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in make_case([5]).prefill_arguments()]
    with pytest.raises(ValueError, match="scale must be positive"):
        triton_attention.prefill_attention(*case[:-1], -1.0)
    if "TRITON_INTERPRET" not in os.environ:
        with pytest.raises(ValueError, match="Triton's kernels run on cuda"):
            kernels_for("cpu", "triton")


def test_under_the_interpreter_the_set_is_tritons():
    if find_spec("triton") is None:
        pytest.skip("Triton is not installed (pip install triton)")
    code = "from meshwright.kernels.llm import kernels_for; print(kernels_for('cpu', 'triton').name)"
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout == "triton\n", done.stderr
