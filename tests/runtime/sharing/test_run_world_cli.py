"""`meshwright run case.yaml`: a shared cluster run for real, and what is printed and written of it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("uvicorn")

from meshwright.cli import run

WORLD = """\
world: sharing
name: two apps
cluster: {machines: [{gpus: 2}]}
apps:
  - {name: first, jobs: [{work: 600, gpus: 2}]}
  - {name: second, arrival: 100, jobs: [{work: 400, gpus: 1}]}
lease: 5 min
overheads: {checkpoint: 5, container: 20}
planners: [fifo, themis]
"""
FAST = ["--time-scale", "300", "--slot-steps", "20", "--slots-per-core", "8"]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "w.yaml"
    path.write_text(WORLD)
    return path


def test_a_world_is_run_and_held_against_its_simulation(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "w.yaml", *FAST, "--planner", "themis", "--out", "r.json", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said == {**json.loads(Path("r.json").read_text()), "out": "r.json"}
    assert (said["world"], said["policy"], said["time_scale"], said["lost"]) == ("two apps", "themis", 300, [])
    first, second = said["per_app"]
    assert (first["app"], second["app"], second["arrival_s"]) == ("first", "second", 100)
    # Whatever the machine does, nobody is faster than its GPUs, and a container's start is waited out.
    assert first["finish_s"] >= 20 + 600 / 2
    assert second["finish_s"] >= 100 + 20 + 400
    assert first["simulated_finish_s"] >= 20 + 600 / 2
    # Steps: work over the scale of time, times those of a slot.
    assert said["steps"] >= (600 + 400) / 300 * 20 - 1
    assert said["real"]["completed"] == said["simulated"]["completed"] == 2
    assert said["container_s"] >= 20 / 300 * (1 - 1e-6)


def test_rows_and_words(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "w.yaml", *FAST, "--no-compare", "--out", "r.csv"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("two apps: 2 GPUs (1 x 2) in 1 rack, 2 apps of 2 jobs")
    assert out[1].startswith("fifo, 300 s of the world in a real one: ")
    assert out[-1] == "written: r.csv"
    assert "simulated" not in "".join(out)
    rows = list(csv.DictReader(Path("r.csv").read_text().splitlines()))
    assert [row["app"] for row in rows] == ["first", "second"]
    assert all(row["completed"] == "True" for row in rows)
