"""Planning over draws of failures: the best where all can be tried, never worse than without, on common draws."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.planners import PLANNERS
from meshwright.planners.alpaserve.drawn import DrawnConditions
from meshwright.planners.alpaserve.evaluator import Evaluator, canonical
from meshwright.planners.alpaserve.instance import build_instance
from meshwright.planners.alpaserve.options import PlanOptions
from meshwright.profiles import DEVICES, ModelProfile, ParallelConfig, ProfileSet, Provenance
from meshwright.profiles.spread import NO_VARIATION, Spread, Variation
from meshwright.simulator import Cluster
from meshwright.simulator.failures import Failures, ScriptedFailure
from meshwright.simulator.serving.breakdowns import Breakdowns
from meshwright.simulator.serving.loading import Loading
from meshwright.traces import gamma

ONE, PIPELINE = ParallelConfig(1, 1), ParallelConfig(1, 2)
MODELS = ("a", "b")
WIDE = Variation(stages=Spread(visits=(0.6, 0.9, 1.0, 1.5), runs=(0.8, 1.0, 1.2), correlation_s=2.0))
FAILING = Breakdowns(Failures(mtbf_s=30.0, mttr_s=8.0), Loading(disk=4e9))


def known(variation=NO_VARIATION):
    models = {
        name: ModelProfile.from_stages(
            name, {ONE: {1: [base]}, PIPELINE: {1: [0.52 * base, 0.53 * base]}},
            weight_bytes={ONE: [6e9], PIPELINE: [3e9, 3e9]},
        )
        for name, base in zip(MODELS, (0.03, 0.05), strict=True)
    }  # fmt: skip
    return ProfileSet("hand", "v100-16gb", models, Provenance("by hand"), variation=variation)


def problem(seed=0, nodes=1, devices=2):
    # 13 GB hold both models on a device, so that replicas against failures are a choice.
    spec = replace(DEVICES["v100-16gb"], usable_memory_bytes=13 * 10**9)
    return Cluster(nodes, devices, spec), gamma(15.0, 3.0, 60.0, list(MODELS), slo=0.2, seed=seed)


def planned(seed=0, variation=NO_VARIATION, nodes=1, devices=2, **options):
    cluster, trace = problem(seed, nodes, devices)
    return PLANNERS["alpaserve"](cluster, MODELS, trace, known(variation), seed=seed, **options)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("criterion", "name"), [("mean", "failures_mean"), (0.0, "failures_worst")])
def test_the_best_of_all_placements_is_found_where_all_can_be_tried(seed, criterion, name):
    cluster, trace = problem(seed)
    instance = build_instance(cluster, MODELS, trace, known(), PlanOptions())
    drawn = DrawnConditions(Evaluator(instance), 8, seed, NO_VARIATION, FAILING)
    one, pipe = instance.index(ONE), instance.index(PIPELINE)
    states = {canonical([(pipe, mask)]) for mask in (1, 2, 3)}
    states |= {canonical([(one, m), (one, n)]) for m, n in product(range(4), repeat=2) if m or n}
    best = max(drawn.value(state, None if criterion == "mean" else criterion) for state in states)
    plan = planned(seed, failures=FAILING, draws=8, criterion=criterion)
    assert plan.predicted[name] == pytest.approx(best, abs=1e-12)
    assert plan.predicted["failures_gain"] >= 0


def test_what_the_problem_says_and_what_the_option_says_are_one():
    told = planned(failures="drawn", breakdowns=Breakdowns(Failures(mtbf_s=30.0, mttr_s=8.0)), draws=4)
    said = planned(failures={"mtbf": 30, "mttr": 8}, draws=4)
    assert told.placement == said.placement
    assert told.predicted == said.predicted
    assert told.planner.options["failures"] == said.planner.options["failures"] == "drawn"
    assert "failures_mean" not in planned(breakdowns=FAILING).predicted


def test_replicas_are_spread_over_nodes_that_fail():
    script = Breakdowns(Failures(events=(ScriptedFailure(5.0, "node", 0),)))
    plan = planned(nodes=2, failures=script)
    cluster = problem(0, 2)[0]
    for model in MODELS:
        homes = {cluster.node_of(d) for g in plan.placement.groups if model in g.models for d in g.devices}
        assert homes == {0, 1}
    assert plan.predicted["failures_mean"] == plan.predicted["failures_worst"]  # nothing is random: one draw


def test_draws_are_common_and_times_vary_too():
    cluster, trace = problem()
    evaluator = Evaluator(build_instance(cluster, MODELS, trace, known(WIDE), PlanOptions()))
    state = evaluator.state(planned().placement)
    both = [DrawnConditions(evaluator, 5, 3, WIDE, FAILING).attainments(state) for _ in range(2)]
    np.testing.assert_array_equal(*both)
    alone = DrawnConditions(evaluator, 5, 3, NO_VARIATION, FAILING).attainments(state)
    assert (both[0] != alone).any()
    plan = planned(variation=WIDE, failures=FAILING, times="drawn", draws=4, local_search_iterations=20)
    assert plan.predicted["failures_worst"] <= plan.predicted["failures_mean"] < plan.predicted["attainment"]
    assert plan.predicted["failures_gain"] >= 0


GROUP = Breakdowns(Failures(events=(ScriptedFailure(5.0, "group", 0),)))
FAR = Breakdowns(Failures(events=(ScriptedFailure(5.0, "device", 9),)))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"failures": "random"}, "failures: expected one of none, drawn"),
        ({"failures": "drawn"}, "failures: drawn: nothing fails"),
        ({"failures": "drawn", "breakdowns": Breakdowns(None, Loading(1e9))}, "failures: drawn: nothing fails"),
        ({"failures": "drawn", "breakdowns": GROUP}, "the script names groups"),
        ({"failures": FAR}, "there are devices 0 to 1"),
        ({"failures": {"mtbf": 30}}, "mtbf and mttr go together"),
        ({"failures": {"mtbf": 30, "mttr": 0}}, "mttr: expected finite seconds > 0"),
        ({"failures": {"mtbf": "day", "mttr": 3}}, "failures: mtbf: expected seconds > 0"),
        ({"failures": {"every": 30}}, "failures: unknown 'every'"),
        ({"failures": {}}, "nothing ever fails"),
        ({"failures": FAILING, "robust": 2}, "leave one out"),
        ({"failures": FAILING, "draws": 1}, "draws: "),
        ({"criterion": 0.0}, "failures=drawn"),
    ],
)
def test_bad_options_are_a_line(options, words):
    with pytest.raises(InputError, match=words) as caught:
        planned(**options)
    assert "\n" not in str(caught.value)
