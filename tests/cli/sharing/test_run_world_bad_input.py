"""`meshwright run world.yaml`: what is wrong is one line and exit code 2, before any process starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from meshwright.cli import run

pytest.importorskip("torch")
pytest.importorskip("uvicorn")

WORLD = """\
sharing: 1
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
        "bids.yaml": "sharing: 1\ncluster: {devices: 2}\nbids: [{app: a, rows: [{gpus: 0, rho: 1}]}]\n",
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("nowhere.yaml", ["nowhere.yaml", "cannot be read"]),
        ("slip.yaml", ["slip.yaml:3: apps[0].jobs[0].work", "greater than 0"]),
        ("bids.yaml", ["bids.yaml: holds bids", "meshwright share"]),
        ("large.yml", ["large.yml: cluster: 1600 GPUs are slots on", "--slots-per-core", "--slot-steps"]),
        ("short.yaml", ["short.yaml: app 'a'", "has not ended by 5 s", "raise max_time"]),
        ("w.yaml --policy themiss", ["--policy", "'themiss'", "did you mean 'themis'?"]),
        ("w.yaml --policy themis,fifo", ["--policy", "'themis,fifo'"]),
        ("w.yaml --time-scale 0", ["meshwright: --time-scale: expected a finite number > 0"]),
        ("w.yaml --time-scale nan", ["--time-scale: expected a finite number > 0", "nan"]),
        ("w.yaml --slot-steps -3", ["--slot-steps: expected a finite number > 0", "-3"]),
        ("w.yaml --slots-per-core 0", ["--slots-per-core: expected a finite number > 0"]),
        ("w.yaml --seed -1", ["--seed", ">= 0", "-1"]),
        ("w.yaml --out r.txt", ["--out", ".json or .csv", "r.txt"]),
        ("w.yaml --out w.yaml/r.csv", ["w.yaml/r.csv", "folder"]),
        ("w.yaml --rate 3", ["--rate: does not go with world files", "--time-scale"]),
        ("w.yaml --llm tiny-llama", ["--llm: does not go with world files"]),
        ("w.yaml --iterations 3", ["--iterations: does not go with world files"]),
        ("plan.json --time-scale 3", ["--time-scale: is for world files"]),
        ("--slot-steps 3", ["--slot-steps: is for world files"]),
    ],
)
def test_a_slip_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str], words: str, parts: list[str]) -> None:
    before = sorted(path.name for path in folder.iterdir())
    assert run(["run", *words.split()]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    said = [line for line in err.splitlines() if line.startswith("meshwright: ")]
    assert len(said) == 1
    assert "Traceback" not in err
    for part in parts:
        assert part in said[0]
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.parametrize("verb", ["simulate", "compare"])
def test_a_world_is_no_plan(folder: Path, capsys: pytest.CaptureFixture[str], verb: str) -> None:
    assert run([verb, "w.yaml"]) == 2
    assert capsys.readouterr().err == (
        "meshwright: w.yaml: expected a plan, which is JSON; world files go to meshwright share, or run\n"
    )
