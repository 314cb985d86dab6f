"""Plans whose links are shared: loads of passes and messages, overlapped reduction, against sums by hand."""

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.profiles.spread import Spread
from meshwright.simulator import Cluster
from meshwright.simulator.plan.entries import PlannerEntry
from meshwright.simulator.topology import Level
from meshwright.simulator.training import (
    MeshEntry,
    ModelEntry,
    Op,
    StageEntry,
    TrainingPlan,
    TrainingTimes,
    TransferEntry,
    draw_times,
    plan_program,
    simulate_iterations,
    simulate_training,
)
from meshwright.simulator.training.plan.links import plan_links
from meshwright.simulator.training.plan.loads import plan_loads
from meshwright.simulator.training.varying.iterations import Repeats

CLUSTER = Cluster(2, 8, "v100-16gb")  # a node has one adapter
BETA, ALPHA = CLUSTER.spec.inter_node.bandwidth_bytes_per_s, CLUSTER.spec.inter_node.latency_s
ENGINES = ["compiled", "simpy"]


def stage(mesh, number, logical=(1, 4), **fields):
    entry = {"forward_s": 1.0, "backward_input_s": 1.0, "backward_weight_s": 1.0, "state_bytes": 0.0,
             "activation_bytes": 0.0}  # fmt: skip
    return StageEntry(**{**entry, "mesh": mesh, "logical": logical, "first": number, "last": number + 1, **fields})


def made(stages, meshes, transfers=(), cluster=CLUSTER, **fields):
    entries = {
        "model": ModelEntry(name="hand-made"), "global_batch": 1, "microbatches": 1, "schedule": "inference",
        "planner": PlannerEntry(name="by hand"), "links": "shared",
    }  # fmt: skip
    entries |= {"meshes": tuple(meshes), "stages": tuple(stages), "transfers": tuple(transfers)}
    return TrainingPlan.of(cluster, **{**entries, **fields})


def hop(source, target, n_bytes, spec="S1R"):
    return TransferEntry(
        source=source, target=target, value=f"x{source}", bytes=n_bytes, source_spec=spec, target_spec="S1R"
    )


HALVES = [MeshEntry(hosts=1, devices=4, first_host=h, first_device=d) for h, d in ((0, 0), (0, 4), (1, 0), (1, 4))]


@pytest.mark.parametrize("engine", ENGINES)
def test_two_messages_over_one_adapter(engine):
    """Halves of node 0 send to halves of node 1 at 1 s: together they need the adapter for twice the bytes."""
    n_bytes = BETA * 3.0
    plan = made([stage(m, m) for m in range(4)], HALVES, [hop(0, 2, n_bytes), hop(1, 3, n_bytes)])
    assert simulate_training(plan, engine=engine).seconds == pytest.approx(1 + 2 * 3.0 + 1)
    apart = simulate_training(plan, engine=engine, links="apart")
    assert apart.seconds == pytest.approx(1 + 2 * (3.0 + ALPHA) + 1, rel=1e-3)  # one after the other
    assert apart.plan.links == "apart"
    one = made([stage(m, m) for m in range(4)], HALVES, [hop(0, 2, n_bytes), hop(1, 3, 1.0)])
    assert simulate_training(one, engine=engine).seconds == pytest.approx(1 + 3.0 + 1, rel=1e-3)


@pytest.mark.parametrize("engine", ENGINES)
def test_collectives_that_leave_a_node_slow_messages(engine):
    """Mesh 0 has four devices of each node; half of a pass is collectives over the adapters, which the message from
    the other half of node 0 to that of node 1 needs meanwhile."""
    meshes = [MeshEntry(hosts=2, devices=4), MeshEntry(hosts=1, devices=4, first_device=4),
              MeshEntry(hosts=1, devices=4, first_host=1, first_device=4)]  # fmt: skip
    stages = [stage(0, 0, (2, 4), forward_s=20.0, traffic={"forward": (0.0, 10.0)}), stage(1, 1), stage(2, 2)]
    plan = made(stages, meshes, [hop(1, 2, BETA * 4.0)])
    result = simulate_training(plan, engine=engine)
    # From 1 s on both go at 1 / 1.5: the message takes 6 s; 1 + 4 s of the pass are done then, and 15 s are left.
    assert np.nanmax(result.times.arrived) == pytest.approx(7.0, rel=1e-4)
    assert result.seconds == pytest.approx(7.0 + 15.0, rel=1e-4)
    assert result.busy_s[0] == pytest.approx(22.0, rel=1e-4)
    assert simulate_training(plan, engine=engine, links="apart").seconds == 20.0


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("buckets", [1, 4, 16])
def test_reduction_beside_the_last_backward(engine, buckets):
    """Gradients of two nodes: the last bucket is reduced after the pass, the others beside it."""
    plan = made(
        [stage(0, 0, (2, 8), reduce_s=1.5)], [MeshEntry(hosts=2, devices=8)], schedule="1f1b", buckets=buckets,
        global_batch=4, microbatches=4,
    )  # fmt: skip
    result = simulate_training(plan, engine=engine)
    assert result.seconds == pytest.approx(4 * 3.0 + 1.5 / buckets)
    with pytest.raises(InputError, match="links shared"):
        simulate_training(plan, engine=engine, links="apart")
    after = simulate_training(plan.model_copy(update={"buckets": 0}), engine=engine)
    assert after.seconds == pytest.approx(4 * 3.0 + 1.5)


def test_loads_of_a_plan():
    c = Cluster(8, 8, "a100-80gb", (Level(4, oversubscription=4.0),))
    traffic = {"forward": (0.5,), "backward_input": (0.0, 0.25, 0.125), "backward_weight": (0.25, 0.25)}
    meshes = [MeshEntry(hosts=2, devices=8, first_host=3), MeshEntry(hosts=1, devices=8)]
    stages = [stage(0, 0, (2, 8), traffic=traffic), stage(1, 1, (1, 8), reduce_s=2.0)]
    plan = made(stages, meshes, [hop(0, 1, 1e9, "S01R")], cluster=c, schedule="1f1b")
    loads = plan_loads(plan, plan_program(plan), plan_links(plan))
    assert loads.passes[Op.F, 0] == {("ports out", 0): 0.5, ("ports in", 0): 0.5}
    backward = loads.passes[Op.B, 0]  # both halves: 2 s
    assert backward["ports in", 0] == 0.125
    assert {share for (name, *_), share in backward.items() if name.startswith("adapter")} == {0.25}
    assert {key: share for key, share in backward.items() if key[0].startswith("uplink")} == {
        (f"uplink {way}", 0, group, 0): 0.0625 for way in ("out", "in") for group in (0, 1)
    }
    assert sum(name.startswith("adapter") for name, *_ in backward) == 2 * 16
    assert (Op.REDUCE, 0) not in loads.passes
    assert loads.passes[Op.REDUCE, 1] == {("ports out", 1): 1.0, ("ports in", 1): 1.0}
    message = loads.messages["forward", 0, 1]
    assert max(message.values()) == pytest.approx(1.0, rel=1e-2)
    assert any(name == "uplink out" for name, *_ in message)
    split = plan.model_copy(update={"schedule": "zb_h1"})
    halves = plan_loads(split, plan_program(split), plan_links(split)).passes
    assert (halves[Op.W, 0]["ports in", 0], ("ports in", 0) in halves[Op.B, 0]) == (0.25, False)


def test_a_plan_file_keeps_links(tmp_path):
    plan = made([stage(0, 0, traffic={"forward": (0.5, 0.25)})], [MeshEntry(hosts=1, devices=4)], buckets=4)
    assert TrainingPlan.load(plan.save(tmp_path / "plan.json")) == plan
    usual = made([stage(0, 0)], [MeshEntry(hosts=1, devices=4)], links="apart")
    assert not {"links", "buckets"} & set(usual.model_dump())
    assert "traffic" not in usual.model_dump()["stages"][0]


def test_iterations_that_vary_share_links_too():
    plan = made([stage(m, m) for m in range(4)], HALVES, [hop(0, 2, 3 * BETA), hop(1, 3, 3 * BETA)])
    runs = simulate_iterations(plan, repeats=Repeats(iterations=2, draws=2))
    assert runs.steady_s == pytest.approx(8.0)
    times = TrainingTimes(Spread(visits=(0.8, 1.0, 1.3)), Spread(visits=(0.9, 1.4)))
    slow, fast = (
        simulate_training(plan, engine=engine, drawn=draw_times(times, plan, 100.0, seed=1)).times for engine in ENGINES
    )
    assert fast.finish == pytest.approx(slow.finish, rel=1e-9)
    assert fast.finish.max() != pytest.approx(8.0, rel=1e-3)
    with pytest.raises(InputError, match="links: expected apart or shared"):
        simulate_training(plan, links="together")  # pyright: ignore[reportArgumentType]
