"""Apps out of a cluster's job log: what belongs together, when it arrives, how much it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from meshwright.errors import InputError
from meshwright.simulator.sharing import (
    MODELS,
    AppOptions,
    SharedCluster,
    SharingWorld,
    apps_of_log,
    baseline,
    simulate,
)
from meshwright.simulator.sharing.workload.logs import grouped
from meshwright.traces import ClusterJob, ClusterLog, read_philly


def job(name: str, submit_s: float, gpus: int = 1, gpu_s: float = 100.0, **more: str) -> ClusterJob:
    at = {"user": "u", "group": "v", "ended": "done"} | more
    return ClusterJob(name, at["user"], at["group"], at["ended"], submit_s, submit_s, gpus, gpu_s)  # type: ignore[arg-type]


LOG = ClusterLog(
    "log",
    (
        job("a", 0.0),
        job("b", 1000.0, 2, 300.0),
        job("c", 1500.0, user="w"),
        job("d", 2000.0, group="z", ended="failed"),
        job("e", 3600.0),
        job("f", 3601.0),  # more than an hour after a: a new app
        job("g", 7000.0, user="w"),
    ),
    {},
)


@pytest.mark.parametrize(
    ("by", "window_s", "apps"),
    [
        ("user and group", 3600.0, ["abe", "c", "d", "f", "g"]),
        ("user", 3600.0, ["abde", "c", "f", "g"]),
        ("group", 3600.0, ["abce", "d", "fg"]),
        ("user and group", 0.0, ["a", "b", "c", "d", "e", "f", "g"]),
        ("user and group", 1e9, ["abef", "cg", "d"]),
        ("job", 1e9, ["a", "b", "c", "d", "e", "f", "g"]),
    ],
)
def test_grouping(by: str, window_s: float, apps: list[str]) -> None:
    made = grouped(LOG, by, window_s)  # type: ignore[arg-type]
    assert ["".join(j.name for j in app) for app in made] == apps


def test_apps_have_the_jobs_of_the_log() -> None:
    apps = apps_of_log(LOG, AppOptions(scale=0.5))
    assert [(a.name, a.arrival_s, a.total_work_s) for a in apps] == [
        ("a", 0.0, 250.0), ("c", 1500.0, 50.0), ("d", 2000.0, 50.0), ("f", 3601.0, 50.0), ("g", 7000.0, 50.0),
    ]  # fmt: skip
    assert [j.gpus for j in apps[0].jobs] == [1, 2, 1]
    assert all(j.gang == 1 for a in apps for j in a.jobs)
    assert [j.gang for j in apps_of_log(LOG, AppOptions(rigid=True))[0].jobs] == [1, 2, 1]
    assert all(a.slowdown == MODELS[a.model].slowdown for a in apps)


def test_a_snapshot_begins_at_zero() -> None:
    apps = apps_of_log(LOG, start_s=1500.0, stop_s=7000.0)
    assert [(a.name, a.arrival_s) for a in apps] == [("c", 0.0), ("d", 500.0), ("f", 2101.0)]


def test_only_jobs_that_ended_so() -> None:
    assert [a.name for a in apps_of_log(LOG, ended=("failed",))] == ["d"]
    with pytest.raises(InputError, match=r"log: no app arrives in \[0, inf\) s with jobs that are killed"):
        apps_of_log(LOG, ended=("killed",))


def test_models_are_drawn_and_errors_too() -> None:
    assert all(not MODELS[a.model].network_intensive for a in apps_of_log(LOG, AppOptions(network_intensive=0.0)))
    wrong = AppOptions(error=0.2)
    assert apps_of_log(LOG, wrong, seed=4) == apps_of_log(LOG, wrong, seed=4)
    assert any(a.believed_work != 1 for a in apps_of_log(LOG, wrong))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"by": "vc"}, "by: expected one of user and group, user, group, job"),
        ({"window_s": -1.0}, "window_s: expected seconds >= 0"),
    ],
)
def test_bad_options(options: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        apps_of_log(LOG, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"scale": 0.0}, "scale: expected a finite number > 0"),
        ({"scale": float("nan")}, "scale: expected a finite number > 0"),
        ({"error": 1.0}, "error: expected a share"),
        ({"network_intensive": 2.0}, "network_intensive: expected a share"),
    ],
)
def test_bad_options_of_apps(options: dict[str, float], says: str) -> None:
    with pytest.raises(InputError, match=says):
        AppOptions(**options)


def test_from_file_to_finish_times(tmp_path: Path) -> None:
    """One job of 4 GPUs for an hour, alone: it takes an hour and the container's start."""
    attempt = {"start_time": "2017-10-07 01:10:00", "end_time": "2017-10-07 02:10:00"}
    entry = {
        "status": "Pass", "vc": "v", "jobid": "j", "submitted_time": "2017-10-07 01:00:00", "user": "u",
        "attempts": [attempt | {"detail": [{"ip": "m", "gpus": ["gpu0", "gpu1", "gpu2", "gpu3"]}]}],
    }  # fmt: skip
    file = tmp_path / "cluster_job_log"
    file.write_text(json.dumps([entry]), encoding="utf-8")
    apps = apps_of_log(read_philly(file))
    world = SharingWorld(SharedCluster.uniform(1, 4), apps, container_s=35.0)
    assert simulate(world, baseline("fifo")).finish.tolist() == pytest.approx([3635.0])
