"""What cannot end well is refused before anything is planned, in every world."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import meshwright
import pytest
import yaml
from meshwright.cli import run
from meshwright.cli.doors import command
from meshwright.errors import InputError
from meshwright.worlds.cases import example
from meshwright.worlds.door import Written
from meshwright.worlds.registry import names, open_world

WORLDS = names()
BY_PLANS = [(world, verb) for world in WORLDS for verb, door in open_world(world).doors.items() if door.needs_plan]
"""Doors that take plans: a case that is asked for instead is planned first."""


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """How many planners were asked, each time that somebody was; nobody plans."""
    asked: list[int] = []

    def count(subject: Any, cases: Any, *others: Any) -> Any:
        asked.append(len(cases))
        raise InputError("planning")

    monkeypatch.setattr(command, "_planned", count)
    monkeypatch.chdir(tmp_path)
    return asked


def case_file(name: str, **more: Any) -> str:
    """The world's sample as a file, with other fields."""
    world = open_world(name)
    said = {**yaml.safe_load(example(world, world.sample)), **more}
    if "planners" in more:
        said.pop("planner", None)
    Path("case.yaml").write_text(yaml.safe_dump(said))
    return "case.yaml"


def two(name: str) -> list[str]:
    """Two planners of a world."""
    return list(open_world(name).planners())[:2]


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("verb", ["run", "export"])
def test_doors_that_take_one_plan_plan_one(
    world: str, verb: str, planned: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    """Of several that a file lists the first; several that are named are refused. One world runs without planning."""
    where = ["--to", next(iter(open_world(world).exports)), "--out", "o"] if verb == "export" else []
    assert run([verb, case_file(world), "--planner", ",".join(two(world)), *where]) == 2
    assert f"--planner: {verb} takes one (got " in capsys.readouterr().err or (world, verb) not in BY_PLANS
    assert planned == []
    if (world, verb) in BY_PLANS:
        assert run([verb, case_file(world, planners=two(world)), *where]) == 2
        assert planned == [1], capsys.readouterr().err


@pytest.mark.parametrize(("world", "verb"), BY_PLANS)
def test_files_that_cannot_be_written_are_refused_first(
    world: str, verb: Any, planned: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    door, file = open_world(world).doors[verb], case_file(world)
    Path("folder.json").mkdir()
    options = [n for n, f in door.options.model_fields.items() if any(isinstance(m, Written) for m in f.metadata)]
    options += ["out"] if door.out and verb != "export" else []
    for name in options:
        assert run([verb, file, f"--{name}", "folder.json"]) == 2
        err = capsys.readouterr().err
        assert err == "meshwright: folder.json: expected a file to write (got a folder); give the name of a file\n"
    if verb == "export":
        for words, said in (([], "--to is missing"), (["--to", "nowhere"], "unknown target 'nowhere'"),
                            (["--to", next(iter(open_world(world).exports))], "--out is missing")):  # fmt: skip
            assert run([verb, file, *words]) == 2
            assert said in capsys.readouterr().err
    assert planned == []


@pytest.mark.parametrize("verb", ["simulate", "compare", "run", "export"])
def test_a_plan_that_is_named_twice_is_none_of_two(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(Path(meshwright.__file__).parent / "examples" / "plan.json", "a.json")
    where = ["--to", "k8s", "--out", "o"] if verb == "export" else []
    assert run([verb, "a.json", "a.json", *where]) == 2
    assert capsys.readouterr().err == "meshwright: a.json: is named twice; name each plan once\n"
    other = str(tmp_path / "a.json")
    assert run([verb, "a.json", other, *where]) == 2
    assert capsys.readouterr().err == f"meshwright: {other}: is named twice, as a.json before; name each plan once\n"


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("seed", ["-1", "9223372036854775808", "0.5", "nan"])
def test_seeds_are_bounded_alike(world: str, seed: str, planned: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", case_file(world), f"--seed={seed}"]) == 2
    err = capsys.readouterr().err
    assert re.search(
        r"seed: (should be greater than or equal to 0|should be a whole number|expected a whole number)", err
    ), err


@pytest.mark.parametrize(("world", "verb"), BY_PLANS)
def test_what_shows_one_plan_is_refused_for_two(
    world: str, verb: Any, planned: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    for name in open_world(world).doors[verb].shows_one:
        assert run([verb, case_file(world, planners=two(world)), f"--{name}", f"{name}.json"]) == 2
        assert f"{name}: shows one plan (got 2)" in capsys.readouterr().err
    assert planned == []
