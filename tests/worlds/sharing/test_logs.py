"""Job logs through `meshwright simulate`: the same four jobs as Philly, Helios and Alibaba write them down."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from meshwright import studies
from meshwright.cli import run
from meshwright.studies.execution.work import Cargo, Shared
from meshwright.worlds.sharing.world import WORLD

# The jobs: a, of 2 GPUs for an hour; b, of 1 GPU for half an hour, by the same user half an hour after a; c, of 1 GPU
# for 10 minutes, by another user two hours after a, which failed; d, without GPUs.
HELIOS = """\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
a,u1,vc1,2,8,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:10:00,2020-04-01 01:10:00,3600,600
b,u1,vc1,1,4,1,COMPLETED,2020-04-01 00:30:00,2020-04-01 00:30:00,2020-04-01 01:00:00,1800,0
c,u2,vc1,1,4,1,FAILED,2020-04-01 02:00:00,2020-04-01 02:00:00,2020-04-01 02:10:00,600,0
d,u2,vc1,0,4,1,COMPLETED,2020-04-01 02:00:00,2020-04-01 02:00:00,2020-04-01 02:10:00,600,0
"""


def _philly(name: str, user: str, status: str, submitted: str, start: str, end: str, gpus: int) -> dict[str, Any]:
    detail = [{"ip": "m1", "gpus": [f"gpu{k}" for k in range(gpus)]}]
    attempt = {"start_time": f"2017-10-07 {start}", "end_time": f"2017-10-07 {end}", "detail": detail}
    return {
        "status": status, "vc": "vc1", "jobid": name, "user": user, "submitted_time": f"2017-10-07 {submitted}",
        "attempts": [attempt] if gpus else [],
    }  # fmt: skip


PHILLY = json.dumps(
    [
        _philly("a", "u1", "Pass", "00:00:00", "00:10:00", "01:10:00", 2),
        _philly("b", "u1", "Pass", "00:30:00", "00:30:00", "01:00:00", 1),
        _philly("c", "u2", "Failed", "02:00:00", "02:00:00", "02:10:00", 1),
        _philly("d", "u2", "Pass", "02:00:00", "02:00:00", "02:10:00", 0),
    ]
)
# Alibaba's tables come without headers; a's two GPUs are four halves. Times are seconds, 0 for none.
ALIBABA_JOBS = """\
a,i1,u1,Terminated,86400,90600
b,i2,u1,Terminated,88200,90000
c,i3,u2,Failed,93600,94200
d,i4,u2,Terminated,93600,94200
"""
ALIBABA_TASKS = """\
a,worker,4,Terminated,87000,90600,600,29,50,V100
b,worker,1,Terminated,88200,90000,600,29,100,V100
c,worker,1,Failed,93600,94200,600,29,100,V100
d,ps,1,Terminated,93600,94200,600,29,,CPU
"""
# Of a's four instances one ran half as long, and one is not there: 3600 + 3600 + 1800 seconds of half a GPU.
ALIBABA_INSTANCES = """\
a,worker,n1,w1,i1,Terminated,87000,90600,m1
a,worker,n2,w2,i1,Terminated,87000,90600,m1
a,worker,n3,w3,i1,Terminated,87000,88800,m2
b,worker,n4,w4,i2,Terminated,88200,90000,m2
c,worker,n5,w5,i3,Failed,93600,94200,m2
"""
WORLD_FILE = """\
world: sharing
cluster: {machines: [{gpus: 4}]}
workload: {WORKLOAD}
overheads: {checkpoint: 0, container: 0}
planners: [fifo]
"""
KINDS = {
    "helios": "kind: helios, trace: cluster_log.csv",
    "philly": "kind: philly, trace: cluster_job_log",
    "alibaba": "kind: alibaba, trace: jobs.csv, trace_tasks: tasks.csv",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    files = {
        "cluster_log.csv": HELIOS, "cluster_job_log": PHILLY, "jobs.csv": ALIBABA_JOBS, "tasks.csv": ALIBABA_TASKS,
        "instances.csv": ALIBABA_INSTANCES,
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def _share(capsys: pytest.CaptureFixture[str], workload: str, *words: str) -> Any:
    Path("w.yaml").write_text(WORLD_FILE.replace("WORKLOAD", workload))
    assert run(["simulate", "w.yaml", "--json", "--engine", "simpy", *words]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_jobs_from_each_log(folder: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    said = _share(capsys, KINDS[kind])
    # a and b are one app, which is there from the first of them on: 3600 s of 2 GPUs beside 1800 s of 1. c comes 7200 s
    # later. Nobody waits; jobs sit on one machine, where no model of Table 4 is slower.
    rows = [(app["app"], app["jobs"], app["arrival_s"], app["jct_s"]) for app in said["policies"][0]["per_app"]]
    assert rows == [("a", 2, 0, pytest.approx(3600)), ("c", 1, 7200, pytest.approx(600))]
    assert [app["gpu_s"] for app in said["policies"][0]["per_app"]] == pytest.approx([2 * 3600 + 1800, 600])
    assert "3 jobs in 0.1 days" in said["log"]
    assert "left out: 1" in said["log"]


@pytest.mark.parametrize(
    ("more", "apps"),
    [
        ("by: job", [("a", 0, 1), ("b", 1800, 1), ("c", 7200, 1)]),
        ("by: group, window: 2 h", [("a", 0, 3)]),
        ("window: 20 min", [("a", 0, 1), ("b", 1800, 1), ("c", 7200, 1)]),
        ("ended: [failed]", [("c", 0, 1)]),
        ("start: 20 min", [("c", 0, 1)]),
        ("start: 20 min, by: user, window: 0", [("b", 0, 1), ("c", 5400, 1)]),
        ("stop: 2 h", [("a", 0, 2)]),
        ("apps: 1", [("a", 0, 2)]),
        ("rate_scale: 2", [("a", 0, 2), ("c", 3600, 1)]),
    ],
)
def test_which_jobs_make_up_an_app(
    folder: Path, capsys: pytest.CaptureFixture[str], more: str, apps: list[tuple[str, float, int]]
) -> None:
    said = _share(capsys, f"{KINDS['helios']}, {more}")
    assert [(a["app"], a["arrival_s"], a["jobs"]) for a in said["policies"][0]["per_app"]] == apps


def test_scale_rigid_and_instances(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (half, _) = _share(capsys, f"{KINDS['alibaba']}, scale: 0.5")["policies"][0]["per_app"]
    assert half["jct_s"] == pytest.approx(1800)
    said = _share(capsys, f"{KINDS['alibaba']}, trace_instances: instances.csv")["policies"][0]["per_app"]
    assert said[0]["gpu_s"] == pytest.approx(0.5 * (3600 + 3600 + 1800) + 1800)
    # On one GPU a job of two goes on, and one that needs both never runs.
    Path("w.yaml").write_text(
        WORLD_FILE.replace("WORKLOAD", f"{KINDS['helios']}, rigid: true").replace("gpus: 4", "gpus: 1")
    )
    assert run(["simulate", "w.yaml"]) == 2
    assert "a gang of 2 tasks is larger than the cluster of 1 GPUs" in capsys.readouterr().err


def test_the_table_says_what_was_left_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("w.yaml").write_text(WORLD_FILE.replace("WORKLOAD", KINDS["philly"]))
    assert run(["simulate", "w.yaml", "--dry-run"]) == 0
    assert "cluster_job_log: 3 jobs in 0.1 days, 0.1 GPU days; left out: 1 jobs that never ran" in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("workload", "lines"),
    [
        ("kind: helios, trace: nowhere.csv", ["w.yaml:3: workload.trace: nowhere.csv: No such file"]),
        ("kind: philly, trace: cluster_log.csv", ["w.yaml:3: workload.trace: cluster_log.csv:1:1: is no JSON"]),
        ("kind: helios, trace: wrong.csv", ["column 'gpu_num' must be a whole number", "column 'state' must be"]),
        ("kind: helios", ["w.yaml:3: workload.trace: is missing; helios is read from a file"]),
        ("kind: alibaba, trace: jobs.csv", ["workload.trace_tasks: is for alibaba, which needs it"]),
        (KINDS["helios"] + ", trace_instances: i.csv", ["trace_instances: is for alibaba (got helios)"]),
        ("kind: themis-1, by: user", ["by: chooses jobs of a trace, and themis-1 is drawn; leave it out"]),
        (KINDS["helios"] + ", stop: 1 h, start: 2 h", ["stop: expected a time after start, 7200 s (got 3600 s)"]),
        (KINDS["helios"] + ", ended: [killed]", ["no app arrives in [0, inf) s with jobs that are killed"]),
        (KINDS["helios"] + ", ended: [won]", ["workload.ended[0]", "'done', 'failed' or 'killed'", "'won'"]),
        (KINDS["helios"] + ", by: month", ["workload.by", "'user and group'", "'month'"]),
        (KINDS["helios"] + ", span: 3 d", ["span: shapes drawn workloads, and helios is a trace; leave it out"]),
    ],
)  # fmt: skip
def test_a_slip_is_told_by_its_place(
    folder: Path, capsys: pytest.CaptureFixture[str], workload: str, lines: list[str]
) -> None:
    Path("wrong.csv").write_text(HELIOS.replace("vc1,2,8", "vc1,-2,8").replace("FAILED", "LOST"))
    Path("w.yaml").write_text(WORLD_FILE.replace("WORKLOAD", workload))
    assert run(["simulate", "w.yaml"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    assert len(err.splitlines()) == (2 if "wrong.csv" in workload else 1), err
    for part in lines:
        assert part in err


STUDY = """\
study: 1
world: sharing
cluster: {machines: [{gpus: 4}]}
workload: {kind: philly, trace: cluster_job_log}
overheads: {checkpoint: 0, container: 0}
planners: [fifo]
axes: {window: [0, 1 h]}
"""


def test_a_study_reads_a_log_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("s.yaml").write_text(STUDY)
    study = studies.load("s.yaml")
    data = study.world.share(study.reach(), study.folder)
    (folder / "cluster_job_log").unlink()  # what points need came with the data
    jobs = {}
    for case in study.reach():
        found = WORLD.evaluate(case, data)
        assert found.status == "ok"
        jobs[case.workload.window] = found.metrics["completed"]
    assert jobs == {0: 3, 3600: 2}
    assert Cargo.of(Shared(study, data)).packed  # it can be sent to workers


PAGE = (Path(__file__).resolve().parents[3] / "docs/sharing-workloads.md").read_text(encoding="utf-8")


def test_cases_of_the_page_are_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the hand-made logs under the names of the page; an old job makes the Philly log begin 31 days earlier."""
    old = _philly("old", "u9", "Pass", "00:00:00", "00:00:00", "01:00:00", 1)
    (folder / "cluster_job_log").write_text(
        json.dumps([*json.loads(PHILLY), json.loads(json.dumps(old).replace("2017-10-07", "2017-09-06"))])
    )
    for ours, theirs in (("jobs", "job"), ("tasks", "task"), ("instances", "instance")):
        (folder / f"{ours}.csv").rename(folder / f"pai_{theirs}_table.csv")
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    said = {}
    for block in blocks:
        Path("w.yaml").write_text(block)
        assert run(["simulate", "w.yaml", "--dry-run"]) == 0
        said[re.findall(r"kind: (\w+)", block)[0]] = capsys.readouterr().out.splitlines()
    apps = {kind: lines[0].split(" racks, ")[1].partition(", lease")[0] for kind, lines in said.items()}
    # Of Philly's three jobs in the two weeks c is left out: it failed. By job, every job is an app.
    assert apps == {"philly": "1 apps of 2 jobs", "helios": "3 apps of 3 jobs", "alibaba": "2 apps of 3 jobs"}
    assert f"\n{said['helios'][1]}\n" in PAGE
