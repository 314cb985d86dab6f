"""`planners.graphpipe.plan`: valid training plans, simulated as said, and never worse than sequential ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
from meshwright.errors import InfeasibleError, InputError
from meshwright.planners.graphpipe import GraphPipeOptions, check_stage_graph, pipedream, plan
from meshwright.planners.graphpipe.candidates import candidates_of
from meshwright.planners.graphpipe.sweep import sweep
from meshwright.planners.graphpipe.task import Task
from meshwright.profiles.graph import Graph, zoo_graph
from meshwright.simulator.cluster import Cluster
from meshwright.simulator.training import TrainingPlan, simulate_training
from meshwright.simulator.training.plan.links import plan_links
from meshwright.simulator.training.plan.loads import plan_loads
from meshwright.simulator.training.plan.program import plan_program
from meshwright.simulator.training.program.actions import Op

FOUR, EIGHT = Cluster(1, 4), Cluster(2, 4)


def with_memory(cluster: Cluster, gib: float) -> Cluster:
    size = int(gib * 2**30)
    return replace(cluster, device=replace(cluster.spec, memory_bytes=size, usable_memory_bytes=size))


@pytest.fixture(scope="module")
def uno() -> Graph:
    return zoo_graph("candle-uno-4")


@pytest.mark.parametrize("schedule", ["1f1b", "kfkb", "greedy"])
def test_plans_simulate_as_they_say_and_read_back(uno: Graph, schedule: str):
    made = plan(uno, EIGHT, global_batch=1024, options={"schedule": schedule})
    check_stage_graph(made, uno)
    assert made.schedule in ({"greedy": "explicit", "1f1b": "1f1b", "kfkb": "1f1b"}[schedule], "kfkb")
    result = simulate_training(made)
    assert result.seconds == made.predicted["seconds"]
    assert result.fits
    assert simulate_training(made, engine="simpy").seconds == pytest.approx(result.seconds, rel=1e-12)
    assert TrainingPlan.from_json(made.to_json()) == made


def test_branches_run_at_once_and_depth_falls(uno: Graph):
    graph = plan(uno, EIGHT, global_batch=1024)
    chain = plan(uno, EIGHT, global_batch=1024, options={"topology": "chain"})
    assert chain.predicted["depth"] == len(chain.stages)
    assert graph.predicted["depth"] < len(graph.stages)
    assert graph.predicted["seconds"] < chain.predicted["seconds"]


@pytest.mark.parametrize(
    "name", ["candle-uno-4", pytest.param("candle-uno-16", marks=pytest.mark.slow), "case-study-3-7-4", "dlrm-3"]
)
def test_no_worse_than_pipedream(name: str):
    graph = zoo_graph(name)
    ours = plan(graph, EIGHT, global_batch=128)
    theirs = pipedream(graph, EIGHT, global_batch=128)
    assert ours.predicted["seconds"] <= theirs.predicted["seconds"] * (1 + 1e-9)


def test_outline_takes_as_long_as_the_plan(uno: Graph):
    """Plans are compared in outline: messages and passes must be those of the plan that is written out."""
    for options in ({}, {"topology": "chain"}, {"schedule": "greedy"}):
        task = Task.of(uno, EIGHT, 512, GraphPipeOptions.of(options), None)
        found = candidates_of(task.tree, task.costs, EIGHT.spec.memory_bytes)
        ways, _ = sweep(found, 8, 512, ks=task.ks, same_microbatch=False, trade=True, about=task.about_s)
        for way in ways[:4]:
            assert task.simulated_s(way) == pytest.approx(task.emit(way, 0).predicted["seconds"], rel=1e-12)


def test_memory_is_a_bound():
    graph = zoo_graph("case-study-3-7-4")
    free = plan(graph, EIGHT, global_batch=64)
    tight = with_memory(EIGHT, 0.8 * free.predicted["peak_bytes"] / 2**30)
    bound = plan(graph, tight, global_batch=64)
    assert bound.predicted["peak_bytes"] <= 0.9 * tight.spec.memory_bytes < free.predicted["peak_bytes"]
    check_stage_graph(bound, graph, memory_bytes=0.9 * tight.spec.memory_bytes)


def test_greedy_orders_stay_within_the_memory(uno: Graph):
    """Algorithm 4 sees messages as part of the passes, and holds more than 1F1B for them: not where it does not fit."""
    options = {"schedule": "greedy", "devices": (1,), "microbatches": (64,)}
    free = plan(uno, EIGHT, global_batch=1024, options=options)
    plain = plan(uno, EIGHT, global_batch=1024, options=options | {"schedule": "1f1b"})
    assert free.schedule == "explicit"
    assert free.predicted["peak_bytes"] > plain.predicted["peak_bytes"]
    tight = with_memory(EIGHT, 1.001 * plain.predicted["peak_bytes"] / 0.9 / 2**30)
    bound = plan(uno, tight, global_batch=1024, options=options)
    check_stage_graph(bound, uno, memory_bytes=0.9 * tight.spec.memory_bytes)


def test_infeasible_says_the_smallest_change(uno: Graph):
    small = with_memory(FOUR, 0.25)
    with pytest.raises(InfeasibleError, match="the least with which there is a plan is") as caught:
        plan(uno, small, global_batch=64)
    needed = float(str(caught.value).split("a plan is ")[1].split(" GiB")[0])
    enough = with_memory(FOUR, needed / 0.9)
    assert plan(uno, enough, global_batch=64).stages
    with pytest.raises(InfeasibleError):
        plan(uno, with_memory(FOUR, 0.97 * needed / 0.9), global_batch=64)


def test_infeasible_for_one_unit_names_it():
    """More devices do not help where one layer's weights do not fit."""
    with pytest.raises(InfeasibleError, match=r"devices with that much: the unit of 'post\.0' alone needs [\d.]+ GiB$"):
        plan(zoo_graph("dlrm-3"), with_memory(EIGHT, 0.5), global_batch=64)


def test_sequential_option_isolates_the_gain(uno: Graph):
    """Same units, prices and search: all that differs is that each stage waits for the one before it."""
    chain = plan(uno, EIGHT, global_batch=1024, options={"topology": "chain", "same_microbatch": True})
    pairs = {(t.source, t.target) for t in chain.transfers}
    assert {(s, s + 1) for s in range(len(chain.stages) - 1)} <= pairs


def test_unequal_microbatches_are_run():
    """Two stages of which one fills the device with few samples and the other needs many."""
    graph = zoo_graph("dlrm-3")
    task = Task.of(graph, EIGHT, 256, GraphPipeOptions(microbatches=(16, 64)), None)
    found = candidates_of(task.tree, task.costs, EIGHT.spec.memory_bytes)
    ways, _ = sweep(found, 8, 256, ks=(1,), same_microbatch=False, trade=False, about=task.about_s)
    mixed = [w for w in ways if len({s.config.microbatch for s in w.partition.stages}) == 2]
    assert mixed
    made = task.emit(mixed[0], 0)
    assert made.schedule == "kfkb"
    check_stage_graph(made, graph)
    assert {made.microbatch_of(s) for s in range(len(made.stages))} == {16, 64}


def test_data_parallel_stages_carry_their_collectives_and_specs(uno: Graph):
    made = plan(uno, EIGHT, global_batch=1024, options={"devices": (2,)})
    for stage in made.stages:
        assert stage.logical == (2, 1)
        assert stage.reduce_s > 0
        assert all(entry.axes[0] for entry in stage.operators.values())
    ids = [d for s in range(len(made.stages)) for d in made.mesh(s).device_ids]
    assert len(ids) == len(set(ids))


def test_case_study_depth(capsys: pytest.CaptureFixture[str]):
    """§3.7.4: eight stages either way. Sequential: depth 8. The concatenation goes with the end of one branch, which so
    waits for the other: five, where the paper counts four."""
    graph = zoo_graph("case-study-3-7-4")
    options = {"devices": (1,), "microbatches": (2,)}
    ours = plan(graph, EIGHT, global_batch=64, options=options)
    chain = plan(graph, EIGHT, global_batch=64, options=options | {"topology": "chain"})
    assert [len(p.stages) for p in (ours, chain)] == [8, 8]
    assert [p.predicted["depth"] for p in (ours, chain)] == [5, 8]
    assert [p.predicted["in_flight"] for p in (ours, chain)] == [10, 16]
    # Equal stages: (32 + 7) / (32 + 4) = 1.083; messages and the last stage's loss are on top of that.
    assert chain.predicted["seconds"] / ours.predicted["seconds"] == pytest.approx(39 / 36, abs=0.03)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"schedul": "1f1b"}, "did you mean 'schedule'"),
        ({"schedule": "2f2b"}, "schedule: unknown value '2f2b'"),
        ({"microbatches": (3, 4)}, "powers of two, or these times one odd number"),
        ({"microbatches": (5,)}, "5 samples do not divide the global batch of 64"),
        ({"ks": (2, 4), "schedule": "kfkb"}, "expected 1 among them"),
        ({"memory_fraction": 0}, "memory_fraction: expected a number"),
        ({"simulated": 0}, "simulated: expected a positive integer"),
        ({"devices": (64,), "microbatches": (8,)}, "64"),
    ],
)
def test_wrong_options_are_refused_in_one_line(uno: Graph, options: dict[str, object], said: str):
    with pytest.raises((InputError, InfeasibleError)) as caught:
        plan(uno, FOUR, global_batch=64, options=options)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_no_graph_cluster_or_batch(uno: Graph):
    with pytest.raises(InputError, match="expected a training graph"):
        plan("uno", FOUR, global_batch=64)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="expected a Cluster"):
        plan(uno, 4, global_batch=64)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="positive integer"):
        plan(uno, FOUR, global_batch=0)


def test_progress_is_told(uno: Graph):
    lines: list[str] = []
    plan(uno, FOUR, global_batch=64, progress=lines.append)
    assert "candidate stages" in lines[0]
    assert any("simulated" in line for line in lines)


def test_all_that_devices_of_a_stage_exchange_are_gradients(uno: Graph):
    """So a plan needs to say no traffic: its reductions take links all of their time, its passes none."""
    made = plan(uno, EIGHT, global_batch=1024)
    loads = plan_loads(made, plan_program(made), plan_links(made))
    several = {s for s, stage in enumerate(made.stages) if stage.logical[0] > 1 and stage.reduce_s > 0}
    assert several
    assert {s for op, s in loads.passes if op == Op.REDUCE} == several
    assert {op for op, _ in loads.passes} == {Op.REDUCE}
    assert all(set(use.values()) == {1.0} for use in loads.passes.values())
