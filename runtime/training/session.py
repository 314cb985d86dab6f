"""`TrainingSession`: worker processes on this machine that run plans one after another.

It starts and pins them, sends every rank its job, waits for all answers, names the rank that failed first, and leaves
no process behind.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import select
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from ...errors import InputError, RunError, install_hint
from ..children import ONE_THREAD, SILENCE_S, Child, Children, loopback
from ..serving.protocol import receive_json, send_json

__all__ = ["RankFailure", "TrainingSession"]

GRACE_S = 0.5
"""After the first failure, how long to wait for further reports: a rank that dies makes its neighbours fail too, often
first, and the message should name the rank that died. The value is a guess: reports follow within milliseconds, and
users wait for it at every failure."""


@dataclass(frozen=True, slots=True)
class RankFailure:
    """What went wrong on one rank.

    Parameters
    ----------
    rank : int
        The rank.
    text : str
        The reason.
    gone : bool
        Whether the process ended.
    secondary : bool
        Whether the rank only noticed that another one did not answer.
    """

    rank: int
    text: str
    gone: bool = False
    secondary: bool = False


class TrainingSession:
    """Worker processes that run training jobs; a context manager that leaves no process behind.

    Each worker has one torch thread and, where there are as many cores as ranks, a core of its own. A worker also ends
    by itself when this process is gone (see `runtime.lifeline.die_with_parent`).

    Parameters
    ----------
    processes : int
        Number of ranks.
    timeout_s : float
        How long a rank waits for another at most, seconds; start-up may take as long, but a minute at least.
    cores : sequence of int, optional
        Core of each rank, as a position among the cores that this process may use; several ranks may share one.
    silence_s : float
        A rank that gives no sign of life for so many seconds (it is stopped, or hangs) is ended; the error names it.

    Raises
    ------
    InputError
        If torch is missing or an argument is wrong.
    RunError
        If a worker does not start.
    """

    def __init__(
        self, processes: int, *, timeout_s: float = 60.0, cores: Sequence[int] | None = None,
        silence_s: float = SILENCE_S,
    ) -> None:  # fmt: skip
        if importlib.util.find_spec("torch") is None:
            raise InputError(f"run: torch is not installed; running needs it: {install_hint('torch')}")
        if isinstance(processes, bool) or processes < 1:
            raise InputError(f"run: processes: expected a positive integer (got {processes!r})")
        if not (math.isfinite(timeout_s) and timeout_s > 0):
            raise InputError(f"run: timeout_s: expected finite positive seconds (got {timeout_s!r})")
        if cores is not None and (len(cores) != processes or min(cores) < 0):
            raise InputError(f"run: cores: expected one for each of {processes} processes (got {list(cores)})")
        self.processes, self.timeout_s, self.cores = processes, timeout_s, cores
        self._ranks: list[Child] = []
        self._children = Children("training", silence_s)
        self._jobs = 0
        self.broken = False

    @property
    def folder(self) -> Path:
        """Folder in which ranks save arrays; it is deleted when the session ends."""
        return self._children.folder

    def __enter__(self) -> TrainingSession:
        try:
            cores = _cores(self.processes, self.cores)
            for rank in range(self.processes):
                self._ranks.append(self._start(rank, cores[rank]))
            self._answers({}, "start-up")
            self._children.ready()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self, rank: int, core: int | None) -> Child:
        child = self._children.start(f"{__package__}.worker", f"rank-{rank}", ONE_THREAD | loopback())
        store = str(self.folder / "store")
        hello = {"rank": rank, "world": self.processes, "core": core, "store": store, "timeout_s": self.timeout_s}
        with contextlib.suppress(OSError):  # its end is noticed when it is awaited, with its last words
            send_json(child.pipe, hello)
        return child

    @property
    def pids(self) -> tuple[int, ...]:
        """Process id of each rank."""
        return tuple(rank.popen.pid for rank in self._ranks)

    def run(self, job: Mapping[str, Any], names: Mapping[int, str] | None = None) -> list[dict[str, Any]]:
        """Send every rank a job and wait for all answers; they are returned in order of rank.

        Parameters
        ----------
        job : mapping
            The job, in the form that `worker` reads; the session adds the folder for arrays.
        names : mapping, optional
            Rank -> what it does, for messages.

        Raises
        ------
        InputError
            If a rank found something wrong with the job.
        RunError
            If a rank died, failed or fell silent; the others are ended.
        """
        if self.broken:
            raise RunError("run: this session has failed before; start a new one")
        self._jobs += 1
        arrays = self.folder / f"job-{self._jobs}"
        arrays.mkdir()
        for rank in self._ranks:
            with contextlib.suppress(OSError):  # its end is noticed below, with its last words
                send_json(rank.pipe, {**job, "arrays": str(arrays)})
        return self._answers(names or {}, "the run")

    def _answers(self, names: Mapping[int, str], during: str) -> list[dict[str, Any]]:
        waiting = {rank.pipe: number for number, rank in enumerate(self._ranks)}
        answers: dict[int, dict[str, Any]] = {}
        failures: list[RankFailure] = []
        # However short the time-out, start-up has a minute (a guess): loading torch from a slow disk takes long. A run
        # has no limit of its own: ranks time out waiting for each other, and `Children` ends those that fall silent.
        give_up = time.monotonic() + max(60.0, self.timeout_s) if during == "start-up" else math.inf
        while waiting:
            left = None if math.isinf(give_up) else max(0.0, give_up - time.monotonic())
            ready, _, _ = select.select(list(waiting), [], [], left)
            if not ready:
                break
            for pipe in ready:
                number = waiting.pop(pipe)
                try:
                    answer: dict[str, Any] = receive_json(pipe)
                except (RunError, OSError):
                    failures.append(RankFailure(number, self._ranks[number].obituary(), gone=True))
                else:
                    if "error" in answer:
                        failures.append(RankFailure(number, answer["error"], secondary=answer["secondary"]))
                        if answer["input"]:
                            self._fail()
                            raise InputError(answer["error"])
                    answers[number] = answer
            if failures:  # at start-up, too: others wait at the rendezvous for whoever died
                give_up = min(give_up, time.monotonic() + GRACE_S)
        if failures or waiting:
            self._fail()
            raise RunError(_blame(failures, list(waiting.values()), names, during))
        return [answers[number] for number in range(self.processes)]

    def _fail(self) -> None:
        self.broken = True
        self.close()

    def close(self) -> None:
        """End all workers at once, and wait until they are gone."""
        self._ranks = []
        self.broken = True
        self._children.close()


def _blame(failures: list[RankFailure], silent: list[int], names: Mapping[int, str], during: str) -> str:
    """One line that blames one rank: one that died rather than one that raised, and that rather than a bystander."""
    if not failures:
        return f"run: no answer from rank {silent[0]} in time, during {during}"
    worst = min(failures, key=lambda failure: (not failure.gone, failure.secondary, failure.rank))
    what = f" ({names[worst.rank]})" if worst.rank in names else ""
    verb = "died" if worst.gone else "failed"
    return f"run: rank {worst.rank}{what} {verb} during {during}: {worst.text}"


def _cores(processes: int, asked: Sequence[int] | None = None) -> list[int | None]:
    """A core for each rank: the given ones, or one each where there are enough; else None, and the system schedules."""
    if not hasattr(os, "sched_getaffinity"):
        return [None] * processes
    mine = sorted(os.sched_getaffinity(0))
    if asked is not None:
        # Round again where there are fewer cores: a comparison that pins ranks still runs, if slower.
        return [mine[core % len(mine)] for core in asked]
    return [mine[rank] if processes <= len(mine) else None for rank in range(processes)]
