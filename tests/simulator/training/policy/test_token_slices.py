"""Token slices (TeraPipe): the closed form, 1F1B over slices, memory by tokens, what a plan of slices takes."""

import numpy as np
import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.simulator import Cluster
from meshwright.simulator.plan.entries import PlannerEntry
from meshwright.simulator.training import (
    Action,
    MeshEntry,
    ModelEntry,
    Op,
    Program,
    SliceEntry,
    StageEntry,
    Timing,
    TrainingPlan,
    TransferEntry,
    check_program,
    make_program,
    simulate_training,
)
from meshwright.simulator.training.compiled import run_compiled
from meshwright.simulator.training.plan.program import plan_program
from meshwright.simulator.training.reference import run_reference
from meshwright.simulator.training.result.memory_timeline import in_flight
from meshwright.simulator.training.timing import prepared

PLANNER = PlannerEntry(name="hand", options={}, version="0", seed=0, seconds=0.0, evaluations=0)
SECONDS = st.lists(st.lists(st.floats(0.0, 3.0, allow_subnormal=False), min_size=1, max_size=6), min_size=1, max_size=3)


def table(rows, stages):
    """The same seconds on every stage, shape (n_stages, n_microbatches, n_slices)."""
    width = max(map(len, rows))
    return np.array([[[*row, *[0.0] * (width - len(row))] for row in rows]] * stages)


@given(SECONDS, st.integers(1, 6), st.floats(0.0, 3.0))
@settings(max_examples=examples(25, anew=60), deadline=None)
def test_closed_form(rows, stages, ratio):
    """Equal stages, no communication: Σ t + (K − 1) · max t forward, and as much backward (TeraPipe, Eq. 2.5)."""
    program = make_program("terapipe", stages, len(rows), slices=[len(row) for row in rows])
    costs = prepared(program, Timing(table(rows, stages), ratio * table(rows, stages)))
    every = [x for row in rows for x in row]
    want = (1 + ratio) * (sum(every) + (stages - 1) * max(every))
    for run in (run_compiled, run_reference):
        assert run(program, costs).finish.max() == pytest.approx(want, rel=1e-9, abs=1e-12)


def test_orders_in_full():
    program = make_program("terapipe", 2, 2, slices=[2, 1])
    assert str(program).splitlines()[1] == (
        "mesh 1: RECV_F1~0.0 F1.0 RECV_F1~0.0/1 F1.0/1 RECV_F1~0.1 F1.1 B1.1 SEND_B1~0.1 B1.0/1 SEND_B1~0.0/1 B1.0 "
        "SEND_B1~0.0 REDUCE1 UPDATE1"
    )
    computed = [
        " ".join(str(a) for a in mine if a.op in (Op.F, Op.B))
        for mine in make_program("terapipe_1f1b", 2, 3, slices=[2, 1, 2]).actions
    ]
    assert computed == [
        "F0.0 F0.0/1 F0.1 B0.0/1 F0.2 B0.0 F0.2/1 B0.1 B0.2/1 B0.2",
        "F1.0 F1.0/1 B1.0/1 F1.1 B1.0 F1.2 B1.1 F1.2/1 B1.2/1 B1.2",
    ]


@pytest.mark.parametrize("stages", [1, 3, 6])
@pytest.mark.parametrize("slices", [1, 2, 5])
@pytest.mark.parametrize("microbatches", [1, 4, 9])
def test_terapipe_1f1b_is_as_fast_and_holds_less(stages, slices, microbatches):
    """Equal slices: as long as `terapipe`; in flight are a microbatch, and a slice for each stage that follows."""
    seconds = {}
    for schedule in ("terapipe", "terapipe_1f1b"):
        program = make_program(schedule, stages, microbatches, slices=[slices] * microbatches)
        times = run_compiled(program, prepared(program, Timing(1.0, 1.0)))
        seconds[schedule] = times.finish.max()
        held = in_flight(program).tolist()
        bound = [slices + stages - 1 - s for s in range(stages)]
        total = slices * microbatches
        assert held == [total if schedule == "terapipe" else min(total, most) for most in bound]
    assert seconds["terapipe_1f1b"] == seconds["terapipe"] == 2 * (microbatches * slices + stages - 1)
    if slices == 1:
        usual, ours = (make_program(x, stages, microbatches).actions for x in ("1f1b", "terapipe_1f1b"))
        assert usual == ours


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.integers(1, 4))
@settings(max_examples=examples(25, anew=60), deadline=None)
def test_any_slicing_ends(slices, stages):
    program = make_program("terapipe_1f1b", stages, len(slices), slices=slices)
    assert in_flight(program).max() <= max(slices) + stages - 1
    assert len(program) == 2 * sum(slices) * (3 * stages - 2) + 2 * stages


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ("F1 F0 B1 B0", r"F0\.0/1 comes before slice 0 went forward"),
        ("F0 F1 B0 B1", r"B0\.0 comes before the slices after it are done"),
        ("F0 B0 F1 B1", r"B0\.0 comes before the slices after it are done"),
    ],
)
def test_slices_go_there_and_back(order, said):
    actions = [Action(Op(word[0]), 0, 0, slice=int(word[1])) for word in order.split()]
    with pytest.raises(InputError, match=said):
        check_program(Program([actions], (0,), 1))
    good = [Action(Op(op), 0, 0, slice=j) for op, j in (("F", 0), ("F", 1), ("B", 1), ("B", 0))]
    check_program(Program([good], (0,), 1))


SLICES = (SliceEntry(samples=2, tokens=(100, 60, 40), count=3), SliceEntry(samples=1, tokens=(150, 50)))


def plan_of(slices=SLICES, stages=3, *, schedule="terapipe", n_bytes=0.0, **changes):
    """A second for a thousand tokens of a sample forward, two backward."""
    forward, backward = (
        tuple(tuple(rate * entry.samples * t for t in entry.tokens) for entry in slices) for rate in (1e-3, 2e-3)
    )
    entries = {
        "model": ModelEntry(name="by hand"),
        "global_batch": sum(e.samples * e.count for e in slices),
        "microbatches": sum(e.count for e in slices),
        "schedule": schedule,
        "meshes": tuple(MeshEntry(hosts=1, devices=1, first_host=s) for s in range(stages)),
        "stages": tuple(
            StageEntry(
                mesh=s, logical=(1, 1), first=s, last=s + 1, forward_s=0.35, backward_input_s=0.7, state_bytes=1e9,
                activation_bytes=7e8, work_bytes=1e6, flops=1e12, update_s=0.25, slice_forward_s=forward,
                slice_backward_s=backward,
            )
            for s in range(stages)
        ),
        "transfers": tuple(
            TransferEntry(source=s, target=s + 1, value=f"x{s}", bytes=n_bytes, source_spec="R", target_spec="R")
            for s in range(stages - 1 if n_bytes else 0)
        ),
        "slices": slices,
        "planner": PLANNER,
        **changes,
    }  # fmt: skip
    return TrainingPlan.of(Cluster(stages, 1, "v100-16gb"), **entries)


def test_a_plan_of_slices():
    plan = plan_of()
    assert TrainingPlan.from_json(plan.to_json()) == plan
    program = plan_program(plan)
    pieces = {(a.microbatch, a.slice) for a in program.actions[0] if a.op == Op.F}
    assert pieces == {(m, j) for m in range(3) for j in range(3)} | {(3, 0), (3, 1)}
    results = [simulate_training(plan, engine=engine) for engine in ("compiled", "simpy")]
    tokens = 3 * 2 * 200 + 200
    want = 3e-3 * tokens + 2 * 3e-3 * 200 + 0.25  # 100 tokens of 2 samples are the longest slice
    for result in results:
        assert result.seconds == pytest.approx(want, rel=1e-9)
        assert result.pipeline_s == pytest.approx(want, rel=1e-12)
        assert result.model_flops == 4 * 3 * 3e12
        assert "4 microbatches in 11 slices" in result.explain()
        assert "Σ t + (K - 1) max t over slices (no communication)" in result.explain()
        timeline = result.timeline()
        assert len(timeline) == 3 * (2 * 11 + 1)  # forward and backward passes, and an update
        for lane in range(3):
            mine = timeline.request[timeline.lane == lane]
            assert mine[np.argsort(timeline.start[timeline.lane == lane])].tolist() == [
                *range(11), *reversed(range(11)), -1
            ]  # fmt: skip


def test_activations_go_by_tokens():
    """7e8 bytes are of 7 / 4 samples of 200 tokens: 2 million a token. All is held once all went forward."""
    plan = plan_of()
    assert simulate_training(plan).peak_bytes.tolist() == pytest.approx([1e9 + 4 * 7e8 + 1e6] * 3)
    result = simulate_training(plan_of(schedule="terapipe_1f1b"))
    per_token = 7e8 / (7 / 4 * 200)
    # the last stage: three slices of microbatch 0, all 400 tokens; then as B of 40 x 2 ends, F of 100 x 2 begins
    assert result.in_flight.tolist() == [5, 4, 3]
    memory = result.memory()
    assert memory.peak[2] == pytest.approx(1e9 + 1e6 + per_token * max(400, 400 - 80 + 200, 520 - 120 + 120, 400))
    assert memory.n_bytes[2][-1] == pytest.approx(1e9)
    assert np.all(memory.peak < simulate_training(plan).memory().peak)


def test_messages_of_slices_go_by_tokens():
    """Half the bytes take half the time but for the latency; the last stage waits for the first slice's."""
    plan = plan_of((SliceEntry(samples=1, tokens=(150, 50)),), 2, n_bytes=2e8)
    result = simulate_training(plan)
    link = result.links.links["forward", 0, 1]
    spec = plan.cluster_spec.spec.inter_node
    want = [[spec.latency_s + x * 2e8 / spec.bandwidth_bytes_per_s for x in (0.75, 0.25)]]
    assert np.allclose(link.seconds, want, rtol=1e-12)
    c = result.program.columns
    first = int(np.flatnonzero((c.stage == 1) & (c.op == 1))[0])
    assert result.times.start[first] == pytest.approx(0.15 + want[0][0])
    assert simulate_training(plan, engine="simpy").seconds == pytest.approx(result.seconds, rel=1e-12)
    assert "a slice up to" in result.explain()


def test_links_of_other_slices():
    from meshwright.simulator.training import Link

    program = make_program("terapipe", 2, 2, slices=[2, 2])
    for shape in ((2, 3), (3, 2)):
        timing = Timing(1.0, 1.0, links={("forward", 0, 1): Link(np.ones(shape))})
        with pytest.raises(InputError, match="expected at most 2 microbatches x 2 slices"):
            prepared(program, timing)
    with pytest.raises(InputError, match="or stages x 2 microbatches x slices"):
        prepared(program, Timing(np.ones((2, 3, 2)), 1.0))
