"""C1–C5 and Eq. 3.2: a plan that breaks one is refused, and the constraint is named."""

from __future__ import annotations

from typing import Any

import pytest
from meshwright.errors import InputError
from meshwright.planners.alpa import BASELINES
from meshwright.planners.graphpipe import check_stage_graph, plan
from meshwright.planners.stages.checks import check_passes
from meshwright.profiles.graph import Graph, zoo_graph
from meshwright.simulator.cluster import Cluster
from meshwright.simulator.training import TrainingPlan
from meshwright.simulator.training.program.columns import B, F


@pytest.fixture(scope="module")
def graph() -> Graph:
    return zoo_graph("candle-uno-2")


@pytest.fixture(scope="module")
def made(graph: Graph) -> TrainingPlan:
    """Two branches of two stages, which meet in a fifth."""
    return plan(
        graph, Cluster(1, 5), global_batch=32,
        options={"devices": (1,), "microbatches": (4,), "schedule": "greedy", "simulated": 40},
    )  # fmt: skip


def changed(made: TrainingPlan, **changes: Any) -> TrainingPlan:
    """Not validated again: what the plan itself would refuse is to be found here, too."""
    return made.model_copy(update=changes)


def stages(made: TrainingPlan, number: int, **changes: Any) -> TrainingPlan:
    entries = list(made.stages)
    entries[number] = entries[number].model_copy(update=changes)
    return changed(made, stages=tuple(entries))


def test_a_planned_one_is_right(made: TrainingPlan, graph: Graph):
    assert len(made.stages) > 2
    check_stage_graph(made, graph)


@pytest.mark.parametrize("baseline", ["pp-dp", "inter-only"])
def test_any_plan_can_be_checked(baseline: str):
    graph = zoo_graph("tiny-mlp")
    other = BASELINES[baseline](graph, Cluster(1, 4), global_batch=16, microbatches=4)
    check_stage_graph(other, graph)


def test_c1_partition(made: TrainingPlan, graph: Graph):
    first = made.stages[0]
    with pytest.raises(InputError, match=r"^C1: operator .* is in no stage"):
        check_stage_graph(stages(made, 0, last=first.last - 1), graph)
    with pytest.raises(InputError, match=r"^C1: operator .* is in stages 0 and 1"):
        check_stage_graph(stages(made, 0, last=first.last + 1), graph)
    with pytest.raises(InputError, match=r"^C1: stage .* ends at operator 1000"):
        check_stage_graph(stages(made, len(made.stages) - 1, last=1000), graph)


def test_c1_convex(made: TrainingPlan, graph: Graph):
    """The first operators of a branch and its last in one stage, those between in another."""
    names = [op.name for op in graph.operators]
    branch = [i for i, name in enumerate(names) if graph.operators[i].layer in (0, 1, 2)]
    third = len(branch) // 3
    order = branch[:third] + branch[2 * third :] + branch[third : 2 * third]
    rest = [i for i in range(len(names)) if i not in branch]
    with pytest.raises(InputError, match="topological"):  # one such stage cannot even be written in order
        check_stage_graph(changed(made, model=made.model.model_copy(update={"order": tuple(order + rest)})), graph)


def test_c2_edges(made: TrainingPlan, graph: Graph):
    with pytest.raises(InputError, match=r"^C2: stage .* reads .* and no transfer brings it"):
        check_stage_graph(changed(made, transfers=made.transfers[1:]), graph)


def test_c3_devices(made: TrainingPlan, graph: Graph):
    with pytest.raises(InputError, match=r"^C3: device 0 is given to stages"):
        check_stage_graph(stages(made, len(made.stages) - 1, mesh=made.stages[0].mesh), graph)


def test_c5_stages_that_wait_for_each_other(made: TrainingPlan, graph: Graph):
    """A stage that wants its first gradient before it has sent what the stage after it must have first."""
    n = made.global_batch // 4
    last = len(made.stages) - 1
    late = stages(made, last, order=f"{n}F {n}B")
    with pytest.raises(InputError, match=r"^C5: program: deadlock: mesh 0 \(stage 0\) waits"):
        check_stage_graph(late, graph)


def passes(text: str) -> list[tuple[int, int]]:
    """``"F F B"`` as passes by rising microbatch; a number after one says its microbatch."""
    done = {"F": 0, "B": 0}
    found = []
    for word in text.split():
        found.append(({"F": F, "B": B}[word[0]], int(word[1:]) if word[1:] else done[word[0]]))
        done[word[0]] += 1
    return found


@pytest.mark.parametrize(
    ("stages", "sizes", "said"),
    [
        (("F1 F0 B0 B1", "F B F B"), (1, 1), "^C4: stage 0: F.1 comes where F.0 was to come$"),
        (("B F F B", "F B F B"), (1, 1), "^C4: stage 0: B.0 comes before F.0$"),
        (("F F B", "F B F B"), (1, 1), "^C4: stage 0: 2 forward passes, 1 backward passes$"),
        (("F F B B", "F B"), (1, 1), "^C5: stage 1: 1 microbatches of 1 samples are not the batch of 2$"),
        (("F B F B", "F F B B"), (1, 1), "^C5: stages 0 and 1 wait for each other: B.0 of stage 0"),
        (("F B F B", "F B"), (1, 2), "^C5: stages 0 and 1 wait for each other: B.0 of stage 0"),
    ],
)
def test_c4_and_c5_of_passes(stages: tuple[str, ...], sizes: tuple[int, ...], said: str):
    with pytest.raises(InputError, match=said):
        check_passes([passes(text) for text in stages], sizes, [(0, 1, True)], 2)


@pytest.mark.parametrize(
    ("stages", "sizes"), [(("F F B B", "F B F B"), (1, 1)), (("F F B B", "F B"), (1, 2)), (("F B", "F F B B"), (2, 1))]
)
def test_c5_between_unequal_microbatches(stages: tuple[str, ...], sizes: tuple[int, ...]):
    check_passes([passes(text) for text in stages], sizes, [(0, 1, True)], 2)


def test_memory(made: TrainingPlan, graph: Graph):
    with pytest.raises(InputError, match=r"^Eq\. 3\.2: stage \d+ needs .* GiB on a device with \d+ microbatches"):
        check_stage_graph(made, graph, memory_bytes=0.9 * made.predicted["peak_bytes"])
    check_stage_graph(made, graph, memory_bytes=1.01 * made.predicted["peak_bytes"])
