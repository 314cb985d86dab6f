"""A suite of one's own in a folder: three cases, a planner in a file, and the baseline that it made."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from meshwright.cli import run

PLANTED = Path(__file__).parent / "planted"

SUITE = """\
suite: 2
name: greedy
world: serving
defaults:
  serving:
    workload: {cv: 3, duration: 120, slo_scale: 5}
    planner: reference.py:plan
cases:
  - name: roomy
    case:
      cluster: {devices: 4}
      models: {bert-1.3b: 4}
      workload: {rate: 8}
  - name: full of gaps
    case:
      cluster: {devices: 4}
      models: {bert-6.7b: 2, bert-2.7b: 2, bert-1.3b: 6}
      workload: {rate: 8}
  - name: little memory
    case:
      cluster: {devices: 6, memory: 9 GiB}
      models: {bert-2.7b: 5, bert-1.3b: 8}
      workload: {rate: 10}
"""

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder, made once."""
    folder = tmp_path_factory.mktemp("gate")
    shutil.copytree(PLANTED, folder, dirs_exist_ok=True)
    (folder / "suite.yaml").write_text(SUITE)
    with contextlib.chdir(folder):
        assert run(["regress", "suite.yaml", "--update", "--reason", "the first one"]) == 0
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, and the working folder; as on a machine that is not GitHub's."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def cli(folder: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Run ``meshwright regress``: exit code, standard output, standard error."""

    def call(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run(["regress", *words])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        assert "internal error" not in err, err
        return code, out, err

    return call
