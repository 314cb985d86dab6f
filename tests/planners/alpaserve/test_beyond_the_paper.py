"""Local search, robust planning, inverse questions and Clockwork++."""

from __future__ import annotations

import numpy as np
import pytest
from meshwright import traces
from meshwright.errors import InfeasibleError, InputError
from meshwright.planners import PLANNERS, alpaserve
from meshwright.planners.alpaserve.evaluator import Evaluator
from meshwright.planners.alpaserve.instance import build_instance
from meshwright.planners.alpaserve.local_search import local_search
from meshwright.planners.alpaserve.moves import REPLICA_MOVES, SHAPE_MOVES, Board
from meshwright.planners.alpaserve.partition import Search
from meshwright.planners.alpaserve.robust import Scenarios, concatenate
from meshwright.seeds import generator
from meshwright.simulator import simulate
from meshwright.traces import Trace
from small_problems import fits, problem


def evaluator_of(seed=0, n_models=4):
    cluster, names, trace, profiles = problem(n_models, 4, seed=seed)
    return Evaluator(build_instance(cluster, names, trace, profiles))


def test_local_search_is_never_worse_and_repeats_itself():
    better = 0
    for seed in range(2):
        evaluator = evaluator_of(seed)
        start = Search(evaluator).run()
        found = local_search(evaluator, start.state, iterations=100, seed=1)
        again = local_search(Evaluator(evaluator.instance), start.state, iterations=100, seed=1)
        assert found == again
        assert found.unserved <= start.unserved
        assert Evaluator(evaluator.instance).total(found.state) == found.unserved
        assert fits(evaluator.instance, found.state)
        assert [u for _, u in found.improvements] == sorted((u for _, u in found.improvements), reverse=True)
        better += found.unserved < start.unserved
    assert better  # somewhere there is something to gain


def test_local_search_needs_an_end():
    evaluator = evaluator_of()
    state = Search(evaluator).run().state
    with pytest.raises(InputError, match="never ends"):
        local_search(evaluator, state)
    with pytest.raises(InputError, match="iterations"):
        local_search(evaluator, state, iterations=-1)
    assert local_search(evaluator, state, seconds=0.0).state == state


@pytest.mark.parametrize("kind", [*REPLICA_MOVES, *SHAPE_MOVES], ids=lambda f: f.__name__)
def test_every_move_keeps_devices_and_memory(kind):
    evaluator = evaluator_of(1)
    instance = evaluator.instance
    board = Board.of(instance, generator(0, "test"))
    state = Search(evaluator).run().state
    start = {"merge": ((0, 1), (0, 2), (0, 4), (0, 8)), "split": ((2, 3),), "reshape": ((1, 3), (1, 6))}.get(
        kind.__name__, state
    )
    n_devices = sum(instance.configs[c].n_devices for c, _ in start)
    seen = set()
    for _ in range(60):
        found = kind(board, start, evaluator.score(start))
        if found is not None:
            seen.add(found)
            assert sum(instance.configs[c].n_devices for c, _ in found) == n_devices
            assert fits(instance, found)
            assert list(found) == sorted(found)
    assert seen


def test_several_traces_in_one_attain_their_mean():
    cluster, names, trace, profiles = problem(3, 4)
    parts = [trace, problem(3, 4, seed=7)[2].with_slo_scale(2.0, profiles)]
    joined = concatenate(parts)
    placement = alpaserve.plan(cluster, names, trace, profiles).placement
    each = [simulate(placement, part, profiles) for part in parts]
    whole = simulate(placement, joined, profiles)
    assert whole.attainment == sum(r.attained.sum() for r in each) / len(joined)
    with pytest.raises(InputError, match="other models"):
        concatenate([trace, trace.select(["m0"])])


def test_robust_planning_is_no_worse_than_the_nominal_plan_on_its_criterion():
    cluster, names, trace, profiles = problem(3, 4)
    parts = [problem(3, 4, seed=s, load=0.7)[2].with_slo_scale(3.0, profiles) for s in (11, 12, 13)]
    instance = build_instance(cluster, names, concatenate(parts), profiles)
    scenarios = Scenarios(instance, parts)
    worst = alpaserve.plan(cluster, names, trace, profiles, robust=parts, criterion=0.0, local_search_iterations=50)
    mean = alpaserve.plan(cluster, names, trace, profiles, robust=parts)
    for part in parts:
        nominal = alpaserve.plan(cluster, names, part, profiles, fill=False)
        state = scenarios.evaluators[0].state(nominal.placement)
        assert worst.predicted["robust_worst"] >= min(scenarios.attainments(state))
    assert worst.predicted["robust_worst"] >= mean.predicted["robust_worst"] or mean.planner.options["fill"]
    by_hand = [simulate(mean.placement, part, profiles).attainment for part in parts]
    assert mean.predicted["robust_worst"] == min(by_hand)
    assert np.isclose(mean.predicted["robust_mean"], np.mean(by_hand))


def test_resampling_is_seeded_and_keeps_slos():
    cluster, names, trace, profiles = problem(3, 4, n=400)
    first = alpaserve.plan(cluster, names, trace, profiles, robust=2, seed=5)
    again = alpaserve.plan(cluster, names, trace, profiles, robust=2, seed=5)
    assert first.placement == again.placement
    assert first.predicted == again.predicted
    assert first.planner.options["robust"] == 2
    mixed = Trace(trace.arrival, trace.model, trace.models, np.linspace(1, 2, len(trace)))
    with pytest.raises(InputError, match="different SLOs"):
        alpaserve.plan(cluster, names, mixed, profiles, robust=2)


def test_fewest_devices_against_trying_all():
    _, names, trace, profiles = problem(2, 4, load=0.6)
    device = problem()[0].spec
    answer = alpaserve.fewest_devices(names, trace, profiles, device=device, low=1, high=12, target=0.95)
    attained = {p.value: p.attainment for p in answer.probes}
    assert attained[answer.value] >= 0.95
    assert answer.value == 1 or attained[answer.value - 1] < 0.95
    assert answer.plan.predicted["attainment"] == attained[answer.value]


def test_rate_slo_and_cv_answers_sit_at_the_edge():
    cluster, names, trace, profiles = problem(2, 4)
    rate = alpaserve.highest_rate(cluster, names, trace, profiles, low=0.05, high=20.0, target=0.9)
    scale = alpaserve.tightest_slo(cluster, names, trace, profiles, low=0.5, high=50.0, target=0.9)
    cv = alpaserve.highest_cv(
        cluster, names, lambda cv: traces.gamma(1.0, cv, 300.0, names, slo=5.0, seed=1), profiles, low=0.5, high=8.0,
        target=0.95,
    )  # fmt: skip
    for answer, sign in ((rate, 1), (scale, -1), (cv, 1)):
        assert answer.plan.predicted["attainment"] >= answer.target
        beyond = [p for p in answer.probes if sign * (p.value - answer.value) > 0]
        assert beyond
        nearest = min(beyond, key=lambda p: abs(p.value - answer.value))
        assert nearest.attainment < answer.target
        assert max(nearest.value, answer.value) / min(nearest.value, answer.value) <= 1.02
        assert str(len(answer.probes)) in answer.explain()


def test_inverse_questions_say_when_attainment_is_not_monotone():
    from types import SimpleNamespace

    table = {1: 0.5, 2: 0.5, 3: 0.995, 4: 0.6, 5: 0.995, 6: 0.995, 7: 0.995, 8: 0.995}

    def fake(cluster, *_, **__):
        return SimpleNamespace(predicted={"attainment": table[cluster.n_devices]})

    _, names, trace, profiles = problem(2, 4)
    answer = alpaserve.fewest_devices(names, trace, profiles, low=1, high=8, planner=fake)
    assert answer.value == 5
    assert answer.monotone  # 4 failed, and 3 was never tried
    table.update({4: 0.995, 6: 0.5, 2: 0.995})
    answer = alpaserve.fewest_devices(names, trace, profiles, low=2, high=8, planner=fake)
    assert answer.value == 2
    table.update({1: 0.5})
    with pytest.raises(InfeasibleError, match="even 6"):
        alpaserve.fewest_devices(names, trace, profiles, low=1, high=6, planner=fake)


def test_inverse_questions_check_their_arguments():
    cluster, names, trace, profiles = problem(2, 4)
    for options, word in [
        ({"low": 2.0, "high": 1.0}, "range"), ({"low": 0.0, "high": 1.0}, "range"),
        ({"low": 1.0, "high": 2.0, "target": 1.5}, "target"),
        ({"low": 1.0, "high": 2.0, "tolerance": 0.0}, "tolerance"),
    ]:  # fmt: skip
        with pytest.raises(InputError, match=word):
            alpaserve.highest_rate(cluster, names, trace, profiles, **options)
    with pytest.raises(InputError, match="integer"):
        alpaserve.fewest_devices(names, trace, profiles, low=1.5)


def changing_trace():
    """Two models that take turns: each window asks for one of them only."""
    arrival = np.concatenate([np.arange(0, 20, 0.4), np.arange(20, 40, 0.4)])
    return Trace(arrival, np.repeat([0, 1], 50), ["m0", "m1"], 3.0)


def test_clockwork_follows_the_traffic():
    from meshwright.simulator import Cluster
    from small_problems import device, profile

    cluster = Cluster(1, 2, device(50))  # one model on each device
    profiles = {n: profile(n, 0.8) for n in ("m0", "m1")}
    trace = changing_trace()
    static = PLANNERS["selective-replication"](cluster, None, trace, profiles)
    follows = PLANNERS["clockwork++"](cluster, None, trace, profiles, window=20.0)
    assert follows.placement.starts == (0.0, 20.0)
    assert [p.models for p in follows.placement.placements] == [("m0",), ("m1",)]
    assert follows.predicted["attainment"] == 1.0 > static.predicted["attainment"]
    late = PLANNERS["clockwork++"](cluster, None, trace, profiles, window=20.0, clairvoyant=False)
    assert late.predicted["attainment"] < 1.0
    drifting = PLANNERS["clockwork++"](cluster, None, trace, profiles, window=10.0, windows="drifting")
    starts = drifting.placement.starts
    assert starts[0] == 0.0
    assert all(np.isin(starts[1:], trace.arrival))
    assert np.diff(starts).min() > 10.0
    assert "windows" in follows.explain()


def test_a_window_without_arrivals_keeps_its_placement():
    cluster, names, trace, profiles = problem(2, 4, n=20)
    gap = Trace(np.concatenate((trace.arrival, trace.arrival + 500.0)), np.tile(trace.model, 2), names, 3.0)
    plan = PLANNERS["clockwork++"](cluster, names, gap, profiles, window=50.0)
    assert len(plan.placement.placements) >= 10
    quiet = [p for s, p in zip(plan.placement.starts, plan.placement.placements, strict=True) if 100 < s < 400]
    assert all(p == quiet[0] for p in quiet)


def test_dedicated_gives_each_model_the_best_of_its_configurations():
    cluster, names, trace, profiles = problem(2, 4)
    best = PLANNERS["dedicated"](cluster, names, trace, profiles)
    assert all(g.config.n_devices == 2 and len(g.models) == 1 for g in best.placement.groups)
    for config in ("op1pp2", "op2pp1"):
        fixed = PLANNERS["dedicated"](cluster, names, trace, profiles, config=config)
        assert {str(g.config) for g in fixed.placement.groups} == {config}
        assert fixed.predicted["attainment"] <= best.predicted["attainment"]


def test_round_robin_deals_models_out_in_turn():
    cluster, names, trace, profiles = problem(4, 4)
    plan = PLANNERS["round-robin"](cluster, names, trace, profiles, config="op1pp1")  # two models of 40 in 100 bytes
    assert sorted(g.models for g in plan.placement.groups) == [
        ("m0", "m1"), ("m0", "m3"), ("m1", "m2"), ("m2", "m3")
    ]  # fmt: skip
