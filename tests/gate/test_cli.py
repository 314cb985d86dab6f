"""The gate as its users meet it: planted regressions fail and name their case, refactorings pass."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., tuple[int, str, str]]

WRAPPED = """\
import dataclasses
from meshwright.simulator import Group, Placement
exec(compile({reference!r}, "reference.py", "exec"))
_honest = plan
def plan(problem):
    found = _honest(problem)
    {change}
"""


def wrapped(folder: Path, change: str) -> str:
    """A planner file: the reference planner with something done to its plan."""
    text = WRAPPED.format(reference=(folder / "reference.py").read_text(), change=change)
    (folder / "changed.py").write_text(text)
    return "changed.py:plan"


def failed_cases(error: str) -> list[str]:
    match = re.search(r"cases? failed: (.*)", error)
    return match[1].split(", ") if match else []


def without_progress(error: str) -> str:
    """What is said beside the lines of progress, which come where a suite takes seconds."""
    return re.sub(r"(?m)^regress: \d+ of \d+ cases, .*\n", "", error)


def test_a_pure_refactoring_passes(cli: Cli) -> None:
    code, out, err = cli("suite.yaml", "--planner", "refactored.py:plan")
    assert (code, without_progress(err)) == (0, "")
    assert out.endswith("3 cases: 3 the same\n")


def test_a_planted_regression_fails_where_memory_has_gaps_and_only_there(cli: Cli) -> None:
    code, out, err = cli("suite.yaml", "--planner", "fragmenting.py:plan")
    assert code == 1
    assert failed_cases(err) == ["full of gaps", "little memory"]
    said = out[out.index("FAIL full of gaps") : out.index("FAIL little memory")]
    assert re.search(
        r"attainment \d\d\.\d\d → \d\d\.\d\d %: -\d\d\.\d\d points, 99 % interval \[-.*over 10 pairs", said
    )
    assert "plans: without any replica now: bert-1.3b-0" in said
    assert "replicas in all instead of 10" in said


def test_a_regression_planted_into_the_file_itself_fails_too(cli: Cli, folder: Path) -> None:
    (folder / "reference.py").write_text((folder / "fragmenting.py").read_text())
    code, _, err = cli("suite.yaml", "--only", "full*", "--workers", "2")
    assert code == 1
    assert failed_cases(err) == ["full of gaps"]


def test_another_plan_of_equal_quality_passes(cli: Cli, folder: Path) -> None:
    """Devices of a cluster are alike: the groups the other way round are another plan and no worse one."""
    change = """return problem.plan(
        Placement([Group(g.config, g.models) for g in reversed(found.placement.groups)]),
        name="turned", evaluations=found.planner.evaluations)"""
    code, out, _ = cli("suite.yaml", "--planner", wrapped(folder, change))
    assert code == 0
    assert "3 equally good by another plan" in out or "equally good by another plan" in out


def test_more_evaluations_than_half_as_many_again_fail(cli: Cli, folder: Path) -> None:
    change = "return problem.plan(found.placement, name='x', evaluations=int({} * found.planner.evaluations))"
    assert cli("suite.yaml", "--planner", wrapped(folder, change.format(1.5)))[0] == 0
    code, out, err = cli("suite.yaml", "--planner", wrapped(folder, change.format(1.7)))
    assert code == 1
    assert failed_cases(err) == ["roomy", "full of gaps", "little memory"]
    assert "evaluations 9 → 15: 1.67 times as many, allowed are 1.5" in out


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("return Placement([Group(PIPE, problem.models)])", "GiB on each device"),
        ("return found.model_copy(update={'groups': found.groups[:1] * 2})", "belongs to an earlier group"),
        ("return 'nothing'", "expected a Plan"),
        ("raise KeyError('lost')", "KeyError"),
        ("from meshwright.errors import InfeasibleError; raise InfeasibleError('no way')", "became infeasible: no way"),
    ],
)
def test_what_is_no_valid_plan_fails(cli: Cli, folder: Path, change: str, said: str) -> None:
    code, out, err = cli("suite.yaml", "--planner", wrapped(folder, change), "--only", "full*")
    assert code == 1
    assert failed_cases(err) == ["full of gaps"]
    assert said in out


def test_a_better_plan_passes_and_is_said(cli: Cli, folder: Path) -> None:
    code, _, err = cli(
        "suite.yaml", "--baseline", "low.json", "--planner", "fragmenting.py:plan", "--update", "--reason", "low"
    )
    assert code == 0, err
    code, out, _ = cli("suite.yaml", "--baseline", "low.json")
    assert code == 1, "more evaluations than the one that gives up early"
    text = (folder / "suite.yaml").read_text().replace("defaults:\n", "judge: {evaluations_factor: null}\ndefaults:\n")
    (folder / "suite.yaml").write_text(text)
    code, out, _ = cli("suite.yaml", "--baseline", "low.json")
    assert code == 0
    assert "2 better" in out
    assert "better: attainment" in out
    assert "keep it with --update --reason" in out


def test_updates_keep_their_reasons_and_what_did_not_change(cli: Cli, folder: Path) -> None:
    file = folder / "suite.baseline.json"
    first = json.loads(file.read_text())
    code, out, _ = cli("suite.yaml", "--planner", "fragmenting.py:plan", "--update", "--reason", "less memory ✓")
    assert code == 0
    assert "2 changed" in out or "3 changed" in out
    second = json.loads(file.read_text())
    assert [u["reason"] for u in second["updates"]] == ["the first one", "less memory ✓"]
    assert second["cases"]["full of gaps"] != first["cases"]["full of gaps"]
    assert second["cases"]["roomy"]["decision"] == first["cases"]["roomy"]["decision"]
    code, out, _ = cli("suite.yaml", "--update", "--reason", "back", "--only", "little*")
    third = json.loads(file.read_text())
    assert third["updates"][-1]["changed"] == ["little memory"]
    assert third["cases"]["little memory"] == first["cases"]["little memory"]
    assert third["cases"]["full of gaps"] == second["cases"]["full of gaps"]


def test_an_update_with_a_broken_planner_leaves_the_baseline(cli: Cli, folder: Path) -> None:
    before = (folder / "suite.baseline.json").read_bytes()
    planner = wrapped(folder, "return None")
    code, _, err = cli("suite.yaml", "--planner", planner, "--update", "--reason", "x")
    assert code == 2
    assert "gave no valid plan" in err
    assert (folder / "suite.baseline.json").read_bytes() == before


def test_cases_that_came_went_or_changed_are_findings(cli: Cli, folder: Path) -> None:
    suite = folder / "suite.yaml"
    text = suite.read_text()
    suite.write_text(text.replace("name: roomy", "name: spacious").replace("rate: 10", "rate: 11"))
    code, out, err = cli("suite.yaml")
    assert code == 1
    assert failed_cases(err) == ["spacious", "little memory", "roomy"]
    assert "the baseline has no such case; keep it with --update" in out
    assert "the baseline has it and the suite has not" in out
    assert "workload.rate 10.0 → 11.0" in out
    assert cli("suite.yaml", "--update", "--reason", "new cases")[0] == 0
    assert cli("suite.yaml")[0] == 0


def test_judging_otherwise_does_not_make_another_case(cli: Cli, folder: Path) -> None:
    suite = folder / "suite.yaml"
    suite.write_text(suite.read_text().replace("defaults:\n", "judge: {tolerance: 0.6, metric: goodput}\ndefaults:\n"))
    code, out, _ = cli("suite.yaml", "--planner", "fragmenting.py:plan")
    assert code == 0
    assert "equally good" in out


def test_a_simulator_that_changed_is_told_from_a_planner_that_did(cli: Cli, folder: Path) -> None:
    """The kept scores moved, the plan did not: another finding, and none within the tolerance."""
    file = folder / "suite.baseline.json"
    document = json.loads(file.read_text())
    for shift, code in ((0.2, 1), (0.001, 0)):
        kept = json.loads(json.dumps(document))
        scores = kept["cases"]["roomy"]["scores"]
        scores["attainment"] = [x - shift for x in scores["attainment"]]
        file.write_text(json.dumps(kept))
        found, out, _ = cli("suite.yaml")
        assert found == code
        assert "the baseline's plan scores attainment" in out
        assert "the simulator or traffic changed since" in out
        assert "-0.00 points" not in out


def test_reports_do_not_depend_on_workers_or_time(cli: Cli, folder: Path) -> None:
    names = ("a", "b")
    for name, workers in zip(names, ("1", "2"), strict=True):
        words = ("--junit", f"{name}.xml", "--markdown", f"{name}.md", "--workers", workers)
        assert cli("suite.yaml", "--planner", "fragmenting.py:plan", *words)[0] == 1
    for kind in ("xml", "md"):
        one, two = ((folder / f"{name}.{kind}").read_bytes() for name in names)
        assert one == two
    root = ET.parse(folder / "a.xml").getroot()
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("3", "2", "0")


def test_json(cli: Cli) -> None:
    code, out, _ = cli("suite.yaml", "--planner", "fragmenting.py:plan", "--json")
    document: dict[str, Any] = json.loads(out)
    assert code == 1
    assert (document["ok"], document["failed"]) == (False, ["full of gaps", "little memory"])
    case = document["cases"][1]
    assert case["findings"][0]["kind"] == "worse"
    assert case["differences"][0]["high"] < -case["differences"][0]["tolerance"]


def test_what_a_planner_prints_is_not_part_of_the_report(cli: Cli, folder: Path) -> None:
    planner = wrapped(folder, "print('::error::hello'); return found")
    code, out, err = cli("suite.yaml", "--planner", planner, "--json")
    assert (code, json.loads(out)["ok"]) == (0, True)
    assert "hello" in err


def test_on_github(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    summary = folder / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(folder))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    _, out, _ = cli("suite.yaml", "--planner", "fragmenting.py:plan")
    (gaps, little) = [line for line in out.splitlines() if line.startswith("::")]
    line = (folder / "suite.yaml").read_text().splitlines().index("  - name: full of gaps") + 1
    assert gaps.startswith(f"::error file=suite.yaml,line={line},title=greedy%3A full of gaps::attainment ")
    assert "little memory" in little
    assert summary.read_text().startswith("before\n## Planner gate: 2 of 3 cases failed")
    code, out, err = cli("suite.yaml", "--json")
    assert json.loads(out)["ok"]
    assert (code, without_progress(err)) == (0, "")


def test_a_worker_that_dies_takes_no_case_with_it_but_its_own(cli: Cli, folder: Path) -> None:
    planner = wrapped(folder, "import os; return os._exit(9) if len(problem.models) == 4 else found")
    code, out, err = cli("suite.yaml", "--planner", planner, "--workers", "2")
    assert code == 1
    assert failed_cases(err) == ["roomy"]
    assert "failed: worker process died (exit code 9)" in out


def test_an_objective_without_value_is_not_kept(cli: Cli, folder: Path) -> None:
    suite = folder / "suite.yaml"
    suite.write_text(suite.read_text().replace("defaults:\n", "judge: {metric: p99_latency}\ndefaults:\n"))
    code, _, err = cli("suite.yaml", "--baseline", "new.json", "--update", "--reason", "x")
    assert code == 2
    assert "case 'roomy': its metric p99_latency has no value: it needs 10000 finished requests" in err
    assert not (folder / "new.json").exists()


def alive(group: int) -> list[str]:
    """Processes of a process group that have not ended."""
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            state, _, its_group = file.read_text().rpartition(")")[2].split()[:3]
            found += [file.parent.name] if int(its_group) == group and state != "Z" else []
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc here to look for processes in")
def test_ctrl_c_ends_it_with_its_workers(folder: Path) -> None:
    (folder / "slow.py").write_text(
        "import time\ndef plan(problem):\n    print('begun', flush=True)\n    time.sleep(60)\n"
    )
    words = [sys.executable, "-m", "meshwright", "regress", "suite.yaml", "--planner", "slow.py:plan"]
    words += ["--workers", "2"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(words, **pipes, start_new_session=True)
    assert process.stderr is not None
    assert process.stderr.readline() == "begun\n"
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert err.endswith("meshwright: interrupted\n")
    for _ in range(100):
        if not alive(process.pid):
            break
        time.sleep(0.1)
    assert not alive(process.pid)


def test_importing_the_command_line_takes_nothing_heavy() -> None:
    program = "import sys, meshwright.cli.regress_cmd; print([m for m in ('numba', 'pandas') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
