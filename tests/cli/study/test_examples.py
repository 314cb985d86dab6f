"""The study examples: what `--example` prints, and every file of them run, on shorter traffic."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest
from finished_study import check_finished
from meshwright import studies
from meshwright.cli import run
from meshwright.cli.study.examples import examples
from meshwright.worlds.registry import names, world

EXAMPLES = examples()
FOLDER = Path(__file__).resolve().parents[3] / "examples"


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
    worlds = {Path(file).name for name in names() for file in getattr(world(name), "examples", {}).values()}  # cases
    assert {path.name for path in FOLDER.glob("*.yaml")} - worlds == set(EXAMPLES.values())
    assert run(["study", "--example"]) == 0
    assert capsys.readouterr().out.startswith("# How many devices")


CUTS = {
    "capacity": {"duration: 600": "duration: 60", "replications: 5": "replications: 2"},
    "sweep": {"duration: 600": "duration: 60", "replications: 5": "replications: 2"},
    "breaks": {"duration: 600": "duration: 60", "replications: 5": "replications: 2"},
    "headroom": {"replications: 5": "replications: 2"},
    "llm": {"requests: 2000": "requests: 200", "replications: 3": "replications: 2", "high: 8": "high: 2"},
    "sharing": {"apps: 24": "apps: 3", "scale: 0.04": "scale: 0.01", "replications: 5": "replications: 2"},
    "training": {
        "model: gpt3-15b": "model: gpt3-350m",
        "global_batch: 256": "global_batch: 16",
        "slo: 25": "slo: 0.3",
        "devices: 16,": "devices: 8,",
        "devices: [8, 16, 32]": "devices: [4, 8]",
        "high: 64": "high: 16",
        "factors: [memory, links, speed, slo]": "factors: [links, slo]",
    },
}
"""What is made smaller in each example, so that it takes seconds: less traffic, fewer draws."""

SAYS = {
    "capacity": ["alpaserve needs", "selective-replication needs"],
    "sweep": ["utilization (%)"],
    "breaks": ["breaks first"],
    "headroom": ["running plan bears", "the rate of today", "the CV of today", "the SLO of today"],
    "llm": ["fixed needs", "vllm needs"],
    "sharing": ["attainment (%)", "max rho"],
    "training": ["search needs", "breaks first", "the SLO of today"],
}


def made_smaller(name: str) -> str:
    """The text of an example, cut; every cut must be there to be made."""
    text = (FOLDER / EXAMPLES[name]).read_text(encoding="utf-8")
    for whole, less in CUTS[name].items():
        assert whole in text
        text = text.replace(whole, less)
    return text


def make_headroom_files(text: str) -> None:
    """Run the two commands that the example's first lines print, on shorter traffic."""
    names = ",".join(f"bert-1.3b-{i}" for i in range(12))
    made = "trace generate requests.csv --process maf1-like --rate 18 --duration 1800"
    planned = "plan serving --devices 10 --models bert-1.3b=12 --trace requests.csv --slo-scale 5 --out plan.json"
    assert made in text
    assert planned in text
    assert run([*made.replace("1800", "120").split(), "--models", names]) == 0
    assert run(planned.split()) == 0


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_load_at_full_length(name: str) -> None:
    study = studies.load(FOLDER / EXAMPLES[name])
    assert study.replications >= (1 if name == "training" else 3)  # where nothing is drawn one is all
    assert len(study.planners) >= (1 if name == "headroom" else 2)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_is_finished(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = made_smaller(name)
    if name == "headroom":
        make_headroom_files(text)
    file = EXAMPLES[name]
    Path(file).write_text(text, encoding="utf-8")
    capsys.readouterr()
    assert run(["study", file, "--workers", "1"]) == 0
    printed = capsys.readouterr().out
    assert all(said in printed for said in SAYS[name]), printed
    check_finished(studies.load(file), tmp_path / f"{Path(file).stem}-out", printed)


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
