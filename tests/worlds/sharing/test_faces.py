"""The sharing world from Python, its plans as files, its help, and numbers that nobody means."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from meshwright.cli import run
from meshwright.errors import InputError
from meshwright.planners.themis import Outcome
from meshwright.simulator.sharing import SharingResult
from meshwright.worlds import faces, open_world
from meshwright.worlds.sharing.plan import SharingPlan

APPS = [{"name": name, "jobs": [{"work": 1000, "gpus": 2}]} for name in "ab"]
SAID = {
    "cluster": {"machines": [{"gpus": 2}]},
    "apps": APPS,
    "lease": 86400.0,
    "overheads": {"checkpoint": 0.0, "container": 0.0},
}
CASE = """\
world: sharing
cluster: {machines: [{gpus: 2}]}
apps: [{name: a, jobs: [{work: 1000, gpus: 2}]}, {name: b, jobs: [{work: 1000, gpus: 2}]}]
lease: 1 d
overheads: {checkpoint: 0, container: 0}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.yaml").write_text(CASE + "planners: [fifo, drf]\n")
    return tmp_path


def test_a_case_is_planned_simulated_kept_and_exported(folder: Path) -> None:
    plan = faces.case("sharing", planner="fifo", **SAID).plan()
    assert isinstance(plan.file, SharingPlan)
    assert plan.file.predicted == {}  # a policy that nobody compares costs nothing to take
    result = plan.simulate(engine="simpy")
    assert isinstance(result, SharingResult)
    assert result.rho == pytest.approx([0.5, 4 / 3])  # test_verb.py says why
    again = faces.load(plan.save("plan.json"))
    assert again.simulate(engine="simpy").rho == pytest.approx([0.5, 4 / 3])
    other = faces.case("sharing", planner="fifo", **{**SAID, "apps": APPS[:1]})
    assert again.simulate(other).rho == pytest.approx([1.0])
    assert Path("slurm/slurm.conf.part") in plan.export("slurm", "slurm")


def test_one_policy_is_planned_without_a_simulation(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from meshwright.worlds.sharing.doors import plan as door

    asked: list[object] = []
    monkeypatch.setattr(door, "simulate", lambda *words: asked.append(words))
    faces.case("sharing", planner="themis", **SAID).plan()
    assert run(["simulate", "c.yaml", "--engine", "simpy"]) == 0  # two plans, none of them simulated for its own sake
    assert asked == []


def test_of_several_the_fairest_is_the_plan(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "c.yaml", "--out", "p.json", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["best"] == "drf"
    assert [round(plan["predicted"]["max_rho"], 6) for plan in said["plans"]] == [1.333333, 1.0]
    assert SharingPlan.load("p.json").predicted["max_rho"] == pytest.approx(1)
    assert run(["simulate", "p.json", "--json", "--engine", "simpy"]) == 0
    (policy,) = json.loads(capsys.readouterr().out)["policies"]
    assert (policy["policy"], policy["max_rho"]) == ("drf", pytest.approx(1))


def test_a_plan_is_simulated_in_another_case(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "c.yaml", "--planner", "fifo", "--out", "p.json"]) == 0
    capsys.readouterr()
    words = ["--kind", "themis-1", "--workload-apps", "2", "--scale", "0.01", "--lease", "60", "--dry-run"]
    assert run(["simulate", "p.json", *words]) == 0
    out = capsys.readouterr().out
    assert "2 apps of" in out
    assert "lease 60 s" in out


def test_a_trace_of_a_plan_is_found_from_where_we_are(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "there").mkdir()
    (folder / "there/log.csv").write_text(
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
        "a,u,v,1,1,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:00,2020-04-01 01:00:00,3600,0\n"
    )
    said = "world: sharing\ncluster: {devices: 8}\nworkload: {kind: helios, trace: log.csv}\n"
    (folder / "there/c.yaml").write_text(said)
    assert run(["plan", "there/c.yaml", "--out", "p.json"]) == 0
    assert run(["simulate", "p.json", "--dry-run"]) == 0
    assert run(["simulate", "there/c.yaml", "--dry-run"]) == 0
    assert capsys.readouterr().out.count("1 apps of 1 jobs") == 2


def test_an_auction_needs_neither_case_nor_plan(folder: Path) -> None:
    bids = "world: sharing\ncluster: {devices: 2}\nbids: [{app: a, rows: [{gpus: 0, rho: 9}, {gpus: 2, rho: 1}]}]\n"
    (folder / "b.yaml").write_text(bids)
    answer = faces.answered(open_world("sharing"), "simulate", faces.Asked(()), {"bids": folder / "b.yaml"})
    assert isinstance(answer.value, Outcome)
    assert len(answer.value.gpus[0]) == 2


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ({"leese": 3}, "no field 'leese'; did you mean 'lease'"),
        ({"lease": "10 lightyears"}, "lease: expected seconds"),
        ({"planner": "themsi"}, "did you mean 'themis'"),
        ({"seed": -1}, "seed: should be greater than or equal to 0"),
        ({"cluster": {"devices": 10**12}}, "cluster.devices"),
    ],
)
def test_slips_in_python(said: dict[str, object], what: str) -> None:
    with pytest.raises(InputError, match=what):
        faces.case("sharing", **{**SAID, **said})


@pytest.mark.parametrize("verb", ["plan", "simulate", "run", "export"])
def test_help_is_one_screen(verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run([verb, "sharing", "--help"]) == 0
    said = capsys.readouterr().out
    assert len(said.splitlines()) < 60
    assert "--lease" in said
    assert run([verb, "sharing", "--help-all"]) == 0
    assert "--contention" in capsys.readouterr().out


def test_a_plan_of_another_world_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "c.yaml", "--planner", "fifo", "--out", "p.json"]) == 0
    capsys.readouterr()
    (folder / "llm.json").write_text(json.dumps({"kind": "meshwright/llm-plan"}))
    assert run(["simulate", "p.json", "llm.json"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "llm.json: is a plan of another world than p.json" in line


VALUES = ("1000000000000000000", "-1", "nan", "inf", "1e-18")
NUMBERS = ["--devices", "--devices-per-node", "--racks", "--contention", "--workload-apps", "--span", "--scale",
           "--rate-scale", "--lease", "--max-time", "--seed", "--checkpoint", "--container"]  # fmt: skip


@pytest.mark.parametrize("option", NUMBERS)
def test_a_number_that_nobody_means_ends_soon(option: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In one line, or checked and done: `--dry-run` builds all that a simulation begins with."""
    right = {"--devices": "2", "--kind": "themis-1", "--workload-apps": "1", "--scale": "0.01"}
    for value in VALUES:
        words = [word for pair in {**right, option: value}.items() for word in pair]
        code = run(["simulate", "sharing", *words, "--planner", "fifo", "--dry-run"])
        said = capsys.readouterr()
        assert code in (0, 2)
        assert "Traceback" not in said.err
        assert "internal error" not in said.err
        if code == 2:
            assert len([line for line in said.err.splitlines() if line.startswith("meshwright")]) == 1
