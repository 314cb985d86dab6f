"""Cross-mesh resharding: executed on arrays, every device ends with its tile; senders against brute force."""

from itertools import product

import numpy as np
import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.simulator import Cluster
from meshwright.simulator.mesh import LogicalMesh, Mesh
from meshwright.simulator.sharding import ShardingSpec
from meshwright.simulator.training.resharding.crossing import reshard_across
from meshwright.simulator.training.resharding.senders import Candidate, choose_senders, phase_seconds

METHODS = ("send_recv", "first_holder", "scatter_gather", "local_all_gather")
CLUSTER = Cluster(4, 4, "v100-16gb")
NEAR, FAR = CLUSTER.spec.intra_node, CLUSTER.spec.inter_node


def executed(plan, shape, source, have, target, need):
    """Do what a resharding says with numpy arrays; returns the tensor and what each target device holds of it."""
    whole = np.arange(np.prod(shape)).reshape(shape)
    held = {d: np.full(shape, -1) for d in target.mesh.device_ids}
    owned = {d: have.slices(shape, source.shape, k) if have.rank else ... for k, d in enumerate(source.mesh.device_ids)}
    for message in plan.messages:
        part = plan.slices(message.box, shape)
        mine = np.full(shape, -1)
        mine[owned[message.source]] = whole[owned[message.source]]
        assert np.all(mine[part] == whole[part]), "a device sends what it does not have"
        assert np.all(held[message.target][part] == -1), "something is sent twice"
        assert message.n_bytes == pytest.approx(plan.n_bytes * whole[part].size / whole.size)
        held[message.target][part] = whole[part]
    for gather in plan.gathers:
        for (sender, box), receiver in product(gather.parts, gather.devices):
            part = plan.slices(box, shape)
            assert np.all(held[sender][part] == whole[part])
            held[receiver][part] = held[sender][part]
    return whole, held


@st.composite
def specs(draw, rank):
    left, dims = {0, 1}, []
    for _ in range(rank):
        axes = draw(st.sampled_from([a for a in ((), (0,), (1,), (0, 1)) if set(a) <= left]))
        left -= set(axes)
        dims.append(axes)
    return ShardingSpec(tuple(dims))


@st.composite
def meshes(draw, column):
    hosts, devices = draw(st.sampled_from([(1, 1), (1, 2), (2, 1), (2, 2), (4, 2), (4, 1)]))
    host = draw(st.integers(0, 4 - hosts))
    mesh = Mesh(CLUSTER, hosts, devices, host, column)
    return mesh.view(draw(st.sampled_from(mesh.logical_shapes)))


@st.composite
def cases(draw):
    rank = draw(st.integers(0, 3))
    source, target = draw(meshes(0)), draw(meshes(2))
    if draw(st.booleans()) and source.mesh.hosts == target.mesh.hosts and source.mesh.devices == target.mesh.devices:
        target = LogicalMesh(target.mesh, source.shape)
    have = draw(specs(rank))
    need = have if draw(st.booleans()) else draw(specs(rank))
    return source, have, target, need, draw(st.sampled_from(METHODS)), draw(st.booleans())


@given(cases())
@settings(max_examples=examples(60, anew=200), deadline=None)
def test_every_device_ends_with_its_tile(case):
    source, have, target, need, method, with_shape = case
    # Divisible by what the specs ask for, and by replicas only where the shape is not told
    base = [np.lcm(a, b) for a, b in zip(have.pieces(source.shape), need.pieces(target.shape), strict=True)]
    shape = tuple(int(n) * (1 if with_shape else 8 * (k + 1)) for k, n in enumerate(base))
    plan = reshard_across(1024.0, source, have, target, need, method=method, shape=shape if with_shape else None)
    whole, held = executed(plan, shape, source, have, target, need)
    for k, device in enumerate(target.mesh.device_ids):
        tile = need.slices(shape, target.shape, k) if need.rank else ...
        assert np.array_equal(held[device][tile], whole[tile])
        if method in ("send_recv", "first_holder"):
            outside = held[device].copy()
            outside[tile] = -1
            assert np.all(outside == -1)
    if method == "local_all_gather":
        assert plan.sent_bytes == pytest.approx(1024.0)  # everything crosses once
    if method in ("send_recv", "first_holder"):
        assert plan.sent_bytes == pytest.approx(1024.0 * target.mesh.n_devices * need.fraction(target.shape))
        assert not plan.gathers
    if method == "first_holder":
        balanced = reshard_across(1024.0, source, have, target, need, shape=shape if with_shape else None,
                                  method="send_recv")  # fmt: skip
        assert plan.seconds >= balanced.seconds * (1 - 1e-9) or not balanced.exact


def two_nodes(devices, shape=None):
    cluster = Cluster(2, 8, "v100-16gb")
    return tuple(Mesh(cluster, 1, devices, host).view(shape or (1, devices)) for host in (0, 1))


def test_figure_6a_scatter_gather_between_equal_meshes():
    a, b = two_nodes(4)
    n_bytes = 64e6
    naive = reshard_across(n_bytes, a, "RR", b, "RR", method="send_recv")
    split = reshard_across(n_bytes, a, "RR", b, "RR", method="scatter_gather")
    assert naive.seconds == pytest.approx(4 * n_bytes / FAR.bandwidth_bytes_per_s)
    assert split.seconds == pytest.approx(n_bytes / FAR.bandwidth_bytes_per_s)
    assert split.gather_s == pytest.approx(b.seconds("all_gather", n_bytes, (0, 1)))
    assert [(m.source, m.target) for m in split.messages] == [(k, 8 + k) for k in range(4)]
    local = reshard_across(n_bytes, a, "RR", b, "RR", method="local_all_gather")
    assert local.seconds == split.seconds
    assert {m.n_bytes for m in local.messages} == {n_bytes / 4}


def test_figure_6bc_unequal_meshes():
    cluster = Cluster(2, 8, "v100-16gb")
    a, b = Mesh(cluster, 1, 2).view((1, 2)), Mesh(cluster, 1, 4, 1).view((2, 2))
    n_bytes = 64e6
    naive = reshard_across(n_bytes, a, "S1R", b, "S1R", method="send_recv")
    local = reshard_across(n_bytes, a, "S1R", b, "S1R", method="local_all_gather")
    assert naive.sent_bytes == 2 * n_bytes  # each half to two devices
    assert local.sent_bytes == n_bytes
    assert len(local.messages) == 4
    assert local.gather_s == pytest.approx(b.seconds("all_gather", n_bytes / 2, (0,)))
    assert local.seconds + local.gather_s < naive.seconds
    assert reshard_across(n_bytes, a, "S1R", b, "S1R", method="scatter_gather").method == "send_recv"


def test_a_tile_is_cut_where_it_meets_the_fewest_sources():
    """Halves of the rows on two devices, wanted whole by four: cut by rows each part has one source, by columns two."""
    cluster = Cluster(2, 4, "v100-16gb")
    a, b = Mesh(cluster, 1, 2).view((1, 2)), Mesh(cluster, 1, 4, 1).view((1, 4))
    for have in ("S1R", "RS1"):
        plan = reshard_across(64e6, a, have, b, "RR")
        assert len(plan.messages) == 4
        assert {m.n_bytes for m in plan.messages} == {16e6}


def test_a_tensor_that_cannot_be_cut_further_is_broadcast():
    """3 x 5 elements for four devices: all to one of them, which hands it round; 6 x 5 go to two."""
    a, b = two_nodes(4)
    plan = reshard_across(60.0, a, "RR", b, "RR", shape=(3, 5))
    assert [m.n_bytes for m in plan.messages] == [60.0]
    assert plan.gather_s == pytest.approx(3 * NEAR.latency_s + 60.0 / NEAR.bandwidth_bytes_per_s)
    plan = reshard_across(60.0, a, "RR", b, "RR", shape=(6, 5))
    assert [m.n_bytes for m in plan.messages] == [30.0, 30.0]
    assert plan.gather_s == pytest.approx(3 * NEAR.latency_s + 60.0 / NEAR.bandwidth_bytes_per_s)


def test_inside_a_node_devices_send_side_by_side():
    cluster = Cluster(1, 8, "v100-16gb")
    a, b = Mesh(cluster, 1, 4).view((1, 4)), Mesh(cluster, 1, 4, 0, 4).view((1, 4))
    plan = reshard_across(4e6, a, "S1R", b, "S1R")
    assert plan.seconds == pytest.approx(NEAR.latency_s + 1e6 / NEAR.bandwidth_bytes_per_s)
    assert plan.adapters_out == plan.adapters_in == ()
    assert plan.gathers == ()


def test_the_naive_sender_by_hand():
    """Two nodes each hold the whole tensor and two others want it: one adapter does it all, or each does one half."""
    a, b = Mesh(CLUSTER, 2, 1).view((1, 2)), Mesh(CLUSTER, 2, 1, 2).view((1, 2))
    naive = reshard_across(64e6, a, "RR", b, "RR", method="first_holder")
    assert [(m.source, m.target) for m in naive.messages] == [(0, 8), (0, 12)]
    once = FAR.latency_s + 64e6 / FAR.bandwidth_bytes_per_s
    assert naive.seconds == pytest.approx(2 * once)
    assert reshard_across(64e6, a, "RR", b, "RR", method="send_recv").seconds == pytest.approx(once)
    assert not naive.exact


def test_blocking_sends_wait_for_those_before_them():
    """Halves on devices 0 and 1, wanted whole by two of the next node: 0 to 4, 1 to 4, 0 to 5, 1 to 5 over one adapter.

    In one node there is none: 0 to 2; then 1 to 2 beside 0 to 3; then 1 to 3. Three messages one after the other.
    """
    a, far, near = (Mesh(CLUSTER, 1, 2, host, first).view((1, 2)) for host, first in ((0, 0), (1, 0), (0, 2)))
    plan = reshard_across(64e6, a, "S1R", far, "RR", method="first_holder")
    assert [(m.source, m.target) for m in plan.messages] == [(0, 4), (1, 4), (0, 5), (1, 5)]
    half = 32e6 / FAR.bandwidth_bytes_per_s
    # 0 to 5 waits until the adapter is free of 1 to 4, which waits until device 4 has all of 0 to 4, latency and all
    assert plan.seconds == pytest.approx(4 * half + 3 * FAR.latency_s, rel=1e-6)
    inside = reshard_across(64e6, a, "S1R", near, "RR", method="first_holder")
    assert inside.seconds == pytest.approx(3 * (NEAR.latency_s + 32e6 / NEAR.bandwidth_bytes_per_s))
    at_once = reshard_across(64e6, a, "S1R", near, "RR", method="send_recv")
    assert at_once.seconds == pytest.approx(2 * (NEAR.latency_s + 32e6 / NEAR.bandwidth_bytes_per_s))


@st.composite
def small_choices(draw):
    return [
        Candidate(
            draw(st.integers(8, 15)),
            tuple(sorted(draw(st.sets(st.integers(0, 7), min_size=1, max_size=3)))),
            float(draw(st.integers(1, 9)) * 2**20),
        )
        for _ in range(draw(st.integers(1, 6)))
    ]


@given(small_choices())
@settings(max_examples=examples(40, anew=100), deadline=None)
def test_senders_against_brute_force(parts):
    choice = choose_senders(parts, CLUSTER)
    best = min(phase_seconds(parts, who, CLUSTER) for who in product(*(p.senders for p in parts)))
    assert choice.exact
    assert choice.seconds == pytest.approx(best, rel=1e-9)
    assert choice.seconds == phase_seconds(parts, choice.senders, CLUSTER)


def test_replicas_share_the_sending():
    """The receiving node's adapter decides; the senders share the work all the same."""
    parts = [Candidate(12 + k % 4, (0, 4, 8), 2.0**20) for k in range(12)]
    choice = choose_senders(parts, CLUSTER)
    assert sorted(choice.senders) == [0] * 4 + [4] * 4 + [8] * 4


def test_errors():
    a, b = two_nodes(4, (2, 2))
    with pytest.raises(InputError, match="different ranks"):
        reshard_across(1.0, a, "S0R", b, "S0")
    with pytest.raises(InputError, match="dimension 0 of size 3 cannot be cut into 2"):
        reshard_across(1.0, a, "S0R", b, "RR", shape=(3, 4))
    plan = reshard_across(1.0, a, "S0R", b, "RR")
    with pytest.raises(InputError, match="not cut by a grid"):
        plan.slices(plan.messages[0].box, (3, 4))
