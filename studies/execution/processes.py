"""`Processes`: spawned worker processes as an executor that outlives the death of any of them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any

from ...compiling import TELLS, announce
from ...errors import RunError
from ...spawning import check_can_start
from .work import Cargo, hold

__all__ = ["Processes", "start_worker"]

THREADS = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)  # fmt: skip

_cargo: list[Cargo] = []
"""In a worker process: what it was started with."""


def start_worker(cargo: Cargo) -> None:
    """Get a worker process ready: it leaves Ctrl-C to the driver, and ends when the driver does, however that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    if os.environ.get(TELLS) == "1":
        announce()
    _cargo[:] = [cargo]


def unpack() -> None:
    """In a worker process: unpack what it was started with; asked by a task, whose errors are heard."""
    hold(_cargo[0])


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


@dataclass
class _Worker:
    """One process, in a pool of its own, so that its death is nobody else's."""

    pool: ProcessPoolExecutor
    process: BaseProcess | None = None
    ready: Future[None] | None = None
    tasks: set[Future[Any]] = field(default_factory=set[Future[Any]])


class Processes(Executor):
    """Worker processes by ``spawn``, one thread each for BLAS and numba; started when there is work for them.

    A process that dies fails the tasks that were sent to it and no others; the next task finds a new one.
    """

    def __init__(self, count: int, initializer: Callable[..., None], initargs: tuple[Any, ...]) -> None:
        self._start_with = (initializer, initargs)
        self._workers: list[_Worker | None] = [None] * count
        self._owner: dict[Future[Any], _Worker] = {}

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Send a task to the process that has the fewest."""
        for worker in self._workers:
            if worker is not None:
                worker.tasks = {t for t in worker.tasks if not t.done()}
        loads = [0 if w is None else len(w.tasks) for w in self._workers]
        slot = loads.index(min(loads))
        for _ in range(10):
            worker = self._workers[slot] or self._start(slot)
            try:
                future = worker.pool.submit(fn, *args, **kwargs)
            except BrokenExecutor:  # died since
                self._check_started(worker)
                worker.pool.shutdown(wait=False)
                self._workers[slot] = None
            else:
                worker.tasks.add(future)
                self._owner[future] = worker
                future.add_done_callback(self._forget)
                return future
        raise RunError("processes: workers die faster than they start; see whether memory is short")

    def _forget(self, future: Future[Any]) -> None:
        if future.cancelled() or future.exception() is None:
            self._owner.pop(future, None)

    def _start(self, slot: int) -> _Worker:
        check_can_start("study: workers")
        initializer, initargs = self._start_with
        pool = ProcessPoolExecutor(
            1, mp_context=multiprocessing.get_context("spawn"), initializer=initializer, initargs=initargs
        )
        worker = self._workers[slot] = _Worker(pool)
        before = set(multiprocessing.active_children())
        with _for_children(first=slot == 0):
            worker.ready = pool.submit(unpack)
        started = set(multiprocessing.active_children()) - before
        worker.process = started.pop() if started else None
        return worker

    def died(self, future: Future[Any], error: BaseException) -> str:
        """How the process of a task died, in words; empty if it did not.

        Raises
        ------
        RunError
            If it never began to work.
        """
        worker = self._owner.pop(future, None)
        if worker is None or not isinstance(error, BrokenExecutor):
            return ""
        self._check_started(worker)
        return f"worker process died{_how(worker.process)}"

    def _check_started(self, worker: _Worker) -> None:
        ready = worker.ready
        if ready is not None and ready.done() and not ready.cancelled() and (error := ready.exception()):
            if isinstance(error, BrokenExecutor):
                raise RunError(f"processes: a worker process cannot start{_how(worker.process)}")
            raise RunError(f"processes: the study cannot be read in a worker: {type(error).__name__}: {error}")

    def close(self, at_once: bool) -> None:
        """End the processes; `at_once`: in the middle of their work."""
        for worker in self._workers:
            if worker is not None and at_once and worker.process is not None:
                worker.process.kill()
        for worker in self._workers:
            if worker is not None:
                worker.pool.shutdown(wait=True, cancel_futures=True)
        self._workers = [None] * len(self._workers)


def _how(process: BaseProcess | None) -> str:
    """How a process ended, in parentheses."""
    if process is None:
        return ""
    for _ in range(20):
        process.join(0.1)  # another thread may be collecting it
        code = process.exitcode
        if code is not None:
            break
    else:
        return ""
    if code == -signal.SIGKILL:
        return " (signal 9: killed, out of memory?)"
    if code < 0:
        return f" (signal {-code}: {(signal.strsignal(-code) or 'unknown').lower()})"
    return f" (exit code {code})"


@contextmanager
def _for_children(first: bool) -> Generator[None, None, None]:
    """What processes inherit that start in the block: one thread for BLAS and numba, and Ctrl-C waits outside."""
    before = {name: os.environ.get(name) for name in (*THREADS, TELLS)}
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if hasattr(signal, "pthread_sigmask") else None
    os.environ.update(dict.fromkeys(THREADS, "1") | ({} if first else {TELLS: "0"}))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if blocked is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
