"""Adafactor's states and sums on shards, against shards that are counted one by one."""

from __future__ import annotations

import pytest
from meshwright.planners.alpa.intra.sharding.specs import ShardingSpec, spec_set
from meshwright.planners.alpa.intra.sharding.states import local_states, step_sums
from meshwright.profiles.graph import Tensor
from meshwright.simulator.cluster import Cluster
from meshwright.simulator.mesh import Mesh

MESH = Mesh(Cluster(nodes=1, devices_per_node=8, device="v100-16gb"), 1, 8).view((2, 4))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [("RR", 48 * 64 + 48 + 64), ("S0S1", 24 * 16 + 24 + 16), ("S01R", 6 * 64 + 6 + 64), ("RS1", 48 * 16 + 48 + 16)],
)
def test_a_shards_state_is_its_master_copy_its_rows_and_its_columns(spec, expected):
    specs = spec_set((48, 64), (2, 4))
    found = local_states(Tensor("w", (48, 64), "float16"), specs, "adafactor")
    assert found[specs.index[ShardingSpec.parse(spec)]] == pytest.approx(4 * expected)


def test_other_optimizers_states_are_cut_evenly():
    specs = spec_set((48, 64), (2, 4))
    found = local_states(Tensor("w", (48, 64), "float16"), specs, "momentum")
    assert found == pytest.approx(8 * 48 * 64 * specs.share)


@pytest.mark.parametrize(
    ("shape", "spec", "expected"),
    [
        ((48, 64), "RR", []),
        ((48, 64), "S0R", [((0,), 4 * 65), ((0,), 8)]),  # columns are summed over the rows' devices, and the norms
        ((48, 64), "RS1", [((1,), 4 * 48), ((1,), 8)]),
        ((48, 64), "S0S1", [((1,), 4 * 24), ((0,), 4 * 17), ((0, 1), 8)]),
        ((8, 48, 64), "S01RR", [((0, 1), 8)]),  # experts: whole matrices on each device
        ((64,), "S1", [((1,), 8)]),
    ],
)
def test_sums_go_over_the_axes_that_cut_what_is_summed(shape, spec, expected):
    found = step_sums(Tensor("w", shape, "float16"), ShardingSpec.parse(spec), MESH, "adafactor")
    assert [(x.axes, x.n_bytes) for x in found] == expected
    assert step_sums(Tensor("w", shape, "float16"), ShardingSpec.parse(spec), MESH, "adam") == []
