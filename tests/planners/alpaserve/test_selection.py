"""Algorithm 1 and the fast heuristic against brute force and against a plain restatement."""

from __future__ import annotations

import pytest
from meshwright.planners.alpaserve.evaluator import Evaluator, canonical
from meshwright.planners.alpaserve.instance import build_instance
from meshwright.planners.alpaserve.partition import PartitionOptions, Search
from meshwright.planners.alpaserve.selection import fast_selection, greedy_selection
from meshwright.planners.alpaserve.selection.room import by_demand
from small_problems import best_selection, fits, problem

GROUPS = {"pairs": ("op1pp2", "op1pp2"), "mixed": ("op2pp1", "op1pp1", "op1pp1"), "single": ("op1pp1",) * 3}


def setup(seed, layout, n_models=3):
    cluster, names, trace, profiles = problem(n_models, 4, seed=seed)
    instance = build_instance(cluster, names, trace, profiles)
    by_name = {str(c): i for i, c in enumerate(instance.configs)}
    return Evaluator(instance), tuple(by_name[name] for name in GROUPS[layout])


@pytest.mark.parametrize("layout", GROUPS)
@pytest.mark.parametrize("seed", range(4))
def test_fast_at_most_greedy_at_most_optimum(seed, layout):
    evaluator, groups = setup(seed, layout)
    fast = fast_selection(evaluator, groups)
    both = Search(evaluator, PartitionOptions(selection="greedy")).select(groups, 0b111, 0)
    pure = greedy_selection(evaluator, groups)
    optimum = best_selection(Evaluator(evaluator.instance), groups)
    assert fast.unserved >= both.unserved >= optimum
    assert both.unserved == min(fast.unserved, pure.unserved)
    for found in (fast, both, pure):
        assert fits(evaluator.instance, found.state)
        assert Evaluator(evaluator.instance).total(found.state) == found.unserved


@pytest.mark.parametrize("layout", GROUPS)
@pytest.mark.parametrize("seed", range(3))
def test_an_unbounded_beam_is_exhaustive(seed, layout):
    evaluator, groups = setup(seed, layout)
    found = greedy_selection(evaluator, groups, beam=10**6)
    assert found.unserved == best_selection(Evaluator(evaluator.instance), groups)


def plain_algorithm_1(evaluator, groups, beam):
    """Algorithm 1 as printed, with the documented order of ties: no pruning, no memory of components."""
    instance = evaluator.instance

    def fresh(state):
        return Evaluator(instance).score(state)

    states = [canonical((c, 0) for c in groups)]
    best = (instance.n_requests, states[0])
    while best[0] > 0:
        found = []
        for rank, state in enumerate(states):
            score = fresh(state)
            order = by_demand(score.by_model)
            distinct = sorted(set(state), key=lambda g: (score.busy.get(g, 0.0), g))
            for i, m in enumerate(order):
                for j, g in enumerate(distinct):
                    rest = list(state)
                    rest.remove(g)
                    child = canonical([*rest, (g[0], g[1] | 1 << m)])
                    if not g[1] >> m & 1 and fits(instance, child):
                        found.append((fresh(child).unserved, rank, i, j, child))
        unique = {}
        for entry in sorted(found):
            unique.setdefault(entry[-1], entry)
        if not unique:
            return best
        top = sorted(unique.values())[:beam]
        states = [entry[-1] for entry in top]
        if top[0][0] < best[0]:
            best = (top[0][0], top[0][-1])
    return best


@pytest.mark.parametrize("beam", [1, 2, 3])
@pytest.mark.parametrize("layout", GROUPS)
def test_pruning_changes_no_answer(layout, beam):
    for seed in range(3):
        evaluator, groups = setup(seed, layout, n_models=4)
        found = greedy_selection(evaluator, groups, beam=beam)
        assert (found.unserved, found.state) == plain_algorithm_1(evaluator, groups, beam)


def test_fast_gives_the_most_unserved_model_to_the_least_utilised_group():
    evaluator, groups = setup(0, "pairs")
    instance = evaluator.instance
    state = canonical((c, 0) for c in groups)
    score = evaluator.score(state)
    first = fast_selection(evaluator, groups)
    busiest = int(by_demand(score.by_model)[0])
    assert instance.counts[busiest] == instance.counts.max()
    assert any(mask >> busiest & 1 for _, mask in first.state)


def test_selection_ends_when_everything_is_attained():
    cluster, names, trace, profiles = problem(2, 4, n=20)
    instance = build_instance(cluster, names, trace.with_slo(1e6), profiles)
    evaluator = Evaluator(instance)
    found = fast_selection(evaluator, (instance.index(instance.configs[0]),) * 4)
    assert found.unserved == 0
    assert sum(mask.bit_count() for _, mask in found.state) == 2  # one replica each was enough
    assert found.evaluations <= 3


def test_a_bucket_places_only_its_models():
    evaluator, groups = setup(1, "pairs")
    found = fast_selection(evaluator, groups, 0b101)
    assert all(not mask & 0b010 for _, mask in found.state)
    assert found.unserved >= evaluator.requests(0b010)
