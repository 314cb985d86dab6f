"""Bad input to the gate: one clear line for each error, exit 2, nothing written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def refused(cli: Cli, folder: Path) -> Callable[..., str]:
    """Run a command that must be refused; give what it says."""

    def check(*words: str, lines: int = 1) -> str:
        before = {p: p.stat().st_mtime_ns for p in folder.rglob("*")}
        code, out, err = cli(*words)
        assert (code, out) == (2, ""), err
        assert err.count("\n") == lines, err
        assert {p: p.stat().st_mtime_ns for p in folder.rglob("*")} == before
        return err

    return check


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("suite: 2", "suite: 1", ":1: suite: should be 2 (got 1)"),
        ("{cv: 3,", "{cvv: 3,", ":6: defaults.serving.workload.cvv: unknown key; did you mean 'cv'?"),
        ("planner: ref", "plannner: ref", ":7: defaults.serving.plannner: unknown key; did you mean 'planner'?"),
        ("rate: 10", "rate: -1", ":23: cases[2].case.workload.rate: should be greater than 0 (got -1)"),
        ("defaults:", "judge: {replications: 2}\ndefaults:", "judge.replications: should be greater than or equal"),
        ("defaults:", "judge: {tolerance: -0.1}\ndefaults:", "judge.tolerance: should be greater than or equal to 0"),
        ("defaults:", "judge: {toleranse: 0.1}\ndefaults:", "judge.toleranse: unknown key; did you mean 'tolerance'?"),
        ("defaults:", "judge: {metric: atainment}\ndefaults:", "judge.metric: world 'serving' is not judged by"),
        ("defaults:", "judge: {metric: gap}\ndefaults:", "expected one of attainment, goodput, mean_latency"),
        ("defaults:", "judge: {better: up}\ndefaults:", "judge.better: should be '', 'more' or 'less' (got 'up')"),
        ("world: serving", "world: servings", ":3: world: unknown world 'servings'; did you mean 'serving'?"),
        ("world: serving\n", "", "suite.yaml:1: world: is missing; say it for all cases here, or in each (cases[0]"),
        ("name: roomy", "name: roomy\n    world: llm", "cases[0].case.models: unknown key; did you mean 'model'?"),
        ("name: roomy\n    case:", "name: roomy\n    kase:", "cases[0].kase: unknown key; did you mean 'case'?"),
        ("name: roomy", "name: little memory", "cases[0] is called 'little memory' already"),
        ("reference.py:plan", "{name: alpaserve, plan_on: same}", "plans on one draw of the traffic"),
        ("reference.py:plan", "alpaservee", "did you mean 'alpaserve'?"),
        ("reference.py:plan", "gone.py:plan", "gone.py: no such file"),
        ("models: {bert-1.3b: 4}", "models: {bart-1.3b: 4}", "bart-1.3b"),
        ("models: {bert-1.3b: 4}", "seed: -1", "cases[0].case.seed: should be greater than or equal to 0 (got -1)"),
        ("name: greedy", "name: greedy\nname: again", "this key stands twice"),
        ("rate: 10", "rate: 1e1", "1e1"),
        ("name: roomy", "name: a/b", "cases[0].name: expected words of letters, digits and + - . _"),
        ("name: greedy", "name: a/b", ":2: name: expected words of letters, digits and + - . _"),
        ("cases:", "casses:", "did you mean 'cases'?"),
    ],
)
def test_a_wrong_suite(refused: Callable[..., str], folder: Path, old: str, new: str, said: str) -> None:
    file = folder / "suite.yaml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    lines = 2 if new == "casses:" or "kase" in new else 1
    assert said in refused("suite.yaml", lines=lines)


def test_all_errors_of_a_suite_at_once(refused: Callable[..., str], folder: Path) -> None:
    file = folder / "suite.yaml"
    file.write_text(file.read_text().replace("rate: 10", "rat: 10").replace("devices: 4}", "devices: 0}", 1))
    assert "cases[0].case.cluster.devices" in refused("suite.yaml", lines=2)


def test_options_that_a_planner_does_not_have(refused: Callable[..., str], folder: Path) -> None:
    file = folder / "suite.yaml"
    file.write_text(file.read_text().replace("reference.py:plan", "{name: alpaserve, options: {beem: 2}}"))
    err = refused("suite.yaml")
    assert "suite.yaml:9: case 'roomy' (and 2 more): planner.options: planner 'alpaserve' has no option 'beem'" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("gone.yaml",), "gone.yaml: cannot read the suite"),
        (("suite.yaml", "--baseline", "gone.json"), 'create it with --update --reason "why"'),
        (("suite.yaml", "--update"), "--reason"),
        (("suite.yaml", "--update", "--reason", "  "), "--reason"),
        (("suite.yaml", "--reason", "why"), "--update"),
        (("suite.yaml", "--only", "romy"), "did you mean 'roomy'?"),
        (("suite.yaml", "--planner", "refactored.py:plann"), "plann"),
        (("suite.yaml", "--workers", "-1"), "--workers"),
        (("suite.yaml", "--junit", "."), "expected a file to write"),
        (("standard", "--update", "--reason", "x"), "name the --baseline"),
    ],
)
def test_wrong_words(refused: Callable[..., str], words: tuple[str, ...], said: str) -> None:
    assert said in refused(*words)


def _other_suite(text: str) -> str:
    return text.replace('"suite": "greedy"', '"suite": "other"')


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text[: len(text) // 2], "is not JSON; was it cut off or merged?"),
        (lambda text: "", "is not JSON"),
        (lambda text: "[" * 100_000, "is not JSON"),
        (lambda text: "{}", "not a Meshwright baseline"),
        (lambda text: '["meshwright-baseline"]', "not a Meshwright baseline"),
        (lambda text: text.replace('"version": 2', '"version": 7'), "reads version 2 (got 7)"),
        (lambda text: text.replace('"version": 2', '"version": true'), "reads version 2 (got True)"),
        (_other_suite, "the baseline of another suite: 'other' (the suite is 'greedy')"),
        (lambda text: text.replace("op1pp2", "op0pp2", 1), "decision.windows[0].groups[0].config"),
        (lambda text: text.replace('"evaluations": 9', '"evaluations": -9'), "evaluations"),
        (lambda text: text.replace('"updates"', '"update"'), "updates"),
        (lambda text: text.replace('"roomy"', '"full of gaps"'), "the key 'full of gaps' stands twice"),
        (lambda text: text.replace('"evaluations": 9', '"evaluations": NaN'), "finite number (got nan)"),
        (lambda text: "<<<<<<< HEAD\n" + text, "is not JSON"),
    ],
)
def test_a_wrong_baseline(refused: Callable[..., str], folder: Path, change: Callable[[str], str], said: str) -> None:
    file = folder / "suite.baseline.json"
    text = file.read_text()
    assert change(text) != text
    file.write_text(change(text))
    err = refused("suite.yaml")
    assert "suite.baseline.json" in err
    assert said in err
    assert said in refused("suite.yaml", "--update", "--reason", "over a wrong one: its history would be lost")


def test_a_baseline_whose_plan_does_not_fit_any_more(cli: Cli, folder: Path) -> None:
    file = folder / "suite.baseline.json"
    document = json.loads(file.read_text())
    groups = document["cases"]["roomy"]["decision"]["windows"][0]["groups"]
    groups[0]["devices"] = [7, 8]
    file.write_text(json.dumps(document))
    code, out, _ = cli("suite.yaml", "--only", "roomy")
    assert code == 1
    assert "the baseline's plan cannot be scored any more" in out
    assert "device 7 does not exist" in out
