"""The V100 layer: counted by hand, against known limits, and monotone where it must be."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.planners.terapipe import Slice, score_slices, slice_tokens
from meshwright.planners.terapipe.v100.cell import CALIBRATED, V100Cell, V100Layout, V100Rates
from meshwright.planners.terapipe.v100.iteration import iteration_s, simulated_s, stage_seconds
from meshwright.planners.terapipe.v100.kernel import makespan
from meshwright.seeds import generator

ALONE = V100Layout(layers=8, hidden=2048, data=1, pipe=8, op=1)
WIDE = V100Layout(layers=48, hidden=6144, data=2, pipe=24, op=8)
MIDDLE = V100Layout(layers=16, hidden=12288, data=1, pipe=16, op=4)
LAYOUTS = (ALONE, WIDE, MIDDLE)
FREE = 1e9  # a rate so high that what it limits takes no time


def products(hidden: int, length: int, context: int) -> float:
    """FLOPs of a layer's forward pass, product by product."""
    heads, size = hidden // 128, 128
    shapes = [(length, hidden, 3 * hidden), (length, hidden, hidden), (length, hidden, 4 * hidden)]
    shapes += [(length, 4 * hidden, hidden)]
    shapes += heads * [(length, size, length + context), (length, length + context, size)]
    return float(sum(2 * m * k * n for m, k, n in shapes))


@pytest.mark.parametrize("hidden", [2048, 12288])
@pytest.mark.parametrize(("length", "context"), [(2048, 0), (512, 1024)])
def test_with_memory_free_a_layer_takes_its_flops(hidden, length, context):
    layout = V100Layout(8, hidden, 1, 8, 1)
    cell = V100Cell(layout, 2048, V100Rates(0.5, FREE, 1.0, 1.0, 1.0))
    forward, backward = cell.layer(length, context)
    assert forward == pytest.approx(products(hidden, length, context) / 62.5e12, rel=1e-6)
    assert backward == pytest.approx(2 * forward, rel=1e-6)


def test_with_products_free_a_short_slice_of_a_wide_layer_moves_its_weights():
    layout = V100Layout(8, 12288, 1, 8, 1)
    forward, backward = V100Cell(layout, 16, V100Rates(FREE, 1.0, 1.0, 1.0, 1.0)).layer(16)
    # 12 H² weights, in half precision: read; then read, gradients written, and added up (two reads, a write)
    moved = 12 * 12288**2 * np.array([2, 2 + 2 + 6]) / 900e9
    assert forward == pytest.approx(moved[0], rel=0.02)
    assert backward == pytest.approx(moved[1], rel=0.02)


# What a kernel reads and writes, numbers in half precision unless said, of a layer's forward and backward pass.
WHOLE = {  # of l H on every GPU
    "two LayerNorms: statistics, then normal": (
        [2 * 2, 2 * 4],
        [2 * 4, 2 * 10],
    ),  # backward: two kernels and the result
    "two residuals": ([2 * 6], [2 * 6]),
    "two biases": ([2 * 6], [2 * 2, 4]),
}
SHARED = {  # of l H / #op
    "queries scaled": ([4], [4]),
    "queries, keys, values apart, and contiguous": ([3 * 4], [3 * 8]),
    "keys and values into what is kept": ([2 * 4], [2 * 4]),
    "heads together": ([4], [8]),
    "four H through ReLU, with bias": ([4 * 4, 4 * 2], [4 * 6, 4 * 7]),
}
SCORES = {  # of l (c + l) heads
    "product": ([2], [2]), "mask, in place": ([4], []), "softmax to single precision": ([2 + 4], [4 + 4 + 4]),
    "back to half": ([4 + 2], [2 + 4]), "product with values": ([2], [2, 2]),
}  # fmt: skip


def test_with_products_free_a_long_slice_moves_its_activations_and_scores():
    def moved(kernels, way):
        return sum(sum(ways[way]) for ways in kernels.values())

    layout, length, context = V100Layout(8, 12288, 1, 8, 4), 1024, 512
    rates = V100Rates(FREE, 1.0, 1e30, 0.0, 1.0)
    passes = V100Cell(layout, 2048, rates).layer(length, context)
    own = 12288 / 4
    for way in range(2):
        expected = moved(WHOLE, way) * length * 12288 + moved(SHARED, way) * length * own
        expected += moved(SCORES, way) * own / 128 * length * (length + context)
        # keys and values: two of (c + l) read, or gradients read, added and written; cleared and copied for all L
        expected += own * ((length + context) * (4 + 8 * way) + way * 2048 * 2 * (2 + 4 + 4))
        expected += 12 * 12288**2 / 4 * (2, 10)[way]
        assert float(passes[way]) == pytest.approx(expected / 900e9, rel=0.02)


def test_below_256_tokens_a_layer_of_gpt3_1b_takes_as_long_as_with_256():
    def seconds(n):
        return float(V100Cell(ALONE, n).layer(n)[0])

    assert [seconds(n) for n in (1, 16, 128)] == pytest.approx([seconds(256)] * 3)
    assert seconds(257) > seconds(256)
    rates = [n / seconds(n) for n in (1, 32, 256)]
    assert rates == sorted(rates)


def test_collectives_of_a_layer_by_hand():
    rates = replace(CALIBRATED, all_reduce_bytes_per_s=50e9, collective_s=1e-4)
    silent = replace(rates, all_reduce_bytes_per_s=FREE * 50e9, collective_s=0.0)
    parts = [V100Cell(WIDE, 2048, r).layer(512) for r in (rates, silent)]
    # two sums of 512 x 6144 half-precision numbers over 8 GPUs, each way
    expected = 2 * (1e-4 + 2 * 7 / 8 * 512 * 6144 * 2 / 50e9)
    for way in range(2):
        assert parts[0][way] - parts[1][way] == pytest.approx(expected, rel=1e-6)
    assert V100Cell(ALONE, 2048, rates).layer(512) == V100Cell(ALONE, 2048, silent).layer(512)


def test_a_message_crosses_nodes_where_a_node_ends():
    cell = V100Cell(ALONE)
    near, far = (float(cell.receive_s(k, 1000)) for k in (7, 8))
    n_bytes = 1000 * 2048 * 2
    assert near == pytest.approx(n_bytes / 25e9)
    assert far == pytest.approx(n_bytes / 3.1e9, rel=0.05)
    assert cell.receive_s(0, 1000) == 0
    middle = V100Cell(MIDDLE)
    assert [float(middle.receive_s(k, 64)) > float(middle.receive_s(1, 64)) for k in (2, 3, 4)] == [True, False, True]


def test_gradients_cross_nodes_once_an_iteration():
    reduce_s, update_s = V100Cell(WIDE).once_s()
    mine = 2 * 12 * 6144**2 / 8  # parameters on a GPU: two layers, cut by eight
    # a ring of two: each GPU sends its gradients once; the node's eight share an adapter
    assert reduce_s == pytest.approx(8 * 2 * mine / CALIBRATED.data_parallel_bytes_per_s, rel=0.02)
    assert V100Cell(replace(WIDE, data=1)).once_s() == (0.0, update_s)
    four = V100Cell(replace(WIDE, data=4)).once_s()[0]
    assert four / reduce_s == pytest.approx(1.5, rel=0.01)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda x: f"op{x.op}")
@pytest.mark.parametrize("name", list(asdict(CALIBRATED)))
def test_faster_hardware_is_never_slower(layout, name):
    rng = generator(1, f"v100 {name} {layout.op}")
    for _ in range(5):
        cuts = _random_cut(rng, 2048)
        slices = (Slice(1, cuts), Slice(2, (2048,)))
        value = getattr(CALIBRATED, name)
        better = value / 2 if name == "collective_s" else value * 1.3
        faster = V100Cell(layout, 2048, replace(CALIBRATED, **{name: better}))
        assert iteration_s(faster, slices) <= iteration_s(V100Cell(layout), slices)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda x: f"op{x.op}")
def test_more_tokens_context_or_samples_are_never_faster(layout):
    cell = V100Cell(layout)
    length, context = np.meshgrid(np.arange(8, 1025, 8), np.arange(0, 1025, 64), indexing="ij")
    for samples in (1, 3):
        for seconds in cell.seconds(length, context, samples):
            assert np.all(np.diff(seconds, axis=0) >= 0)
            assert np.all(np.diff(seconds, axis=1) >= 0)
    for one, two in zip(cell.seconds(256, 512, 1), cell.seconds(256, 512, 2), strict=True):
        assert one < two <= 2 * one


def test_stages_of_more_layers_take_longer_in_proportion():
    one, four = (V100Cell(replace(MIDDLE, layers=16 * n)).seconds(128, 256) for n in (1, 4))
    assert four == pytest.approx([4 * x for x in one])


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda x: f"op{x.op}")
def test_each_stage_waits_for_its_own_messages(layout):
    cell, cut = V100Cell(layout), (1024, 512, 512)
    forward, backward = stage_seconds(cell, [Slice(1, cut)])
    alone = cell.seconds(cut, (0, 1024, 1536))
    for k in range(layout.pipe):
        assert forward[k] == pytest.approx(alone[0] + cell.receive_s(k, cut))
        assert backward[layout.pipe - 1 - k] == pytest.approx(alone[1] + cell.receive_s(k, cut))


def _random_cut(rng, tokens):
    ends = np.sort(rng.choice(np.arange(1, tokens // 8), size=int(rng.integers(0, 12)), replace=False)) * 8
    return tuple(int(x) for x in np.diff([0, *ends, tokens]))


def _by_hand(seconds):
    """When the last stage is done: stage after stage, slice after slice."""
    free = [0.0] * len(seconds)
    for i in range(seconds.shape[1]):
        came = 0.0
        for k in range(len(seconds)):
            came = free[k] = max(came, free[k]) + seconds[k, i]
    return free[-1]


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda x: f"op{x.op}")
def test_the_engine_agrees_with_the_recursion_and_both_with_a_loop(layout):
    rng = generator(2, f"v100 {layout.op}")
    cell = V100Cell(layout)
    for _ in range(4):
        pieces = [Slice(int(rng.integers(1, 4)), _random_cut(rng, 2048)) for _ in range(int(rng.integers(1, 5)))]
        forward, backward = stage_seconds(cell, pieces)
        loops = _by_hand(forward) + _by_hand(backward[::-1, ::-1]) + sum(cell.once_s())
        assert iteration_s(cell, pieces) == pytest.approx(loops, rel=1e-12)
        assert simulated_s(cell, pieces) == pytest.approx(loops, rel=1e-9)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda x: f"op{x.op}")
def test_eq_2_5_where_all_stages_are_equal_and_a_bound_where_some_wait_less(layout):
    cell, slices = V100Cell(layout), (Slice(1, (512, 400, 400, 376, 360)),) * 3
    passes = [x[[np.argmax(x.sum(axis=1))]] for x in stage_seconds(cell, slices)]
    equal = [makespan(np.zeros(layout.pipe, np.int64), x) for x in passes]
    assert equal == pytest.approx([x.sum() + (layout.pipe - 1) * x.max() for x in passes])
    # Stages within a node, and the first, wait less; forward and backward need not be longest in the same slice.
    exact = iteration_s(cell, slices) - sum(cell.once_s())
    assert exact < sum(equal)
    eq = score_slices(cell.table(8), layout.pipe, [Slice(1, tuple(n // 8 for n in s.tokens)) for s in slices]).seconds
    assert eq <= sum(equal) * (1 + 1e-9)
    if layout.op == 8:  # every other stage receives from another node
        waits = 2 * float(cell.receive_s(1, [n for s in slices for n in s.tokens]).sum())
        assert sum(equal) - waits <= exact


def test_the_table_has_what_slices_take():
    cell = V100Cell(MIDDLE, 256)
    table = cell.table(64, (1, 2))
    forward, backward = cell.seconds(128, 64, 2)
    assert table.shape == (2, 4, 4)
    assert table[1, 1, 1] == pytest.approx(float(forward + backward + 2 * cell.receive_s(2, 128, 2)))


def test_the_dynamic_programme_on_it_is_the_best_of_all_slicings():
    cell = V100Cell(MIDDLE, 512)
    table = cell.table(64)
    found = slice_tokens(table, 16, 2)

    def cuts(n):
        return [(n,), *((k, *rest) for k in range(1, n) for rest in cuts(n - k))]

    every = [score_slices(table, 16, [Slice(1, a), Slice(1, b)]).seconds for a in cuts(8) for b in cuts(8)]
    assert found.seconds == pytest.approx(min(every))


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ((24, 2048, 1, 24, 3), "nodes of 8"),
        ((25, 2048, 1, 24, 8), "25 layers"),
        ((96, 2048, 1, 12, 1), "12 stages of 1"),
        ((24, 2048, 0, 24, 8), "positive"),
    ],
)
def test_layouts_that_cannot_be(sizes, said):
    with pytest.raises(InputError, match=said):
        V100Layout(*sizes)


def test_slices_that_do_not_sum_and_units_that_do_not_divide():
    with pytest.raises(InputError, match=r"sum to 2048 tokens \(got 2000\)"):
        iteration_s(V100Cell(ALONE), [Slice(1, (1000, 1000))])
    with pytest.raises(InputError, match="divides 2048"):
        V100Cell(ALONE).table(7)
    with pytest.raises(InputError, match="samples from 1"):
        V100Cell(ALONE).table(8, (2,))
