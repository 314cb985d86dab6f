"""The partitioning dynamic programme against brute force, and the manual partition."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InfeasibleError, InputError, OutOfProfileError
from meshwright.profiles import (
    CommModel,
    Layer,
    LayerTable,
    LinkSpec,
    ParallelConfig,
    auto_partition,
    equal_layers,
)
from meshwright.profiles.autoparallel import minimax_starts, partition_at


def table_of(seconds: list[float], output_bytes: list[float] | None = None) -> LayerTable:
    """An embedding, blocks and a head (three layers or more) with these latencies at op 1; half of them at op 2."""
    last = len(seconds) - 1
    sent = output_bytes or [0.0] * len(seconds)
    return LayerTable(
        "m",
        tuple(
            Layer(
                f"layer{i}",
                {1: {1: x, 2: 2 * x}, 2: {1: x / 2, 2: x}},
                {1: 10.0, 2: 5.0},
                output_bytes=sent[i],
                allreduce_bytes=1000.0,
                allreduces=1 if 0 < i < last else 0,
                block=i - 1 if 0 < i < last else None,
            )
            for i, x in enumerate(seconds)
        ),
    )


def brute_force(layers: np.ndarray, sends: np.ndarray) -> tuple[float, float]:
    """Least slowest stage over all cuts, and the least sum of squares among the cuts that reach it."""
    n_stages, n = sends.shape
    stages = []
    for cuts in combinations(range(1, n), n_stages - 1):
        ends = (0, *cuts, n)
        stages.append([float(np.cumsum(layers[a:b])[-1] + sends[s, b - 1]) for s, (a, b) in enumerate(pairwise(ends))])
    best = min(max(row) for row in stages)
    return best, min(sum(x * x for x in row) for row in stages if max(row) == best)


seconds = st.floats(1e-4, 1.0)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_dynamic_programme_equals_brute_force(data: st.DataObject) -> None:
    layers = np.array(data.draw(st.lists(seconds, min_size=1, max_size=9), label="layers"))
    n_stages = data.draw(st.integers(1, len(layers)), label="stages")
    flat = data.draw(
        st.lists(st.floats(0, 0.5), min_size=n_stages * len(layers), max_size=n_stages * len(layers)), label="sends"
    )
    sends = np.array(flat).reshape(n_stages, len(layers))
    starts = minimax_starts(layers, sends)
    ends = (*starts, len(layers))
    assert starts[0] == 0
    assert all(a < b for a, b in pairwise(ends))
    row = [float(np.cumsum(layers[a:b])[-1] + sends[s, b - 1]) for s, (a, b) in enumerate(pairwise(ends))]
    best, squares = brute_force(layers, sends)
    assert max(row) == best
    assert sum(x * x for x in row) == pytest.approx(squares, rel=1e-12)


def test_equal_layers_split_evenly_and_ties_take_the_earliest_cuts() -> None:
    zero = np.zeros((4, 8))
    assert minimax_starts(np.ones(8), zero) == (0, 2, 4, 6)
    # Seven ones in four stages: one stage holds a single layer; the later cuts begin earliest, so it is the first.
    assert minimax_starts(np.ones(7), np.zeros((4, 7))) == (0, 1, 3, 5)


def test_a_heavy_head_gets_fewer_blocks() -> None:
    table = table_of([0.1, *[1.0] * 6, 2.0])
    config = ParallelConfig(1, 4)
    auto, manual = auto_partition(table, config), equal_layers(table, config)
    assert auto.starts == (0, 3, 5, 7)  # 2.1, 2, 2, 2
    assert auto.bottleneck_s == pytest.approx(2.1)
    assert manual.starts == (0, 2, 4, 5)  # 1.1, 2, 1, 4: six blocks over four stages, the head with the last
    assert manual.bottleneck_s == pytest.approx(4.0)
    assert auto.overhead < manual.overhead


def test_manual_partition_deals_out_equal_blocks() -> None:
    table = table_of([0.5, *[1.0] * 8, 0.7])
    manual = equal_layers(table, ParallelConfig(1, 4))
    assert manual.starts == (0, 3, 5, 7)
    assert manual.stage_s == pytest.approx((2.5, 2.0, 2.0, 2.7))


def test_overhead_decomposition_adds_up() -> None:
    comm = CommModel(LinkSpec(1e6, 0.01), {2: LinkSpec(1e5, 0.001)}, stage_overhead_s=0.005)
    table = table_of([0.1, 0.3, 0.2, 0.4, 0.2], output_bytes=[1000.0] * 5)
    part = auto_partition(table, ParallelConfig(2, 2), comm)
    assert part.computation_s == pytest.approx(0.6)
    # three all-reduces of 1 ms + 1000 B / 100 kB/s, one transfer of 10 ms + 500 B (its share) / 1 MB/s, two overheads
    assert part.communication_s == pytest.approx(3 * 0.011 + 0.0105 + 2 * 0.005)
    assert part.effective_s == pytest.approx(part.computation_s + part.communication_s + part.uneven_s)
    assert part.effective_s == pytest.approx(2 * max(part.stage_s))
    assert part.overhead == pytest.approx(part.effective_s / part.computation_s - 1)


def test_a_transfer_that_occupies_its_stage_moves_the_cut() -> None:
    table = table_of([1.0, 1.0, 1.0, 1.0], output_bytes=[0.0, 1e6, 0.0, 0.0])
    config = ParallelConfig(1, 2)
    assert auto_partition(table, config).starts == (0, 2)
    assert auto_partition(table, config, CommModel(LinkSpec(1e5, 0.0))).starts == (0, 1)  # sending there takes 10 s
    hop = CommModel(LinkSpec(1e5, 0.0), p2p_occupies_stage=False)
    assert auto_partition(table, config, hop).starts == (0, 2)


def test_crossing_nodes_costs_the_inter_node_link() -> None:
    comm = CommModel(LinkSpec(1e6, 0.0), {}, p2p_inter_node=LinkSpec(1e3, 0.0), devices_per_node=2)
    table = table_of([1.0] * 4, output_bytes=[1000.0] * 4)
    part = partition_at(table, ParallelConfig(1, 4), (0, 1, 2, 3), comm)
    assert part.stage_s == pytest.approx((1.001, 2.0, 1.001, 1.0))


def test_more_stages_than_layers_is_infeasible() -> None:
    table = table_of([1.0, 1.0, 1.0])
    with pytest.raises(InfeasibleError, match=r"op1pp4 needs 4 stages but there are 3 layers; use pp <= 3"):
        auto_partition(table, ParallelConfig(1, 4))
    with pytest.raises(InfeasibleError, match=r"1 Transformer layers; use pp <= 1"):
        equal_layers(table, ParallelConfig(1, 2))


def test_wrong_starts_unknown_degree_and_batch_are_told() -> None:
    table = table_of([1.0] * 4)
    with pytest.raises(InputError, match="rising first layers"):
        partition_at(table, ParallelConfig(1, 2), (0, 4))
    with pytest.raises(OutOfProfileError, match="no entry for intra-op degree 8; held degrees: 1, 2"):
        auto_partition(table, ParallelConfig(8, 1))
    with pytest.raises(OutOfProfileError, match="no entry for batch 3; held batches: 1, 2"):
        auto_partition(table, ParallelConfig(1, 2), batch=3)
    with pytest.raises(OutOfProfileError, match="no all-reduce line for groups of 2; held group sizes: none"):
        auto_partition(table, ParallelConfig(2, 1), CommModel(LinkSpec(1e9, 0.0)))
