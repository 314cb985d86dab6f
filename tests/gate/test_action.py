"""The composite Action and the example workflow: well-formed, wired up, and the run step really run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
WORKFLOW: dict[Any, Any] = yaml.safe_load((ROOT / "examples/planner-gate.yml").read_text(encoding="utf-8"))


def test_inputs_and_outputs_are_wired_up() -> None:
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    used = set(re.findall(r"inputs\.([\w-]+)", text))
    assert used == set(ACTION["inputs"])
    assert all("description" in given and "default" in given for given in ACTION["inputs"].values())
    assert set(re.findall(r"steps\.(\w+)\.outputs\.(\w+)", text)) == {("regress", "result")}
    assert [step.get("id") for step in STEPS if "id" in step] == ["regress"]
    assert set(ACTION["outputs"]) == {"result"}


def test_every_step_runs_something_and_no_input_becomes_script() -> None:
    assert ACTION["runs"]["using"] == "composite"
    for step in STEPS:
        assert ("uses" in step) != ("run" in step)
        if "run" in step:
            assert step["shell"] == "bash"
            assert "${{" not in step["run"], "what users give must reach the shell as variables"
            subprocess.run(["bash", "-n"], input=step["run"], text=True, check=True)


def test_the_workflow_uses_the_action_as_it_is() -> None:
    assert set(WORKFLOW[True]) == {"pull_request", "push"}  # YAML 1.1 reads the key `on` as true; GitHub does not
    steps = WORKFLOW["jobs"]["gate"]["steps"]
    (gate,) = [step for step in steps if "meshwright" in step.get("uses", "")]
    assert set(gate["with"]) <= set(ACTION["inputs"])
    text = (ROOT / "examples/planner-gate.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"steps\.(\w+)\.outputs\.(\w+)", text)) == {(gate["id"], "result")}
    for step in steps:
        if "run" in step:
            subprocess.run(["bash", "-n"], input=step["run"], text=True, check=True)


def step(name: str, folder: Path, **inputs: str) -> tuple[int, str, dict[str, str]]:
    """Run a step as GitHub does: exit code, output, and what it said as outputs."""
    (found,) = [s for s in STEPS if s["name"] == name]
    script, output = folder / "step.sh", folder / "output.txt"
    script.write_text(found["run"])
    output.write_text("")
    given = {key: str(value["default"]) for key, value in ACTION["inputs"].items()} | inputs
    env = {
        key: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda m: given[m[1]], value)
        for key, value in found.get("env", {}).items()
    }
    env |= {"GITHUB_OUTPUT": str(output), "RUNNER_TEMP": str(folder / "temp dir"), "GITHUB_ACTIONS": "true"}
    env |= {"GITHUB_WORKSPACE": str(folder), "GITHUB_STEP_SUMMARY": str(folder / "summary.md")}
    env |= {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(folder)}
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
        cwd=folder, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = dict(line.split("=", 1) for line in output.read_text().splitlines())
    return done.returncode, done.stdout + done.stderr, said


@pytest.mark.parametrize(
    ("inputs", "code", "result"),
    [
        ({}, 0, "passed"),
        ({"planner": "fragmenting.py:plan", "args": "--only little* --workers 1"}, 1, "failed"),
        ({"baseline": "gone; touch injected.json"}, 2, "error"),
        ({"args": "$(touch injected) `touch injected`"}, 2, "error"),
    ],
)
def test_the_run_step(folder: Path, inputs: dict[str, str], code: int, result: str) -> None:
    found, said, outputs = step("Regress", folder, suite="suite.yaml", **inputs)
    assert (found, outputs) == (code, {"result": result}), said
    reports = folder / "temp dir" / "planner-gate"
    assert reports.is_dir()
    assert (reports / "junit.xml").exists() == (reports / "report.md").exists() == (code < 2)
    assert ("::error file=suite.yaml,line=" in said) == (code == 1)
    assert (folder / "summary.md").exists() == (code < 2)
    assert not list(folder.glob("injected*"))


def test_the_install_step_takes_what_it_is_told(folder: Path) -> None:
    """With a python that only says what it was asked for: the action's own folder, since no index has Meshwright."""
    fake = folder / "bin"
    fake.mkdir()
    (fake / "python").write_text('#!/bin/sh\necho "$@" >> "$HOME/asked"\n')
    (fake / "python").chmod(0o755)
    (install,) = [s["run"] for s in STEPS if s["name"] == "Install Meshwright"]

    def asked(version: str) -> tuple[int, str, list[str]]:
        log = folder / "asked"
        log.write_text("")
        env = {"VERSION": version, "GITHUB_ACTION_PATH": "/the action", "PATH": f"{fake}:/usr/bin:/bin"}
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", install],
            env={**env, "HOME": str(folder)}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout, log.read_text().splitlines()

    assert asked("") == (0, "", ["-m pip install --quiet /the action"])
    assert asked("installed") == (0, "", [])
    code, said, ran = asked("0.1.0")
    assert (code, ran) == (2, [])
    assert said.startswith("::error::version: expected nothing or 'installed' (got '0.1.0')")
