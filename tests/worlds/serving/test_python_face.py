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
