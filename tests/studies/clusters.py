"""A dask scheduler with workers, and a Ray cluster, on this machine; every process ends with the block."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = str(Path(__file__).parent)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class DaskCluster:
    """A real scheduler and real workers, each a process group of its own."""

    def __init__(self, folder: Path, workers: int, **environment: str) -> None:
        self.folder = folder
        self.environment = environment
        self.processes: list[subprocess.Popen[bytes]] = []
        self.count = workers

    def __enter__(self) -> DaskCluster:
        self.port = free_port()
        self.name = f"dask://127.0.0.1:{self.port}"
        self._start("scheduler", "--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard")
        try:
            self._wait_for(0, "Scheduler at")
            for _ in range(self.count):
                self.add_worker()
        except BaseException:
            self.__exit__()
            raise
        return self

    def add_worker(self, path: str = "") -> int:
        """Start a worker process under its nanny and wait until it has joined; gives its place in `processes`."""
        self._start(
            "worker", f"tcp://127.0.0.1:{self.port}", "--host", "127.0.0.1", "--nthreads", "1", "--no-dashboard",
            "--local-directory", str(self.folder), path=path,
        )  # fmt: skip
        self._wait_for(len(self.processes) - 1, "Registered to")
        return len(self.processes) - 1

    def _start(self, role: str, *options: str, path: str = "") -> None:
        paths = os.pathsep.join(filter(None, (path, HERE, os.environ.get("PYTHONPATH"))))
        with self._log(len(self.processes)).open("wb") as log:
            self.processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", "distributed.cli.dask_" + role, *options], stdout=log, stderr=log,
                    env={**os.environ, "PYTHONPATH": paths, **self.environment}, start_new_session=True,
                    cwd=self.folder,
                )
            )  # fmt: skip

    def _log(self, i: int) -> Path:
        return self.folder / f"dask-{i}.log"

    def _wait_for(self, i: int, words: str) -> None:
        end = time.monotonic() + 60
        while not re.search(words, self._log(i).read_text(errors="replace")):
            if time.monotonic() > end or self.processes[i].poll() is not None:
                raise RuntimeError(f"dask did not start: {self._log(i).read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)

    def __exit__(self, *_: object) -> None:
        for process in reversed(self.processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class RayCluster:
    """Ray in this process, which studies find running."""

    def __init__(self, cpus: int) -> None:
        self.cpus = cpus

    def __enter__(self) -> RayCluster:
        import ray

        self.ray: Any = ray
        self.path = os.environ.get("PYTHONPATH")
        # Its processes inherit this. An environment of the job's own (`runtime_env`) would cost twice the processes:
        # the workers that Ray starts ahead do not have it, so that each is started again.
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (HERE, self.path)))
        ray.init("local", num_cpus=self.cpus, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        return self

    def __exit__(self, *_: object) -> None:
        self.ray.shutdown()
        if self.path is None:
            os.environ.pop("PYTHONPATH", None)
        else:
            os.environ["PYTHONPATH"] = self.path
