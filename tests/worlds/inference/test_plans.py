"""Plans from a saved cost table: every planner by hand, files, what is simulated, and what is refused. No torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hand_costs import written
from meshwright.cli import run
from meshwright.errors import InputError
from meshwright.worlds import faces, open_world
from meshwright.worlds.inference.plan import InferencePlan

SAID = {"model": "resnet-18", "backends": ["one", "all"], "costs": "costs.json"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    written(tmp_path)
    return tmp_path


def planned(planner: str, **said: object) -> InferencePlan:
    found = faces.case("inference", planner=planner, **{**SAID, **said}).plan(again=False).file
    assert isinstance(found, InferencePlan)
    return found


@pytest.mark.parametrize(
    ("planner", "groups", "ms"),
    [
        # one for a, all for b, one for c and d, each with its context
        ("collage-op", [("one", "a"), ("all", "b"), ("one", "c"), ("one", "d")], 0.51 + 0.75 + 0.51 + 0.51),
        ("exhaustive", [("one", "a"), ("all", "b"), ("one", "c"), ("one", "d")], 0.51 + 0.75 + 0.51 + 0.51),
        ("single-backend", [("all", "abcd")], 3.05),
        ("rule-based", [("one", "a"), ("one", "b"), ("one", "c"), ("one", "d")], 4.04),
    ],
)
def test_every_planner_by_hand(folder: Path, planner: str, groups: list[tuple[str, str]], ms: float) -> None:
    plan = planned(planner)
    assert [(group.backend, "".join(group.nodes)) for group in plan.groups] == groups
    assert plan.predicted["latency_s"] == pytest.approx(ms / 1e3)
    assert plan.predicted["single_s"] == pytest.approx(3.05e-3)
    assert plan.predicted["speedup"] == pytest.approx(3.05 / ms)


def test_a_group_knows_the_second_best(folder: Path) -> None:
    """b costs 2.5 + 0.01 on the other backend; the whole costs 2.28 cut up, the cheapest without itself."""
    b = planned("collage-op").groups[1]
    assert b.second is not None
    assert (b.second.backends, b.second.cost_ms) == (("one",), pytest.approx(2.51))
    (whole,) = planned("single-backend").groups
    assert whole.second is not None
    assert whole.second.cost_ms == pytest.approx(2.28)


def test_backends_that_are_not_named_are_not_used(folder: Path) -> None:
    plan = planned("collage-op", backends=["one"])
    assert {group.backend for group in plan.groups} == {"one"}
    assert list(plan.table.backends) == ["one"]


def test_what_is_known_of_a_plan(folder: Path) -> None:
    """a goes to b on the other backend, and b to d: two values cross."""
    kept = faces.case("inference", planner="collage-op", slo=0.002, slo_scale=1.5, **SAID).plan(again=False)
    found = kept.simulate().metrics
    assert (found["n_groups"], found["n_crossings"], found["n_backends"]) == (4, 2, 2)
    assert found["attainment"] == 1
    assert found["goodput"] == pytest.approx(1 / 2.28e-3)
    late = faces.case("inference", planner="collage-op", slo=0.002, **SAID).plan(again=False).simulate()
    assert (late.attainment, late.goodput) == (0, 0)


def test_a_plan_is_read_as_it_was_written(folder: Path) -> None:
    plan = planned("collage-op")
    again = faces.load(plan.save("plan.json"))
    assert again.file == plan
    assert again.world.name == "inference"
    assert again.simulate().latency_s == plan.predicted["latency_s"]
    assert "second best: one, 2.51 ms" in plan.explain()


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda plan: plan["groups"].pop(), "operator 'd' is in no group"),
        (lambda plan: plan["groups"].append(plan["groups"][0]), "'a' stands in two groups"),
        (lambda plan: plan["groups"].reverse(), "reads 'b', which no group before it gives"),
        (lambda plan: plan["groups"][0].update(nodes=["z"]), "'z' is no operator of the cost table"),
        (lambda plan: plan["costs"].update(version=7), "expected version 1"),
        (lambda plan: plan["costs"]["matches"][0].update(cost_ms="fast"), "damaged"),
    ],
)
def test_a_plan_that_contradicts_itself(folder: Path, change: object, line: str) -> None:
    plan = json.loads(planned("collage-op").to_json())
    change(plan)  # type: ignore[operator]
    Path("plan.json").write_text(json.dumps(plan))
    with pytest.raises(InputError, match=line):
        faces.load("plan.json")


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ({"model": "resnet-19"}, "unknown name 'resnet-19'; did you mean resnet-1"),
        ({"planner": "collage-opp"}, "did you mean 'collage-op'"),
        ({"backends": []}, "at least one backend"),
        ({"backends": ["one", "one"]}, "each backend once"),
        ({"backends": ["one", "openvino"]}, "'openvino' was not measured in costs.json: it has one, all"),
        ({"batch": 4}, "was measured at batch 1, the case asks for 4"),
        ({"model": "dcgan"}, "costs.json is of resnet-18, the case of dcgan"),
        ({"costs": "none.json"}, "none.json: cannot be read"),
        ({"options": {"depth": 3}}, "collage-op has no option 'depth'"),
        ({"options": {"steps": "many"}}, "steps: expected a number"),
        ({"options": {"steps": 0}}, "expected steps >= 1"),
    ],
)
def test_one_line_says_what_is_wrong(folder: Path, said: dict[str, object], line: str) -> None:
    with pytest.raises(InputError, match=line) as caught:
        planned(**{"planner": "collage-op", **said})  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_studies_need_costs_and_planners_that_measure_nothing(folder: Path) -> None:
    world = open_world("inference")
    case = faces.case("inference", planner="collage", **SAID)
    with pytest.raises(InputError, match="collage measures while it plans"):
        world.share([case], folder)
    bare = faces.case("inference", planner="collage-op", model="resnet-18", backends=["one"])
    with pytest.raises(InputError, match="costs: is missing"):
        world.share([bare], folder)


def test_planning_and_simulating_from_costs_need_no_torch(folder: Path) -> None:
    code = (
        "import sys; from meshwright.cli import run\n"
        "assert run(['plan', 'inference', '--model', 'resnet-18', '--backends', 'one,all', '--costs', 'costs.json',\n"
        "            '--planner', 'collage-op', '--no-again', '--out', 'p.json']) == 0\n"
        "assert run(['simulate', 'p.json']) == 0\n"
        "print(sorted({'torch', 'numba'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_timeline_and_a_picture(folder: Path) -> None:
    planned("collage-op").save("plan.json")
    assert run(["simulate", "plan.json", "--timeline", "t.json", "--png", "p.png"]) == 0
    events = [event for event in json.loads(Path("t.json").read_text())["traceEvents"] if event["ph"] == "X"]
    assert [(event["name"], event["tid"], event["dur"]) for event in events if event["tid"]] == [
        ("a", 1, pytest.approx(500)), ("b", 2, pytest.approx(700)), ("c", 1, pytest.approx(500)),
        ("d", 1, pytest.approx(500)),
    ]  # fmt: skip
    call = [event for event in events if not event["tid"]]
    assert [event["name"] for event in call] == ["one", "all", "one", "one"]  # in Perfetto a name is a colour
    assert [event["ts"] for event in call] == [pytest.approx(at) for at in (0, 500, 1200, 1700)]
    assert len({(event["cat"], event["cname"]) for event in events}) == len({event["cname"] for event in events}) == 2
    assert Path("p.png").read_bytes()[:4] == b"\x89PNG"


def test_the_guard_scores_an_old_placement_by_the_same_costs(folder: Path) -> None:
    world = open_world("inference")
    case = faces.case("inference", planner="collage-op", **SAID)
    shared, guard = world.share([case], folder), world.guard()  # type: ignore[attr-defined]
    decided = guard.decide(case, shared)
    guard.check(decided.plan)
    assert guard.scores(case, decided.plan, shared, [0])["latency_s"] == (pytest.approx(2.28e-3),)
    old = {"groups": [["all", "a", "b", "c", "d"]]}
    assert guard.scores(case, old, shared, [0])["latency_s"] == (pytest.approx(3.05e-3),)
    assert (
        guard.differ(old, decided.plan)
        == "3 operators elsewhere: a: all → one, c: all → one, d: all → one; 4 groups instead of 1"
    )
