"""The planner contract catches bad planners: each fails the test that is meant for it, and passes the good ones."""

from __future__ import annotations

from collections.abc import Iterator

import bad_planners as bad
import pytest
from meshwright.planners import trivial
from meshwright.planners.contract.suite import PlannerContract, contract_problems

FEW = ("bursts", "tight memory", "other ways to serve")
VALID, SAME = "test_plan_is_valid", "test_same_problem_same_plan"
CASES = {
    bad.overfills: (VALID, "GiB are usable"),
    bad.foreign_model: (VALID, "holds 'nobody'"),
    bad.device_too_many: (VALID, "does not exist"),
    bad.a_dict: (VALID, "returned a value of type dict; expected a Plan"),
    bad.nothing: (VALID, "returned nothing; expected a Plan"),
    bad.another_cluster: (VALID, "returned a plan for 2 node"),
    bad.other_serving: (VALID, "returned a plan served with"),
    bad.not_json: (VALID, "options"),
    bad.never_feasible: (VALID, "there is a plan, but: too hard"),
    bad.boasts: ("test_prediction_is_what_the_simulator_says", "predicts attainment 1.0, the simulator says"),
    bad.rolls_dice: (SAME, "no unseeded random numbers"),
    bad.counts_calls: (SAME, "planned again"),
    bad.order_of_a_mapping: (SAME, "with its mappings in another order"),
    bad.remembers: ("test_same_plan_after_other_problems", "after other problems"),
    bad.order_of_a_set: ("test_same_plan_in_a_fresh_process", "in a fresh process"),
    bad.writes_the_trace: ("test_problem_is_left_alone", "not what it was"),
    bad.forgets_a_profile: ("test_problem_is_left_alone", "AttributeError: 'mappingproxy' object"),
    bad.reads_the_future: ("test_future_changes_nothing", "another future"),
    bad.searches_memory: ("test_future_changes_nothing", "another future"),
    bad.foresees: ("test_schedule_does_not_foresee", "changes placements up to then"),
    bad.worse_than_trivial: ("test_never_worse_than_the_trivial_plan", "the trivial plan"),
    bad.by_name: ("test_models_called_otherwise", "placed otherwise"),
    bad.plans_the_impossible: ("test_nothing_fits_is_infeasible", "raise InfeasibleError"),
    bad.takes_any_option: ("test_unknown_option_is_refused", "in silence"),
}


def contract_of(planner, **attributes):
    def reveal(self, future):
        bad.FUTURE.append(future)

    extra = {"reveal": reveal} if planner is bad.reads_the_future else {}
    return type("TestIt", (PlannerContract,), {"planner": planner, "names_are_labels": True, **extra, **attributes})()


def failures(contract, test, tmp_path) -> Iterator[str]:
    """What a test of the contract says, problem by problem, where it fails."""
    bad.FUTURE.clear()
    bad.SEEN.clear()
    method = getattr(contract, test)
    wanted = method.__func__.__code__.co_varnames[1 : method.__func__.__code__.co_argcount]
    cases = contract.problems() if "case" in wanted else [""]
    for case in cases:
        given = {"case": case, "tmp_path": tmp_path}
        try:
            method(**{name: given[name] for name in wanted})
        except AssertionError as error:
            yield str(error)


@pytest.mark.parametrize("planner", CASES, ids=lambda planner: planner.__name__)
def test_a_bad_planner_fails_the_test_that_is_meant_for_it(planner, tmp_path):
    test, part = CASES[planner]
    assert any(part in what for what in failures(contract_of(planner), test, tmp_path)), part


def test_every_test_of_the_contract_catches_something():
    tests = {name for name in vars(PlannerContract) if name.startswith("test_")}
    assert tests - {test for test, _ in CASES.values()} == {"test_plan_survives_a_file"}


@pytest.mark.parametrize("planner", [trivial.plan, bad.no_metrics, bad.keeps_the_past], ids=lambda p: p.__name__)
def test_good_planners_pass_every_test(planner, tmp_path):
    # All of them for the one that others are held against; who makes plans in another form shows that on any problem.
    few = {} if planner is trivial.plan else {"problems": lambda self: {c: contract_problems()[c] for c in FEW}}
    contract = contract_of(staticmethod(planner), **few)
    for test in vars(PlannerContract):
        if test.startswith("test_") and (test != "test_same_plan_in_a_fresh_process" or planner is trivial.plan):
            assert list(failures(contract, test, tmp_path)) == []


def test_an_oracle_is_declared(tmp_path):
    assert any(
        failures(contract_of("clockwork++", options={"window": 4.0}), "test_schedule_does_not_foresee", tmp_path)
    )
    with pytest.raises(pytest.skip.Exception, match="oracle"):
        contract_of("clockwork++", clairvoyant=True).test_schedule_does_not_foresee("bursts")


def test_problems_are_made_afresh_and_are_what_they_say():
    first, second = contract_problems(), contract_problems()
    assert len(first) >= 8
    for case, problem in first.items():
        assert second[case] == problem
        assert second[case].trace is not problem.trace
        assert set(trivial.placement(problem).models) == set(problem.models)


def test_a_planner_that_no_other_process_can_find_is_said():
    with pytest.raises(pytest.skip.Exception, match="cannot be found from a fresh process"):
        contract_of(lambda problem: trivial.plan(problem)).test_same_plan_in_a_fresh_process()


def test_what_is_no_planner_is_said():
    with pytest.raises(AssertionError, match="expected staticmethod"):
        type("TestIt", (PlannerContract,), {})()._plan(contract_problems()["bursts"], "bursts")
    with pytest.raises(AssertionError, match=r"got one of cluster, models, trace"):
        contract_of(staticmethod(lambda cluster, models, trace: None))._plan(contract_problems()["bursts"], "bursts")
