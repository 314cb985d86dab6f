"""Planners from outside: found in a file or an installed package, carried to other processes, checked at the door."""

from __future__ import annotations

import importlib
import pickle
import re
import subprocess
import sys
import textwrap
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
from meshwright import planners
from meshwright.errors import InfeasibleError, InputError, OutOfProfileError, RunError
from meshwright.planners import PLANNERS, PlannerSource, Problem, ScheduledPlan, trivial
from meshwright.planners.contract.problems import infeasible_problem
from meshwright.planners.contract.source import split_names
from meshwright.planners.contract.suite import contract_problems
from meshwright.simulator import Group, ParallelConfig, Placement, PlacementSchedule, Plan

ROOT = Path(__file__).parents[3]
MINE = """
from __future__ import annotations

import pickle
from dataclasses import dataclass

from meshwright.planners import trivial


@dataclass
class Choice:
    groups: list[int]


def plan(problem, *, beam=1, progress=None):
    assert pickle.loads(pickle.dumps(Choice([beam]))) == Choice([beam])
    if progress:
        progress("dealing")
    return trivial.plan(problem)


def placement(problem):
    return trivial.placement(problem)


def reads(problem):
    problem.options.get("beam", 1)
    return trivial.placement(problem)


def fails(problem):
    return helper(problem)


def helper(problem):
    return {}["no key"]


def leaves(problem):
    raise SystemExit("bye")


def stray(problem):
    from meshwright.simulator import Group, ParallelConfig, Placement
    return problem.plan(Placement([Group(ParallelConfig(1, 1), ["nobody"])]), name="stray")


def unprofiled(problem):
    from meshwright.simulator import ParallelConfig
    return problem.profiles["a"].latency(ParallelConfig(8, 8))


def says_so(problem):
    from meshwright.errors import InputError
    raise InputError("option beam: too wide")


def too_much(problem):
    from meshwright.errors import InfeasibleError
    raise InfeasibleError("no way")


constant = 3
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Installs a distribution with entry points into a folder of its own."""

    def install(dist: str, code: str, **names: str) -> Path:
        folder = tmp_path / dist
        info = folder / f"{dist}-1.2.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {dist}\nVersion: 1.2\n")
        rows = [f"{name.replace('__', '-')} = {value}" for name, value in names.items()]
        (info / "entry_points.txt").write_text("\n".join(["[meshwright.planners]", *rows]))
        (folder / f"{dist}_code.py").write_text(code)
        monkeypatch.syspath_prepend(str(folder))
        return folder

    return install


def bursts(**changes) -> Problem:
    from dataclasses import replace

    return replace(contract_problems()["bursts"], **changes)


def test_found_in_a_file(mine):
    source = PlannerSource.find("mine.py:plan")
    assert (source.code, len(source.digest)) == (MINE, 64)
    plan = source.plan(bursts(options={"beam": 3}))
    assert isinstance(plan, Plan)
    assert plan.placement == trivial.placement(bursts())
    assert plan.planner.options == {"beam": 3}
    assert plan.planner.seconds > 0
    assert source.function() is source.function()
    assert PlannerSource.find("mine.py:placement").function().__module__ == source.function().__module__
    assert "mine" not in sys.modules
    assert str(mine.parent) not in sys.path


def test_a_file_is_looked_for_from_a_folder(mine, tmp_path, monkeypatch):
    deep = tmp_path / "studies" / "deep"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    assert PlannerSource.find("../mine.py:plan", tmp_path / "studies").code == MINE
    assert PlannerSource.find(f"{mine}:plan").code == MINE
    with pytest.raises(InputError, match="no such file"):
        PlannerSource.find("mine.py:plan")


def test_other_text_is_another_planner(mine):
    first = PlannerSource.find("mine.py:plan")
    mine.write_text(MINE.replace("beam=1", "width=1"))
    second = PlannerSource.find("mine.py:plan")
    assert first.digest != second.digest
    first.check_options({"beam": 1})
    with pytest.raises(InputError, match="has no option 'beam'; it has width"):
        second.check_options({"beam": 1})


def test_it_travels_as_text(mine):
    source = PlannerSource.find("mine.py:plan")
    expected = source.plan(bursts()).placement
    mine.unlink()
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(source.plan, bursts()).result().placement == expected


def test_the_old_door_finds_it_too(mine):
    p = bursts()
    plan = planners.planner("mine.py:plan")(p.cluster, None, p.trace, p.profiles, dispatch="earliest_finish", beam=2)
    assert (plan.serving.dispatch, plan.planner.options) == ("earliest_finish", {"beam": 2})
    assert planners.planner("alpaserve") is PLANNERS["alpaserve"]


def test_placements_and_schedules_become_plans(mine):
    assert PlannerSource.find("mine.py:placement").plan(bursts()).planner.name == "mine.py:placement"
    mine.write_text(
        "from meshwright.planners import trivial\nfrom meshwright.simulator import PlacementSchedule\n"
        "def plan(problem):\n    return PlacementSchedule([0.0], [trivial.placement(problem)])\n"
    )
    found = PlannerSource.find("mine.py:plan").plan(bursts())
    assert isinstance(found, ScheduledPlan)
    assert found.predicted["attainment"] == trivial.plan(bursts()).predicted["attainment"]


def test_an_option_that_nothing_reads_is_refused(mine):
    assert PlannerSource.find("mine.py:reads").plan(bursts(options={"beam": 2}))
    with pytest.raises(InputError, match="has no option 'bem'; did you mean 'beam'"):
        PlannerSource.find("mine.py:reads").plan(bursts(options={"bem": 2}))
    with pytest.raises(InputError, match="has no option 'bem'; did you mean 'beam'"):
        PlannerSource.find("mine.py:plan").plan(bursts(options={"bem": 2}))
    with pytest.raises(InputError, match="has no option 'x'; it has none"):
        PlannerSource.find("mine.py:placement").plan(bursts(options={"x": 2}))
    for name in PLANNERS:
        with pytest.raises(InputError, match=f"planner '{name.replace('+', '.')}' has no option 'memroy'.*'memory'"):
            PlannerSource.find(name).check_options({"memroy": "max_stage"})
        with pytest.raises(InputError, match="'seed' is no option"):
            PlannerSource.find(name).check_options({"seed": 1})


def test_what_goes_wrong_inside_is_one_error_with_its_line(mine):
    line = MINE[: MINE.index('{}["no key"]')].count("\n") + 1
    with pytest.raises(RunError, match=rf"planner 'mine.py:fails': KeyError: 'no key' \(mine.py:{line}\)") as caught:
        PlannerSource.find("mine.py:fails").plan(bursts())
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(RunError, match="SystemExit: bye"):
        PlannerSource.find("mine.py:leaves").plan(bursts())
    with pytest.raises(InputError, match=r"planner 'mine.py:stray' \(mine.py:\d+\): placement: holds 'nobody'"):
        PlannerSource.find("mine.py:stray").plan(bursts())
    with pytest.raises(OutOfProfileError, match=r"planner 'mine.py:unprofiled' \(mine.py:\d+\): profile 'a': no entry"):
        PlannerSource.find("mine.py:unprofiled").plan(bursts())
    with pytest.raises(InputError, match=r"^option beam: too wide$"):
        PlannerSource.find("mine.py:says_so").plan(bursts())
    with pytest.raises(InfeasibleError, match=r"^no way$"):
        PlannerSource.find("mine.py:too_much").plan(bursts())


FILES = {
    "mine.py:plam": ("mine.py: no function 'plam' in it; did you mean mine.py:plan?",),
    "mine.py": ("expected path/to/file.py:name; mine.py has Choice, plan, placement",),
    "mine.py:": ("expected path/to/file.py:name",),
    "mine.py:constant": ("got a value of type int",),
    "mime.py:plan": ("mime.py: no such file; did you mean mine.py?",),
    "no/such/folder.py:plan": ("no/such/folder.py: no such file",),
    "folder.py:plan": ("expected a file (got a folder",),
    "syntax.py:plan": ("syntax.py:2: ", "not Python"),
    "imports.py:plan": ("imports.py:1: ModuleNotFoundError: No module named 'not_there'", "complete in itself"),
    "beside.py:plan": ("beside.py:1: NameError", "complete in itself"),
    "divides.py:plan": ("divides.py:3: ZeroDivisionError",),
    "exits.py:plan": ("exits.py:1: SystemExit",),
    "nul.py:plan": ("nul.py",),
    "latin.py:plan": ("latin.py: cannot be read", "save it as UTF-8"),
    "coding.py:plan": ("coding.py: cannot be read: unknown encoding",),
    "empty.py:plan": ("no function 'plan' in it; empty.py defines no function",),
    "old.py:plan": ("expected a function of one problem, plan(problem)", "got one of cluster, models, trace, profiles"),
    "none.py:plan": ("expected a function of one problem", "got one without parameters"),
    "alpasrve": ("unknown planner 'alpasrve'", "or path/to/file.py:name; did you mean 'alpaserve'?"),
    "mine.txt:plan": ("unknown planner 'mine.txt:plan'",),
    "": ("unknown planner ''",),
}
TEXTS = {
    "syntax.py": b"\ndef plan(problem:\n",
    "imports.py": b"import not_there\n",
    "beside.py": b"data = open(__file__)\n",
    "divides.py": b"def half():\n    return 1\nx = half() / 0\n",
    "exits.py": b"raise SystemExit(3)\n",
    "nul.py": b"x = 1\0\n",
    "latin.py": b"x = '\xe9'\n",
    "coding.py": b"# coding: nonsense\n",
    "empty.py": b"",
    "old.py": b"def plan(cluster, models, trace, profiles): ...\n",
    "none.py": b"def plan(): ...\n",
}


@pytest.mark.parametrize("name", FILES)
def test_what_is_wrong_with_a_file_is_said(mine, name):
    for file, text in TEXTS.items():
        mine.with_name(file).write_bytes(text)
    mine.with_name("folder.py").mkdir()
    before = set(sys.modules)
    with pytest.raises(InputError) as caught:
        PlannerSource.find(name)
    assert "\n" not in str(caught.value)
    for part in FILES[name]:
        assert part in str(caught.value)
    if name.partition(".")[0] in ("syntax", "imports", "beside", "divides", "exits", "nul"):
        assert not [module for module in set(sys.modules) - before if module.startswith("meshwright_planner")]


def test_entry_points(package):
    code = "from meshwright.planners import trivial\ndef plan(problem, *, beam=1):\n    return trivial.plan(problem)\n"
    folder = package("dist_one", code, deal__out="dist_one_code:plan", alpaserve="dist_one_code:plan")
    source = PlannerSource.find("deal-out")
    assert source.plan(bursts()).placement == trivial.placement(bursts())
    assert (source.code, len(source.digest)) == ("", 64)
    assert PlannerSource.find("alpaserve").shipped, "a shipped name cannot be shadowed"
    with pytest.raises(
        InputError, match=r"unknown planner 'deal-ot'; expected one of .*deal-out.*did you mean 'deal-out'"
    ):
        PlannerSource.find("deal-ot")
    with pytest.raises(InputError, match="'deal-out' has no option 'bem'; did you mean 'beam'"):
        planners.planner("deal-out")(bursts().cluster, None, bursts().trace, bursts().profiles, bem=1)
    (folder / "dist_one_code.py").write_text(code + "# changed\n")
    assert PlannerSource.find("deal-out").digest != source.digest


def test_an_entry_point_on_a_worker(package, tmp_path):
    package("dist_two", "from meshwright.planners import trivial\nplan = trivial.plan\n", there="dist_two_code:plan")
    source = PlannerSource.find("there")
    folder = tmp_path / "dist_two"
    worker = textwrap.dedent(f"""
        import pickle, sys
        from pathlib import Path
        from meshwright.errors import InputError
        source = pickle.loads({pickle.dumps(source)!r})
        def told():
            try:
                return source.function().__module__
            except InputError as error:
                return error
        print(told())
        sys.path.insert(0, {str(folder)!r})
        print(told())
        from meshwright.planners.contract import installed
        installed.function_of.cache_clear()  # as in another process
        Path({str(folder / "dist_two_code.py")!r}).write_text("plan = 3")
        print(told())
    """)
    done = subprocess.run([sys.executable, "-c", worker], capture_output=True, text=True, check=True)
    absent, there, other = done.stdout.splitlines()
    assert "planner 'there': not installed here" in absent
    assert there == "meshwright.planners.trivial"
    assert "not the one that the study was begun with" in other


def test_broken_entry_points(package):
    package(
        "dist_three", "import nowhere_to_be_found\n", broken="dist_three_code:plan", lost="no_such_module_x:plan",
        constant="dist_four_code:x", missing="dist_four_code:nothing", twice="dist_four_code:plan",
    )  # fmt: skip
    package("dist_four", "x = 3\ndef plan(problem): ...\n", twice="dist_four_code:plan")
    for name, parts in {
        "broken": ("dist_three 1.2", "No module named 'nowhere_to_be_found'", "mend or reinstall"),
        "lost": ("dist_three 1.2", "No module named 'no_such_module_x'"),
        "constant": ("'dist_four_code:x' of dist_three 1.2 is a value of type int",),
        "missing": ("dist_three 1.2", "AttributeError", "nothing"),
        "twice": ("two installed packages", "dist_three 1.2", "dist_four 1.2"),
    }.items():
        with pytest.raises(InputError) as caught:
            PlannerSource.find(name)
        assert f"planner {name!r}" in str(caught.value)
        for part in parts:
            assert part in str(caught.value)


def test_names_with_commas(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert split_names("alpaserve, a.py:f,b") == ["alpaserve", "a.py:f", "b"]
    Path("a,b.py").write_text("")
    assert split_names("a,b.py:f") == ["a,b.py:f"]


def test_shipped_plans_are_predicted_as_they_are_served():
    problem = contract_problems()["other ways to serve"]
    plan = PlannerSource.find("selective-replication").plan(problem)
    assert (plan.serving.max_batch, plan.planner.name) == (4, "selective-replication")
    assert plan.predicted["attainment"] == problem.simulate(plan.placement).attainment
    assert "gap" not in plan.predicted, "no bound is known with batching"


BAD_PROBLEMS = {
    "no models": ({"models": ()}, "at least one"),
    "an unknown model": ({"models": ("a", "b", "c", "dd")}, "no profile for 'dd'; did you mean 'd'"),
    "a model twice": ({"models": ("a", "a")}, "'a' is listed twice"),
    "a name for names": ({"models": "abcd"}, "got the string 'abcd'"),
    "a trace of other models": ({"models": ("a", "b", "c")}, "asks for 'd', which is not among the models"),
    "negative overhead": ({"overhead": -0.1}, "overhead: expected finite seconds >= 0"),
    "overhead as text": ({"overhead": "fast"}, "overhead: expected finite seconds >= 0"),
    "infinite overhead": ({"overhead": float("inf")}, "overhead: expected finite seconds >= 0"),
    "unknown dispatch": ({"dispatch": "random"}, "unknown policy 'random'"),
    "admission as text": ({"admission": "no"}, "admission: expected True or False"),
    "no batch": ({"max_batch": 0}, "max_batch: expected an integer >= 1"),
    "half a batch": ({"max_batch": 1.5}, "max_batch: expected an integer >= 1"),
    "negative seed": ({"seed": -1}, "seed: expected an integer >= 0"),
    "no cluster": ({"cluster": 4}, "cluster: expected a Cluster (got int)"),
    "no trace": ({"trace": [1.0]}, "trace: expected a Trace (got list)"),
    "no profiles": ({"profiles": ["a"]}, "profiles: expected a Mapping (got list)"),
    "options without names": ({"options": {1: 2}}, "options: expected names (got 1)"),
}


@pytest.mark.parametrize("case", BAD_PROBLEMS)
def test_bad_problems_are_refused(case):
    changes, part = BAD_PROBLEMS[case]
    with pytest.raises(InputError) as caught:
        bursts(**changes)
    assert part in str(caught.value)


def test_problems_are_read_only_and_copy():
    problem = bursts(options={"beam": 2})
    assert pickle.loads(pickle.dumps(problem)) == problem
    for mapping in (problem.profiles, problem.options):
        with pytest.raises(TypeError):
            mapping["a"] = None  # type: ignore[index]
    with pytest.raises(ValueError, match="read-only"):
        problem.trace.arrival[0] = 1.0


def test_a_problem_makes_plans():
    problem = bursts()
    plan = problem.plan(trivial.placement(problem), name="mine", options={"k": 1}, evaluations=3)
    assert (plan.planner.name, plan.planner.options, plan.planner.evaluations) == ("mine", {"k": 1}, 3)
    assert plan.predicted["gap"] == plan.predicted["upper_bound"] - plan.predicted["attainment"] >= 0
    one = ParallelConfig(1, 1)
    for placement, part in {
        Placement([Group(one, ["a", "b", "c"])]): "GiB are usable",
        Placement([Group(one, ["aa"])]): "holds 'aa', which is not among the problem's models; did you mean 'a'",
        Placement([Group(one, ["a"], [9])]): "device 9 does not exist",
        Placement([Group(ParallelConfig(4, 1), ["a"])]): "no entry for op4pp1; nearest profiled",
    }.items():
        for decided in (placement, PlacementSchedule([0.0], [placement])):
            with pytest.raises(InputError, match=r"^placement: ") as caught:
                problem.plan(decided, name="mine")
            assert part in str(caught.value)
    with pytest.raises(InputError, match="evaluations"):
        problem.plan(trivial.placement(problem), name="mine", evaluations=-1)


def test_the_smallest_configuration_is_found_or_what_would_help_is_said():
    problem = contract_problems()["a model for two devices"]
    assert [problem.smallest_config(m).n_devices for m in problem.models] == [1, 2, 1]
    with pytest.raises(InfeasibleError, match="it would with"):
        infeasible_problem().smallest_config("a")
    with pytest.raises(InputError, match="at least"):
        bursts(models=())
    with pytest.raises(OutOfProfileError, match="no configuration with entries for batch 1 and 3"):
        bursts(max_batch=3).smallest_config("a")


def test_the_example_beats_the_trivial_plan():
    source = PlannerSource.find("own_planner.py:plan", ROOT / "examples")
    better = [
        source.plan(problem).predicted["attainment"] - trivial.plan(problem).predicted["attainment"]
        for problem in contract_problems().values()
    ]
    assert min(better) >= 0
    assert sum(gain > 0.01 for gain in better) >= 5


@pytest.mark.slow
def test_the_example_passes_the_contract():
    """As its author runs it; the shipped planners run the same suite (test_shipped.py)."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "examples/test_own_planner.py"],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "passed" in done.stdout


def test_the_contract_needs_no_pytest_until_it_runs():
    code = textwrap.dedent(
        """
        import sys
        sys.modules["pytest"] = None
        from meshwright.planners.contract.suite import PlannerContract
        class TestIt(PlannerContract):
            planner = "alpaserve"
        """
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_planner_of_the_page_fails_as_the_page_says(tmp_path, monkeypatch):
    """docs/own-planner.md (whose blocks tests/docs runs): its planner is valid, and worse than the trivial plan."""
    page = (ROOT / "docs" / "own-planner.md").read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        name = re.match(r"# (\w+\.py)\n", block)
        if name:
            (tmp_path / name[1]).write_text(block)
    monkeypatch.syspath_prepend(str(tmp_path))
    contract = importlib.import_module("test_mine").TestMine()
    for case in contract_problems():
        contract.test_plan_is_valid(case)
    with pytest.raises(AssertionError, match="the trivial plan"):
        contract.test_never_worse_than_the_trivial_plan("tight memory")
