"""Planning for times that vary: judged on common draws, never worse than without, the best where all can be tried."""

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
from meshwright.traces import gamma

ONE, PIPELINE = ParallelConfig(1, 1), ParallelConfig(1, 2)
MODELS = ("a", "b")
WIDE = Variation(stages=Spread(visits=(0.6, 0.9, 1.0, 1.5), runs=(0.8, 1.0, 1.2), correlation_s=2.0))


def known(variation=WIDE):
    models = {
        name: ModelProfile.from_stages(
            name, {ONE: {1: [base]}, PIPELINE: {1: [0.52 * base, 0.53 * base]}},
            weight_bytes={ONE: [6e9], PIPELINE: [3e9, 3e9]},
        )
        for name, base in zip(MODELS, (0.04, 0.06), strict=True)
    }  # fmt: skip
    return ProfileSet("hand", "v100-16gb", models, Provenance("by hand"), variation=variation)


def problem(seed=0, slo=0.15):
    spec = replace(DEVICES["v100-16gb"], usable_memory_bytes=7 * 10**9)
    trace = gamma(18.0, 3.0, 40.0, list(MODELS), slo=slo, seed=seed)
    return Cluster(1, 2, spec), trace


def planned(variation=WIDE, seed=0, **options):
    cluster, trace = problem(seed)
    return PLANNERS["alpaserve"](cluster, MODELS, trace, known(variation), seed=seed, **options)


def values(seed=0):
    """Drawn mean and worst of every placement that fits: all sets of groups on two devices, all models in them."""
    cluster, trace = problem(seed)
    instance = build_instance(cluster, MODELS, trace, known(), PlanOptions())
    evaluator = Evaluator(instance)
    drawn = DrawnConditions(evaluator, 10, seed, WIDE)
    one, pipe = instance.index(ONE), instance.index(PIPELINE)
    states = {canonical([(pipe, mask)]) for mask in (1, 2, 3)}
    states |= {canonical([(one, m), (one, n)]) for m, n in product((0, 1, 2), repeat=2) if m or n}
    return {state: (drawn.value(state, None), drawn.value(state, 0.0)) for state in states}


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("criterion", "place"), [("mean", 0), (0.0, 1)])
def test_the_best_of_all_placements_is_found_where_all_can_be_tried(seed, criterion, place):
    best = max(value[place] for value in values(seed).values())
    plan = planned(seed=seed, times="drawn", draws=10, criterion=criterion, local_search_iterations=100)
    found = plan.predicted["drawn_mean" if criterion == "mean" else "drawn_worst"]
    assert found == pytest.approx(best, abs=1e-12)
    assert plan.predicted["drawn_gain"] >= 0


def test_a_plan_says_what_it_was_made_for():
    plan = planned(times="drawn", draws=5)
    assert plan.planner.options["times"] == "drawn"
    assert plan.planner.options["draws"] == 5
    assert plan.predicted["drawn_worst"] <= plan.predicted["drawn_mean"] <= 1
    assert planned().planner.options["times"] == "mean"


def test_states_meet_the_same_draws():
    cluster, trace = problem()
    evaluator = Evaluator(build_instance(cluster, MODELS, trace, known(), PlanOptions()))
    state = evaluator.state(planned().placement)
    one, other = DrawnConditions(evaluator, 6, 3, WIDE), DrawnConditions(evaluator, 6, 3, WIDE)
    np.testing.assert_array_equal(one.attainments(state), other.attainments(state))
    assert len(np.unique(one.attainments(state))) > 1
    assert 1.0 <= one.slow[0] < one.slow[1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"times": "random"}, "times: expected one of mean, drawn"),
        ({"times": "drawn", "draws": 1}, "draws: "),
        ({"times": "drawn", "draws": 0}, "draws: "),
        ({"times": "drawn", "robust": 3}, "leave robust out"),
        ({"criterion": 0.1}, "give robust, or times=drawn"),
    ],
)
def test_bad_options_are_a_line(options, words):
    with pytest.raises(InputError, match=words):
        planned(**options)


def test_a_profile_that_does_not_vary_is_refused():
    with pytest.raises(InputError, match="does not say how times vary"):
        planned(NO_VARIATION, times="drawn")
