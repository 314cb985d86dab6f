"""The study examples: what `--example` prints, and every file of them run, on shorter traffic."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest
from meshwright import studies
from meshwright.cli import run
from meshwright.cli.study_examples import EXAMPLES

FOLDER = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The examples with a tenth of their traffic and two draws of it, in a folder that is the current one."""
    for path in (*FOLDER.glob("*.yaml"), FOLDER / "ask_tell.py", FOLDER / "study_in_python.py"):
        text = path.read_text(encoding="utf-8")
        text = text.replace("duration: 600", "duration: 60").replace("replications: 5", "replications: 2")
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_example_is_printed_as_it_is_and_none_is_forgotten(capsys: pytest.CaptureFixture[str]) -> None:
    for name, file in EXAMPLES.items():
        assert run(["study", "--example", name]) == 0
        assert capsys.readouterr().out == (FOLDER / file).read_text(encoding="utf-8")
    worlds = {"sharing.yaml", "sharing-here.yaml"}  # of `meshwright share`
    assert {path.name for path in FOLDER.glob("*.yaml")} - worlds == set(EXAMPLES.values())
    assert run(["study", "--example"]) == 0
    assert capsys.readouterr().out.startswith("# How many devices")


@pytest.mark.parametrize("name", [n for n in EXAMPLES if n not in ("headroom", "llm", "sharing")])
def test_examples_load_at_full_length(name: str) -> None:
    study = studies.load(FOLDER / EXAMPLES[name])
    assert study.replications == 5
    assert list(study.planners) == ["alpaserve", "selective-replication"]


@pytest.mark.parametrize(
    ("name", "said"),
    [("sweep", "utilization (%)"), ("capacity", "needs"), ("breaks", "breaks first")],
)  # fmt: skip
def test_examples_run(name: str, said: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = EXAMPLES[name]
    assert run(["study", file, "--workers", "1", "--no-report"]) == 0
    out = capsys.readouterr().out
    assert said in out
    assert all(f"{planner} " in out for planner in ("alpaserve", "selective-replication"))


def test_the_llm_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (FOLDER / EXAMPLES["llm"]).read_text(encoding="utf-8")
    for whole, less in (
        ("requests: 2000", "requests: 200"),
        ("replications: 3", "replications: 2"),
        ("high: 8", "high: 2"),
    ):
        assert whole in text
        text = text.replace(whole, less)
    (tmp_path / "llm.yaml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert run(["study", "llm.yaml", "--workers", "1", "--no-report"]) == 0
    out = capsys.readouterr().out
    assert "fixed needs" in out
    assert "vllm needs" in out


def test_the_headroom_example_runs_on_what_its_first_lines_make(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ",".join(f"bert-1.3b-{i}" for i in range(12))
    text = (folder / "headroom.yaml").read_text(encoding="utf-8")
    made = "trace generate requests.csv --process maf1-like --rate 18 --duration 1800"
    planned = "plan --devices 10 --models bert-1.3b=12 --trace requests.csv --slo-scale 5 --out plan.json"
    assert made in text
    assert planned in text
    assert run([*made.replace("1800", "120").split(), "--models", names]) == 0
    assert run(planned.split()) == 0
    capsys.readouterr()
    assert run(["study", "headroom.yaml", "--workers", "1", "--no-report"]) == 0
    out = capsys.readouterr().out
    for what in ("the rate of today", "the CV of today", "the SLO of today"):
        assert "running plan bears" in out
        assert what in out


@pytest.mark.parametrize(("script", "said"), [("ask_tell.py", "cheapest: "), ("study_in_python.py", "mean attainment")])
def test_scripts_run(
    script: str, said: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["climb.sqlite"] if script == "ask_tell.py" else ["2"]
    monkeypatch.setattr(sys, "argv", [script, *words])
    runpy.run_path(str(folder / script), run_name="__main__")
    first = capsys.readouterr().out
    assert said in first
    if script == "ask_tell.py":  # a second climb finds everything in the store and says the same
        runpy.run_path(str(folder / script), run_name="__main__")
        assert capsys.readouterr().out == first
