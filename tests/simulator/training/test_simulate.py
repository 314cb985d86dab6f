"""`simulate_training` on plans made by hand: closed forms, memory, FLOP/s, messages, what it says."""

import json

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.simulator import Cluster
from meshwright.simulator.plan.entries import PlannerEntry
from meshwright.simulator.training import (
    MeshEntry,
    ModelEntry,
    StageEntry,
    TrainingPlan,
    TransferEntry,
    reshard_across,
    simulate_training,
)

CLUSTER = Cluster(4, 8, "v100-16gb")
SPEC = CLUSTER.spec
PLANNER = PlannerEntry(name="hand", options={}, version="0", seed=0, seconds=0.0, evaluations=0)


def plan(stages=4, microbatches=8, *, times=(1.0, 1.5, 0.5), once=(0.0, 0.0), n_bytes=0.0, specs=("RR", "RR"), **more):
    """Equal stages on a node each (several in turn where there are more), chained."""
    entry = {
        "forward_s": times[0],
        "backward_input_s": times[1],
        "backward_weight_s": times[2],
        "reduce_s": once[0],
        "update_s": once[1],
        "state_bytes": 4e9,
        "activation_bytes": 1e9,
        "work_bytes": 5e8,
        "flops": 2e12,
        "logical": (2, 4),
    }
    nodes = min(stages, 4)
    made = [StageEntry(mesh=s % nodes, first=s, last=s + 1, **entry) for s in range(stages)]
    chained = [
        TransferEntry(source=s, target=s + 1, value=f"x{s}", bytes=n_bytes, source_spec=specs[0], target_spec=specs[1])
        for s in range(stages - 1)
    ]
    fields = {
        "model": ModelEntry(name="hand-made"),
        "global_batch": 4 * microbatches,
        "microbatches": microbatches,
        "meshes": tuple(MeshEntry(hosts=1, devices=8, first_host=h) for h in range(nodes)),
        "stages": tuple(made),
        "transfers": tuple(chained) if n_bytes else (),
        "planner": PLANNER,
    }
    return TrainingPlan.of(CLUSTER, **{**fields, **more})


def changed(plan, stage, **fields):
    """The plan with one stage different."""
    stages = [s.model_copy(update=fields) if k == stage else s for k, s in enumerate(plan.stages)]
    return plan.model_copy(update={"stages": tuple(stages)})


@pytest.mark.parametrize("engine", ["compiled", "simpy"])
@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
@pytest.mark.parametrize(("stages", "microbatches"), [(1, 1), (1, 5), (4, 4), (4, 32)])
def test_equation_2_is_exact_for_equal_stages(schedule, stages, microbatches, engine):
    result = simulate_training(plan(stages, microbatches, schedule=schedule), engine=engine)
    assert result.seconds == pytest.approx(result.pipeline_s)
    assert result.seconds == pytest.approx((microbatches + stages - 1) * 3.0)
    assert result.bubble == pytest.approx((stages - 1) / (microbatches + stages - 1))
    assert result.engine == engine


@pytest.mark.parametrize("slow", [0, 1, 2, 3])
def test_equation_2_with_one_slow_stage(slow):
    """Exact where the last stage is the slowest; before it, the slow stage works while the pipeline fills."""
    result = simulate_training(changed(plan(4, 16), slow, forward_s=2.0))
    assert result.seconds >= 16 * 4.0 + slow * 3.0  # it starts after the forwards before it, and their backwards follow
    assert result.seconds <= result.pipeline_s + 1e-9
    if slow == 3:
        assert result.seconds == pytest.approx(result.pipeline_s)


def test_the_end_of_an_iteration_comes_after_the_last_backward():
    result = simulate_training(plan(4, 8, once=(0.25, 0.125)))
    assert result.seconds == pytest.approx(11 * 3.0 + 0.375)
    assert result.pipeline_s == pytest.approx(11 * 3.0 + 11 * 0.375 / 8)  # Eq. 2 spreads it over the microbatches
    assert result.busy_s.tolist() == pytest.approx([8 * 3.0 + 0.375] * 4)


def test_interleaving_and_zero_bubble_shorten_the_iteration():
    seconds = {}
    for schedule, stages in (("1f1b", 4), ("zb_h1", 4), ("zb_h2", 4)):
        seconds[schedule] = simulate_training(plan(stages, 8, times=(1.0, 1.0, 1.0), schedule=schedule)).seconds
    half = plan(8, 8, times=(0.5, 0.5, 0.5), schedule="interleaved_1f1b")
    seconds["interleaved"] = simulate_training(half).seconds
    assert seconds == pytest.approx({"1f1b": 33.0, "zb_h1": 27.0, "zb_h2": 27.0, "interleaved": 28.5})


def test_memory_is_equation_5():
    """State + s · activations + work, s the stages after it and itself."""
    result = simulate_training(plan(4, 8))
    assert result.peak_bytes.tolist() == [4e9 + s * 1e9 + 5e8 for s in (4, 3, 2, 1)]
    assert result.in_flight.tolist() == [4, 3, 2, 1]
    assert result.fits
    assert result.memory_bytes == 16 * 2**30
    gpipe = simulate_training(plan(4, 14, schedule="gpipe"))
    assert gpipe.peak_bytes.tolist() == [4e9 + 14 * 1e9 + 5e8] * 4
    assert not gpipe.fits
    assert "would run out of memory" in gpipe.explain()
    memory = result.memory()
    assert memory.at(0, 0.0) == 4e9 + 1e9 + 5e8  # the first forward
    assert memory.at(3, 0.0) == 4e9
    assert [n[-1] for n in memory.n_bytes] == [4e9] * 4
    assert memory.at(0, 1e9) == 4e9


def test_flops():
    result = simulate_training(plan(4, 8))
    assert result.model_flops == 3 * 4 * 8 * 2e12
    assert result.hardware_flops == result.model_flops
    assert result.pflops == pytest.approx(result.model_flops / 33.0 / 1e15)
    assert result.mfu == pytest.approx(result.model_flops / 33.0 / (32 * SPEC.peak_flops))
    assert result.samples_per_s == pytest.approx(32 / 33.0)
    again = simulate_training(changed(plan(4, 8), 2, recompute="full"))
    assert again.model_flops == result.model_flops
    assert again.hardware_flops == result.model_flops + 8 * 2e12


def test_messages_take_their_time():
    """Blocking sends without overlap: a stage's period grows by what it sends; 64 MB over 3.1 GB/s."""
    n_bytes, m = 64e6, 64
    view = plan(2).mesh(0).view((2, 4))
    other = plan(2).mesh(1).view((2, 4))
    made = plan(2, m, n_bytes=n_bytes)
    for method in ("send_recv", "scatter_gather", "local_all_gather"):
        way = reshard_across(n_bytes, view, "RR", other, "RR", method=method)
        result = simulate_training(made, resharding=method)
        # Of each microbatch: F, its message, its gather, F, B, its gradient's message, its gather, B; no F waits
        trip = 2 * (3.0 + way.seconds + way.gather_s)
        assert result.seconds >= trip
        assert result.seconds >= m * (3.0 + way.seconds + way.gather_s)
        assert result.communication_s.tolist() == pytest.approx([m * (way.seconds + way.gather_s)] * 2)
    naive, _, local = (
        simulate_training(made, resharding=r).seconds for r in ("send_recv", "scatter_gather", "local_all_gather")
    )
    assert local < naive  # 8 times the bytes
    assert simulate_training(made).seconds == local  # what the plan says
    free = plan(2, m, n_bytes=n_bytes, overlap=True)
    assert simulate_training(free).communication_s.tolist() == [0.0, 0.0]
    assert simulate_training(free).seconds < local
    assert simulate_training(free, overlap=False).seconds == local


def test_one_microbatch_by_hand():
    way = reshard_across(1e9, plan(2).mesh(0).view((2, 4)), "S0R", plan(2).mesh(1).view((2, 4)), "RR")
    back = reshard_across(1e9, plan(2).mesh(1).view((2, 4)), "RR", plan(2).mesh(0).view((2, 4)), "S0R")
    made = plan(2, 1, n_bytes=1e9, specs=("S0R", "RR"))
    spent = way.seconds + way.gather_s + back.seconds + back.gather_s
    assert simulate_training(made).seconds == pytest.approx(2 * 3.0 + spent)
    assert simulate_training(made, overlap=True).seconds == pytest.approx(2 * 3.0 + spent)


def test_meshes_of_one_node_share_its_adapter():
    """Two pairs of stages, both across nodes 0 and 1: apart they take one message's time, on one adapter two."""
    stage = plan(1).stages[0].model_copy(update={"logical": (1, 4)})
    chosen = {
        "stages": tuple(stage.model_copy(update={"mesh": s, "first": s, "last": s + 1}) for s in range(4)),
        "transfers": tuple(
            TransferEntry(
                source=s, target=s + 2, value=f"x{s}", bytes=1e9, source_spec="S1R", target_spec="RR", gradient=False
            )
            for s in (0, 1)
        ),
    }

    def seconds(corners):
        meshes = tuple(MeshEntry(hosts=1, devices=4, first_host=h, first_device=d) for h, d in corners)
        return simulate_training(plan(1, 1).model_copy(update={"meshes": meshes, **chosen})).seconds

    apart = seconds([(0, 0), (2, 0), (1, 0), (3, 0)])
    one = 1e9 / SPEC.inter_node.bandwidth_bytes_per_s
    assert seconds([(0, 0), (0, 4), (1, 0), (1, 4)]) - apart == pytest.approx(one)
    assert seconds([(0, 0), (0, 4), (1, 0), (2, 0)]) - apart == pytest.approx(one)  # only the way out is shared
    assert seconds([(0, 0), (1, 0), (2, 0), (2, 4)]) - apart == pytest.approx(one)  # only the way in


def test_messages_to_one_mesh_of_the_same_node_queue():
    """Stages 0 and 1 on two devices each, stage 2 on four, all in one node: its way in carries one after the other."""
    stage = plan(1).stages[0]
    shapes = {0: ((1, 2), 0, 2), 1: ((1, 2), 2, 2), 2: ((1, 4), 4, 4)}
    stages = tuple(
        stage.model_copy(update={"mesh": s, "first": s, "last": s + 1, "logical": shape})
        for s, (shape, _, _) in shapes.items()
    )
    meshes = tuple(MeshEntry(hosts=1, devices=n, first_device=first) for _, first, n in shapes.values())

    def seconds(*sources):
        transfers = tuple(
            TransferEntry(
                source=s, target=2, value=f"x{s}", bytes=1e11, source_spec="S1R", target_spec="S1R", gradient=False
            )
            for s in sources
        )
        update = {"meshes": meshes, "stages": stages, "transfers": transfers}
        result = simulate_training(plan(1, 1).model_copy(update=update))
        return result.seconds, result.links.links["forward", sources[0], 2].seconds

    (alone, one), (both, _) = seconds(0), seconds(0, 1)
    assert one > 0.1
    assert both - alone == pytest.approx(one)


def test_messages_of_one_mesh_queue():
    """Stage 0 hands stages 1 and 2, in its node, something at once, beside computation: one after the other."""
    stage = plan(1).stages[0].model_copy(update={"logical": (1, 2)})
    stages = tuple(stage.model_copy(update={"mesh": s, "first": s, "last": s + 1}) for s in range(3))
    meshes = tuple(MeshEntry(hosts=1, devices=2, first_device=2 * s) for s in range(3))
    transfers = tuple(
        TransferEntry(source=0, target=s, value="x", bytes=1e11, source_spec="S1R", target_spec="S1R", gradient=False)
        for s in (1, 2)
    )
    update = {"meshes": meshes, "stages": stages, "transfers": transfers, "overlap": True}
    result = simulate_training(plan(1, 1).model_copy(update=update))
    one = result.links.links["forward", 0, 1].seconds
    assert one > 0.1
    assert result.seconds == pytest.approx(1.0 + 2 * one + 3.0)


def test_tied_gradients_are_exchanged_as_they_are_kept():
    """Where ZeRO cuts gradients, shards cross, and nothing is gathered."""
    made = plan(2, 2, n_bytes=1.0)
    for s in (0, 1):
        made = changed(made, s, parameters={"table": "RR"}, optimizer_states={"table": "S01R"})
    tied = TransferEntry(source=0, target=1, value="table", bytes=2e9, source_spec="RR", target_spec="RR")
    result = simulate_training(made.model_copy(update={"transfers": (*made.transfers, tied)}))
    ((name, way),) = result.links.reshardings["tied", 1, 0]
    assert name == "table"
    assert way.gathers == ()
    assert way.gather_s == 0.0
    assert {m.n_bytes for m in way.messages} == {2e9 / 8}


def test_tied_parameters_are_exchanged_once():
    made = plan(4, 8, n_bytes=1.0)
    for s in (0, 3):
        made = changed(made, s, parameters={"table": "RR"})
    tied = TransferEntry(source=0, target=3, value="table", bytes=2e9, source_spec="RR", target_spec="RR")
    before = simulate_training(made)
    after = simulate_training(made.model_copy(update={"transfers": (*made.transfers, tied)}))
    views = [made.mesh(s).view((2, 4)) for s in (0, 3)]
    way = reshard_across(2e9, views[0], "RR", views[1], "RR")
    assert after.seconds - before.seconds == pytest.approx(way.seconds + way.gather_s)
    ends = [[str(a) for a in mine[-3:]] for mine in after.program.actions]
    assert ends[0] == ["SEND_B0~3", "RECV_B0~3", "UPDATE0"]
    assert ends[1][1:] == ["REDUCE1", "UPDATE1"]


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("schedule", ["1f1b", "zb_h1", "interleaved_1f1b"])
def test_timeline(schedule, overlap, tmp_path):
    stages = 8 if schedule == "interleaved_1f1b" else 4
    result = simulate_training(plan(stages, 8, n_bytes=5e8, schedule=schedule, once=(0.5, 0.25), overlap=overlap))
    timeline = result.timeline()
    for lane in range(len(timeline.lanes)):
        mine = timeline.lane == lane
        order = np.argsort(timeline.start[mine], kind="stable")
        start, end = timeline.start[mine][order], timeline.end[mine][order]
        assert np.all(start[1:] >= end[:-1] - 1e-9), timeline.lanes[lane]
    expected = result.busy_s + result.communication_s
    assert timeline.busy()[:4] == pytest.approx(expected)
    work = sum(s.forward_s + s.backward_input_s + s.backward_weight_s for s in result.plan.stages) * 8 + stages * 0.75
    assert result.busy_s.sum() == pytest.approx(work)
    assert result.waiting_s.min() >= -1e-9
    events = json.loads(timeline.to_chrome(tmp_path / "trace.json").read_text())["traceEvents"]
    assert {e["name"] for e in events if e["ph"] == "X"} >= {"F", "B", "reduce", "update", "send F", "send B"}


def test_inference_has_no_end():
    result = simulate_training(plan(4, 8, schedule="inference", once=(5.0, 5.0)))
    assert result.seconds == pytest.approx((8 + 3) * 1.0)
    assert result.model_flops == 4 * 8 * 2e12
    assert result.peak_bytes.tolist() == [5.5e9] * 4


def test_said_beside_what_was_predicted():
    text = simulate_training(plan(4, 8, once=(0.25, 0.125), n_bytes=1e8, predicted={"seconds": 33.515625})).explain()
    assert "Eq. 2 (no communication): 33.52 s" in text
    assert "the plan predicted 33.52 s (-" in text
    assert "stage 0 -> 1 forward: 95.37 MiB" in text
    assert "bubble" in text


def test_bad_arguments():
    with pytest.raises(InputError, match="engine: expected compiled or simpy"):
        simulate_training(plan(), engine="fast")
    with pytest.raises(InputError, match="resharding: expected send_recv"):
        simulate_training(plan(), resharding="magic")
    with pytest.raises(InputError, match="one stage on each mesh"):
        simulate_training(plan(8))
    with pytest.raises(InputError, match="unknown schedule"):
        simulate_training(plan().model_copy(update={"schedule": "1f1c"}))
