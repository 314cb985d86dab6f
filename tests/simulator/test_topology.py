"""Levels of a cluster: uplinks of racks and rails, in collectives and messages, against sums by hand."""

from dataclasses import replace

import pytest
from meshwright.errors import InputError
from meshwright.simulator import Cluster
from meshwright.simulator.mesh import COLLECTIVES, AxisLink, Mesh
from meshwright.simulator.plan.clusters import cluster_entry, cluster_of
from meshwright.simulator.topology import Level
from meshwright.simulator.training import reshard_across

SPEC = Cluster(1, 8, "a100-80gb").spec
BETA, ALPHA = SPEC.inter_node.bandwidth_bytes_per_s, SPEC.inter_node.latency_s
ADAPTERS = 8  # one for each device


def cluster(nodes=8, devices=8, **level):
    return Cluster(nodes, devices, "a100-80gb", (Level(4, **level),))


def test_a_full_fat_tree_is_as_no_level():
    plain, tree = Cluster(8, 8, "a100-80gb"), cluster()
    for hosts, devices, shape in ((8, 8, (8, 8)), (8, 4, (8, 4)), (4, 8, (32, 1)), (8, 8, (1, 64))):
        for axes in ((0,), (1,), (0, 1)):
            for name in COLLECTIVES:
                a, b = (Mesh(c, hosts, devices).view(shape).seconds(name, 1e9, axes) for c in (plain, tree))
                assert a == b


@pytest.mark.parametrize("over", [1.0, 2.0, 4.0, 8.0, 32.0])
def test_rings_cross_a_rack_once_each(over):
    """Columns over two racks of 4 nodes: 8 rings leave a rack, over 32 adapters' uplinks by the oversubscription."""
    c = cluster(oversubscription=over, latency_s=20e-6)
    view = Mesh(c, 8, 8).view((8, 8))
    link = view.link((0,))
    assert link.latency_s == 20e-6
    assert link.bandwidth_bytes_per_s == pytest.approx(min(BETA, 32 * BETA / over / 8))
    inside = Mesh(c, 4, 8, first_host=4).view((4, 8)).link((0,))  # within the second rack
    assert (inside.bandwidth_bytes_per_s, inside.latency_s) == (BETA, ALPHA)
    straddling = Mesh(c, 2, 8, first_host=3).view((2, 8)).link((0,))
    assert straddling.latency_s == 20e-6
    assert straddling.bandwidth_bytes_per_s == pytest.approx(min(BETA, 32 * BETA / over / 8))


@pytest.mark.parametrize("over", [1.0, 2.0, 4.0])
def test_all_to_alls_feel_oversubscription(over):
    """64 devices: each sends 32 of 64 pieces to the other rack; a rack's 32 devices do at once, over its uplinks."""
    n_bytes = 64e6
    seconds = Mesh(cluster(oversubscription=over), 8, 8).view((64, 1)).seconds("all_to_all", n_bytes, (0,))
    leaving_node, leaving_rack = 8 * 56 / 64 * n_bytes / (8 * BETA), 32 * 32 / 64 * n_bytes / (32 * BETA / over)
    assert seconds == pytest.approx(63 * ALPHA + max(leaving_node, leaving_rack))


@pytest.mark.parametrize("rails", [False, True])
def test_messages_take_uplinks(rails):
    """Two devices of one rack send 1 GB to devices of another, and of the same rack on other rails."""
    c = cluster(oversubscription=16.0, rails=rails)
    away = reshard_across(2e9, Mesh(c, 1, 2).view((2, 1)), "S0", Mesh(c, 1, 2, first_host=4).view((2, 1)), "S0")
    uplink = 32 * BETA / 16.0  # of a rack; on rails, an eighth of it for each place
    crossing = 1e9 / (uplink / 8) if rails else 2e9 / uplink
    assert away.seconds == pytest.approx(max(crossing, 1e9 / BETA + ALPHA))
    near = reshard_across(2e9, Mesh(c, 1, 2).view((2, 1)), "S0", Mesh(c, 1, 2, 1).view((2, 1)), "S0")
    assert near.seconds == pytest.approx(1e9 / BETA + ALPHA)
    turned = reshard_across(2e9, Mesh(c, 1, 2).view((2, 1)), "S0", Mesh(c, 1, 2, 1, 2).view((2, 1)), "S0")
    assert turned.seconds == pytest.approx(1e9 / (uplink / 8) if rails else 1e9 / BETA + ALPHA)


def test_latency_is_of_the_outermost_level_left():
    c = Cluster(8, 8, "a100-80gb", (Level(2, latency_s=1e-5), Level(4, latency_s=3e-5)))
    latencies = [c.link(0, 8 * node).latency_s for node in (0, 1, 2, 4)]
    assert latencies == [SPEC.intra_node.latency_s, ALPHA, 1e-5, 3e-5]
    assert Mesh(c, 4, 8).view((4, 8)).link((0,)).latency_s == 1e-5
    assert Mesh(c, 8, 8).view((8, 8)).link((0,)).latency_s == 3e-5


def test_busy_is_what_a_link_needs_for_the_bytes():
    c = cluster(oversubscription=8.0)
    view = Mesh(c, 8, 8).view((8, 8))
    busy = view.busy("all_reduce", 1e9, (0,))
    near = SPEC.intra_node.bandwidth_bytes_per_s
    rates = (near, BETA, 4 * BETA / 8)
    assert busy == pytest.approx([COLLECTIVES["all_reduce"](1e9, AxisLink(8, rate, 0.0)) for rate in rates])
    assert max(busy) == pytest.approx(view.seconds("all_reduce", 1e9, (0,)) - 14 * ALPHA)
    assert view.busy("all_reduce", 1e9, (1,))[1:] == (0.0, 0.0)


def test_an_nvlink_domain_of_72_is_a_node():
    """36 devices of it exchange at NVLink's rate, where nodes of 4 would do at their adapters'."""
    domain, nodes = Cluster(8, 72, "gb200-186gb"), Cluster(144, 4, "gb200-186gb")
    inside = Mesh(domain, 1, 36).view((1, 36)).link((1,))
    assert inside.bandwidth_bytes_per_s == domain.spec.intra_node.bandwidth_bytes_per_s
    assert Mesh(nodes, 9, 4).view((1, 36)).link((1,)).bandwidth_bytes_per_s < inside.bandwidth_bytes_per_s


def test_plans_keep_levels():
    c = cluster(oversubscription=4.0, rails=True, latency_s=1e-5)
    assert cluster_of(cluster_entry(c)) == c
    assert "levels" not in cluster_entry(replace(c, levels=())).model_dump()


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        ((Level(4), Level(6)), "hold no whole groups"),
        ((Level(4), Level(2)), "from the inside out"),
        ((Level(2), Level(4, rails=True)), "only the lowest"),
        (("rack",), "expected levels"),
    ],
)
def test_levels_nest(levels, said):
    with pytest.raises(InputError, match=said):
        Cluster(8, 8, "a100-80gb", levels)


@pytest.mark.parametrize("wrong", [{"nodes": 0}, {"nodes": 2.5}, {"oversubscription": 0.5}, {"latency_s": -1.0}])
def test_a_level_is_checked(wrong):
    with pytest.raises(InputError, match="Level"):
        Level(**{"nodes": 4, **wrong})
