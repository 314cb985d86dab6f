"""`meshwright run case.yaml`: what is wrong is one line and exit code 2, before any process starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from meshwright.cli import run

pytest.importorskip("torch")
pytest.importorskip("uvicorn")

WORLD = """\
world: sharing
cluster: {machines: [{gpus: 2}]}
apps: [{name: a, jobs: [{work: 100, gpus: 2}]}]
planners: [fifo]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    files = {
        "w.yaml": WORLD, "large.yml": WORLD.replace("gpus: 2}]}\na", "gpus: 4, count: 400}]}\na"),
        "short.yaml": WORLD + "max_time: 5\n", "slip.yaml": WORLD.replace("work: 100", "work: -1"),
        "bids.yaml": "world: sharing\ncluster: {devices: 2}\nbids: [{app: a, rows: [{gpus: 0, rho: 1}]}]\n",
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("nowhere.yaml", ["nowhere.yaml", "cannot be read"]),
        ("slip.yaml", ["slip.yaml:3: apps[0].jobs[0].work", "greater than 0"]),
        ("bids.yaml", ["bids.yaml: holds bids", "meshwright simulate sharing --bids bids.yaml"]),
        ("large.yml", ["large.yml:2: cluster: 1600 GPUs are slots on", "slots_per_core", "slot_steps"]),
        ("short.yaml", ["short.yaml:5: max_time: app 'a'", "has not ended by 5 s", "raise max_time"]),
        ("w.yaml --planner themiss", ["planner", "'themiss'", "did you mean 'themis'?"]),
        ("w.yaml --planner themis,fifo", ["--planner", "run takes one", "themis,fifo"]),
        ("w.yaml --time-scale 0", ["time_scale", "greater than 0"]),
        ("w.yaml --time-scale nan", ["time_scale", "finite number", "nan"]),
        ("w.yaml --slot-steps -3", ["slot_steps", "greater than 0", "-3"]),
        ("w.yaml --slots-per-core 0", ["slots_per_core", "greater than or equal to 1"]),
        ("w.yaml --seed -1", ["seed", "greater than or equal to 0", "-1"]),
        ("w.yaml --out r.txt", ["--out", ".json or .csv", "r.txt"]),
        ("w.yaml --out w.yaml/r.csv", ["w.yaml/r.csv", "folder"]),
        ("w.yaml --rate 3", ["--rate"]),
        ("w.yaml --iterations 3", ["--iterations"]),
        ("w.yaml --policy fifo", ["--policy"]),
        ("plan.json --time-scale 3", ["plan.json"]),
    ],
)
def test_a_slip_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str], words: str, parts: list[str]) -> None:
    before = sorted(path.name for path in folder.iterdir())
    assert run(["run", *words.split()]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    said = [line for line in err.splitlines() if line.startswith("meshwright")]
    assert len(said) == 1
    assert "Traceback" not in err
    for part in parts:
        assert part in said[0]
    assert sorted(path.name for path in folder.iterdir()) == before


def test_real_runs_of_apps_are_compared_by_run_itself(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "w.yaml"]) == 2
    assert "compare: the world sharing has no such door; it has plan, simulate, run, export" in capsys.readouterr().err
