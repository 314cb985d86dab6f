"""Clusters, groups and placements: what they say about themselves."""

import pytest
from meshwright.errors import InputError
from meshwright.profiles import ModelProfile, ParallelConfig
from meshwright.simulator import Cluster, Group, Placement, PlacementSchedule
from meshwright.simulator.serving.tables import build_tables

ONE, PIPE2, WIDE = ParallelConfig(1, 1), ParallelConfig(1, 2), ParallelConfig(2, 2)


def test_devices_are_numbered_node_by_node():
    cluster = Cluster(2, 4)
    assert cluster.n_devices == 8
    assert [cluster.node_of(d) for d in range(8)] == [0] * 4 + [1] * 4
    assert cluster.link(0, 3) == cluster.spec.intra_node
    assert cluster.link(3, 4) == cluster.spec.inter_node
    assert str(cluster) == "2 node(s) x 4 v100-16gb"


@pytest.mark.parametrize(
    ("n", "shape"), [(1, (1, 1)), (8, (1, 8)), (5, (1, 5)), (16, (2, 8)), (12, (12, 1)), (64, (8, 8))]
)
def test_the_cluster_of_so_many_devices(n, shape):
    cluster = Cluster.of(n)
    assert (cluster.nodes, cluster.devices_per_node) == shape


def test_groups_without_devices_get_the_lowest_free_ones():
    placement = Placement([Group(PIPE2, ["a"]), Group(ONE, ["b"], [1]), Group(WIDE, ["a"])])
    assert [g.devices for g in placement.groups] == [(0, 2), (1,), (3, 4, 5, 6)]
    assert placement.groups[2].stage_devices(1) == (5, 6)
    assert placement.n_devices == 7


def test_models_and_who_holds_them():
    placement = Placement([Group(ONE, ["b", "a"]), Group(ONE, []), Group(ONE, ["a", "c"])])
    assert placement.models == ("b", "a", "c")
    assert placement.groups_of("a") == (0, 2)
    assert placement.groups_of("nobody") == ()
    assert str(placement).splitlines()[1] == "group 1: op1pp1 on devices 1: —"


def test_memory_is_summed_per_stage():
    weights = {PIPE2: [3.0, 5.0]}
    profiles = {n: ModelProfile.from_stages(n, {PIPE2: {1: [1, 1]}}, weights) for n in ("a", "b")}
    assert Group(PIPE2, ["a", "b"]).memory_bytes(profiles) == (6.0, 10.0)


def test_placements_are_values():
    assert Placement([Group(ONE, ["a"])]) == Placement([Group(ONE, ["a"], [0])])
    assert hash(Placement([Group(ONE, ["a"])])) == hash(Placement([Group(ONE, ["a"])]))
    assert PlacementSchedule([0], [Placement([Group(ONE, ["a"])])]).carry is False


def test_tables_sort_pairs_by_model_then_group_and_leave_out_what_nobody_asks_for():
    latency = {ONE: {1: [0.5], 2: [0.75]}, PIPE2: {1: [0.25, 0.25], 2: [0.5, 0.5], 3: [1, 1]}}
    profiles = {n: ModelProfile.from_stages(n, latency, hop_s={PIPE2: 0.125}) for n in ("a", "b", "idle")}
    placement = Placement([Group(ONE, ["b", "a"]), Group(PIPE2, ["idle", "a"])])
    tables = build_tables(placement, ("a", "b", "lost"), profiles, max_batch=2)
    assert tables.model_start.tolist() == [0, 2, 3, 3]
    assert tables.pair_group.tolist() == [0, 1, 0]
    assert tables.stages.tolist() == [1, 2]
    assert tables.sizes.tolist() == [1, 2]
    assert tables.latency[1].tolist() == [[0.25, 0.25], [0.5, 0.5]]
    assert tables.latency[0].tolist() == [[0.5, 0.0], [0.75, 0.0]]
    assert tables.hop.tolist() == [0, 0.125, 0]
    assert tables.pair(0, 1) == 1
    with pytest.raises(InputError, match="group 1 does not hold model 1"):
        tables.pair(1, 1)


def test_consecutive_instances_of_a_model_are_printed_as_a_run() -> None:
    group = Group(ParallelConfig(1, 2), ["m-0", "m-1", "m-2", "x", "m-4", "m-00", "y-2", "y-1"])
    assert str(Placement([group])) == "group 0: op1pp2 on devices 0-1: m-0…2, x, m-4, m-00, y-2, y-1"
