"""Network adapters: devices that share one, wherever inter-node bandwidth is counted, against closed forms."""

from dataclasses import replace

import pytest
from meshwright.errors import InputError
from meshwright.planners.alpa.inter.linked import submesh_link
from meshwright.profiles.devices import DEVICES
from meshwright.profiles.hardware import LinkSpec, device
from meshwright.simulator import Cluster
from meshwright.simulator.mesh import Mesh
from meshwright.simulator.plan.clusters import cluster_entry, cluster_of
from meshwright.simulator.training.configuration.collectives import GroupLinks
from meshwright.simulator.training.configuration.rates import rates_of
from meshwright.simulator.training.resharding.crossing import reshard_across

FAR = 1e9


def cluster(shared: int, nodes: int = 2, width: int = 8) -> Cluster:
    """Links without latency; those inside a node are a thousand times as fast."""
    spec = device("a100-80gb")
    spec = replace(
        spec, intra_node=LinkSpec(1000 * FAR, 0.0), inter_node=LinkSpec(FAR, 0.0), devices_per_adapter=shared
    )
    return Cluster(nodes, width, spec)


def test_presets():
    """A p3.16xlarge has one adapter; DGX and HGX boards have one per device."""
    assert {name: spec.devices_per_adapter for name, spec in DEVICES.items()} == {
        "v100-16gb": 0, "v100-32gb": 0, "a100-40gb": 1, "a100-80gb": 1, "h100-80gb": 1, "h200-141gb": 1, "cpu-core": 0,
        "b200-180gb": 1, "gb200-186gb": 1, "l4-24gb": 0, "l40s-48gb": 0, "rtx-4090-24gb": 0, "rtx-pro-6000-96gb": 0,
        "mi300x-192gb": 1, "mi325x-256gb": 1,
    }  # fmt: skip


@pytest.mark.parametrize("shared", [-1, 1.5, True])
def test_no_such_adapters(shared: object):
    with pytest.raises(InputError, match=r"devices_per_adapter: expected an integer >= 0"):
        replace(device("a100-80gb"), devices_per_adapter=shared)


def test_numbering():
    """Adapters of 2 nodes x 8 devices, 2 or 3 devices to an adapter (the last has what is left), or all."""
    assert [cluster(2).adapter_of(d) for d in (0, 1, 2, 7, 8, 15)] == [0, 0, 1, 3, 4, 7]
    assert [cluster(3).adapter_of(d) for d in (2, 3, 7, 8, 15)] == [0, 1, 2, 3, 5]
    assert [cluster(s).adapter_of(9) for s in (0, 8, 100)] == [1, 1, 1]
    assert [cluster(3).adapters(n, first) for n, first in ((1, 0), (3, 0), (3, 1), (8, 0), (2, 6))] == [1, 1, 2, 3, 1]


def test_plans_keep_it():
    kept = cluster_of(cluster_entry(cluster(4)))
    assert kept.spec.devices_per_adapter == 4
    assert cluster_of(cluster_entry(Cluster(2, 8, "h100-80gb"))).device == "h100-80gb"


@pytest.mark.parametrize(("shared", "adapters"), [(0, 1), (1, 8), (2, 4), (4, 2)])
def test_rings_share_the_adapters(shared: int, adapters: int):
    """Eight rings over two nodes: each has an eighth of all adapters. One ring of all devices has all of them."""
    mesh = Mesh(cluster(shared), 2, 8)
    assert mesh.view((2, 8)).seconds("all_reduce", 1e9, (0,)) == pytest.approx(2 * (1 / 2) * 8 / adapters)
    assert mesh.view((1, 16)).seconds("all_reduce", 1e9, (1,)) == pytest.approx(2 * (15 / 16) / adapters)
    # four rings of (two in a node) x two nodes
    assert mesh.view((4, 4)).seconds("all_gather", 1e9, (0,)) == pytest.approx((3 / 4) * 4 / adapters)


@pytest.mark.parametrize(("shared", "adapters"), [(0, 1), (1, 8), (2, 4)])
def test_all_to_all_sends_all_that_crosses(shared: int, adapters: int):
    """Eight devices send 8/16 of their buffer each to the other node."""
    seconds = Mesh(cluster(shared), 2, 8).view((1, 16)).seconds("all_to_all", 1e9, (1,))
    assert seconds == pytest.approx(8 * (8 / 16) / adapters)


def test_part_of_a_node_has_the_adapters_of_its_devices():
    """Two devices of four that share an adapter have one; of the third and sixth, two."""
    assert Mesh(cluster(4), 2, 2).view((2, 2)).link((0,)).bandwidth_bytes_per_s == FAR / 2
    assert Mesh(cluster(4), 2, 2, first_device=3).view((2, 2)).link((0,)).bandwidth_bytes_per_s == FAR


@pytest.mark.parametrize(("shared", "seconds"), [(0, 1.0), (1, 1 / 8), (2, 1 / 4)])
def test_resharding_between_nodes(shared: int, seconds: float):
    """Each of eight devices sends an eighth to its counterpart; its adapter also carries its neighbours' eighths."""
    whole = cluster(shared)
    views = [Mesh(whole, 1, 8, first_host=h).view((1, 8)) for h in (0, 1)]
    moved = reshard_across(1e9, views[0], "S1R", views[1], "S1R", method="send_recv")
    assert moved.seconds == pytest.approx(seconds)
    assert moved.exact
    assert moved.adapters_out == tuple(range(whole.adapters(8)))
    assert moved.adapters_in == tuple(range(whole.adapters(8), 2 * whole.adapters(8)))
    # Alpa's planner, before it knows where the meshes lie, counts the same
    rate, _ = submesh_link((whole, (1, 8)), (whole, (1, 8)))
    assert 1e9 / rate == pytest.approx(seconds)


@pytest.mark.parametrize(("shared", "adapters"), [(0, 1), (1, 8), (2, 4)])
@pytest.mark.parametrize(("size", "stride"), [(2, 8), (4, 4), (16, 1)])
def test_the_estimate_counts_as_the_mesh_does(shared: int, adapters: int, size: int, stride: int):
    """Groups of 16 devices on two nodes: `stride` rings with equal shares of all adapters."""
    whole = cluster(shared)
    rates = replace(rates_of(whole.spec), network=1.0)
    group = GroupLinks.of(whole, rates, size, stride)
    assert group.half(1e9) == pytest.approx((size - 1) / size * stride / adapters)
    view = Mesh(whole, 2, 8).view((size, stride))
    assert group.half(1e9) == pytest.approx(view.seconds("reduce_scatter", 1e9, (0,)))


@pytest.mark.parametrize(("shared", "seconds"), [(0, 4.0), (1, 1.0), (2, 2.0), (8, 4.0)])
def test_the_estimates_stages_send_through_their_adapters(shared: int, seconds: float):
    """Two stages of four devices in a node: those of the second send to the next node at once."""
    whole = cluster(shared)
    rates = replace(rates_of(whole.spec), network=1.0)
    pipe = GroupLinks.of(whole, rates, 4, 4)
    assert pipe.send(1e9, whole, rates) == pytest.approx(seconds)
