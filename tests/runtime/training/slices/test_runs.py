"""Sliced plans trained on gloo processes, against the single-device run, and what is measured and printed of them."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from meshwright.cli.main import app
from meshwright.errors import InputError
from meshwright.profiles.graph import zoo_graph
from meshwright.profiles.graph.models.transformer import GPT
from meshwright.runtime.training import run_training
from meshwright.runtime.training.compare import Compared, TrainingComparison, compare_training
from meshwright.runtime.training.compare.slices import fit_stages, slice_plans, stage_bounds
from meshwright.runtime.training.hand_plan import hand_plan
from meshwright.runtime.training.measure.calibrate_slices import calibrate_slices, slice_seconds
from meshwright.runtime.training.measure.slices import SliceGrid, measure_slices, undisturbed
from meshwright.simulator.training.plan.file import SliceEntry
from meshwright.simulator.training.simulate import simulate_training
from typer.testing import CliRunner

EQUAL = [SliceEntry(samples=2, tokens=(4,) * 4, count=2)]
UNEVEN = [
    SliceEntry(samples=2, tokens=(7, 5, 4), count=2),
    SliceEntry(samples=4, tokens=(1, 14, 1)),
    SliceEntry(samples=2, tokens=(16,)),
]
SHORT = {"layers": 2, "hidden": 32, "heads": 4, "vocab": 64, "seq": 16, "dtype": "float32"}
TOKENS = [SliceEntry(samples=2, tokens=(1,) * 16)]


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("slices", "meshes", "rule", "schedule", "attention"),
    [
        (UNEVEN, [(1, 1)] * 2, "dp", "terapipe", "matmuls"),
        (UNEVEN, [(1, 1)] * 4, "dp", "terapipe_1f1b", "fused"),
        (TOKENS, [(1, 1)] * 2, "dp", "terapipe_1f1b", "matmuls"),
        (UNEVEN, [(2, 1)] * 2, "dp", "terapipe_1f1b", "matmuls"),  # replicas
        (EQUAL, [(1, 2)] * 2, "tp", "terapipe", "fused"),  # operators shared
        (UNEVEN, [(2, 1), (1, 2)], "tp", "terapipe_1f1b", "matmuls"),  # otherwise in each stage
        (EQUAL, [(2, 2)], "tp", "terapipe", "matmuls"),
    ],
)
def test_loss_and_every_gradient_equal_the_single_device_run(session, slices, meshes, rule, schedule, attention):
    graph = GPT(**SHORT, attention=attention).graph("short")
    plan = hand_plan(graph, meshes=meshes, rule=rule, slices=slices, schedule=schedule)
    run = run_training(plan, graph, seed=1, dtype="float64", compare=True, session=session)
    assert run.difference.loss < 1e-12
    assert run.difference.gradient < 1e-12, run.difference
    assert run.difference.weight < 1e-10
    assert len(run.gradients) == len(graph.parameters)


@pytest.mark.parametrize(("zero", "recompute"), [(2, "full"), (3, "selective")])
def test_cut_states_and_weights_and_recomputation(session, zero, recompute):
    graph = GPT(**SHORT).graph("short")
    slices = [SliceEntry(samples=2, tokens=(9, 7), count=2)]
    plan = hand_plan(
        graph, meshes=[(2, 2)], rule="tp", slices=slices, schedule="terapipe", zero=zero, recompute=recompute
    )
    run = run_training(plan, graph, seed=2, compare=True, session=session)
    assert run.difference.loss < 1e-6
    assert run.difference.gradient < 5e-6, run.difference


def test_spans_name_every_slice(session):
    graph = zoo_graph("tiny-gpt")
    plan = hand_plan(graph, meshes=[(1, 1)] * 2, slices=UNEVEN, schedule="terapipe_1f1b")
    run = run_training(plan, graph, iterations=2, dtype="float64", compare=True, session=session)
    assert len(set(run.losses)) == 2
    assert max(run.difference.loss, run.difference.gradient, run.difference.weight) < 1e-10  # after a step, too
    want = [(m, j) for m, n in enumerate((3, 3, 3, 1)) for j in range(n)]
    for rank in run.spans[-1]:
        assert sorted((s.microbatch, s.slice) for s in rank if s.op == "F") == want
        back = [(s.microbatch, s.slice) for s in rank if s.op == "B"]
        assert sorted(back) == want
        assert all(a[0] != b[0] or a[1] > b[1] for a, b in pairwise(back))
    seconds = slice_seconds(plan, run, 1, "F")
    assert [len(row) for row in seconds] == [3, 3, 1]
    assert all(x > 0 for row in seconds for x in row)


def test_devices_that_cut_the_tokens_too_are_refused_before_any_process_starts():
    graph = zoo_graph("tiny-gpt")
    plan = hand_plan(
        graph, meshes=[(1, 2)], slices=EQUAL, schedule="terapipe",
        rule=lambda op: ("", "s" if "s" in op.cuttable else ""),
    )  # fmt: skip
    with pytest.raises(InputError, match=r"stages.0.operators.\S+: devices of the mesh cut the token loop 's'"):
        run_training(plan, graph)


def test_a_plan_for_another_length_is_refused_before_any_process_starts():
    graph = zoo_graph("tiny-gpt")
    plan = hand_plan(graph, meshes=[(1, 1)], slices=[SliceEntry(samples=1, tokens=(8, 9))], schedule="terapipe")
    with pytest.raises(InputError, match=r"sum to the 16 tokens of a sample of 'tiny-gpt' \(got 17\)"):
        run_training(plan, graph)


# What is measured.


def test_slices_of_a_part_are_measured_for_all_pairs(session):
    graph = zoo_graph("tiny-gpt")
    a, b, n = stage_bounds(graph, 2)
    for parts, together in (({"block": (3, 19)}, False), ({"first": (a, b), "last": (b, n)}, True)):
        grid = SliceGrid([4, 8], [0, 8, 12], samples=(1, 2))
        found = measure_slices(graph, parts, grid, repeats=1, session=session, together=together)
        assert set(found.parts) == set(parts)
        assert found.processes == 4
        assert 0 < found.own <= 1
        for part in found.parts.values():
            pairs = set(zip(part.samples.tolist(), part.lengths.tolist(), part.contexts.tolist(), strict=True))
            assert pairs == {(s, i, j) for s in (1, 2) for i, j in ((4, 0), (4, 8), (4, 12), (8, 0), (8, 8))}
            assert np.all(part.forward_s > 0)
            assert np.all(part.backward_s > 0)


def test_pairs_are_those_that_fit_the_sequence():
    assert SliceGrid([16, 4], [12, 0, 13]).slices(16) == [(1, 4, 0), (1, 4, 12), (1, 16, 0)]
    for lengths, contexts in (([0], [0]), ([17], [0]), ([4], [-1]), ([], [0]), ([4], [])):
        with pytest.raises(InputError, match="expected integers from"):
            SliceGrid(lengths, contexts).slices(16)
    for samples in ((), (0,)):
        with pytest.raises(InputError, match="samples: expected integers >= 1"):
            SliceGrid([4], [0], samples)


def test_what_others_held_up_does_not_count():
    calm, held = [0.1, 0.1], [0.4, 0.1]
    assert undisturbed(np.array([[calm, held, calm, held, [0.12, 0.12]]])) == pytest.approx(0.1)
    assert undisturbed(np.array([[held, held, held, held]])) == pytest.approx(0.1)  # all: the CPU's time


def test_a_calibrated_plan_has_seconds_of_every_slice_and_is_simulated(session):
    graph = zoo_graph("tiny-gpt")
    plan = hand_plan(graph, meshes=[(1, 1)] * 2, slices=UNEVEN, schedule="terapipe")
    found = calibrate_slices(plan, graph, session, repeats=1).plan
    for stage in found.stages:
        for rows in (stage.slice_forward_s, stage.slice_backward_s):
            assert [len(row) for row in rows] == [3, 3, 1]
            assert all(x > 0 for row in rows for x in row)
        mean = (2 * sum(stage.slice_forward_s[0]) + sum(map(sum, stage.slice_forward_s[1:]))) / 4
        assert stage.forward_s == pytest.approx(mean)
    times = [
        [x for e, n in ((0, 2), (1, 1), (2, 1)) for _ in range(n) for x in f[e] + b[e]]
        for f, b in ((s.slice_forward_s, s.slice_backward_s) for s in found.stages)
    ]
    assert simulate_training(found).seconds > max(map(sum, times))  # a stage's slices follow each other


def test_a_plan_without_slices_is_measured_by_the_other_tool(session):
    graph = zoo_graph("tiny-gpt")
    with pytest.raises(InputError, match="no token slices; calibrate_training"):
        calibrate_slices(hand_plan(graph, meshes=[(1, 1)]), graph, session)


def test_equal_and_planned_slices_are_compared(session):
    graph = GPT(layers=2, hidden=16, heads=2, vocab=16, seq=16, dtype="float32").graph("small")
    models = fit_stages(graph, 2, session, repeats=1)
    plans = slice_plans(graph, models, [1, 4])
    assert list(plans) == ["1 slice", "4 slices", "DP"]
    assert plans["4 slices"].slices[0].tokens == (4,) * 4
    assert sum(plans["DP"].slices[0].tokens) == 16
    assert "held out" in str(models)
    result = compare_training(plans, graph, rounds=1, iterations=2, session=session)
    assert [row.name for row in result.rows] == list(plans)
    with pytest.raises(InputError, match="divisors of the 16 tokens"):
        slice_plans(graph, models, [3])


def test_plans_that_the_runs_do_not_tell_apart_have_no_wrong_order():
    def row(name, simulated, measured):
        within = (simulated - 0.02, simulated + 0.02)
        return Compared(name, simulated, within, measured, simulated, measured, 1.0, 9)

    near = TrainingComparison((row("a", 1.01, 1.00), row("b", 1.00, 1.01)))
    assert not near.ordered
    assert not near.misplaced
    assert "2 of 2 inside the interval, order as measured wherever intervals are apart" in str(near)
    far = TrainingComparison((row("a", 1.1, 1.0), row("b", 1.0, 1.1)))
    assert far.misplaced == (("a", "b"),)
    assert "not as measured: a took less than b" in str(far)
    assert "a: outside: what stages take had changed by -10.0% since it was measured" in str(far)


def test_meshwright_run_trains_a_sliced_plan(tmp_path):
    graph = zoo_graph("tiny-gpt")
    plan = hand_plan(graph, meshes=[(1, 1)] * 2, slices=UNEVEN, schedule="terapipe").save(tmp_path / "plan.json")
    said = CliRunner().invoke(app, ["run", str(plan), "--iterations", "2", "--out", str(tmp_path / "x.csv"), "--json"])
    assert said.exit_code == 0, said.output
    document = json.loads(said.stdout)
    assert document["difference"]["gradient"] < 1e-5
    assert document["stages"][1]["measured_s"]["B"] > 0
    lines = (tmp_path / "x.csv").read_text().splitlines()
    assert lines[0].startswith("iteration,rank,op,stage,microbatch,slice,")
    assert sum(",F,0," in line for line in lines) == 2 * 10
