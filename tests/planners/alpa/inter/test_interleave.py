"""Interleaved 1F1B: how many microbatches stages hold, against the schedule's own program; time by its closed form."""

from __future__ import annotations

import pytest
from meshwright.errors import InfeasibleError
from meshwright.planners.alpa import plan
from meshwright.planners.alpa.inter.interleave import held_microbatches
from meshwright.profiles.graph import zoo_graph
from meshwright.simulator import Cluster
from meshwright.simulator.training.policy.make import make_program
from meshwright.simulator.training.program.actions import Op
from plain_prices import PlainPrices


@pytest.mark.parametrize(
    ("meshes", "virtual", "microbatches"), [(2, 2, 4), (4, 2, 8), (4, 3, 16), (3, 4, 6), (2, 2, 2)]
)
def test_held_microbatches_are_those_of_the_program(meshes, virtual, microbatches):
    program = make_program("interleaved_1f1b", meshes * virtual, microbatches, n_meshes=meshes)
    most = [0] * (meshes * virtual)
    now = [0] * (meshes * virtual)
    for actions in program.actions:
        for a in actions:
            now[a.stage] += (a.op is Op.F) - (a.op is Op.B)
            most[a.stage] = max(most[a.stage], now[a.stage])
    assert held_microbatches(meshes, virtual, microbatches) == tuple(most)


def test_equal_stages_take_the_closed_form():
    """48 operators of equal time: B·v·t + (p − 1)·t (Narayanan et al. 2021, §2.2)."""
    graph, cluster = zoo_graph("gpt3-1.3b"), Cluster(1, 4)
    made = plan(
        graph, cluster, global_batch=16, microbatches=8, pricer=PlainPrices(loss=5.0, kept=0.02),
        options={"schedule": "interleaved_1f1b", "interleave": 2, "n_layers": 8, "memory_fraction": 1.0},
    )  # fmt: skip
    assert len(made.meshes) == 4
    assert [s.mesh for s in made.stages] == [0, 1, 2, 3, 0, 1, 2, 3]
    times = [s.forward_s + s.backward_input_s + s.reduce_s / 8 for s in made.stages]
    longest, w = max(times), 8 * 2 + 4 - 4 * 2
    assert made.predicted["dp_seconds"] == pytest.approx(sum(times) + (w - 1) * longest)
    plain = plan(
        graph, cluster, global_batch=16, microbatches=8, pricer=PlainPrices(loss=5.0, kept=0.02),
        options={"n_layers": 8, "memory_fraction": 1.0, "stages": "one_device"},
    )  # fmt: skip
    assert made.predicted["bubble"] < plain.predicted["bubble"]


def test_a_mesh_holds_its_stages_together():
    made = plan(
        zoo_graph("gpt3-350m"), Cluster(1, 4), global_batch=16, microbatches=8, pricer=PlainPrices(loss=2.0, kept=0.2),
        options={"schedule": "interleaved_1f1b", "interleave": 2},
    )  # fmt: skip
    held = held_microbatches(len(made.meshes), 2, 8)
    for mesh in range(len(made.meshes)):
        used = sum(
            s.state_bytes + held[q] * s.activation_bytes + s.work_bytes
            for q, s in enumerate(made.stages)
            if s.mesh == mesh
        )
        assert used <= 0.9 * 16 * 2**30


def test_microbatches_that_meshes_do_not_divide():
    with pytest.raises(InfeasibleError, match="interleaving of 2 stages per mesh"):
        plan(
            zoo_graph("tiny-gpt"), Cluster(1, 4), global_batch=6, microbatches=3, pricer=PlainPrices(),
            options={"schedule": "interleaved_1f1b", "interleave": 2},
        )  # fmt: skip
