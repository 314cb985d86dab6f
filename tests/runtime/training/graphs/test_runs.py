"""Graphs of stages trained on gloo processes, two branches at once, against the single-device run."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from meshwright.errors import InputError
from meshwright.planners import graphpipe
from meshwright.profiles.graph import Graph, zoo_graph
from meshwright.runtime.training import RunOptions, TrainingSession, program_of, run_training
from meshwright.runtime.training.compare import compare_training
from meshwright.runtime.training.compare.graph import CORES, graph_plans
from meshwright.runtime.training.hand_graph_plan import branch_stages, stage_graph_plan
from meshwright.runtime.training.measure.calibrate import calibrate_training
from meshwright.runtime.training.wires.edges import signals_of
from meshwright.seeds import generator
from meshwright.simulator import Cluster
from meshwright.simulator.training import simulate_training
from meshwright.simulator.training.plan.file import TrainingPlan
from meshwright.simulator.training.program.actions import Op

ONE = (1, 1)


def stages_of(name: str) -> list[tuple[int, ...]]:
    """Two branches and what follows; of DLRM one dense branch, and the other with the bags of both."""
    *branches, ends = branch_stages(zoo_graph(name))
    return [branches[0], tuple(i for branch in branches[1:] for i in branch), ends]


def plan_of(name: str, samples: tuple[int, ...], **options: Any) -> TrainingPlan:
    given = {"meshes": [ONE] * len(samples), "global_batch": 8} | options
    stages = given.pop("stages") if "stages" in given else stages_of(name)
    return stage_graph_plan(zoo_graph(name), stages, samples=samples, **given)


def agrees(plan: TrainingPlan, name: str, session: TrainingSession, dtype: str = "float64", **options: Any) -> None:
    graph = zoo_graph(name)
    run = run_training(plan, graph, seed=3, dtype=dtype, compare=True, session=session, **options)  # type: ignore[arg-type]
    most = 1e-12 if dtype == "float64" else 5e-6
    assert run.difference is not None
    assert run.difference.loss < most, run.difference
    assert run.difference.gradient < most, run.difference
    assert len(run.gradients) == len([p for p in graph.parameters if p.trainable])


@pytest.mark.parametrize("name", ["tiny-mmt", "tiny-dlrm", "tiny-uno"])
@pytest.mark.parametrize("samples", [(2, 2, 2), (4, 1, 2), (2, 4, 8), (2, 2, 1)], ids=str)
def test_two_branches_at_once_train_as_one_device_does(session, name: str, samples: tuple[int, ...]) -> None:
    plan = plan_of(name, samples)
    assert plan.microbatches_of == tuple(8 // b for b in samples)
    agrees(plan, name, session)


@pytest.mark.parametrize("name", ["tiny-mmt", "tiny-dlrm", "tiny-uno"])
def test_in_float32_too_and_iteration_after_iteration(session, name: str) -> None:
    agrees(plan_of(name, (4, 1, 2)), name, session, "float32")
    graph = zoo_graph(name)
    run = run_training(plan_of(name, (1, 4, 2)), graph, dtype="float64", iterations=3, compare=True, session=session)
    assert run.difference is not None
    assert len(run.losses) == 3
    assert run.difference.loss < 1e-12
    assert run.difference.weight < 1e-10


@pytest.mark.parametrize(
    ("meshes", "samples", "options"),
    [
        ([(2, 1), ONE, ONE], (2, 4, 4), {}), ([(2, 1), ONE, ONE], (4, 2, 2), {}), ([ONE, ONE, (2, 1)], (1, 2, 4), {}),
        ([ONE, ONE, (2, 1)], (4, 8, 2), {}), ([(1, 2), ONE, ONE], (1, 2, 4), {"rule": "tp"}),
        ([(2, 1), ONE, ONE], (2, 4, 4), {"zero": 3}), ([(2, 1), ONE, ONE], (4, 2, 2), {"recompute": "full"}),
    ],
    ids=str,
)  # fmt: skip
def test_stages_are_parallel_inside(session, meshes: Any, samples: tuple[int, ...], options: dict[str, Any]) -> None:
    agrees(plan_of("tiny-mmt", samples, meshes=meshes, **options), "tiny-mmt", session)


def test_data_parallel_stages_of_both_kinds_exchange_what_their_rows_are(session) -> None:
    graph = zoo_graph("tiny-uno")
    one, other, ends = stages_of("tiny-uno")
    for samples in ((2, 8), (8, 2), (4, 2)):  # two stages of two devices, whose rows lie apart
        plan = plan_of("tiny-uno", samples, stages=[one, (*other, *ends)], meshes=[(2, 1), (2, 1)])
        agrees(plan, "tiny-uno", session)
    crossed = [one[:3] + other, one[3:] + ends]  # a branch begun here and ended there: not consecutive
    plan = plan_of("tiny-uno", (4, 2), stages=crossed, meshes=[(2, 1), (2, 1)])
    assert plan.model.order
    assert plan.model.digest == graph.digest
    agrees(plan, "tiny-uno", session)


@pytest.mark.parametrize(
    ("schedule", "options"),
    [
        ("gpipe", {}), ("kfkb", {"k": (2, 1, 1)}), ("kfkb", {"k": (2, 4, 2), "warmup": (4, 8, 2)}),
        ("explicit", {"orders": ("3F 1B 1F 1B 2B", "6F 2B 2F 6B", "1F 1B 1F 1B 1F 1B 1F 1B")}),
    ],
    ids=str,
)  # fmt: skip
def test_schedules_of_stages_that_differ(session, schedule: str, options: dict[str, Any]) -> None:
    agrees(plan_of("tiny-dlrm", (2, 1, 2), schedule=schedule, **options), "tiny-dlrm", session)


def test_branches_do_not_wait_for_each_other(session) -> None:
    plan, graph = plan_of("tiny-mmt", (2, 4, 2)), zoo_graph("tiny-mmt")
    program = program_of(plan, graph)
    for mesh in (0, 1):
        assert {a.peer for a in program.actions[mesh] if a.peer >= 0} == {2}
        first = next(i for i, a in enumerate(program.actions[mesh]) if a.op != Op.F and a.op != Op.SEND_F)
        assert sum(a.op == Op.F for a in program.actions[mesh][:first]) >= 2 // (mesh + 1)
    run = run_training(plan, graph, session=session)
    ran = [[(s.op, s.stage, s.microbatch, s.slice) for s in rank] for rank in run.spans[0]]
    assert ran == [[(a.op, a.stage, a.microbatch, a.slice) for a in mine] for mine in program.actions]


def test_stages_that_read_nothing_of_each_other_may_have_to_wait(session) -> None:
    # A pipeline of a linearised graph: the second branch waits for the first one, as a transfer of no bytes says.
    plan = plan_of("tiny-uno", (2, 2, 2), schedule="gpipe")
    edge = plan.transfers[0].model_copy(update={"source": 0, "target": 1, "bytes": 0.0})
    line = plan.model_copy(update={"transfers": (*plan.transfers, edge), "schedule": "1f1b"})
    graph = zoo_graph("tiny-uno")
    (signal,) = signals_of(line, graph)
    assert (signal.source, signal.target, signal.full, signal.gradient) == (0, 1, (1,), True)
    program = program_of(line, graph)
    waits = [a for a in program.actions[1] if (a.op, a.peer) == (Op.RECV_F, 0)]
    assert len(waits) == 4
    agrees(line, "tiny-uno", session)
    run = run_training(line, graph, session=session)
    assert [[(s.op, s.stage, s.microbatch) for s in rank] for rank in run.spans[0]] == [
        [(a.op, a.stage, a.microbatch) for a in mine] for mine in program.actions
    ]
    uneven = plan_of("tiny-uno", (2, 4, 2), schedule="gpipe")
    agrees(uneven.model_copy(update={"transfers": (*uneven.transfers, edge)}), "tiny-uno", session)


def test_a_plan_that_the_runtime_cannot_keep_is_refused_in_one_line(session) -> None:
    graph = zoo_graph("tiny-resnet")
    n = len(graph.operators)
    plan = stage_graph_plan(graph, [range(12), range(12, n)], meshes=[ONE] * 2, global_batch=8, samples=(2, 4))
    with pytest.raises(InputError, match=r"microbatches of different sizes: 'stem.norm' \(norm\) brings the samples"):
        run_training(plan, graph, session=session)
    with pytest.raises(InputError, match="needs 3 processes"):
        run_training(plan_of("tiny-uno", (2, 4, 2)), zoo_graph("tiny-uno"), options=RunOptions(processes=2))


def test_measured_stages_are_of_their_own_microbatches(session) -> None:
    graph = zoo_graph("tiny-mmt")
    plan = plan_of("tiny-mmt", (8, 1, 2))
    found = calibrate_training(plan, graph, session, repeats=1).plan
    assert all(stage.forward_s > 0 and stage.backward_input_s > 0 for stage in found.stages)
    result = simulate_training(found)
    least = max(
        n * (stage.forward_s + stage.backward_input_s)
        for n, stage in zip(plan.microbatches_of, found.stages, strict=True)
    )
    assert result.seconds >= least
    run = run_training(plan, graph, session=session)
    assert run.collectives_of(0) == {}


def test_plans_to_compare_are_what_they_say() -> None:
    graph = zoo_graph("tiny-mmt")
    plans = graph_plans(graph, global_batch=8, samples=2)
    depth = {name: [(t.source, t.target) for t in plan.transfers] for name, plan in plans.items()}
    assert depth["in one line"] == [(0, 1)]
    assert (0, 1) not in depth["at once, 2 ranks"]
    assert sorted(depth["at once, 3 ranks"]) == [(0, 2), (1, 2)]
    assert plans["own microbatches"].microbatches_of == (4, 4, 2)
    covered = [sum(s.last - s.first for s in plan.stages) for plan in plans.values()]
    assert covered == [len(graph.operators)] * 4
    with pytest.raises(InputError, match="expected a graph of two branches"):
        graph_plans(zoo_graph("tiny-mmt-3"), global_batch=8, samples=2)
    with pytest.raises(InputError, match="does not start with branches"):
        branch_stages(zoo_graph("tiny-gpt"))


def test_both_branches_at_once_on_two_processes(session) -> None:
    plans = graph_plans(zoo_graph("tiny-mmt"), global_batch=8, samples=2)
    for name in ("at once, 2 ranks", "in one line"):
        agrees(plans[name], "tiny-mmt", session)


def test_branches_are_measured_simulated_and_run_side_by_side() -> None:
    graph = zoo_graph("tiny-mmt")
    every = graph_plans(graph, global_batch=8, samples=2)
    plans = {name: every[name] for name in ("at once, 2 ranks", "own microbatches")}
    result = compare_training(plans, graph, rounds=1, iterations=2, cores=CORES)
    assert [row.name for row in result.rows] == list(plans)
    assert all(row.simulated_s > 0 and row.measured_s > 0 and row.counted == 1 for row in result.rows)
    assert "own microbatches" in str(result)
    with pytest.raises(InputError, match=r"cores: expected one for each of 2 processes \(got \[0\]\)"):
        TrainingSession(2, cores=(0,))


@pytest.mark.parametrize("seed", range(8))
def test_any_cut_of_any_order_trains_as_one_device_does(session, seed: int) -> None:
    random = generator(seed, "stage graphs")
    name = str(random.choice(["tiny-mmt", "tiny-dlrm", "tiny-uno", "tiny-uno-3", "tiny-gpt"]))
    line = shuffled(zoo_graph(name), random)
    count = int(random.integers(2, 5))
    cuts = [0, *sorted(random.choice(range(1, len(line)), count - 1, replace=False).tolist()), len(line)]
    samples = tuple(int(b) for b in random.choice([1, 2, 4, 8], count))
    schedule = str(random.choice(["gpipe", "kfkb"]))
    stages = [tuple(line[a:b]) for a, b in pairwise(cuts)]
    agrees(plan_of(name, samples, stages=stages, meshes=[ONE] * count, schedule=schedule), name, session)


def shuffled(graph: Graph, random: np.random.Generator) -> list[int]:
    """A random topological order."""
    waits = {i: {graph.index[x] for x in op.inputs if x in graph.index} for i, op in enumerate(graph.operators)}
    line: list[int] = []
    while waits:
        ready = [i for i, before in waits.items() if not before - set(line)]
        line.append(int(random.choice(ready)))
        del waits[line[-1]]
    return line


@pytest.mark.parametrize("name", ["tiny-uno", "tiny-dlrm"])
def test_what_planners_find_is_trained(session, name: str) -> None:
    graph, cluster = zoo_graph(name), Cluster(nodes=1, devices_per_node=4)
    options = graphpipe.GraphPipeOptions(microbatches=(2, 4), schedule="greedy")
    plan = graphpipe.plan(graph, cluster, global_batch=8, options=options)
    assert plan.schedule == "explicit"
    assert len(plan.stages) > 1
    agrees(plan, name, session)
    agrees(graphpipe.pipedream(graph, cluster, global_batch=8), name, session)
