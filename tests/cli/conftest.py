"""A small world of right files, and what every refusal of the command line must look like."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from meshwright import profiles, traces
from meshwright.cli import run
from meshwright.errors import MeshwrightError
from meshwright.planners import alpaserve
from meshwright.profiles import ModelProfile, ParallelConfig, ProfileSet, Provenance
from meshwright.simulator import Cluster

ONE, PIPE = ParallelConfig(1, 1), ParallelConfig(1, 2)


def _model(name: str, weight_bytes: float) -> ModelProfile:
    return ModelProfile.from_stages(
        name,
        {ONE: {1: [0.4], 2: [0.6]}, PIPE: {1: [0.2, 0.2]}},
        weight_bytes={ONE: [weight_bytes], PIPE: [weight_bytes / 2] * 2},
    )


class World:
    """Right files in a folder: ``p.json`` (models a, b and big, which fits nowhere), ``plan.json``, ``t.csv``."""

    def __init__(self, folder: Path, known: ProfileSet) -> None:
        self.folder = folder
        self.profiles = known

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def changed(self, name: str, source: str, change: Callable[[Any], object]) -> Path:
        """A copy of a JSON file of the world with something changed in it."""
        document = json.loads((self.folder / source).read_text())
        change(document)
        return self.write(name, json.dumps(document, indent=1))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.chdir(tmp_path)
    weights = {"a": 3e9, "b": 3e9, "big": 60e9}
    known = ProfileSet("hand", "v100-16gb", {n: _model(n, w) for n, w in weights.items()}, Provenance("by hand"))
    profiles.save(known, tmp_path / "p.json")
    trace = traces.poisson(rate=2.0, duration=20.0, models=["a", "b"], slo=2.0)
    traces.write(trace, tmp_path / "t.csv")
    alpaserve.plan(Cluster(1, 2), ["a", "b"], trace, known).save(tmp_path / "plan.json")
    return World(tmp_path, known)


Refused = Callable[..., str]


@pytest.fixture
def refused(world: World, capsys: pytest.CaptureFixture[str]) -> Refused:
    """Run a command line that must be refused: the code, the parts of its message, and nothing else anywhere."""

    def check(words: str, *parts: str, code: int = 2, lines: int = 1) -> str:
        before = {p: p.lstat().st_mtime_ns for p in world.folder.rglob("*")}
        capsys.readouterr()
        found = run([word.replace("␣", " ") for word in words.split()])
        out, err = capsys.readouterr()
        assert (found, out) == (code, ""), err
        assert err.startswith("meshwright")
        assert err.count("\n") == lines, err
        for wrong in ("Traceback", "internal error"):
            assert wrong not in err
        for part in parts:
            assert part in err
        assert {p: p.lstat().st_mtime_ns for p in world.folder.rglob("*")} == before, "a file was made or changed"
        return err

    return check


@pytest.fixture
def raises() -> Callable[..., str]:
    """Call something that must raise an error of ours with these parts in its message."""

    def check(kind: type[MeshwrightError], call: Callable[[], object], *parts: str) -> str:
        with pytest.raises(kind) as caught:
            call()
        for part in parts:
            assert part in str(caught.value)
        return str(caught.value)

    return check
