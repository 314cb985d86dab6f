"""The gate knows a world through its contract alone: one from outside is gated, no file of the gate names one."""

from __future__ import annotations

import ast
import sys
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from meshwright import gate
from meshwright.cli import run
from meshwright.gate import suite as gate_suite
from meshwright.worlds import WORLDS, Case, Panel
from meshwright.worlds.guard import differences
from meshwright.worlds.outcome import Outcome
from pydantic import BaseModel

GATE = Path(gate.__file__).parent


class Chosen(BaseModel):
    """Who plans."""

    name: str = "half"


class QueueCase(Case):
    """A queue with some servers."""

    servers: int = 2
    planner: Chosen = Chosen()


class QueueWorld:
    """Nothing but the contract: no guard, no doors."""

    name = "queues"
    case = QueueCase
    metrics: Mapping[str, str] = {"wait": "mean wait, seconds", "busy_share": "share of the time"}
    slower = 0.0

    def share(self, cases: Sequence[QueueCase], folder: Path) -> Any:
        """Nothing is shared."""
        return None

    def digests(self, case: QueueCase, shared: Any) -> Mapping[str, str]:
        """Nothing is read."""
        return {}

    def evaluate(self, case: QueueCase, shared: Any) -> Outcome:
        """Wait falls with servers; the seed moves it."""
        if case.servers == 0:
            return Outcome("infeasible", error="no server")
        wait = (case.seed % 97) / case.servers + self.slower
        return Outcome(metrics={"wait": wait}, decision=f"{case.servers} servers{' late' if self.slower else ''}")

    def panels(self, case: QueueCase, shared: Any) -> Sequence[Panel]:
        """None."""
        return ()


SUITE = """\
suite: 2
name: queues
world: queues
judge: {metric: wait, better: less}
cases:
  - {name: two, case: {servers: 2}}
  - {name: none, case: {servers: 0}}
"""


@pytest.fixture
def queues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> QueueWorld:
    """The world registered, a suite of it in the working folder, and its baseline."""
    world = QueueWorld()
    module = types.ModuleType("queue_world_of_the_gate")
    module.WORLD = world  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(WORLDS, "queues", module.__name__)
    gate_suite._guard.cache_clear()
    monkeypatch.chdir(tmp_path)
    Path("suite.yaml").write_text(SUITE)
    assert run(["regress", "suite.yaml", "--update", "--reason", "first"]) == 0
    return world


def test_a_world_from_outside_is_gated_by_evaluate_alone(
    queues: QueueWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["regress", "suite.yaml"]) == 0
    queues.slower = 5.0
    capsys.readouterr()
    assert run(["regress", "suite.yaml"]) == 1
    out = capsys.readouterr().out
    assert "FAIL two\n  wait " in out
    assert "plans: 2 servers → 2 servers late" in out
    assert "no old plan is scored again" in out


def test_the_same_decision_that_scores_otherwise_is_no_planners_doing(
    queues: QueueWorld, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    honest = queues.evaluate

    def changed(case: QueueCase, shared: Any) -> Outcome:
        found = honest(case, shared)
        return found if found.error else Outcome(metrics={"wait": found.metrics["wait"] + 5}, decision=found.decision)

    monkeypatch.setattr(queues, "evaluate", changed)
    capsys.readouterr()
    assert run(["regress", "suite.yaml"]) == 1
    out = capsys.readouterr().out
    assert "the baseline's plan scores wait" in out
    assert "the simulator or traffic changed since" in out


def test_a_world_without_a_guard_must_be_told_what_judges(
    queues: QueueWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    for judge, said in (
        ("", "cases[0].metric: is missing; world 'queues' does not say"),
        ("judge: {metric: wait}\n", "cases[0].better: is missing; say whether more or less of wait is better"),
        (
            "judge: {metric: weight, better: less}\n",
            "judge.metric: world 'queues' is not judged by 'weight'",
        ),
    ):
        Path("other.yaml").write_text(SUITE.replace("judge: {metric: wait, better: less}\n", judge))
        capsys.readouterr()
        assert run(["regress", "other.yaml"]) == 2
        assert said in capsys.readouterr().err


def test_no_file_of_the_gate_names_a_world() -> None:
    """Neither a world, nor a simulator or planner of one; what all simulators share is no world."""
    for file in GATE.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            named = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            named += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for module in named:
                assert not set(module.split(".")) & {*WORLDS, "planners", "runtime"}, f"{file.name}: {module}"
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert node.value not in WORLDS, f"{file.name}: {node.value!r}"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ({"a": 1}, {"a": 1}, ""),
        ({"a": [{"b": 1}, {"b": 2}]}, {"a": [{"b": 1}, {"b": 3}]}, "a[1].b 2 → 3"),
        ({"a": [1, 2]}, {"a": [1]}, "a [1, 2] → [1]"),
        ("x", "y", "x → y"),
        ({"a": 1}, {}, "a 1 → none"),
        (dict.fromkeys("abcdefghi", 0), dict.fromkeys("abcdefghi", 1), "a 0 → 1; b 0 → 1; c 0 → 1; d 0 → 1; e 0 → 1; "
         "f 0 → 1 and 3 more"),
    ],
)  # fmt: skip
def test_differences_of_plain_data_in_words(old: Any, new: Any, words: str) -> None:
    assert differences(old, new) == words
