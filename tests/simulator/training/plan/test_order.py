"""Stages that are consecutive in another topological order of the graph than its own."""

import pytest
from meshwright.errors import InputError
from meshwright.profiles.graph import Builder, Graph, reordered, save_graph
from meshwright.simulator import Cluster
from meshwright.simulator.plan.entries import PlannerEntry
from meshwright.simulator.training import MeshEntry, ModelEntry, StageEntry, TrainingPlan
from meshwright.simulator.training.plan.graph import check_graph, in_plan_order, planned_graph

ENTRY = {"forward_s": 1.0, "backward_input_s": 1.0, "state_bytes": 1.0, "activation_bytes": 1.0, "logical": (1, 1)}
ORDER = (0, 2, 1, 3, 4, 5)
"""a0 a1 b0 b1 sum loss"""


def branches(name: str = "branches") -> Graph:
    """Two branches whose operators alternate: a0 b0 a1 b1, then their sum and the loss."""
    b = Builder(name, dtype="float32")
    ends = {x: b.input(f"x_{x}", 4, dtype="float32") for x in "ab"}
    for i in range(2):
        for x in "ab":
            ends[x] = b.add(f"{x}{i}", "contraction", "b h, h k -> b k", ends[x], b.parameter(f"w_{x}{i}", 4, 4))
    both = b.add("sum", "elementwise", "b h, b h -> b h", ends["a"], ends["b"], fn="add")
    b.add("loss", "reduction", "b h ->", both, fn="mean")
    return b.graph(1, "samples", "test")


def plan_of(graph: Graph, order: tuple[int, ...], path: str = "", digest: str | None = None) -> TrainingPlan:
    bounds = (0, 2, 4, 6)
    stages = [
        StageEntry(mesh=s, first=bounds[s], last=bounds[s + 1], operators={}, **ENTRY) for s in range(len(bounds) - 1)
    ]
    return TrainingPlan.of(
        Cluster(1, 3, "v100-16gb"),
        model=ModelEntry(name=graph.name, order=order, graph=path, digest=graph.digest if digest is None else digest),
        global_batch=4,
        microbatches=2,
        meshes=tuple(MeshEntry(hosts=1, devices=1, first_device=d) for d in range(3)),
        stages=tuple(stages),
        planner=PlannerEntry(name="hand", options={}, version="0", seed=0, seconds=0.0, evaluations=0),
    )


def names(graph: Graph) -> list[str]:
    return [op.name for op in graph.operators]


def test_reordered() -> None:
    graph = branches()
    other = reordered(graph, ORDER)
    assert names(other) == ["a0", "a1", "b0", "b1", "sum", "loss"]
    assert sorted(other.operators, key=lambda op: op.name) == sorted(graph.operators, key=lambda op: op.name)
    assert reordered(other, ORDER) == graph  # this order is its own inverse
    assert reordered(graph, ()) is graph
    assert reordered(graph, range(6)) is graph


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ((0, 1, 2), "expected each of the 6 operators of 'branches' once, 0 … 5 .got 3 entries."),
        ((0, 1, 2, 3, 3, 5), "got 6 entries, 3 wrong or twice among them"),
        ((2, 0, 1, 3, 4, 5), "order: 'a1' comes before 'a0', which it reads; give a topological order"),
    ],
)
def test_orders_that_are_none(order: tuple[int, ...], said: str) -> None:
    with pytest.raises(InputError, match=said):
        reordered(branches(), order)


def test_a_plans_graph_is_in_its_order(tmp_path) -> None:
    graph = branches()
    save_graph(graph, tmp_path / "g.json")
    plan = plan_of(graph, ORDER, "g.json")
    found = planned_graph(plan, plan.save(tmp_path / "plan.json"))
    assert names(found) == names(reordered(graph, ORDER))
    assert found.batch == 2
    for given in (graph, reordered(graph, ORDER)):  # in its own order, or in the plan's already
        assert names(in_plan_order(plan, given)) == names(found)
        check_graph(plan, in_plan_order(plan, given.with_batch(2)))
    assert in_plan_order(plan_of(graph, ()), graph) is graph


def test_another_graph_or_order_is_refused() -> None:
    graph = branches()
    plan = plan_of(graph, ORDER)
    with pytest.raises(InputError, match="was made for another graph"):
        check_graph(plan, in_plan_order(plan, branches("others")))
    with pytest.raises(InputError, match=r"plan: model\.order: 'a1' comes before 'a0'"):
        in_plan_order(plan_of(graph, (2, 0, 1, 3, 4, 5)), graph)
    with pytest.raises(InputError, match=r"plan: model\.order: expected each of the 6 operators"):
        in_plan_order(plan_of(graph, (0, 1, 2)), graph)
