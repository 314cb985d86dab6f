"""Planned graphs trained on four gloo processes, against the single-device run."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from dataclasses import replace

import pytest

pytest.importorskip("torch")

from meshwright.errors import InputError, RunError
from meshwright.planners.alpa.intra import IntraOptions, score, solve_stage
from meshwright.profiles.graph import differentiable, roofline, zoo_graph
from meshwright.profiles.graph.models.language import MoE
from meshwright.profiles.graph.models.transformer import GPT
from meshwright.runtime.training import RunOptions, TrainingSession, run_training
from meshwright.runtime.training.hand_plan import hand_plan
from meshwright.runtime.training.stage.layout import differentiable as runs_back
from meshwright.simulator.cluster import Cluster
from meshwright.simulator.mesh import Mesh

PLANS = {
    "dp4": {"meshes": [(4, 1)]},
    "tp4": {"meshes": [(1, 4)], "rule": "tp"},
    "dp2 x tp2, states cut": {"meshes": [(2, 2)], "rule": "tp", "zero": 2},
    "weights cut": {"meshes": [(2, 2)], "zero": 3},
    "pp2 x dp2": {"meshes": [(2, 1)] * 2},
    "pp2 x tp2": {"meshes": [(1, 2)] * 2, "rule": "tp"},
    "pp4": {"meshes": [(1, 1)] * 4},
    "interleaved": {"meshes": [(1, 1)] * 2, "stages_per_mesh": 2, "schedule": "interleaved_1f1b"},
    "zero bubble": {"meshes": [(1, 2)] * 2, "schedule": "zb_h1", "rule": "tp"},
    "zero bubble, there and back": {"meshes": [(2, 1)] * 2, "stages_per_mesh": 2, "schedule": "zb_v"},
    "recomputed": {"meshes": [(1, 2)] * 2, "rule": "tp", "recompute": "full"},
    "attention recomputed": {"meshes": [(1, 2)] * 2, "rule": "tp", "recompute": "selective"},
    "unequal meshes": {"meshes": [(1, 1), (3, 1)], "schedule": "gpipe"},
}


EXPERTS = ("weights cut", "tp4", "pp2 x tp2", "pp4", "unequal meshes")
LONGER = ("dp2 x tp2, states cut", "weights cut", "pp2 x tp2", "zero bubble, there and back")
"""Of dense models: for several iterations in float64, below."""

LAYERS = {
    "layers": 2, "hidden": 32, "heads": 4, "vocab": 64, "seq": 16, "dtype": "float32",
}  # fmt: skip
"""Half of those of the zoo's tiny models: what collectives cost here is as their number."""


def short(model, batch=1, **options):
    """The zoo's tiny models with half of their layers; of two, the second has experts."""
    if model == "tiny-gpt":
        return GPT(**LAYERS, **options).graph(model, batch)
    if model == "tiny-moe":
        return MoE(**LAYERS, ffn=64, experts=4, **options).graph(model, batch)
    return zoo_graph(model, batch, **options)


@pytest.mark.parametrize(
    ("model", "name"),
    [*(("tiny-gpt", name) for name in PLANS if name not in LONGER), *(("tiny-moe", name) for name in EXPERTS)],
)
def test_loss_and_every_gradient_equal_the_single_device_run(session, model, name):
    graph = short(model)
    plan = hand_plan(graph, **PLANS[name], global_batch=12 if "unequal" in name else 8, microbatches=2)
    run = run_training(plan, graph, seed=1, compare=True, session=session)
    assert run.difference.loss < 1e-6
    assert run.difference.gradient < 1e-5, run.difference
    assert len(run.gradients) == len([p for p in graph.parameters if p.trainable])


@pytest.mark.parametrize("name", LONGER)
def test_it_stays_so_for_several_iterations_in_float64(session, name):
    graph = short("tiny-gpt")
    plan = hand_plan(graph, **PLANS[name], global_batch=8, microbatches=2)
    run = run_training(plan, graph, seed=2, iterations=2, dtype="float64", compare=True, session=session)
    assert run.difference.loss < 1e-12
    assert run.difference.gradient < 1e-10
    assert run.difference.weight < 1e-10
    assert len(set(run.losses)) == 2
    assert len(run.gradients) == len([p for p in graph.parameters if p.trainable])


WHOLE = pytest.mark.slow
"""Shards step as whole tensors do: momentum knows no neighbours, and nothing is cut by `dp4`."""


@pytest.mark.parametrize(
    ("optimizer", "name"),
    [
        ("momentum", "weights cut"),
        ("adafactor", "dp2 x tp2, states cut"),
        ("adafactor", "weights cut"),
        ("adafactor", "zero bubble"),
        pytest.param("momentum", "dp2 x tp2, states cut", marks=WHOLE),
        pytest.param("momentum", "zero bubble", marks=WHOLE),
        pytest.param("momentum", "dp4", marks=WHOLE),
        pytest.param("adafactor", "dp4", marks=WHOLE),
    ],
)
def test_other_optimizers_step_alike_on_shards(session, optimizer, name):
    graph = short("tiny-moe" if name == "weights cut" else "tiny-gpt")
    plan = hand_plan(graph, **PLANS[name], global_batch=8, microbatches=2, optimizer=optimizer)
    run = run_training(
        plan,
        graph,
        seed=2,
        iterations=2,  # the second step reads what the first has left
        dtype="float64",
        options=RunOptions(learning_rate=0.05),
        compare=True,
        session=session,
    )
    assert run.difference.weight < 1e-10
    assert run.difference.loss < 1e-12
    assert len(set(run.losses)) == 2


@pytest.mark.parametrize("rule", ["tp", "dp"])
def test_batch_norms_take_the_statistics_of_the_whole_microbatch(session, rule):
    graph = zoo_graph("tiny-resnet")
    plan = hand_plan(graph, meshes=[(2, 2)], rule=rule, global_batch=16, microbatches=2, optimizer="sgd")
    run = run_training(plan, graph, seed=1, iterations=2, dtype="float64", compare=True, session=session)
    assert run.difference.gradient < 1e-10


def sequence(op):
    """Axis 0 cuts the normalised or summed loop, axis 1 the sequence: statistics everywhere."""
    names = op.cuttable
    return next((x for x in ("h", "t", "v") if x in names), ""), "s" if "s" in names else ""


@pytest.mark.parametrize("attention", ["matmuls", "fused"])
def test_cut_statistics_of_norm_softmax_attention_and_loss_are_right(session, attention):
    graph = short("tiny-gpt", attention=attention)
    plan = hand_plan(graph, meshes=[(2, 2)], rule=sequence, global_batch=4, microbatches=2)
    run = run_training(plan, graph, seed=1, dtype="float64", compare=True, session=session)
    assert run.difference.gradient < 1e-10


def planned(model, shape, options, choices=None):
    """A stage of the whole graph by the intra-operator pass, or by it around given choices."""
    graph = short(model, 4) if isinstance(model, str) else model
    cluster = Cluster(nodes=1, devices_per_node=4, device="v100-16gb")
    mesh = Mesh(cluster, 1, 4).view(shape)
    options = IntraOptions(microbatches=2, compute="zero", **options)
    stage = graph, 0, len(graph.operators), mesh, roofline(cluster.spec)
    found = solve_stage(*stage, options) if choices is None else score(*stage, choices, options)
    plan = hand_plan(
        graph, meshes=[shape], global_batch=8, microbatches=2, cluster=cluster, optimizer=options.optimizer
    )
    stage = plan.stages[0].model_copy(
        update={
            "operators": dict(found.operators),
            "parameters": dict(found.parameters),
            "optimizer_states": dict(found.optimizer_states),
            "collectives": found.counts,
            "recompute": options.recompute,
        }
    )
    said = plan.planner.model_copy(update={"options": {"sequence_parallel": options.sequence_parallel}})
    return plan.model_copy(update={"stages": (stage,), "planner": said}), graph


WITHIN = pytest.mark.slow
"""Another case has the same collectives and more."""


@pytest.mark.parametrize(
    ("model", "shape", "options"),
    [
        pytest.param("tiny-gpt", (2, 2), {"zero": 0}, marks=WITHIN),  # a cut loss below
        pytest.param("tiny-gpt", (2, 2), {"zero": 2}, marks=WITHIN),  # Adafactor's
        ("tiny-gpt", (2, 2), {"zero": 3}),
        ("tiny-gpt", (4, 1), {"zero": 3, "recompute": "full"}),
        pytest.param("tiny-moe", (1, 4), {}, marks=WITHIN),  # recomputation
        ("tiny-moe", (2, 2), {"zero": 3}),
        ("tiny-moe", (1, 4), {"zero": 3, "recompute": "full"}),
        ("tiny-resnet", (2, 2), {"recompute": "full"}),
        pytest.param("tiny-resnet", (1, 4), {"sequence_parallel": True}, marks=WITHIN),  # both axes
        ("tiny-resnet", (2, 2), {"sequence_parallel": True, "zero": 2}),
        ("tiny-gpt", (2, 2), {"zero": 2, "optimizer": "adafactor"}),
        ("tiny-moe", (4, 1), {"zero": 3, "optimizer": "adafactor"}),
    ],
)
def test_the_collectives_that_happen_are_the_planned_ones(session, model, shape, options):
    plan, graph = planned(model, shape, options)
    run = run_training(plan, graph, seed=1, compare=True, session=session)
    assert run.collectives_of(0) == plan.stages[0].collectives
    assert run.difference.gradient < 1e-5


@pytest.mark.parametrize("options", [{}, {"sequence_parallel": True}])
def test_a_vocabulary_cut_loss_communicates_as_planned(session, options):
    plan, graph = planned("tiny-gpt", (2, 2), options, {"head": ("b", "v")})
    run = run_training(plan, graph, seed=1, compare=True, session=session)
    assert plan.stages[0].operators["loss"].axes == ("b", "v")
    assert run.collectives_of(0) == plan.stages[0].collectives
    assert run.difference.gradient < 1e-5


@pytest.mark.parametrize(
    ("axes", "options"),
    [
        (("b", "t"), {}),
        (("s", "t"), {"recompute": "full"}),
        (("b", "t"), {"sequence_parallel": True}),
        (("t", "t"), {"zero": 3}),
    ],
)
def test_fused_attention_with_cut_keys_communicates_as_planned(session, axes, options):
    graph = short("tiny-gpt", 4, attention="fused")
    cut = tuple(
        replace(op, loops=tuple(replace(x, split="statistic") if x.name == "t" else x for x in op.loops))
        if op.kind == "attention"
        else op
        for op in graph.operators
    )
    graph = replace(graph, operators=cut)
    cores = {op.name: axes for op in graph.operators if op.kind == "attention"}
    plan, graph = planned(graph, (2, 2), options, cores)
    run = run_training(plan, graph, seed=1, compare=True, session=session)
    assert run.collectives_of(0) == plan.stages[0].collectives
    assert run.difference.gradient < 1e-5


@pytest.mark.parametrize("model", ["tiny-gpt", "tiny-moe", "tiny-mlp", "tiny-resnet"])
def test_planner_and_run_agree_on_what_has_a_gradient(model):
    graph = zoo_graph(model)
    wanted = {name for name, wants in runs_back(graph).items() if wants}
    assert wanted == differentiable(graph)
    assert {op.name for op in graph.operators if op.attributes.get("fn") == "nonzero"}.isdisjoint(wanted)


HEARD = {
    "all_reduce": "allreduce",
    "all_gather": "allgather",
    "reduce_scatter": "reduce_scatter",
    "all_to_all": "alltoall",
}


def test_torch_hears_the_same_collectives(session):
    plan, graph = planned("tiny-gpt", (2, 2), {"zero": 3})
    run = run_training(plan, graph, seed=1, options=RunOptions(audit=True), session=session)
    ours, together = Counter(), set()
    for name, count in run.collectives[0].items():
        phase, kind = name.split(".")
        if phase in ("reduce", "update"):
            together.add(kind)  # of all gradients, all weights: one for each group
        else:
            ours[kind] += count
    heard = Counter()
    for name, count in run.heard[0].items():
        kind = next((k for k, word in HEARD.items() if word in name.replace("_into", "").replace("all_", "all")), name)
        heard[kind] += count
    assert len(ours | Counter(together)) == 4
    for kind in heard:
        assert heard[kind] - ours[kind] in ((1, 2, 3) if kind in together else (0,))
    assert heard.keys() == ours.keys() | together


def test_a_rank_that_dies_is_named_and_hangs_nobody():
    graph = zoo_graph("tiny-gpt")
    plan = hand_plan(graph, meshes=[(1, 2)] * 2, rule="tp", global_batch=8, microbatches=2)
    with TrainingSession(4, timeout_s=60.0) as session:
        pids = session.pids
        timer = threading.Timer(1.0, lambda: os.kill(pids[2], signal.SIGKILL))
        timer.start()
        with pytest.raises(RunError, match=r"rank 2 \(stage 1, device 1 of 2\) died during the run: killed by SIGKILL"):
            run_training(plan, graph, iterations=100_000, session=session)
        timer.join()
        for pid in pids:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)
        with pytest.raises(RunError, match="failed before"):
            run_training(plan, graph, session=session)


def test_a_rank_that_dies_while_starting_is_reported_though_others_wait_for_it(monkeypatch):
    """Others wait at the rendezvous, for as long as `timeout_s`: nobody waits for them."""
    real, pids = TrainingSession._start, []

    def start(self, rank, core):
        child = real(self, rank, core)
        pids.append(child.popen.pid)
        if rank == 1:
            child.popen.kill()
        return child

    monkeypatch.setattr(TrainingSession, "_start", start)
    begun = time.monotonic()
    with (
        pytest.raises(RunError, match=r"rank 1 died during start-up: killed by SIGKILL"),
        TrainingSession(2, timeout_s=3600.0),
    ):
        pytest.fail("it did not start")
    assert time.monotonic() - begun < 1000.0, "it did not wait for the rendezvous' end"
    assert all(not os.path.exists(f"/proc/{pid}") for pid in pids)


def test_a_rank_that_is_stopped_is_named_though_nothing_of_it_ends():
    graph = zoo_graph("tiny-gpt")
    plan = hand_plan(graph, meshes=[(1, 1)] * 2, global_batch=8, microbatches=2)
    with TrainingSession(2, timeout_s=3600.0, silence_s=4.0) as session:
        os.kill(session.pids[1], signal.SIGSTOP)
        pids = session.pids
        with pytest.raises(RunError, match=r"rank 1 \(stage 1, .*\) died during the run: is stopped: no sign of life"):
            run_training(plan, graph, iterations=100_000, session=session)
    assert all(not os.path.exists(f"/proc/{pid}") for pid in pids)


def test_sigterm_of_a_training_run_leaves_nothing_and_says_so(tmp_path):
    import subprocess
    import sys

    text = (
        "from meshwright.profiles.graph import zoo_graph\n"
        "from meshwright.runtime.training import TrainingSession, run_training\n"
        "from meshwright.runtime.training.hand_plan import hand_plan\n"
        "graph = zoo_graph('tiny-gpt')\n"
        "plan = hand_plan(graph, meshes=[(1, 1)] * 2, global_batch=8, microbatches=2)\n"
        "with TrainingSession(2) as session:\n"
        "    print(*session.pids, flush=True)\n"
        "    run_training(plan, graph, iterations=10**6, session=session)\n"
    )
    run = subprocess.Popen(
        [sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )  # fmt: skip
    try:
        pids = [int(pid) for pid in run.stdout.readline().split()]
        assert len(pids) == 2
        assert list(tmp_path.glob("meshwright-training-*"))
        run.terminate()
        _, complained = run.communicate(timeout=300)
    finally:
        run.kill()
    assert run.returncode == 143
    assert complained == "run: terminated (SIGTERM); its processes are ended\n"
    assert all(not os.path.exists(f"/proc/{pid}") or _zombie(pid) for pid in pids)
    assert not list(tmp_path.glob("meshwright-*"))


def test_processes_do_not_outlive_their_parent():
    import subprocess
    import sys

    text = (
        "import time\n"
        "from meshwright.runtime.training import TrainingSession\n"
        "s = TrainingSession(2).__enter__()\n"
        "print(*s.pids, flush=True)\n"
        "time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    try:
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 2
    finally:
        parent.kill()
        parent.wait()
    deadline = time.monotonic() + 20
    left = set(pids)
    while left and time.monotonic() < deadline:
        left = {pid for pid in left if os.path.exists(f"/proc/{pid}") and not _zombie(pid)}
        time.sleep(0.05)
    assert not left


def _zombie(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_bad_input_is_one_line_each(session):
    graph = zoo_graph("tiny-gpt")
    plan = hand_plan(graph, meshes=[(4, 1)], global_batch=8, microbatches=2)
    for given, options, said in [
        (zoo_graph("tiny-moe"), {}, "made for another graph"),
        (graph, {"options": RunOptions(processes=2)}, "needs 4 processes.*got 2"),
        (graph, {"iterations": 0}, "iterations: expected a positive integer"),
        (graph, {"dtype": "float16"}, "dtype: expected float32 or float64"),
    ]:
        with pytest.raises(InputError, match=said) as error:
            run_training(plan, given, **options)
        assert "\n" not in str(error.value)


def test_a_spec_that_does_not_follow_from_the_loops_is_refused(session):
    graph = zoo_graph("tiny-mlp")
    plan = hand_plan(graph, meshes=[(2, 1)], global_batch=8, microbatches=2)
    (stage,) = plan.stages
    wrong = stage.operators["layers.0"].model_copy(update={"operands": ("RR", "RR")})
    bad = plan.model_copy(
        update={"stages": (stage.model_copy(update={"operators": stage.operators | {"layers.0": wrong}}),)}
    )
    with pytest.raises(InputError, match=r"layers\.0\.operands\.0.*the axes of the operator say"):
        run_training(bad, graph, options=RunOptions(processes=2))


def test_a_loop_that_does_not_divide_is_refused():
    graph = zoo_graph("tiny-mlp")
    plan = hand_plan(graph, meshes=[(3, 1)], global_batch=9, microbatches=1)
    uneven = plan.model_copy(update={"global_batch": 8})
    with pytest.raises(InputError, match="not divisible by 3 devices"):
        run_training(uneven, graph)
