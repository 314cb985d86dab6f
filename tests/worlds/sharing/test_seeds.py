"""`simulate --seeds`: means over draws with intervals, the same as a study's replications."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from meshwright import studies
from meshwright.cli import run
from meshwright.studies.summary import summarise

WORLD = """world: sharing
cluster: {machines: [{gpus: 2, count: 2}]}
workload: {kind: themis-1, apps: 3, scale: 0.01}
seed: 2
"""
LISTED = "world: sharing\ncluster: {devices: 2}\napps: [{name: a, jobs: [{work: 1000, gpus: 2}]}]\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "w.yaml"
    path.write_text(WORLD)
    return path


def test_means_are_those_of_a_study_on_the_same_draws(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["simulate", str(file), "--planner", "fifo,tiresias", "--seeds", "3"]
    assert run([*words, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    study = studies.Study.from_text(
        f"study: 1\nworld: sharing\nplanners: [fifo, tiresias]\nreplications: 3\n{WORLD.partition(chr(10))[2]}"
    )
    table = summarise(study.run(), study)
    for name in ("fifo", "tiresias"):
        (row,) = table[table["planner"] == name].to_dict("records")
        for metric in ("max_rho", "jain", "gpu_hours", "makespan_s"):
            found = said["policies"][name][metric]
            assert (found["mean"], found["half_width"], found["n"]) == pytest.approx(
                (row[metric], row[f"{metric}_half_width"], 3)
            )
    assert run(words) == 0
    out = capsys.readouterr().out
    assert "means over 3 draws, ± half the 95 % interval" in out
    assert out.count("±") > 10


def test_what_does_not_go_with_it(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = tmp_path / "l.yaml"
    listed.write_text(LISTED)
    for words, said in (
        ([str(file), "--seeds", "3", "--per-app"], "per_app: is of one draw"),
        ([str(file), "--seeds", "3", "--out", "x.json"], "out: is of one draw"),
        ([str(file), "--seeds", "1"], "greater than or equal to 2"),
        ([str(file), "--seeds", "1000000000"], "less than or equal to 1000"),
        ([str(listed), "--seeds", "3"], "the apps are listed, and the same under every seed"),
    ):
        assert run(["simulate", *words]) == 2
        err = capsys.readouterr().err.splitlines()
        assert len(err) == 1, err
        assert said in err[0]
