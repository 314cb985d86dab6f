"""Each bad input that a user may give is one clear line and exit code 2, through every face that takes it."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from meshwright.cli import run
from meshwright.errors import InputError
from meshwright.planners.themis import Bid, Row, Themis
from meshwright.simulator.sharing import App, SharedCluster, SharingWorld, baseline, simulate
from meshwright.worlds.sharing.case import SharingCase
from meshwright.worlds.sharing.world import WORLD

RIGHT = {
    "cluster": "{machines: [{gpus: 4, count: 2}]}",
    "apps": "[{name: a, jobs: [{work: 100, gpus: 2}]}]",
}
BAD = {
    "a gang larger than the cluster": (
        {"apps": "[{name: a, jobs: [{work: 100, gpus: 16, gang: 9}]}]"},
        "apps[0].jobs[0].gang: a gang of 9 tasks is larger than the cluster of 8 GPUs",
    ),
    "f above 1": ({"f": "1.2"}, "options.fairness: should be less than or equal to 1 (got 1.2)"),
    "f below 0": ({"f": "-0.1"}, "options.fairness: should be greater than or equal to 0 (got -0.1)"),
    "f that is no number": ({"f": ".nan"}, "options.fairness: expected a finite number (got .nan)"),
    "negative work": (
        {"apps": "[{name: a, jobs: [{work: -5}]}]"},
        "apps[0].jobs[0].work: should be greater than 0 (got -5)",
    ),
    "a lease that is over at once": ({"lease": "1.0e-300"}, "lease: expected 0.001 s or more (got 1e-300 s)"),
    "a log that is not there": (
        {"apps": "", "workload": "{kind: philly, trace: nowhere}"},
        "workload.trace: nowhere: ",
    ),
}
FACES = {
    "simulate": ("world: sharing\n{}planners: [themis]\n", "simulate f.yaml"),
    "simulate --dry-run": ("world: sharing\n{}planners: [themis]\n", "simulate f.yaml --dry-run"),
    "plan": ("world: sharing\n{}planners: [themis]\n", "plan f.yaml --out o.json"),
    "export": ("world: sharing\n{}planners: [themis]\n", "export f.yaml --to kueue --out o"),
    "export --at": ("world: sharing\n{}planners: [themis]\n", "export f.yaml --to slurm --out o --at 1"),
    "study": ("study: 1\nworld: sharing\n{}planners: [themis]\naxes: {{seed: [0, 1]}}\n", "study f.yaml --out o"),
    "study --dry-run": ("study: 1\nworld: sharing\n{}planners: [themis]\n", "study f.yaml --dry-run"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _write(folder: Path, face: str, changed: dict[str, str]) -> list[str]:
    form, words = FACES[face]
    form = form.replace(
        "[themis]",
        f"[{{{{name: themis, options: {{{{fairness: {changed['f']}}}}}}}}}]" if "f" in changed else "[themis]",
    )
    body = "".join(f"{key}: {value}\n" for key, value in (RIGHT | changed).items() if value and key != "f")
    (folder / "f.yaml").write_text(form.format(body))
    return words.split()


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("what", BAD)
def test_it_is_one_line_through_every_face(
    folder: Path, capsys: pytest.CaptureFixture[str], what: str, face: str
) -> None:
    changed, said = BAD[what]
    assert run(_write(folder, face, changed)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith("meshwright: ")
    assert said in line
    assert sorted(p.name for p in folder.iterdir()) == ["f.yaml"]  # nothing is left behind


@pytest.mark.parametrize("face", ["simulate", "export --at"])
def test_an_app_that_does_not_end_names_the_key_to_raise(
    folder: Path, capsys: pytest.CaptureFixture[str], face: str
) -> None:
    assert run(_write(folder, face, {"max_time": "10"})) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("meshwright")]
    assert "app 'a': has not ended by 10 s under themis; raise max_time" in line


def test_an_app_that_does_not_end_fails_its_point_of_a_study_in_the_files_words(tmp_path: Path) -> None:
    apps = [{"name": "a", "jobs": [{"work": 100, "gpus": 2}]}]
    case = SharingCase.model_validate({"cluster": {"devices": 8}, "apps": apps, "max_time": 10.0})
    with pytest.raises(InputError, match="app 'a': has not ended by 10 s under themis; raise max_time"):
        WORLD.evaluate(case, WORLD.share([case], tmp_path))


CLUSTER = SharedCluster.uniform(2, 4)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: SharingWorld(CLUSTER, (App.single("a", 0, 9, gpus=16, gang=9),)), "a gang of 9 tasks is larger"),
        (lambda: Themis(fairness=1.2), r"in \[0, 1\]"),
        (lambda: Themis(fairness=math.nan), r"in \[0, 1\]"),
        (lambda: App.single("a", 0, -5), "negative or no work"),
        (lambda: SharingWorld(CLUSTER, (App.single("a", 0, 9),), lease_s=1e-300), "lease_s: expected seconds >= 0.001"),
        (lambda: SharingWorld(CLUSTER, (App.single("a", 0, 9),), lease_s=math.nan), "lease_s: expected seconds"),
        (
            lambda: simulate(SharingWorld(CLUSTER, (App.single("a", 0, 99),), max_s=10.0), baseline("fifo")),
            "has not ended by 10 s under fifo; raise max_s",
        ),
        (lambda: Bid(0, (Row(0, math.inf), Row(1, math.nan))), "expected a positive number or infinity"),
        (lambda: Bid(0, (Row(1, 1.0),)), "missing the empty allocation"),
    ],
)
def test_it_is_one_line_from_python(made: Callable[[], object], said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        made()
    assert "\n" not in str(caught.value)
