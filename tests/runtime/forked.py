"""Processes forked from one that has loaded torch and what workers need: each starts in milliseconds, not seconds.

The workers are as real as those that `subprocess` starts: a process each, with the same code, pipes and ends. What
differs is their parent, the fork server, which is a process of its own and lives until the tests end. Whoever tests how
processes are started, or what their environment does to Python, starts them as users do (tests/runtime/conftest.py).
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing import connection, forkserver, reduction
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

import pytest
from meshwright.runtime.children import ONE_THREAD, loopback
from meshwright.runtime.children import started as spawned

__all__ = ["FIRST", "fork_server", "forked", "ranks", "spawned", "warm_workers"]

LOADED = (
    "torch", "torch.distributed", "torch.distributed.tensor", "torch.distributed.pipelining",
    "meshwright.runtime.training.job", "meshwright.runtime.training.measure.job",
    "meshwright.runtime.training.measure.slices_job",
    "meshwright.profiles.measure.worker", "meshwright.runtime.serving.worker",
    "meshwright.runtime.llm.engine.processes.groups", "meshwright.runtime.llm.engine.runner",
)  # fmt: skip
"""What the fork server loads: all that workers import, so that none of them does."""

FIRST = "FORKED_PROCESSES_RUN_FIRST"
"""Variable that names a script which a forked process runs before all else, as Python does `sitecustomize`."""

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([*LOADED])


class Descriptor:
    """A descriptor that goes to the forked process with its arguments."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (reduction.DupFd(self.number),)


def _received(sent: Any) -> int:
    return sent.detach()


class Forked:
    """A forked process, with what users of `subprocess.Popen` ask of one (`meshwright.runtime.children.Started`)."""

    def __init__(self, process: ForkServerProcess) -> None:
        self._process, self._lock = process, threading.Lock()
        self.pid = process.pid or 0

    def poll(self) -> int | None:
        """How it ended, as `subprocess` says it; nothing while it lives."""
        with self._lock:  # the server says it once: two threads may not read it at once
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """The same, once it ended."""
        connection.wait([self._process.sentinel], timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0.0)
        return code

    def kill(self) -> None:
        if self.poll() is None:
            self._process.kill()


def fork_server() -> int | None:
    """The process that forks, once it runs: workers that live are its children."""
    return forkserver._forkserver._forkserver_pid


def _become(words: Sequence[str], environment: Mapping[str, str], printed: Descriptor | int, handed: Any) -> None:
    """In the forked process: run a module (or a script, by its path) as the main one."""
    os.setsid()
    assert isinstance(printed, int)
    for stream in (1, 2):
        os.dup2(printed, stream)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [words[0], *map(str, handed), *([str(os.getppid())] if handed else words[1:])]
    if FIRST in environment:
        runpy.run_path(environment[FIRST])
    if Path(words[0]).suffix == ".py":
        sys.path.insert(0, str(Path(words[0]).resolve().parent))
        runpy.run_path(words[0], run_name="__main__")
    else:
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)


def context() -> ForkServerContext:
    """In place of `multiprocessing`'s ways to start processes; the server runs, with one thread."""
    with pytest.MonkeyPatch.context() as changed:
        for name, value in (ONE_THREAD | loopback()).items():
            changed.setenv(name, value)
        forkserver.ensure_running()
    return _context


def _fork(words: Sequence[str], environment: Mapping[str, str], printed: int, handed: Sequence[int] = ()) -> Forked:
    arguments = (list(words), dict(environment), Descriptor(printed), [Descriptor(one) for one in handed])
    process = context().Process(target=_become, args=arguments)
    process.start()
    return Forked(process)


@contextmanager
def warm_workers() -> Iterator[None]:
    """Meanwhile all workers of runs and of measurements are forked."""
    from meshwright.profiles.measure import pool
    from meshwright.runtime import children

    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(children, "started", forked)
        changed.setattr(pool, "get_context", lambda method: context())
        yield


def forked(module: str, handed: tuple[int, int], printed: int, environment: Mapping[str, str]) -> Forked:
    """In place of `meshwright.runtime.children.started`."""
    return _fork([module], environment, printed, handed)


def ranks(script: Path, processes: int, arguments: Sequence[str], *, timeout_s: float = 120.0) -> str:
    """Run a script in as many processes as `torchrun --nproc-per-node` would start; what all of them printed."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = {"WORLD_SIZE": processes, "LOCAL_WORLD_SIZE": processes, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    started: list[Forked] = []
    here = Path.cwd()
    with tempfile.TemporaryFile() as printed:
        try:
            os.chdir(script.parent)
            for rank in range(processes):
                own = {name: str(x) for name, x in (common | {"RANK": rank, "LOCAL_RANK": rank}).items()}
                environment = os.environ | ONE_THREAD | loopback() | own
                started.append(_fork([str(script), *arguments], environment, printed.fileno()))
            codes = [process.wait(timeout_s) for process in started]
        finally:
            os.chdir(here)
            for process in started:
                process.kill()
        printed.seek(0)
        said = printed.read().decode(errors="replace")
    assert codes == [0] * processes, said[-3000:]
    return said
