"""Clusters of several device types: numbers of devices and nodes, and the links between them."""

from __future__ import annotations

import pytest
from meshwright.errors import InputError
from meshwright.simulator import Cluster
from meshwright.simulator.mixed import MixedCluster

MIXED = MixedCluster((Cluster(2, 4, "h100-80gb"), Cluster(1, 3, "l40s-48gb")))


def test_devices_and_nodes_are_numbered_through() -> None:
    assert MIXED.n_devices == 11
    assert MIXED.nodes == 3
    assert [MIXED.pool_of(x) for x in (0, 7, 8, 10)] == [0, 0, 1, 1]
    assert [MIXED.on_node(x) for x in (0, 3, 4, 8, 10)] == [(0, 0), (0, 3), (1, 0), (2, 0), (2, 2)]
    with pytest.raises(InputError, match=r"no device 11; .* has 0 … 10"):
        MIXED.pool_of(11)


def test_links_within_a_pool_are_its_own_and_between_types_the_slower_network() -> None:
    h100, l40s = (pool.spec for pool in MIXED.pools)
    assert MIXED.between(0, 3) == h100.intra_node
    assert MIXED.between(0, 4) == h100.inter_node
    assert MIXED.between(8, 9) == l40s.intra_node
    assert MIXED.between(0, 8).bandwidth_bytes_per_s == l40s.inter_node.bandwidth_bytes_per_s
    assert l40s.inter_node.bandwidth_bytes_per_s < h100.inter_node.bandwidth_bytes_per_s


def test_a_type_has_one_pool() -> None:
    with pytest.raises(InputError, match="two pools of h100-80gb"):
        MixedCluster((Cluster(1, 1, "h100-80gb"), Cluster(1, 2, "h100-80gb")))
    with pytest.raises(InputError, match="no pool"):
        MixedCluster(())
    assert MixedCluster.of(Cluster(1, 2, "h100-80gb")).pools == (Cluster(1, 2, "h100-80gb"),)
    assert MixedCluster.of(MIXED) is MIXED
