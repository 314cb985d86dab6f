"""Interrupted work goes on: at most the points in flight are lost, none runs twice into the store, and what comes out
in the end is the same to the byte."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from clusters import HERE, DaskCluster
from meshwright.errors import RunError
from meshwright.studies import Session, Study
from meshwright.studies.execution.runner import DIED
from tiny_world import evaluated, tiny_study

POINTS = 24
SLEEP = 0.06
IN_FLIGHT = 5
"""Tasks of two workers: two at work, two at hand, one on the way; with points this long each is one point."""


def study_in(folder: Path, points: int = POINTS, sleep: float = SLEEP, **base: object) -> Study:
    folder.mkdir(exist_ok=True)
    return tiny_study(folder, points, sleep=sleep, **base)


@pytest.fixture(scope="module")
def want(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("want")
    study_in(folder).run(folder / "s")
    return (folder / "s").read_bytes()


def until(what: Callable[[], object], limit_s: float = 60) -> None:
    end = time.monotonic() + limit_s
    while not what():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def rows_in(store: Path) -> int:
    try:
        with closing(sqlite3.connect(store)) as db:
            return db.execute("SELECT count(*) FROM points").fetchone()[0]
    except sqlite3.Error:
        return 0


def start(folder: Path, executor: str, workers: int) -> subprocess.Popen[str]:
    """A driver in a process group of its own, as a terminal would have it."""
    driver = str(Path(__file__).parent / "tiny_driver.py")
    said = [str(folder), str(folder / "s"), executor, str(workers), str(POINTS), str(SLEEP)]
    return subprocess.Popen(
        [sys.executable, driver, *said], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def check_whole(folder: Path, want: bytes, lost: int) -> None:
    """The store is what an uninterrupted run gives, and no more points ran twice than were in flight."""
    assert (folder / "s").read_bytes() == want
    assert sorted(p.name for p in folder.glob("*s*") if p.name.startswith((".", "s"))) == ["s"]
    runs = Counter(x for x, _, _ in evaluated(folder))
    assert sorted(runs) == list(range(POINTS))
    assert sum(runs.values()) - POINTS <= lost


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c(tmp_path: Path, want: bytes, workers: int) -> None:
    driver = start(tmp_path, "processes", workers)
    until(lambda: rows_in(tmp_path / "s") >= 3)
    os.killpg(driver.pid, signal.SIGINT)  # Ctrl-C reaches the workers too; they leave it to the driver
    out, err = driver.communicate(timeout=60)
    assert (driver.returncode, err) == (130, "")
    kept = rows_in(tmp_path / "s")
    assert out == f"interrupted {kept}\n"
    assert 3 <= kept < POINTS
    until(lambda: not any(alive(pid) for _, _, pid in evaluated(tmp_path)))
    study_in(tmp_path).run(tmp_path / "s", workers=2)
    check_whole(tmp_path, want, lost=workers if workers == 1 else IN_FLIGHT)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_driver(tmp_path: Path, want: bytes, workers: int) -> None:
    driver = start(tmp_path, "processes", workers)
    until(lambda: rows_in(tmp_path / "s") >= 3)
    driver.kill()
    driver.communicate()
    until(lambda: not any(alive(pid) for _, _, pid in evaluated(tmp_path)))  # no orphan goes on
    assert 3 <= rows_in(tmp_path / "s") < POINTS
    study_in(tmp_path).run(tmp_path / "s", workers=2)
    check_whole(tmp_path, want, lost=IN_FLIGHT)


def test_a_killed_worker_process(tmp_path: Path, want: bytes) -> None:
    with Session.open(study_in(tmp_path), tmp_path / "s", workers=2) as session:
        killed = 0
        for i, _ in enumerate(session.evaluate(session.study.points())):
            if i == 4:
                killed = evaluated(tmp_path)[-1][2]
                os.kill(killed, signal.SIGKILL)
        assert session.facts.deaths
        assert all("signal 9: killed, out of memory?" in death for death in session.facts.deaths)
    assert len({pid for _, _, pid in evaluated(tmp_path)} - {killed}) == 2  # another took its place
    check_whole(tmp_path, want, lost=IN_FLIGHT)


def test_a_point_that_kills_its_worker_fails_and_can_be_tried_again(tmp_path: Path) -> None:
    study = study_in(tmp_path, points=12, sleep=0.0, how="die 5")
    frame = study.run(tmp_path / "s", workers=2)
    assert list(frame.index[frame["status"] == "failed"]) == [5]
    assert frame["error"][5] == DIED
    runs = Counter(x for x, _, _ in evaluated(tmp_path))
    assert runs.pop(5) == 3  # once with others, twice alone
    assert set(runs) == set(range(12)) - {5}
    before = len(evaluated(tmp_path))
    study.run(tmp_path / "s", workers=2)
    assert len(evaluated(tmp_path)) == before
    (tmp_path / "mended").touch()
    study.run(tmp_path / "s", workers=2, retry_failed=True)
    assert [x for x, _, _ in evaluated(tmp_path)[before:]] == [5]
    study.run(tmp_path / "fresh")
    assert (tmp_path / "s").read_bytes() == (tmp_path / "fresh").read_bytes()


def run_until_full(study: Study, store: Path, workers: int) -> None:
    with Session.open(study, store, workers=workers) as session:
        pages = session.store._db.execute("PRAGMA page_count").fetchone()[0]
        session.store._db.execute(f"PRAGMA max_page_count = {pages + 3}")
        session.run()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_full_disk(tmp_path: Path, workers: int) -> None:
    """SQLite's own limit on pages stands for the disk's."""
    study = study_in(tmp_path, points=200, sleep=0.0)
    with pytest.raises(RunError, match=r"disk full .*; \d+ points kept; free some space, then the same command goes"):
        run_until_full(study, tmp_path / "s", workers)
    kept = rows_in(tmp_path / "s")
    assert 3 <= kept < 200
    before = Counter(x for x, _, _ in evaluated(tmp_path))
    study.run(tmp_path / "s", workers=workers)
    after = Counter(x for x, _, _ in evaluated(tmp_path))
    assert sum((after - before).values()) == 200 - kept  # what was kept does not run again
    study.run(tmp_path / "fresh")
    assert (tmp_path / "s").read_bytes() == (tmp_path / "fresh").read_bytes()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mount = shutil.which("mount")
    if mount is None:
        pytest.skip("no mount command here")
    made = subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)], capture_output=True, text=True
    )
    if made.returncode:
        pytest.skip(f"a small file system cannot be mounted: {made.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_is_really_full(tmp_path: Path, small_disk: Path) -> None:
    study = study_in(tmp_path, points=3000, sleep=0.0, how="quiet")
    with pytest.raises(RunError, match=r"disk full \(.* bytes free\); \d+ points kept; free some space"):
        study.run(small_disk / "s", workers=2)
    subprocess.run(["mount", "-o", "remount,size=16m", str(small_disk)], check=True)
    assert 10 < rows_in(small_disk / "s") < 3000
    study.run(small_disk / "s", workers=2)
    study.run(tmp_path / "s")
    assert (small_disk / "s").read_bytes() == (tmp_path / "s").read_bytes()


def test_a_killed_dask_worker_and_one_that_joins_late(tmp_path: Path, want: bytes) -> None:
    """A whole worker goes, with its nanny; the other has its tasks again, and a third gets the data from it."""
    pytest.importorskip("distributed")
    place = tmp_path / "dask"
    place.mkdir()
    study = study_in(tmp_path)
    with (
        DaskCluster(place, workers=2) as cluster,
        Session.open(study, tmp_path / "s", executor=cluster.name) as session,
    ):
        for i, _ in enumerate(session.evaluate(study.points())):
            if i == 4:
                os.killpg(cluster.processes[1].pid, signal.SIGKILL)
                cluster.add_worker()
                os.killpg(cluster.processes[2].pid, signal.SIGKILL)  # now all that held the data are gone
        assert session.facts.evaluated == POINTS
    shutil.rmtree(place)
    check_whole(tmp_path, want, lost=2 * IN_FLIGHT)


def test_a_point_that_kills_its_dask_worker(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    place = tmp_path / "dask"
    place.mkdir()
    allowed = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}  # dask's own three tries take long
    with DaskCluster(place, workers=2, **allowed) as cluster:
        frame = study_in(tmp_path, points=12, sleep=0.0, how="die 5").run(tmp_path / "s", executor=cluster.name)
    assert list(frame.index[frame["status"] == "failed"]) == [5]
    assert frame["error"][5] == DIED


def test_a_killed_driver_of_a_dask_cluster(tmp_path: Path, want: bytes) -> None:
    pytest.importorskip("distributed")
    place = tmp_path / "dask"
    place.mkdir()
    with DaskCluster(place, workers=2) as cluster:
        driver = start(tmp_path, cluster.name, 1)
        until(lambda: rows_in(tmp_path / "s") >= 3)
        driver.kill()
        driver.communicate()
        study_in(tmp_path).run(tmp_path / "s", executor=cluster.name)
    shutil.rmtree(place)
    check_whole(tmp_path, want, lost=IN_FLIGHT)


def run_and_kill(study: Study, store: Path, cluster: DaskCluster) -> None:
    with Session.open(study, store, executor=cluster.name) as session:
        for i, _ in enumerate(session.evaluate(study.points())):
            if i == 4:
                os.killpg(cluster.processes[0].pid, signal.SIGKILL)


def test_a_dask_cluster_that_goes_away(tmp_path: Path, want: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("meshwright.studies.execution.on_dask.DESERTED_S", 5.0)
    place = tmp_path / "dask"
    place.mkdir()
    lost = pytest.raises(RunError, match=r"dask://.*; \d+ points kept, the same command goes on")
    with DaskCluster(place, workers=1) as cluster, lost:
        run_and_kill(study_in(tmp_path), tmp_path / "s", cluster)
    shutil.rmtree(place)
    study_in(tmp_path).run(tmp_path / "s")
    check_whole(tmp_path, want, lost=IN_FLIGHT)


def test_a_point_that_kills_its_ray_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a cluster that the study starts, and ends, itself; the same row as by a process pool."""
    ray = pytest.importorskip("ray")
    monkeypatch.setenv("PYTHONPATH", HERE)
    study = study_in(tmp_path, points=12, sleep=0.0, how="die 5")
    frame = study.run(tmp_path / "ray", executor="ray", workers=2)
    assert not ray.is_initialized()
    assert list(frame.index[frame["status"] == "failed"]) == [5]
    study.run(tmp_path / "s", workers=2)
    assert (tmp_path / "s").read_bytes() == (tmp_path / "ray").read_bytes()
