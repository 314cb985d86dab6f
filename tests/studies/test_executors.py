"""One study, the same store byte for byte, on every executor and worker count; and executors that are not there."""

from __future__ import annotations

import importlib.metadata
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
from clusters import DaskCluster, RayCluster, free_port
from meshwright.errors import InputError, RunError
from meshwright.studies import Session, Study
from meshwright.studies.execution.executors import check_versions
from tiny_world import TINY, evaluated, tiny_study

SERVING = """
study: 1
name: small
cluster: {devices: 4}
models: S1
workload: {rate: 10, duration: 10}
planners: [round-robin, {name: dedicated, label: alone}]
axes:
  devices: [1, 2, 4, 8]
  cv: [1, 4]
replications: 2
"""


@pytest.fixture(scope="module")
def dask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    pytest.importorskip("distributed")
    with DaskCluster(tmp_path_factory.mktemp("dask"), workers=2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def ray() -> Iterator[RayCluster]:
    pytest.importorskip("ray")
    with RayCluster(cpus=2) as cluster:
        yield cluster


def serving(folder: Path) -> Study:
    return Study.from_text(SERVING, folder=folder)


def tiny(folder: Path) -> Study:
    """With failures, twins by replication, and points that are not there."""
    return tiny_study(folder, 40, replications=3, how="fail 7")


@pytest.fixture(scope="module", params=[serving, tiny], ids=["serving", "tiny"])
def reference(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, bytes]:
    folder = tmp_path_factory.mktemp("reference")
    study = request.param(folder)
    study.run(folder / "s")
    return study, (folder / "s").read_bytes()


def same(reference: tuple[Study, bytes], path: Path, **how: object) -> None:
    study, want = reference
    study.run(path, **how)
    assert path.read_bytes() == want
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_two_processes(reference: tuple[Study, bytes], tmp_path: Path) -> None:
    same(reference, tmp_path / "s", workers=2)


def test_threads_of_ones_own(reference: tuple[Study, bytes], tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        same(reference, tmp_path / "s", executor=pool)


def test_dask_with_two_workers(reference: tuple[Study, bytes], tmp_path: Path, dask: DaskCluster) -> None:
    same(reference, tmp_path / "s", executor=dask.name)


def test_ray(reference: tuple[Study, bytes], tmp_path: Path, ray: RayCluster) -> None:
    same(reference, tmp_path / "s", executor="ray")


def test_both_workers_of_a_cluster_work(tmp_path: Path, dask: DaskCluster, ray: RayCluster) -> None:
    for name in (dask.name, "ray"):
        folder = tmp_path / name.partition(":")[0]
        folder.mkdir()
        tiny_study(folder, 12, sleep=0.15).run(executor=name)
        assert len({pid for _, _, pid in evaluated(folder)}) == 2
        assert sorted(x for x, _, _ in evaluated(folder)) == list(range(12))


def test_shared_data_travel_to_a_strange_pool_only_where_they_are_missing(tmp_path: Path) -> None:
    study = tiny_study(tmp_path, 60)
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        sent: list[object] = []
        real = pool.submit
        pool.submit = lambda fn, cargo, *rest: (sent.append(cargo), real(fn, cargo, *rest))[1]  # type: ignore
        study.run(executor=pool)
    assert 1 <= sum(not isinstance(cargo, str) for cargo in sent) <= 3  # one at work, one at hand, one on the way
    assert sorted(x for x, _, _ in evaluated(tmp_path)) == list(range(60))


class Unsendable(type(TINY)):
    def share(self, cases: object, folder: Path) -> object:
        return lambda: None


def test_a_study_that_cannot_travel(tmp_path: Path) -> None:
    from dataclasses import replace

    study = replace(tiny_study(tmp_path, 3), world=Unsendable())
    with pytest.raises(InputError, match=r"cannot be sent to workers: .*; define its world and planners in a module"):
        Session.open(study, workers=2)


def test_a_script_without_a_guard(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from pathlib import Path\nfrom tiny_world import tiny_study\n"
        f"tiny_study(Path({str(tmp_path)!r}), 5).run(workers=2)\n"
    )
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 1
    assert "InputError: study: workers: the processes that it starts run this script anew" in ran.stderr
    assert 'if __name__ == "__main__":' in ran.stderr


@pytest.mark.parametrize(
    ("executor", "what"),
    [
        ("dask", "expected dask://HOST:PORT"),
        ("dask://", "expected dask://HOST:PORT"),
        ("dask://localhost", "expected dask://HOST:PORT"),
        ("dask://localhost:99999", "expected dask://HOST:PORT"),
        ("dask://localhost:1/x", "expected dask://HOST:PORT"),
        ("ray://", "expected ray://HOST:PORT"),
        ("ray://localhost:port", "expected ray://HOST:PORT"),
        ("proceses", "did you mean 'processes'? expected one of processes, dask://HOST:PORT, ray, ray://HOST:PORT"),
        ("tcp://localhost:8786", "expected one of processes, dask://HOST:PORT"),
        ("dask://no-such-host.invalid:8786", "nobody answers at dask://no-such-host.invalid:8786"),
    ],
)
def test_an_executor_that_is_none(tmp_path: Path, executor: str, what: str) -> None:
    with pytest.raises(InputError) as caught:
        Session.open(tiny_study(tmp_path, 3), executor=executor)
    assert what in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("workers", [0, -1, True])
def test_no_workers(tmp_path: Path, workers: int) -> None:
    with pytest.raises(InputError, match="workers: expected a whole number >= 1"):
        Session.open(tiny_study(tmp_path, 3), workers=workers)


@pytest.mark.parametrize("scheme", ["dask", "ray"])
def test_nobody_listens(tmp_path: Path, scheme: str) -> None:
    pytest.importorskip("distributed" if scheme == "dask" else "ray")
    with pytest.raises(InputError, match=rf"nobody answers at {scheme}://127.0.0.1:\d+: connection refused"):
        Session.open(tiny_study(tmp_path, 3), executor=f"{scheme}://127.0.0.1:{free_port()}")


def test_somebody_else_listens(tmp_path: Path) -> None:
    """Said in ten seconds; in processes of their own, since a cluster's client may go on trying in the background."""
    pytest.importorskip("distributed")
    pytest.importorskip("ray")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        names = [f"{scheme}://127.0.0.1:{silent.getsockname()[1]}" for scheme in ("dask", "ray")]
        driver = [sys.executable, str(Path(__file__).parent / "tiny_driver.py"), str(tmp_path)]
        drivers = [
            subprocess.Popen(
                [*driver, str(tmp_path / name[:3]), name, "1", "3", "0"], stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True,
            )
            for name in names
        ]  # fmt: skip
        for name, ran in zip(names, drivers, strict=True):
            out, err = ran.communicate(timeout=60)
            assert (ran.returncode, err) == (2, "")
            assert len(out.splitlines()) == 1
            assert f"answers at {name}" in out


@pytest.mark.parametrize(("module", "executor"), [("distributed", "dask://h:1"), ("ray", "ray"), ("ray", "ray://h:1")])
def test_an_extra_that_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, executor: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    extra = executor.partition(":")[0]
    with pytest.raises(InputError, match=rf"needs .*; pip install -e '\.\[{extra}\]'"):
        Session.open(tiny_study(tmp_path, 3), executor=executor)


def test_workers_without_this_version() -> None:
    ours = importlib.metadata.version("meshwright")
    check_versions("c", {"w1": ours})
    with pytest.raises(InputError, match=rf"c: worker w2 has meshwright 0.0.1, this is {ours}; install {ours} there"):
        check_versions("c", {"w1": ours, "w2": "0.0.1"})
    missing = importlib.metadata.PackageNotFoundError("meshwright")
    with pytest.raises(InputError, match=r"worker w1 \(and 1 more\) has no meshwright, this is"):
        check_versions("c", {"w1": missing, "w2": missing})


def test_a_dask_cluster_without_workers_and_with_an_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    old = tmp_path / "old" / "meshwright-0.0.1.dist-info"
    old.mkdir(parents=True)
    (old / "METADATA").write_text("Metadata-Version: 2.1\nName: meshwright\nVersion: 0.0.1\n")
    with DaskCluster(tmp_path, workers=0) as cluster:
        with monkeypatch.context() as patch:
            patch.setattr("meshwright.studies.execution.on_dask.JOIN_S", 0.5)
            with pytest.raises(InputError, match="has no workers; start some: dask worker"):
                Session.open(tiny_study(tmp_path, 3), executor=cluster.name)
        cluster.add_worker(path=str(tmp_path / "old"))
        with pytest.raises(InputError, match=r"worker tcp://\S+ has meshwright 0.0.1, this is"):
            Session.open(tiny_study(tmp_path, 3), executor=cluster.name)


def test_a_pool_of_ones_own_that_breaks_keeps_what_was_finished(tmp_path: Path) -> None:
    study = tiny_study(tmp_path, 6, how="die 4", sleep=0.06)
    with ProcessPoolExecutor(1, get_context("spawn")) as pool, pytest.raises(RunError, match="a worker died"):
        study.run(tmp_path / "s", executor=pool)
    (tmp_path / "mended").touch()
    study.run(tmp_path / "s")
    runs = [x for x, _, _ in evaluated(tmp_path)]
    assert runs.count(0) == 1
    assert runs.count(4) == 2
