"""Measured collectives, and what an all-to-all puts on the adapters of nodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.simulator.cluster import Cluster
from meshwright.simulator.collective_tables import CollectiveTables
from meshwright.simulator.mesh import COLLECTIVES, Mesh
from sample_data import SYSTEMS

SHEET = """gpu: {mem_bw: 2.0e+12, mem_capacity: 80000000000, bfloat16_tc_flops: 3.0e+14}
node: {num_gpus_per_node: 8, inter_node_bw: 2.5e+10, intra_node_bw: 3.0e+11, p2p_latency: 1.0e-5}
"""


def tables(folder: Path, **columns: list[object]) -> Path:
    import pandas as pd

    (folder / "own").mkdir()
    (folder / "own.yaml").write_text(SHEET)
    frame = {
        "op_name": ["all_gather"] * 3,
        "nccl_dtype": ["half"] * 3,
        "num_gpus": [4] * 3,
        "message_size": [1000, 2000, 4_000_000],
        "latency": [0.01, 0.02, 0.04],
    }
    pd.DataFrame(frame | columns).to_parquet(folder / "own" / "nccl.parquet")
    return folder / "own"


def test_between_sizes_time_is_affine_and_beyond_them_a_rate(tmp_path: Path):
    found = CollectiveTables.load(tables(tmp_path))
    assert found.seconds("all_gather", 1, 4) == pytest.approx(1e-5)  # all launch
    assert found.seconds("all_gather", 3000, 4) == pytest.approx(1.5e-5)  # bytes: two of an element
    assert found.seconds("all_gather", 80e6, 4) == pytest.approx(4e-4)
    assert found.seconds("all_gather", 3000, 8) is None
    assert found.seconds("all_reduce", 3000, 4) is None


def test_a_logical_mesh_takes_measured_groups_inside_a_node_only(tmp_path: Path):
    found, cluster = CollectiveTables.load(tables(tmp_path)), Cluster(2, 8, "a100-80gb")
    inside = Mesh(cluster, 1, 4)
    assert inside.view((1, 4), found).seconds("all_gather", 3000, (1,)) == pytest.approx(1.5e-5)
    plain = inside.view((1, 4)).seconds("all_reduce", 3000, (1,))
    assert inside.view((1, 4), found).seconds("all_reduce", 3000, (1,)) == plain > 0
    across = Mesh(cluster, 2, 8)
    assert across.view((4, 4), found).seconds("all_gather", 3000, (1,)) == pytest.approx(1.5e-5)
    ring = across.view((4, 4)).seconds("all_gather", 3000, (0,))
    assert across.view((4, 4), found).seconds("all_gather", 3000, (0,)) == ring


@pytest.mark.parametrize("folder", SYSTEMS)
def test_public_tables_lie_between_their_points(folder: Path):
    found = CollectiveTables.load(folder)
    assert {key[1] for key in found.curves} == {2, 4, 8}
    assert {key[0] for key in found.curves} == set(COLLECTIVES)
    for (name, devices), (sizes, seconds) in found.curves.items():
        middle = found.seconds(name, float(sizes[5] + sizes[6]) / 2, devices)
        assert middle == pytest.approx((seconds[5] + seconds[6]) / 2)
        assert np.all(np.diff(seconds) >= 0)


def test_errors_name_the_file(tmp_path: Path):
    with pytest.raises(InputError, match="no such file"):
        CollectiveTables.load(tmp_path)
    (tmp_path / "a").mkdir()
    with pytest.raises(InputError, match="op_name: expected all_reduce"):
        CollectiveTables.load(tables(tmp_path / "a", op_name=["gossip"] * 3))
    (tmp_path / "b").mkdir()
    with pytest.raises(InputError, match="nccl_dtype: expected half"):
        CollectiveTables.load(tables(tmp_path / "b", nccl_dtype=["fp4"] * 3))


@pytest.mark.parametrize(
    ("hosts", "devices", "shape", "axes", "crossing"),
    [
        # (devices of a node) x (share of the buffer that goes to other nodes), all through one adapter
        (2, 8, (1, 16), (1,), 8 * 8 / 16),
        (2, 8, (2, 8), (0, 1), 8 * 8 / 16),
        (2, 8, (2, 8), (0,), 8 * 1 / 2),
        (2, 8, (8, 2), (0,), 8 * 4 / 8),
        (4, 8, (4, 8), (0,), 8 * 3 / 4),
        (4, 8, (1, 32), (1,), 8 * 24 / 32),
        (4, 1, (4, 1), (0,), 3 / 4),
    ],
)
def test_all_to_all_sends_every_devices_pieces_through_the_adapter(
    hosts: int, devices: int, shape: tuple[int, int], axes: tuple[int, ...], crossing: float
):
    cluster = Cluster(hosts, devices, "v100-16gb")
    view, n_bytes, far = Mesh(cluster, hosts, devices).view(shape), 1e8, cluster.spec.inter_node
    expected = (view.size(axes) - 1) * far.latency_s + n_bytes * crossing / far.bandwidth_bytes_per_s
    assert view.seconds("all_to_all", n_bytes, axes) == pytest.approx(expected)


def test_all_to_all_inside_a_node_sends_its_share_directly():
    cluster = Cluster(2, 8, "v100-16gb")
    view, near = Mesh(cluster, 2, 8).view((2, 8)), cluster.spec.intra_node
    expected = 7 * near.latency_s + 7 / 8 * 1e8 / near.bandwidth_bytes_per_s
    assert view.seconds("all_to_all", 1e8, (1,)) == pytest.approx(expected)
