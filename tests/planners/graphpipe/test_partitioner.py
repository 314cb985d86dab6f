"""The partitioner against searches that try everything, on small graphs with made-up prices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from meshwright.planners.graphpipe.candidates import candidates_of
from meshwright.planners.graphpipe.partitioner import Partitioner
from meshwright.planners.graphpipe.schedule.configs import Configs
from meshwright.planners.graphpipe.schedule.stage_graph import stage_graph
from meshwright.planners.graphpipe.tree import Branch, Parallel, Series
from meshwright.seeds import generator
from small_worlds import World, best_tps, in_space, world

SHAPES = [
    "....",
    "(.|.).",
    "(..|.).",
    "(.|.|.).",
    ".(.|.).",
    ".(..|.)",
    "(..|..)",
    "(.|.)(.|.)",
    "((.|.).|.).",
    ".(.|(.|.).).",
]


def searched(small: World, n_devices: int, ks=(1,)) -> Partitioner:
    found = candidates_of(small.tree, small.costs, small.memory_bytes)
    return Partitioner(found, Configs.of(small.costs.microbatches, ks, small.costs.microbatches), n_devices)


def small_world(seed: int, shape: str, **changes) -> World:
    rng = generator(seed, f"graphpipe/{shape}")
    memory = float(rng.choice([9.0, 14.0, 22.0, 1e9]))
    given = {"global_batch": 4, "microbatches": (1, 2, 4), "devices": (1, 2), "memory": memory} | changes
    return world(rng, shape, **given)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(3))
def test_least_bottleneck_of_all_plans_in_the_space(shape: str, seed: int):
    """Exact: as good as trying every partition, microbatch and number of devices, nothing pruned."""
    small = small_world(seed, shape)
    partitioner = searched(small, 4)
    tps = partitioner.least()
    truth = best_tps(small, sorted(in_space(small.tree), key=str), 4)
    assert (np.inf if tps is None else tps) == pytest.approx(truth, rel=1e-12)
    if tps is not None:
        for plan in partitioner.plans(tps):
            assert plan.tps == tps
            assert sum(stage.devices for stage in plan.stages) <= 4


@pytest.mark.parametrize("seed", range(3))
def test_kfkb_and_a_budget_of_samples_in_flight(seed: int):
    """k of every stage is chosen with the rest, and no stage may hold more than the budget."""
    small = small_world(seed, "(.|.).", microbatches=(1, 2), memory=9.0)
    for budget in (2, 3, 4, 8):
        tps = searched(small, 3, ks=(1, 2)).least(budget)
        truth = best_tps(small, sorted(in_space(small.tree), key=str), 3, (1, 2), budget)
        assert (np.inf if tps is None else tps) == pytest.approx(truth, rel=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_skip_connections_need_no_more_in_flight(seed: int):
    """Units that are read past the next stage: what its successors want in flight is enough for those after them."""
    small = small_world(seed, "....", skips=2, memory=9.0)
    tps = searched(small, 4).least()
    truth = best_tps(small, sorted(in_space(small.tree), key=str), 4)
    assert (np.inf if tps is None else tps) == pytest.approx(truth, rel=1e-12)


def test_table_3_2_has_no_short_cuts():
    """Why that is: from x to z through y is never less than from x to z."""
    configs = Configs.of((1, 2, 4, 8, 16), (1, 2, 4, 8, 16), (1, 2, 4, 8, 16))
    d = configs.offset[:, :-1]
    assert (d[:, :, None] + d[None, :, :] >= d[:, None, :]).all()


@pytest.mark.parametrize("shape", ["(..|..|..).", "(..|.|..|.).", ".(..|..)."])
def test_equal_branches_are_counted_not_told_apart(shape: str):
    """The same least bottleneck, in fewer candidates, and plans that hold every unit once."""
    rng = generator(1, shape)
    small = world(rng, shape, global_batch=4, microbatches=(1, 2, 4), devices=(1, 2), memory=16.0)
    alike = _with_equal_branches(small)
    apart, together = searched(replace(alike, tree=small.tree), 5), searched(alike, 5)
    tps = apart.least()
    assert tps is not None
    assert together.least() == tps
    assert len(together.search.candidates.units) < len(apart.search.candidates.units)
    plan = together.plans(tps)[0]
    assert sorted(u for stage in plan.stages for u in stage.units) == list(range(alike.costs.n_units))
    graph = stage_graph(plan.stages, alike.edges, 4)
    for stage, held in zip(graph.stages, graph.held, strict=True):
        mask = np.zeros((1, alike.costs.n_units), bool)
        mask[0, list(stage.units)] = True
        sets = alike.costs.of_sets(mask)
        assert alike.costs.tps(sets, stage.config.microbatch, stage.devices)[0] == pytest.approx(stage.tps)
        assert alike.costs.memory(sets, stage.config.microbatch, stage.devices, held)[0] <= alike.memory_bytes


def _with_equal_branches(small: World) -> World:
    """Branches of one length get the first one's prices and are put into one class."""
    node = next(c for c in small.tree.children if isinstance(c, Parallel))
    classes: dict[int, list[Series]] = {}
    for b in node.branches:
        classes.setdefault(len(b.members[0].units), []).append(b.members[0])
    costs = small.costs
    seconds, sizes, kept, results = (
        x.copy() for x in (costs.seconds, costs.parameter_sizes, costs.kept_sizes, costs.result_sizes)
    )
    for members in classes.values():
        for other in members[1:]:
            for a, b in zip(members[0].units, other.units, strict=True):
                seconds[:, b], sizes[:, b], kept[b], results[:, b] = seconds[:, a], sizes[:, a], kept[a], results[:, a]
    together = Parallel(tuple(Branch(tuple(members)) for members in classes.values()))
    tree = Series(tuple(together if c is node else c for c in small.tree.children))
    alike = replace(costs, seconds=seconds, parameter_sizes=sizes, kept_sizes=kept, result_sizes=results)
    return World(tree, small.edges, alike, small.memory_bytes)


def test_threshold_search_is_exact():
    """Nothing between the least bottleneck and the next smaller value that a stage can take."""
    small = small_world(2, "(..|.).")
    partitioner = searched(small, 4)
    tps = partitioner.least()
    assert tps is not None
    at = int(np.searchsorted(partitioner.thresholds, tps))
    assert partitioner.search.fits(tps)
    assert not any(partitioner.search.fits(float(t)) for t in partitioner.thresholds[:at])


def test_fewest_in_flight_of_equal_bottlenecks():
    small = small_world(0, "(..|.).", memory=1e9)
    partitioner = searched(small, 4)
    tps = partitioner.least()
    assert tps is not None
    budget = partitioner.fewest(tps, np.arange(1, 64, dtype=np.int64))
    plan = partitioner.plans(tps, budget)[0]
    assert (plan.tps, plan.in_flight) == (tps, budget)
    assert not partitioner.plans(tps, budget - 1)
