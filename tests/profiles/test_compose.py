"""Stages are sums of layers plus communication; lines are fitted in relative error."""

from __future__ import annotations

import math

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.profiles import CommModel, Layer, LayerTable, LinkSpec, ParallelConfig, Provenance, compose, fit_line


def layer(name: str, seconds: float, block: int | None) -> Layer:
    return Layer(
        name,
        {op: {b: seconds * b / op for b in (1, 4)} for op in (1, 2)},
        {1: 8e6, 2: 4e6},
        output_bytes=1e6,
        allreduce_bytes=1e6,
        allreduces=2 if block is not None else 0,
        activation_bytes=3e6,
        block=block,
    )


TABLE = LayerTable(
    "m",
    (layer("embedding", 0.01, None), *(layer(f"block{i}", 0.1, i) for i in range(4)), layer("head", 0.02, None)),
    Provenance("a stopwatch", "cpu-core", notes="by hand"),
)
COMM = CommModel(LinkSpec(1e9, 1e-3), {2: LinkSpec(1e9, 2e-3)}, source="another stopwatch")


def test_stage_is_the_sum_of_its_layers_and_its_send() -> None:
    profile = compose(TABLE, COMM)
    row = profile.latency(ParallelConfig(1, 2))
    assert row == pytest.approx((0.01 + 0.2 + 0.002, 0.2 + 0.02))
    assert profile.latency(ParallelConfig(1, 2), 4) == pytest.approx((0.84 + 0.005, 0.88))
    assert profile.stage(ParallelConfig(1, 2)).partition == (0, 3)
    assert profile.weight_bytes(ParallelConfig(1, 2)) == (24e6, 24e6)
    assert profile.stage(ParallelConfig(1, 2)).activation_bytes == {1: 3e6, 4: 12e6}
    assert profile.hop_s(ParallelConfig(1, 2)) == 0.0


def test_intra_op_adds_all_reduces_and_divides_weights() -> None:
    profile = compose(TABLE, COMM)
    assert profile.latency(ParallelConfig(2, 1)) == pytest.approx((0.43 / 2 + 8 * 0.003,))
    assert profile.latency(ParallelConfig(2, 1), 4) == pytest.approx((0.43 * 2 + 8 * 0.006,))
    assert profile.weight_bytes(ParallelConfig(2, 1)) == (24e6,)


def test_a_transfer_that_overlaps_becomes_the_hop() -> None:
    profile = compose(TABLE, CommModel(LinkSpec(1e9, 1e-3), p2p_occupies_stage=False), configs=[ParallelConfig(1, 2)])
    assert profile.hop_s(ParallelConfig(1, 2)) == pytest.approx(0.002)
    assert sum(profile.latency(ParallelConfig(1, 2))) == pytest.approx(0.43)


def test_default_configurations_stop_at_what_is_known() -> None:
    assert [str(c) for c in compose(TABLE, COMM).configs] == [
        f"op{op}pp{pp}" for op in (1, 2) for pp in (1, 2, 4)
    ]  # six layers: no eight stages
    assert {c.op for c in compose(TABLE, CommModel(LinkSpec(1e9, 0.0))).configs} == {1}


def test_provenance_tells_how_it_was_composed() -> None:
    profile = compose(TABLE, COMM, partition="equal", name="other")
    assert profile.name == "other"
    assert profile.provenance.source == "a stopwatch"
    assert "equal partition" in profile.provenance.notes
    assert "another stopwatch" in profile.provenance.notes
    with pytest.raises(InputError, match="partition must be 'auto' or 'equal'"):
        compose(TABLE, COMM, partition="best")  # type: ignore[arg-type]


def test_fit_line_recovers_a_line_and_stays_physical() -> None:
    sizes = np.array([1e3, 1e5, 1e6, 1e7])
    line = fit_line(sizes, 2e-5 + sizes / 3e9)
    assert line.latency_s == pytest.approx(2e-5)
    assert line.bandwidth_bytes_per_s == pytest.approx(3e9)
    assert fit_line([1e6, 2e6], [1e-3, 3e-3]).latency_s == 0.0  # the free fit would start below zero
    assert fit_line([1e3, 2e3], [2e-5, 1e-5]).bandwidth_bytes_per_s == math.inf
    with pytest.raises(InputError, match="at least two sizes"):
        fit_line([1e3, 1e3], [1e-5, 1e-5])
    with pytest.raises(InputError, match="times finite and > 0"):
        fit_line([1e3, 1e4], [1e-5, math.nan])


def test_bad_communication_models_are_refused() -> None:
    with pytest.raises(InputError, match="go together"):
        CommModel(LinkSpec(1e9, 0.0), devices_per_node=8)
    with pytest.raises(InputError, match="group size must be >= 2"):
        CommModel(LinkSpec(1e9, 0.0), {1: LinkSpec(1e9, 0.0)})
    with pytest.raises(InputError, match="stage_overhead_s"):
        CommModel(LinkSpec(1e9, 0.0), stage_overhead_s=math.nan)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"latency": {}}, "at least one degree"),
        ({"latency": {1: {1: math.nan}}}, "op 1, batch 1: latency must be positive"),
        ({"latency": {1: {1: -0.1}}}, r"got -0\.1"),
        ({"latency": {1: {0: 0.1}}}, "batch size: expected a positive integer"),
        ({"weight_bytes": {}}, "weight_bytes misses intra-op degree 1"),
        ({"weight_bytes": {1: -1.0}}, r"weight_bytes\[1\] must be finite"),
        ({"output_bytes": math.inf}, "output_bytes must be finite"),
        ({"block": -1}, "block must be >= 0"),
        ({"name": ""}, "name must not be empty"),
    ],
)
def test_bad_layers_are_refused(change: dict, message: str) -> None:
    good = {"name": "l", "latency": {1: {1: 0.1}}, "weight_bytes": {1: 1.0}}
    Layer(**good)
    with pytest.raises(InputError, match=message):
        Layer(**{**good, **change})


def test_bad_tables_are_refused() -> None:
    one = Layer("a", {1: {1: 0.1}}, {1: 1.0}, block=1)
    with pytest.raises(InputError, match="no layer given"):
        LayerTable("m", ())
    with pytest.raises(InputError, match="'a' is given twice"):
        LayerTable("m", (one, one))
    with pytest.raises(InputError, match="other intra-op degrees or batch sizes"):
        LayerTable("m", (one, Layer("b", {1: {1: 0.1, 2: 0.2}}, {1: 1.0})))
    with pytest.raises(InputError, match="blocks must be in order"):
        LayerTable("m", (one, Layer("b", {1: {1: 0.1}}, {1: 1.0}, block=0)))


@pytest.mark.parametrize(("op", "pp"), [(1, 2), (1, 4), (1, 8), (2, 2), (2, 4), (4, 2), (8, 2)])
def test_only_transfers_that_leave_a_node_take_its_link(op: int, pp: int) -> None:
    """Stages fill nodes of four devices in order: every send is listed device by device."""
    near, far, node, n_bytes = LinkSpec(1e9, 1e-6), LinkSpec(1e8, 1e-3), 4, 8e6
    comm = CommModel(near, p2p_inter_node=far, devices_per_node=node)
    for stage in range(pp - 1):
        senders = [stage * op + k for k in range(op)]
        crossing = any(d // node != (d + op) // node for d in senders)
        seconds = float(comm.transfer_s(np.array([n_bytes]), ParallelConfig(op, pp), stage)[0])
        each = n_bytes / op / 1e9 + 1e-6
        assert seconds == pytest.approx(n_bytes / 1e8 + 1e-3 if crossing else each), stage
