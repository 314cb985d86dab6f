"""How far a study is: a bar on a terminal, a line now and then elsewhere, nothing if it is quick."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from ...compiling import TELLS, compiling_s, said, watched
from .words import count

if TYPE_CHECKING:
    from ...studies import Study
    from ...studies.progress import Progress

__all__ = ["Shower", "span"]

QUIET_S = 2.0
EVERY_S = 5.0
LOOK_S = 0.2
ENOUGH = 4
"""Points for each worker, after the first one, before their pace is told."""


def span(seconds: float) -> str:
    """A span of time in words, to two digits: ``12 s``, ``6 min``, ``3.4 h``, ``11 days``."""
    for unit, length, least in (("days", 86_400.0, 72 * 3600.0), ("h", 3600.0, 5700.0), ("min", 60.0, 119.5)):
        if seconds >= least:
            n = seconds / length
            return f"{n:.0f} {unit}" if n >= 9.95 else f"{n:.1f}".removesuffix(".0") + f" {unit}"
    return f"{seconds:.0f} s" if seconds >= 9.95 else f"{seconds:.1f} s"


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Shower:
    """Takes the session's `Progress` and shows it from a thread of its own, so that showing costs a point nothing.

    A context: it shows while the block runs. The pace is that of the points after the first one, which waits for
    workers to start and compile.

    Parameters
    ----------
    study : Study
        For its number of points and questions.
    executor, workers
        As the user said them.
    """

    def __init__(self, study: Study, executor: str, workers: int | None) -> None:
        self.latest: Progress | None = None
        self.finished = False
        self._study, self._executor, self._workers = study, executor, workers or _cores()
        self._first: Progress | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True)

    def __call__(self, progress: Progress) -> None:
        """What the session calls."""
        if self._first is None and progress.done > progress.kept:
            self._first = progress
        self.latest = progress

    def __enter__(self) -> Shower:
        os.environ[TELLS] = "1"  # for the first worker process
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.environ.pop(TELLS, None)
        self._stop.set()
        self._thread.join(timeout=2.0)

    def interrupted(self) -> str:
        """What Ctrl-C left."""
        p = self.latest
        if self.finished:
            return "interrupted; every point is kept; the same command writes the report"
        if p is None:
            return "interrupted; nothing was evaluated; the same command begins again"
        return f"interrupted; {p.done:,} of {count(p.total)} kept; the same command goes on from there"

    def left_s(self) -> float | None:
        """Seconds that the rest will take; None until `ENOUGH` points say how long one takes."""
        p, first = self.latest, self._first
        if p is None or first is None or p.done - first.done < ENOUGH * min(self._workers, 8):
            return None
        return (p.total - p.done) * (p.elapsed_s - first.elapsed_s) / (p.done - first.done)

    def estimate(self) -> str | None:
        """How long the whole takes at the pace so far, once that is known."""
        p, left = self.latest, self.left_s()
        if p is None or left is None or self.finished:
            return None
        kept = f" ({p.kept:,} are in the store)" if p.kept else ""
        more = "; the questions' points come on top" if self._study.questions else ""
        where = f"on {self._executor}"
        if self._executor == "processes":
            where = f"on {count(self._workers, 'process', 'processes')}"
        return f"{count(p.total)}{kept}: about {span(p.elapsed_s + left)} {where}{more}"

    def _show(self) -> None:
        with watched():
            if not self._stop.wait(QUIET_S):
                (self._bar if sys.stderr.isatty() else self._lines)()

    def _lines(self) -> None:
        """A line every few seconds; the estimate as soon as it is known."""
        begun = shown = time.monotonic() - QUIET_S
        told = False
        while not self._stop.wait(LOOK_S):
            now = time.monotonic()
            estimate = None if told else self.estimate()
            if estimate is not None or now - shown >= EVERY_S:
                told, shown = told or estimate is not None, now
                print(estimate or self._line(now - begun), file=sys.stderr, flush=True)

    def _line(self, elapsed_s: float) -> str:
        p = self.latest
        if self.finished or p is None:
            return f"{'writing the report' if self.finished else 'getting ready'} ({span(elapsed_s)})"
        what = f"{p.what}: " if p.what else ""
        return f"{what}{p.done:,} of {count(p.total)}{self._rest()} ({span(elapsed_s)})"

    def _rest(self) -> str:
        p, left = self.latest, self.left_s()
        failed = f", {p.failed:,} failed" if p is not None and p.failed else ""
        if compiling_s() > QUIET_S:
            return f"{failed}, {said()}"
        return failed + (f", about {span(left)} to go" if left else "")

    def _bar(self) -> None:
        """One line, drawn anew several times a second; it is gone in the end."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns: tuple[Any, ...] = (
            SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(),
            TextColumn("{task.fields[text]}", markup=False), TimeElapsedColumn(),
        )  # fmt: skip
        told = False
        with Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=5) as bar:
            task = bar.add_task("getting ready", total=None, text="")
            while not self._stop.wait(LOOK_S):
                estimate = None if told else self.estimate()
                if estimate is not None:
                    told = True
                    bar.console.print(estimate, markup=False, highlight=False)
                p = self.latest
                if self.finished:
                    bar.update(task, completed=1, total=1, description="writing the report", text="")
                elif p is not None:
                    text = f"{p.done:,}/{p.total:,}{self._rest()}"
                    bar.update(task, completed=p.done, total=p.total, description=p.what or "points", text=text)
