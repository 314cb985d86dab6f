"""How far a study is: a bar on a terminal, a line now and then elsewhere, nothing if it is quick."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .study_files import Run
from .study_words import count

if TYPE_CHECKING:
    from ..studies import Study
    from ..studies.progress import Progress

__all__ = ["Shower", "span"]

QUIET_S = 2.0
EVERY_S = 5.0
LOOK_S = 0.2
ENOUGH = 3
"""Points evaluated here before their pace is told; and at least one for each worker."""


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

    A context: it shows while the block runs.

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
        self._enough = max(ENOUGH, self._workers)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True)

    def __call__(self, progress: Progress) -> None:
        """What the session calls."""
        self.latest = progress

    def __enter__(self) -> Shower:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
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

    def run(self, began: str) -> Run:
        """What this call did."""
        p = self.latest
        local = self._executor == "processes"
        return Run(
            began, 0.0 if p is None else round(p.elapsed_s, 3), self._executor, self._workers if local else None,
            0 if p is None else p.done - p.kept, 0 if p is None else p.kept, 0 if p is None else p.failed,
        )  # fmt: skip

    def _where(self) -> str:
        if self._executor != "processes":
            return f"on {self._executor}"
        return f"on {self._workers} process{'' if self._workers == 1 else 'es'}"

    def estimate(self, p: Progress) -> str:
        """How long the whole takes at the pace so far."""
        left = (p.total - p.done) * p.elapsed_s / max(p.done - p.kept, 1)
        kept = f" ({p.kept:,} are in the store)" if p.kept else ""
        more = ", and the questions' own" if self._study.questions and p.total <= len(self._study) else ""
        return f"{count(p.total)}{kept}{more}: about {span(p.elapsed_s + left)} {self._where()}"

    def _known(self) -> Progress | None:
        p = self.latest
        return p if p is not None and p.done - p.kept >= min(self._enough, p.total - p.kept) > 0 else None

    def _show(self) -> None:
        if self._stop.wait(QUIET_S):
            return
        (self._bar if sys.stderr.isatty() else self._lines)()

    def _lines(self) -> None:
        """A line every few seconds; the estimate first, once it is known."""
        begun = time.monotonic() - QUIET_S
        told = False
        shown = -EVERY_S
        while not self._stop.wait(LOOK_S):
            now = time.monotonic()
            known = self._known()
            if known is not None and not told:
                told, shown = True, now
                self._say(self.estimate(known))
            elif now - shown >= EVERY_S:
                shown = now
                self._say(self._line(now - begun))

    def _line(self, elapsed_s: float) -> str:
        p = self.latest
        if p is None:
            return f"getting ready ({span(elapsed_s)})"
        failed = f", {p.failed:,} failed" if p.failed else ""
        eta = "" if p.eta_s is None or p.done >= p.total else f", about {span(p.eta_s)} to go"
        what = f"{p.what}: " if p.what else ""
        return f"{what}{p.done:,} of {count(p.total)}{failed} ({span(elapsed_s)}{eta})"

    def _bar(self) -> None:
        """One line, drawn anew several times a second."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns: tuple[Any, ...] = (
            SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(),
            TextColumn("{task.fields[text]}", markup=False), TimeElapsedColumn(),
        )  # fmt: skip
        with Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=5) as bar:
            task = bar.add_task("getting ready", total=None, text="")
            told = False
            while not self._stop.wait(LOOK_S):
                known = self._known()
                if known is not None and not told:
                    told = True
                    bar.console.print(self.estimate(known), markup=False, highlight=False)
                p = self.latest
                if p is not None:
                    eta = "" if p.eta_s is None else f", about {span(p.eta_s)} to go"
                    failed = f", {p.failed:,} failed" if p.failed else ""
                    bar.update(
                        task, completed=p.done, total=p.total, description=p.what or "evaluating",
                        text=f"{p.done:,}/{p.total:,}{failed}{eta}",
                    )  # fmt: skip

    @staticmethod
    def _say(text: str, write: Callable[..., None] = print) -> None:
        write(text, file=sys.stderr, flush=True)
