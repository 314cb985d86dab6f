"""`in_processes`: a list of independent pieces of work over forked processes, in the order in which they were given."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from typing import Any, TypeVar

from .....errors import RunError

__all__ = ["in_processes"]

T = TypeVar("T")
R = TypeVar("R")


def in_processes(work: Callable[[T], R], items: Sequence[T], workers: int) -> list[R]:
    """``[work(x) for x in items]``, dealt round to `workers` processes.

    What an item gives must not depend on the others. Without fork, or with one worker, it is done here.

    Parameters
    ----------
    work : callable
        What to do; it need not be picklable, what it returns must be.
    items : sequence
        Pieces of work.
    workers : int
        Processes at most.

    Raises
    ------
    RunError
        If a process died.
    Exception
        The exception that `work` raised.
    """
    count = min(workers, len(items))
    if count < 2 or "fork" not in multiprocessing.get_all_start_methods():
        return [work(x) for x in items]
    context = multiprocessing.get_context("fork")
    ends: list[Connection] = []
    started: list[ForkProcess] = []
    try:
        for number in range(count):
            here, there = context.Pipe(duplex=False)
            child = context.Process(target=_run, args=(work, items[number::count], there), daemon=True)
            child.start()
            there.close()
            ends.append(here)
            started.append(child)
        answers: list[list[R]] = [_answer(end) for end in ends]
    finally:
        for child in started:
            if child.is_alive():
                child.terminate()
            child.join()
    return [answers[k % count][k // count] for k in range(len(items))]


def _run(work: Callable[[T], object], items: Sequence[T], end: Connection) -> None:
    try:
        end.send([work(x) for x in items])
    except Exception as error:
        end.send(error)
    finally:
        end.close()
        os._exit(0)  # nothing of the parent's is to be flushed or run at exit


def _answer(end: Connection) -> Any:
    try:
        answer = end.recv()
    except EOFError:
        raise RunError("a process that priced stages died; is there memory for it? Use workers=1") from None
    if isinstance(answer, Exception):
        raise answer
    return answer
