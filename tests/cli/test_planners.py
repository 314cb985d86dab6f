"""Planners from outside through the command line: they plan, compare and are saved; each error is one line."""

from __future__ import annotations

import json

import pytest
from meshwright.cli import run
from meshwright.planners import PLANNERS
from meshwright.simulator import Plan

TWO = "plan serving --devices 2 --profile p.json --models a,b --trace t.csv"
FOUR = "plan serving --devices 4 --models bert-1.3b=2 --rate 4 --duration 20"
MINE = """
from meshwright.planners import trivial

def plan(problem, *, beam=1):
    print("a planner may print")
    return trivial.plan(problem)

def fails(problem):
    return 1 / 0

def text(problem):
    return "a plan"

def full(problem):
    from meshwright.simulator import Group, Placement
    return Placement([Group(problem.smallest_config("a"), ["big"])])

def never(problem):
    from meshwright.errors import InfeasibleError
    raise InfeasibleError("no way")
"""


@pytest.fixture
def mine(world):
    world.write("mine.py", MINE)
    return world


def test_a_planner_in_a_file_plans_and_is_compared(mine, capsys):
    assert run(f"{TWO} --planner mine.py:plan,alpaserve --json --no-admission".split()) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["planner"] for row in found["plans"]] == ["mine.py:plan", "alpaserve"]
    assert found["plan"]["serving"]["admission"] is False
    assert run(f"{TWO} --planner mine.py:plan -o beam=3 --out mine.json".split()) == 0
    plan = Plan.load("mine.json")
    assert (plan.planner.name, plan.planner.options) == ("trivial", {"beam": 3})
    assert run(["simulate", "mine.json", "--trace", "t.csv"]) == 0


def test_all_are_the_shipped_ones_and_others_may_stand_beside(mine, capsys):
    assert run([*FOUR.split(), "--planner", "all,mine.py:plan", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {row["planner"] for row in found["plans"]} | set(found["infeasible"]) == {*PLANNERS, "mine.py:plan"}


def test_a_folder_deep_and_a_comma_in_a_name(mine):
    (mine.folder / "deep").mkdir()
    mine.write("deep/a,b.py", MINE)
    assert run([*TWO.split(), "--planner", "deep/a,b.py:plan"]) == 0


ERRORS = {
    "mine.py:plam": (2, ("mine.py: no function 'plam' in it; did you mean mine.py:plan?",)),
    "mine.py": (2, ("expected path/to/file.py:name; mine.py has plan, fails, text",)),
    "mime.py:plan": (2, ("mime.py: no such file; did you mean mine.py?",)),
    "alpaserve,mine.py:plam": (2, ("did you mean mine.py:plan?",)),
    "alpasreve": (2, ("unknown planner 'alpasreve'", "did you mean 'alpaserve'?")),
    "mine.py:text": (2, ("planner 'mine.py:text': returned a value of type str; expected a Plan",)),
    "mine.py:full": (2, ("planner 'mine.py:full': returned", "holds 'big', which is not among the problem's models")),
    "mine.py:fails": (1, ("planner 'mine.py:fails': ZeroDivisionError: division by zero (mine.py:9)", "--debug")),
    "mine.py:never": (3, ("no way",)),
    "syntax.py:plan": (2, ("syntax.py:1: ",)),
    "mine.py:plan -o bem=1": (
        2,
        ("planner.options: planner 'mine.py:plan' has no option 'bem'; did you mean 'beam'?",),
    ),
    "mine.py:fails -o bem=1": (1, ("ZeroDivisionError",)),
    "alpaserve -o memroy=1": (
        2,
        ("planner.options: planner 'alpaserve' has no option 'memroy'; did you mean 'memory'?",),
    ),
    "alpaserve -o seed=1": (2, ("'seed' is no option of planner 'alpaserve' but part of the problem",)),
    "alpaserve --max-batch 0": (2, ("serving.max_batch: should be greater than 0 (got 0)",)),
}


@pytest.mark.parametrize("words", ERRORS)
def test_errors(mine, refused, words):
    mine.write("syntax.py", "def plan(\n")
    code, parts = ERRORS[words]
    refused(f"{TWO} --planner {words}", *parts, code=code)


def test_debug_shows_the_line_that_failed(mine):
    with pytest.raises(Exception, match="division by zero") as caught:
        run([*TWO.split(), "--planner", "mine.py:fails", "--debug"])
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_help_says_where_planners_come_from(capsys):
    assert run(["plan", "serving", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "path/to/file.py:name" in text
    assert "several with commas, or all" in text
