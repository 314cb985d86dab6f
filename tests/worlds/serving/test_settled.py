"""The device type is the profile's where nobody says one: in the verb, in Python, in studies."""

from __future__ import annotations

import json
from pathlib import Path

import meshwright
import pytest
from meshwright import profiles, studies
from meshwright.cli import run
from meshwright.profiles import ModelProfile, ProfileSet
from meshwright.simulator import ParallelConfig
from meshwright.worlds.serving.case import ServingCase
from meshwright.worlds.serving.world import WORLD

PLAN = ["plan", "serving", "--devices", "2", "--models", "a=2", "--rate", "3", "--duration", "20"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a profile of this machine's cores."""
    one = ModelProfile.from_stages("a", {ParallelConfig(1, 1): {1: [0.1]}})
    profiles.save(ProfileSet("here", "cpu-core", {"a": one}, one.provenance), tmp_path / "here.json")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_verb_plans_on_the_profiles_device() -> None:
    assert run([*PLAN, "--profile", "here.json", "--out", "plan.json"]) == 0
    assert json.loads(Path("plan.json").read_text())["cluster"]["device"]["name"] == "cpu-core"


def test_what_is_said_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*PLAN, "--profile", "here.json", "--device", "v100-16gb"]) == 2
    assert "profile 'here' holds for 'cpu-core' (got 'v100-16gb')" in capsys.readouterr().err


def test_python_and_studies_do_so_too(tmp_path: Path) -> None:
    workload = {"rate": 3, "duration": 20}
    case = meshwright.case("serving", devices=2, models={"a": 2}, profile="here.json", workload=workload)
    assert case.plan(folder=tmp_path).file.cluster.device.name == "cpu-core"
    study = studies.Study.from_dict(
        {"study": 1, "cluster": {"devices": 2}, "models": {"a": 2}, "profile": "here.json", "workload": workload,
         "planners": ["alpaserve"]},
        tmp_path,
    )  # fmt: skip
    assert study.base.cluster.device == "cpu-core"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("more", "device"),
    [
        ({"profile": "here.json"}, "cpu-core"),
        ({"profile": {"cpu-core": "here.json"}}, "cpu-core"),
        ({"profile": {"cpu-core": "here.json", "v100-16gb": "alpaserve-v100"}}, "v100-16gb"),
        ({"profile": "here.json", "speed": {"v100-16gb": 2.0}}, "v100-16gb"),
        ({"profile": "nowhere.json"}, "v100-16gb"),
        ({}, "v100-16gb"),
    ],
)
def test_where_it_is_not_plain_the_usual_one_stays(more: dict[str, object], device: str, tmp_path: Path) -> None:
    case = ServingCase.model_validate({"cluster": {"devices": 2}, "workload": {"rate": 3}, **more})
    assert WORLD.settled(case, tmp_path).cluster.device == device
