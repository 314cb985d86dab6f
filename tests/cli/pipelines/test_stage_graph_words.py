"""Plans whose stages form a graph, in words."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.simulator.training import simulate_training
from meshwright.simulator.training.plan.file import TransferEntry
from meshwright.simulator.training.plan.graph_words import StageGraph, stage_graph
from meshwright.simulator.training.plan.words import stage_rows
from stage_plans import EDGES, branched_plan


def test_graph_of_a_plan():
    graph = stage_graph(branched_plan())
    assert graph.before == ((), (0,), (), (2,), (1, 3))
    assert (graph.depth, graph.branches, graph.firsts) == (3, True, (0, 2))
    assert graph.lines() == [
        "stages form a graph of depth 3 (5 stages); they start at stages 0 and 2 and end at stage 4"
    ]


def test_a_chain_is_none():
    """Without transfers, and with one that skips a stage: every stage waits for the one before."""
    for transfers in ((), tuple(TransferEntry(source=a, target=b, value=f"x{a}{b}", bytes=1) for a, b in
                                ((0, 1), (1, 2), (2, 3), (3, 4), (0, 3)))):  # fmt: skip
        graph = stage_graph(branched_plan(transfers=transfers))
        assert (graph.depth, graph.branches, graph.lines()) == (5, False, [])


def test_many_first_stages_are_folded():
    graph = StageGraph((*((),) * 8, tuple(range(8))), (2,) * 8 + (1,), (1.0,) * 9)
    assert graph.lines()[0].endswith("they start at 8 stages (0, 1, … 7) and end at stage 8")


@pytest.mark.parametrize("seed", range(20))
def test_longest_path_against_all_paths(seed: int):
    """On random graphs of seven stages, every path listed by brute force."""
    rng = np.random.default_rng(seed)
    n = 7
    edges = {(a, b) for a in range(n) for b in range(a + 1, n) if rng.random() < 0.4}
    before = tuple(tuple(a for a in range(n) if (a, b) in edges) for b in range(n))
    behind = [1] * n
    for a in reversed(range(n)):
        behind[a] = 1 + max((behind[b] for b in range(n) if (a, b) in edges), default=0)
    weight = tuple(rng.random(n))
    graph = StageGraph(before, tuple(behind), weight)
    paths = [
        p
        for size in range(1, n + 1)
        for p in permutations(range(n), size)
        if list(p) == sorted(p)
        and all(pair in edges for pair in pairwise(p))
        and not before[p[0]]
        and behind[p[-1]] == 1
    ]
    assert graph.depth == max(map(len, paths))
    for s in range(n):
        best = max(sum(weight[x] for x in p) for p in paths if s in p)
        found = graph.path(s)
        assert found in paths
        assert s in found
        assert sum(weight[x] for x in found) == pytest.approx(best)


def test_rows_say_who_follows_whom():
    rows = stage_rows(branched_plan())
    assert [row["after"] for row in rows] == ["-", "0", "-", "2", "1,3"]
    assert [row["activations"].split(" x ")[0] for row in rows] == ["3", "2", "3", "2", "1"]
    assert not {"microbatch", "k"} & set(rows[0])
    chain = branched_plan(transfers=())
    assert "after" not in stage_rows(chain)[0]
    assert [row["activations"].split(" x ")[0] for row in stage_rows(chain)] == ["5", "4", "3", "2", "1"]


def test_explained_time_is_that_of_the_longest_path():
    """Equal stages, no communication: 8 + 3 − 1 rounds of 30 ms, which the engine takes too."""
    plan = branched_plan(transfers=tuple(TransferEntry(source=a, target=b, value=f"x{a}", bytes=0) for a, b in EDGES))
    assert "Σ t + (B - 1) max t over the longest path = 300 ms an iteration:" in plan.explain()
    assert simulate_training(plan).seconds == pytest.approx(0.3, rel=1e-3)  # messages of nothing have a latency


def test_stages_in_a_circle_are_refused():
    with pytest.raises(InputError, match="transfers: stages 0, 1 wait for each other in a circle"):
        branched_plan(
            transfers=tuple(TransferEntry(source=a, target=b, value=f"x{a}", bytes=0) for a, b in ((0, 1), (1, 0)))
        )
