"""Random plans: both engines say the same, nothing is lost, and what is said can be said."""

import numpy as np
import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.simulator import Cluster
from meshwright.simulator.plan.entries import PlannerEntry
from meshwright.simulator.training import (
    MeshEntry,
    ModelEntry,
    StageEntry,
    TrainingPlan,
    TransferEntry,
    simulate_training,
)

PLANNER = PlannerEntry(name="drawn", options={}, version="0", seed=0, seconds=0.0, evaluations=0)
SECONDS = st.one_of(st.just(0.0), st.floats(1e-4, 1.0))
SPECS = {2: ("RR", "S0R", "RS1", "S1R", "S0S1", "S01R", "RS01", "S1S0"), 1: ("R", "S0", "S01"), 0: ("",)}


@st.composite
def plans(draw):
    nodes, width = draw(st.integers(1, 3)), draw(st.sampled_from([1, 2, 4]))
    corners = []
    for node in range(nodes):
        cut = draw(st.sampled_from([d for d in (1, 2, 4) if d <= width]))
        corners += [(node, first, cut) for first in range(0, width, cut)]
    meshes = tuple(MeshEntry(hosts=1, devices=d, first_host=n, first_device=f) for n, f, d in corners)
    p = len(meshes)
    schedule = draw(st.sampled_from(["1f1b", "gpipe", "zb_h1", "zb_h2", "zb_v", "interleaved_1f1b", "inference"]))
    homes = list(range(p))
    if schedule == "zb_v":
        homes += reversed(range(p))
    elif schedule == "interleaved_1f1b":
        homes *= 2
    m = p * draw(st.integers(1, 2))
    n = len(homes)
    tied = draw(st.booleans()) and n > 1
    stages = []
    for s, home in enumerate(homes):
        devices = meshes[home].devices
        a = draw(st.sampled_from([k for k in (1, 2, 4) if devices % k == 0]))
        times = {
            x: draw(SECONDS) for x in ("forward_s", "backward_input_s", "backward_weight_s", "reduce_s", "update_s")
        }
        stages.append(
            StageEntry(
                mesh=home,
                logical=(a, devices // a),
                first=s,
                last=s + 1,
                state_bytes=draw(st.floats(0, 1e10)),
                activation_bytes=draw(st.floats(0, 1e9)),
                work_bytes=draw(st.floats(0, 1e9)),
                flops=1e12,
                recompute=draw(st.sampled_from(["none", "selective", "full"])),
                parameters={"table": "RR"} if tied and s in (0, n - 1) else {},
                **times,
            )
        )
    transfers = []
    for s in range(n - 1):
        for target in {s + 1, draw(st.integers(s + 1, n - 1))}:
            rank = draw(st.integers(0, 2))
            ends = [draw(st.sampled_from(SPECS[rank])) for _ in range(2)]
            back = target == s + 1 or draw(st.booleans())
            transfers.append(
                TransferEntry(
                    source=s, target=target, value=f"x{s}", bytes=draw(st.floats(0, 1e8)), source_spec=ends[0],
                    target_spec=ends[1], gradient=back,
                )
            )  # fmt: skip
    if tied:
        transfers.append(
            TransferEntry(source=0, target=n - 1, value="table", bytes=1e6, source_spec="RR", target_spec="RR")
        )
    return TrainingPlan.of(
        Cluster(nodes, width, "v100-16gb"),
        model=ModelEntry(name="drawn"),
        global_batch=m,
        microbatches=m,
        schedule=schedule,
        resharding=draw(st.sampled_from(["send_recv", "scatter_gather", "local_all_gather"])),
        overlap=draw(st.booleans()),
        meshes=meshes,
        stages=tuple(stages),
        transfers=tuple(transfers),
        planner=PLANNER,
    )


@given(plans())
@settings(max_examples=examples(25, anew=60), deadline=None)
def test_any_plan(plan):
    assert TrainingPlan.from_json(plan.to_json()) == plan
    fast, slow = simulate_training(plan), simulate_training(plan, engine="simpy")
    assert fast.seconds == pytest.approx(slow.seconds, rel=1e-9, abs=1e-12)
    assert np.allclose(fast.times.start, slow.times.start, rtol=1e-9, atol=1e-12)
    m, trained = plan.microbatches, plan.schedule != "inference"
    work = sum(
        m * s.forward_s + trained * (m * (s.backward_input_s + s.backward_weight_s) + s.reduce_s + s.update_s)
        for s in plan.stages
    )
    assert fast.busy_s.sum() == pytest.approx(work, abs=1e-9)
    assert np.all(fast.waiting_s >= -1e-9 * max(1.0, fast.seconds))
    assert np.all(fast.peak_bytes >= 0)
    states = np.zeros(len(plan.meshes))
    np.add.at(states, [s.mesh for s in plan.stages], [s.state_bytes for s in plan.stages])
    assert [n[-1] for n in fast.memory().n_bytes] == pytest.approx(states, abs=1.0)  # all activations freed
    assert 0.0 <= fast.bubble <= 1.0 + 1e-12
    assert "s an iteration" in fast.explain()
    timeline = fast.timeline()
    assert timeline.busy()[: len(plan.meshes)] == pytest.approx(fast.busy_s + fast.communication_s, abs=1e-9)


def test_a_plan_that_takes_no_time():
    stage = StageEntry(
        mesh=0,
        logical=(1, 1),
        first=0,
        last=1,
        forward_s=0.0,
        backward_input_s=0.0,
        state_bytes=0.0,
        activation_bytes=0.0,
    )
    plan = TrainingPlan.of(
        Cluster(1, 1, "v100-16gb"), model=ModelEntry(name="none"), global_batch=1, microbatches=1,
        meshes=(MeshEntry(hosts=1, devices=1),), stages=(stage,), planner=PLANNER, predicted={"seconds": 0.0},
    )  # fmt: skip
    result = simulate_training(plan)
    assert (result.seconds, result.pflops, result.mfu, result.bubble) == (0.0, 0.0, 0.0, 1.0)
    assert "0 s an iteration" in result.explain()
