"""The incremental evaluator gives the answer of a simulation from scratch."""

from __future__ import annotations

import numpy as np
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.planners.alpaserve.evaluator import Evaluator, canonical, components, members
from meshwright.planners.alpaserve.instance import build_instance
from meshwright.simulator import simulate
from small_problems import instances, problem, states


def scratch(instance, state):
    """Unserved requests of each model by a whole simulation of the emitted placement."""
    placement = Evaluator(instance).placement(state)
    result = simulate(
        placement, instance.trace, instance.profiles, dispatch=instance.dispatch, admission=instance.admission,
        overhead=instance.overhead,
    )  # fmt: skip
    return np.bincount(instance.model[~result.attained], minlength=instance.n_models), result


@settings(max_examples=examples(25, anew=60), deadline=None)
@given(st.data())
def test_score_equals_a_simulation_from_scratch_along_random_moves(data):
    instance = data.draw(instances())
    evaluator = Evaluator(instance)  # one for all moves: remembers components
    for _ in range(4):
        state = data.draw(states(instance))
        expected, result = scratch(instance, state)
        score = evaluator.score(state)
        np.testing.assert_array_equal(score.by_model, expected)
        assert score.unserved == evaluator.total(state) == expected.sum()
        assert evaluator.attainment(state) == result.attainment


@settings(max_examples=examples(15, anew=40), deadline=None)
@given(st.data())
def test_limit_abandons_exactly_what_exceeds_it(data):
    instance = data.draw(instances())
    state = data.draw(states(instance))
    true = Evaluator(instance).total(state)
    evaluator = Evaluator(instance)
    for limit in data.draw(st.lists(st.integers(0, instance.n_requests), min_size=1, max_size=5)):
        expected = true if true <= limit else None
        assert evaluator.unserved(state, limit) == expected


def test_busy_is_the_work_of_a_groups_average_stage():
    cluster, names, trace, profiles = problem(2, 2, 50)
    instance = build_instance(cluster, names, trace, profiles)
    state = canonical([(instance.index(c), 0b11) for c in instance.configs if str(c) == "op1pp2"])
    busy = Evaluator(instance).score(state).busy[state[0]]
    _, result = scratch(instance, state)
    served = result.group >= 0
    work = [sum(profiles[trace.models[m]].latency(instance.configs[state[0][0]])) for m in trace.model[served]]
    assert np.isclose(busy, sum(work) / 2, rtol=1e-12)


def test_a_move_simulates_only_the_component_that_it_touches():
    cluster, names, trace, profiles = problem(4, 4)
    instance = build_instance(cluster, names, trace, profiles)
    evaluator = Evaluator(instance)
    single = instance.index(instance.configs[0])
    evaluator.total(canonical((single, 1 << m) for m in range(4)))
    assert evaluator.evaluations == 4
    moved = canonical([(single, 0b0011), (single, 0b0010), (single, 0b0100), (single, 0b1000)])
    evaluator.total(moved)
    assert evaluator.evaluations == 5
    evaluator.total(moved)
    assert evaluator.evaluations == 5


def test_equal_states_in_another_order_are_one():
    groups = [(1, 0b10), (0, 0b01), (0, 0b11)]
    assert canonical(groups) == canonical(reversed(groups)) == ((0, 1), (0, 3), (1, 2))


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**8 - 1), max_size=8))
def test_components_are_those_of_the_sharing_graph(masks):
    import networkx as nx

    groups = [(0, mask) for mask in masks]
    graph = nx.Graph()
    for i, (_, mask) in enumerate(groups):
        if mask:
            graph.add_node(("group", i))
            graph.add_edges_from((("group", i), m) for m in members(mask))
    expected = sorted(
        tuple(sorted(groups[n[1]] for n in part if isinstance(n, tuple))) for part in nx.connected_components(graph)
    )
    found = components(canonical(groups))
    assert sorted(state for _, state in found) == expected
    for mask, state in found:
        assert mask == np.bitwise_or.reduce([held for _, held in state])
