"""Random plans of stage graphs, with microbatches of their own or token slices: both engines, and nothing is lost."""

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
    SliceEntry,
    StageEntry,
    TrainingPlan,
    TransferEntry,
    simulate_training,
)

PLANNER = PlannerEntry(name="drawn", options={}, version="0", seed=0, seconds=0.0, evaluations=0)
SECONDS = st.one_of(st.just(0.0), st.floats(1e-4, 1.0))
SPECS = ("RR", "S0R", "RS1", "S0S1", "S01R")
BATCH = 8


@st.composite
def plans(draw):
    nodes, width = draw(st.integers(1, 3)), draw(st.sampled_from([1, 2, 4]))
    corners = []
    for node in range(nodes):
        cut = draw(st.sampled_from([d for d in (1, 2, 4) if d <= width]))
        corners += [(node, first, cut) for first in range(0, width, cut)]
    n = len(corners)
    sliced = draw(st.booleans())
    lengths = st.sampled_from([(8,), (5, 3), (3, 3, 2), (2, 2, 2, 2)])
    slices = ()
    if sliced:
        slices = (
            SliceEntry(samples=draw(st.sampled_from([1, 2])), tokens=draw(lengths), count=2),
            SliceEntry(samples=2, tokens=draw(lengths)),
        )
    batch = sum(e.samples * e.count for e in slices) if sliced else BATCH
    stages = []
    for s, (_, _, devices) in enumerate(corners):
        a = draw(st.sampled_from([k for k in (1, 2, 4) if devices % k == 0]))
        times = {
            x: draw(SECONDS) for x in ("forward_s", "backward_input_s", "backward_weight_s", "reduce_s", "update_s")
        }
        if sliced:
            for name in ("slice_forward_s", "slice_backward_s"):
                times[name] = tuple(tuple(draw(SECONDS) for _ in e.tokens) for e in slices)
        else:
            times |= {"microbatch": draw(st.sampled_from([0, 1, 2, 4, 8])), "k": draw(st.sampled_from([1, 2, 4]))}
        stages.append(
            StageEntry(
                mesh=s, logical=(a, devices // a), first=s, last=s + 1, state_bytes=draw(st.floats(0, 1e10)),
                activation_bytes=draw(st.floats(0, 1e9)), work_bytes=draw(st.floats(0, 1e9)), flops=1e12, **times,
            )
        )  # fmt: skip
    edges = {(draw(st.integers(0, s - 1)), s) for s in range(1, n)}
    for _ in range(draw(st.integers(0, 2)) if n > 1 else 0):
        b = draw(st.integers(1, n - 1))
        edges.add((draw(st.integers(0, b - 1)), b))
    return TrainingPlan.of(
        Cluster(nodes, width, "v100-16gb"),
        model=ModelEntry(name="drawn"),
        global_batch=batch,
        microbatches=sum(e.count for e in slices) if sliced else 4,
        schedule=draw(st.sampled_from(["terapipe", "terapipe_1f1b"] if sliced else ["kfkb", "gpipe"]))
        if sliced or all(s.k == 1 for s in stages)
        else "kfkb",
        resharding=draw(st.sampled_from(["send_recv", "scatter_gather", "local_all_gather"])),
        overlap=draw(st.booleans()),
        meshes=tuple(MeshEntry(hosts=1, devices=d, first_host=node, first_device=f) for node, f, d in corners),
        stages=tuple(stages),
        transfers=tuple(
            TransferEntry(
                source=a, target=b, value=f"x{a}", bytes=draw(st.floats(0, 1e8)), gradient=draw(st.booleans()),
                source_spec=draw(st.sampled_from(SPECS)), target_spec=draw(st.sampled_from(SPECS)),
            )
            for a, b in sorted(edges)
        ),
        slices=slices,
        planner=PLANNER,
    )  # fmt: skip


@given(plans())
@settings(max_examples=examples(25, anew=60), deadline=None)
def test_any_plan(plan):
    assert TrainingPlan.from_json(plan.to_json()) == plan
    fast, slow = simulate_training(plan), simulate_training(plan, engine="simpy")
    assert np.allclose(fast.times.start, slow.times.start, rtol=1e-9, atol=1e-12)
    assert np.allclose(fast.times.finish, slow.times.finish, rtol=1e-9, atol=1e-12)
    work = []
    for stage, n in zip(plan.stages, plan.microbatches_of, strict=True):
        each = n * (stage.forward_s + stage.backward_input_s + stage.backward_weight_s)
        if plan.slices:
            tables = (stage.slice_forward_s, stage.slice_backward_s)
            each = sum(e.count * sum(row) for t in tables for e, row in zip(plan.slices, t, strict=True))
        work.append(each + stage.reduce_s + stage.update_s)
    assert fast.busy_s == pytest.approx(work, abs=1e-9)
    assert np.all(fast.waiting_s >= -1e-9 * max(1.0, fast.seconds))
    assert [n[-1] for n in fast.memory().n_bytes] == pytest.approx([s.state_bytes for s in plan.stages], abs=10.0)
    counts = zip(plan.stages, plan.microbatches_of, strict=True)
    most = [s.state_bytes + s.work_bytes + n * s.activation_bytes for s, n in counts]
    assert np.all(fast.peak_bytes <= np.array(most) * (1 + 1e-9))
    if plan.schedule in ("gpipe", "terapipe"):
        assert fast.peak_bytes == pytest.approx(most, rel=1e-9)
    assert "s an iteration" in fast.explain()
    assert plan.explain(operators="none")
    assert fast.timeline().busy()[: len(plan.meshes)] == pytest.approx(fast.busy_s + fast.communication_s, abs=1e-9)
