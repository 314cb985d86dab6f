"""Many figures at a time, in processes of their own; what a folder has already is not made again."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence, Set
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import wait as wait_for
from pathlib import Path

from ..errors import InputError, MeshwrightError, RunError
from ..spawning import check_can_start, check_workers
from .made import Made, of_report, read

__all__ = ["Batch", "Failed", "following", "make", "paper_of"]


@dataclass(frozen=True)
class Batch:
    """Figures to make, and how.

    Parameters
    ----------
    names : tuple of str
        Keys of `FIGURES`.
    fast : bool
        The short versions.
    out : Path
        Folder to write to.
    seed : int
        Seed of everything random.
    workers : int
        Processes at a time, >= 1.
    """

    names: tuple[str, ...]
    fast: bool
    out: Path
    seed: int = 0
    workers: int = 1

    def __post_init__(self) -> None:
        check_workers(self.workers)
        if not self.names:
            raise InputError("reproduce: expected figures to make (got none)")

    def held(self) -> dict[str, Made]:
        """What the folder has already, of this version and by the rules as they are."""
        found = {name: read(self.out, name) for name in self.names}
        return {name: one for name, one in found.items() if one is not None and one.current(self.fast, self.seed)}


@dataclass(frozen=True)
class Failed:
    """A figure that could not be made, and why."""

    name: str
    why: str


def make(batch: Batch, names: Sequence[str], say: Callable[[str], None]) -> Iterator[Made | Failed]:
    """Make some of a batch's figures; each is handed over when it is ready.

    Parameters
    ----------
    batch : Batch
        How they are made, and by how many processes.
    names : sequence of str
        Which ones.
    say : callable
        Told what is under way.

    Raises
    ------
    InputError
        If the calling script has no main guard.
    RunError
        If a process died: what is ready stays, and the next call goes on from there.
    """
    check_can_start("reproduce: workers")
    one = partial(_one, fast=batch.fast, out=batch.out, seed=batch.seed)
    spawn = multiprocessing.get_context("spawn")
    lanes = [
        ProcessPoolExecutor(1, mp_context=spawn, initializer=_begin) for _ in range(min(batch.workers, len(names)))
    ]
    others = set(multiprocessing.active_children())
    todo, running = list(names), dict[Future[Made | Failed], tuple[str, int]]()
    papers: list[str | None] = [None] * len(lanes)
    try:
        while True:
            for lane in sorted(set(range(len(lanes))) - {lane for _, lane in running.values()}):
                if todo:
                    name = following(todo, papers[lane], {p for k, p in enumerate(papers) if k != lane and p})
                    todo.remove(name)
                    papers[lane] = paper_of(name)
                    running[lanes[lane].submit(one, name)] = name, lane
            if not running:
                return
            say(", ".join(name for name, _ in running.values()))
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                name, _ = running.pop(future)
                try:
                    found = future.result()
                except BrokenProcessPool:
                    raise RunError(
                        f"reproduce: the process of {name} died; the same command goes on from there"
                    ) from None
                yield found
    finally:
        if running:  # interrupted: it ends now, not when the figures under way are done
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
        for lane in lanes:
            lane.shutdown(cancel_futures=True)


def paper_of(name: str) -> str:
    """The paper of a figure, by its key in `FIGURES`."""
    return name.partition("/")[0]


def following(todo: Sequence[str], mine: str | None, others: Set[str]) -> str:
    """The next figure for a process.

    A paper's figures show the same points, which a process keeps: so it stays with a paper until that has none left,
    then opens the first paper that nobody is at, and helps with another's only where there is none.

    Parameters
    ----------
    todo : sequence of str
        Figures that nobody has; at least one.
    mine : str, optional
        The paper of the process's last figure.
    others : set of str
        Papers of the other processes' last figures.
    """
    return min(todo, key=lambda name: (paper_of(name) != mine, paper_of(name) in others))


def _begin() -> None:
    """In a worker: Ctrl-C is the driver's, and the worker ends when the driver does, however that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait_for([sentinel])
    os._exit(1)


def _one(name: str, *, fast: bool, out: Path, seed: int) -> Made | Failed:
    """In a worker: one figure. An error of ours is that figure's; any other is a bug, and is raised."""
    from .figures import reproduce

    try:
        return of_report(reproduce(name, fast=fast, out=out, seed=seed))
    except MeshwrightError as error:
        return Failed(name, str(error))
