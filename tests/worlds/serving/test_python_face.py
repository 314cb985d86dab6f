"""The serving world from Python: the same doors as the verbs, with results instead of text."""

from __future__ import annotations

import json
from pathlib import Path

from meshwright.cli import run
from meshwright.worlds.faces import case


def test_a_case_is_planned_simulated_and_exported(tmp_path: Path, capsys) -> None:
    said = case("serving", models={"bert-1.3b": 2}, devices=2, rate=4, cv=2, duration=20, seed=3)
    planned = said.plan()
    result = planned.simulate()
    assert result.attainment == planned.file.predicted["attainment"]
    planned.save(tmp_path / "plan.json")
    words = "--rate 4 --cv 2 --duration 20 --seed 3 --json"
    assert run(["simulate", str(tmp_path / "plan.json"), *words.split()]) == 0
    assert json.loads(capsys.readouterr().out)["plans"][0]["attainment"] == result.attainment
    files = planned.export("torchrun", tmp_path / "out")
    assert files
    assert all(path.is_file() for path in files)


def test_a_plan_that_is_made_once_may_take_seconds(tmp_path: Path, capsys) -> None:
    """Points of studies must come out alike on every machine; a plan that is kept need not."""
    said = "plan serving --models bert-1.3b=2 --devices 2 --rate 4 --duration 20 -o local_search_seconds=0.2"
    assert run([*said.split(), "--out", str(tmp_path / "plan.json")]) == 0, capsys.readouterr().err
    held = json.loads((tmp_path / "plan.json").read_text())
    assert held["planner"]["options"]["local_search_seconds"] == 0.2
    assert run(["plan", "serving", *said.split()[2:-1], "local_search_seconds=-1"]) == 2
    assert "local_search_seconds: expected finite seconds >= 0 (got -1" in capsys.readouterr().err
