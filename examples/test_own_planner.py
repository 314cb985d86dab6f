"""The planner contract, run on own_planner.py: ``pytest examples/test_own_planner.py``."""

from meshwright.planners.contract.suite import PlannerContract


class TestOwnPlanner(PlannerContract):
    planner = "own_planner.py:plan"  # beside this file; an imported function does as well: staticmethod(plan)
    names_are_labels = True
