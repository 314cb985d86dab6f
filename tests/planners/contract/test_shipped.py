"""The planner contract, run on the shipped planners; where a baseline breaks it by its nature, that is written down."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import pytest
from meshwright.planners.contract.suite import PlannerContract, contract_problems


class _Baseline(PlannerContract):
    """A planner of the paper that leaves out model parallelism or search, and loses for it where that is needed."""

    names_are_labels = True
    worse: ClassVar[set[str]] = set()
    none: ClassVar[set[str]] = set()

    def problems(self):
        return contract_problems(without=self.none)

    def test_never_worse_than_the_trivial_plan(self, case):
        if case in self.worse:
            with pytest.raises(AssertionError, match="the trivial plan"):
                super().test_never_worse_than_the_trivial_plan(case)
        else:
            super().test_never_worse_than_the_trivial_plan(case)

    def test_no_plan_where_none_is_expected(self):
        for case in self.none:
            with pytest.raises(AssertionError, match="there is a plan, but"):
                self._plan(replace(contract_problems()[case], options=self.options), case)


class TestAlpaserve(PlannerContract):
    planner = "alpaserve"
    test_same_plan_in_a_fresh_process = None  # a process for each takes seconds; nothing here is random
    names_are_labels = True


class TestLocalSearch(PlannerContract):
    planner = "alpaserve-local-search"
    options: ClassVar = {"local_search_iterations": 50}
    names_are_labels = True


class TestSelectiveReplication(_Baseline):
    planner = "selective-replication"
    test_same_plan_in_a_fresh_process = None  # a process for each takes seconds; nothing here is random
    worse: ClassVar = {"tight memory", "a model for two devices"}
    none: ClassVar = {"only large models"}


class TestClockwork(_Baseline):
    planner = "clockwork++"
    test_same_plan_in_a_fresh_process = None  # a process for each takes seconds; nothing here is random
    options: ClassVar = {"window": 5.0}
    clairvoyant = True
    worse: ClassVar = {"a model for two devices"}
    none: ClassVar = {"only large models"}


class TestOnlineClockwork(_Baseline):
    """Each window planned from the one before; the first from its own traffic, which `warm_up_s` declares."""

    planner = "clockwork++"
    options: ClassVar = {"window": 5.0, "clairvoyant": False}
    warm_up_s = 5.0
    worse: ClassVar = {"tight memory", "a model for two devices"}
    none: ClassVar = {"only large models"}


class TestRoundRobin(_Baseline):
    planner = "round-robin"
    test_same_plan_in_a_fresh_process = None  # a process for each takes seconds; nothing here is random
    options: ClassVar = {"config": "op1pp1"}
    worse: ClassVar = {"a model for two devices", "overload"}
    none: ClassVar = {"only large models"}


class TestGreedyNoPartition(_Baseline):
    planner = "greedy-no-partition"
    test_same_plan_in_a_fresh_process = None  # a process for each takes seconds; nothing here is random
    options: ClassVar = {"config": "op1pp1"}
    worse: ClassVar = {"tight memory", "a model for two devices"}
    none: ClassVar = {"only large models"}


class TestDedicated(_Baseline):
    planner = "dedicated"
    test_same_plan_in_a_fresh_process = None  # a process for each takes seconds; nothing here is random
    none: ClassVar = {"tight memory", "a model for two devices"}
