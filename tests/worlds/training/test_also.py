"""`cluster.also`: one plan over clusters of several device types, from the command line to its files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from meshwright.cli import run
from meshwright.simulator.training import TrainingPlan

PLAN = ["plan", "training", "--model", "tiny-gpt", "--devices", "2", "--device", "cpu-core", "--global-batch", "16"]


def test_a_plan_over_two_clusters_is_written_simulated_and_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "plan.json", tmp_path / "out"
    asked = ["--planner", "alpa", "--also", "1xv100-16gb", "--microbatches", "4", "--out", str(path)]
    assert run([*PLAN, *asked]) == 0
    plan = TrainingPlan.load(path)
    assert {mesh.cluster for mesh in plan.meshes} == {0, 1}
    assert sum(mesh.hosts * mesh.devices for mesh in plan.meshes) == 3
    capsys.readouterr()
    assert run(["simulate", str(path)]) == 0
    assert "3 devices" in capsys.readouterr().out
    assert run(["export", str(path), "--to", "torch", "--out", str(out)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert len(said) < 20
    assert any(line.startswith(f"written: {out / 'executor'} (") for line in said)
    for number, processes in ((0, 2), (1, 1)):
        script = out / f"launch-{number}.sh"
        assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0
        assert f"--nnodes=2 --nproc-per-node={processes}" in script.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--planner", "graphpipe", "--also", "1xv100-16gb"], "cluster.also: planner graphpipe plans for one cluster"),
        (["--planner", "alpa", "--also", "1xv100-16"], "cluster.also: unknown device 'v100-16'"),
    ],
)
def test_what_cannot_be_is_one_line(capsys: pytest.CaptureFixture[str], more: list[str], said: str) -> None:
    assert run([*PLAN, *more]) == 2
    found = capsys.readouterr().err.strip().splitlines()
    assert said in found[-1]
