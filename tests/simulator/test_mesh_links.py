"""Links of logical meshes, against groups and rings that are listed device by device."""

from __future__ import annotations

from dataclasses import replace

import pytest
from meshwright.simulator.cluster import Cluster
from meshwright.simulator.mesh import COLLECTIVES, LogicalMesh, Mesh

MESHES = [(h, d) for h in (1, 2, 3, 4) for d in (1, 2, 3, 4)]


def groups_along(view: LogicalMesh, axes: tuple[int, ...]) -> list[list[int]]:
    """Devices that communicate with each other; they fill the logical mesh row by row."""
    ids, (n0, n1) = list(view.mesh.device_ids), view.shape
    rows = [ids[r * n1 : (r + 1) * n1] for r in range(n0)]
    if set(axes) == {1}:
        return rows
    return [ids] if set(axes) == {0, 1} else [[row[c] for row in rows] for c in range(n1)]


@pytest.mark.parametrize("per_adapter", [1, 2, 4])
@pytest.mark.parametrize(("hosts", "devices"), MESHES)
def test_rings_that_leave_a_node_share_its_adapters(hosts: int, devices: int, per_adapter: int) -> None:
    """What a ring can send between nodes: the adapters of a node's devices, over the rings that cross them."""
    cluster = Cluster(4, 4, replace(Cluster(4, 4, "a100-80gb").spec, devices_per_adapter=per_adapter))
    spec = cluster.spec
    mesh = Mesh(cluster, hosts, devices)
    for shape in mesh.logical_shapes:
        view = mesh.view(shape)
        for axes in ((0,), (1,), (0, 1)):
            nodes = [{cluster.node_of(d) for d in group} for group in groups_along(view, axes)]
            size = len(groups_along(view, axes)[0])
            link = view.link(axes)
            assert link.size == size
            crossing = [sum(node in mine and len(mine) > 1 for mine in nodes) for node in range(hosts)]
            if not any(crossing):
                assert view.inside(axes) or size == 1
                assert (link.bandwidth_bytes_per_s, link.latency_s) == (
                    spec.intra_node.bandwidth_bytes_per_s, spec.intra_node.latency_s,
                )  # fmt: skip
                continue
            adapters = len({cluster.adapter_of(d) for d in range(devices)})
            each = adapters * spec.inter_node.bandwidth_bytes_per_s / max(crossing)
            assert link.latency_s == spec.inter_node.latency_s
            assert link.bandwidth_bytes_per_s == pytest.approx(min(spec.intra_node.bandwidth_bytes_per_s, each))


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_collectives_count_what_a_ring_sends(n: int) -> None:
    """A ring passes n − 1 times an n-th of the bytes, each with its latency; an all-reduce is two of these."""
    link = Mesh(Cluster(1, 8), 1, n).view((1, n)).link((1,))
    n_bytes = 48e6
    steps = [link.latency_s + n_bytes / n / link.bandwidth_bytes_per_s for _ in range(n - 1)]
    for name in ("all_gather", "reduce_scatter", "all_to_all"):
        assert COLLECTIVES[name](n_bytes, link) == pytest.approx(sum(steps), abs=1e-15)
    assert COLLECTIVES["all_reduce"](n_bytes, link) == pytest.approx(2 * sum(steps), abs=1e-15)
