"""`run_with_failures`: train by a plan on this machine while a script kills ranks; each time it starts again."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ....errors import InputError, RunError
from ....profiles.graph import Graph
from ....simulator.training.goodput import Strike
from ....simulator.training.plan.file import TrainingPlan
from ..optimizer import Optimizer
from ..options import RunOptions
from ..run import program_of, rank_names, runnable, training_job
from ..session import TrainingSession
from ..wires.edges import mesh_ranks
from .result import Event, RecoveredRun, attempt_of
from .saving import JOURNAL, last_checkpoint

__all__ = ["run_with_failures"]

POLL_S = 0.005
"""Between looks for the beginning of the run, from which a script counts: well below an iteration."""

Progress = Callable[[str], None]


def run_with_failures(
    plan: TrainingPlan,
    graph: Graph,
    *,
    strikes: Sequence[Strike] = (),
    every: int = 10,
    iterations: int = 100,
    seed: int = 0,
    dtype: Literal["float32", "float64"] = "float32",
    options: RunOptions | None = None,
    progress: Progress | None = None,
) -> RecoveredRun:
    """Train, kill ranks by a script, and go on from the last checkpoint with new processes, until all is done.

    Parameters
    ----------
    plan, graph : TrainingPlan, Graph
        As of `run_training`.
    strikes : sequence of Strike
        At how many seconds after the first iteration begins the process of which rank is killed (SIGKILL), also while
        it starts again.
    every : int
        Iterations between two checkpoints; one more follows the last iteration.
    iterations : int
        Of the whole run.
    seed, dtype, options
        As of `run_training`; of the options, those of processes and the learning rate.
    progress : callable, optional
        Told what happens.

    Raises
    ------
    InputError
        If an argument is out of its range, or the plan cannot be run.
    RunError
        If a rank ends that the script did not kill.
    """
    how, ranks = options or RunOptions(), sum(map(len, mesh_ranks(plan)))
    for name, value in (("every", every), ("iterations", iterations)):
        if isinstance(value, bool) or value < 1:
            raise InputError(f"run: {name}: expected a positive integer (got {value!r})")
    for strike in strikes:
        if strike.node >= ranks:
            raise InputError(f"run: strikes: there is no rank {strike.node}; those of the plan are 0 to {ranks - 1}")
    small = runnable(plan, graph)
    job = training_job(
        plan, small, program_of(plan, small), seed=seed, iterations=iterations, dtype=dtype, keep=False,
        optimizer=Optimizer(plan.model.optimizer, how.learning_rate),
    )  # fmt: skip
    events: list[Event] = []
    with tempfile.TemporaryDirectory(prefix="meshwright-checkpoints-") as place:
        folder = Path(place)
        job["saving"] = {"folder": place, "every": every}
        with _Striker(sorted(strikes), folder) as striker:
            while True:
                session = TrainingSession(ranks, timeout_s=how.timeout_s, silence_s=how.silence_s)
                striker.watches(session)
                before = striker.struck
                try:
                    with session:
                        session.run(job, rank_names(plan))
                except RunError:
                    events += attempt_of(folder, ranks)
                    if striker.struck == before:
                        raise
                    if progress is not None:
                        progress(f"rank {striker.last} killed; on from iteration {last_checkpoint(folder)}")
                    continue
                events += attempt_of(folder, ranks)
                return RecoveredRun(ranks, every, iterations, tuple(events), tuple(striker.done))


@dataclass
class _Striker:
    """Kills processes by a script, on a thread of its own; a context manager.

    Parameters
    ----------
    strikes : list of Strike
        In order of time.
    folder : Path
        Of the journals, by which it knows when the first iteration begins.
    """

    strikes: list[Strike]
    folder: Path
    done: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])
    """When a process was killed, seconds of the machine's clock, and its rank."""

    def __post_init__(self) -> None:
        self._session: TrainingSession | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._strike, daemon=True, name="strikes")

    @property
    def struck(self) -> int:
        """Processes that it has killed."""
        return len(self.done)

    @property
    def last(self) -> int:
        """Rank of the last one."""
        return self.done[-1][1]

    def watches(self, session: TrainingSession) -> None:
        """Strike the processes of this session from now on."""
        self._session = session

    def __enter__(self) -> _Striker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _strike(self) -> None:
        begun: float | None = None
        first = self.folder / JOURNAL.format(rank=0)
        while begun is None:
            if self._over.wait(POLL_S):
                return
            if first.exists():
                told = attempt_of(self.folder, 1, take=False)
                begun = told[0].at_s if told else None
        for strike in self.strikes:
            if self._over.wait(max(0.0, begun + strike.at_s - time.monotonic())):
                return
            pids = () if self._session is None else self._session.pids
            if strike.node < len(pids):  # else it has not been started again yet: there is nothing to kill
                self.done.append((time.monotonic(), strike.node))
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pids[strike.node], signal.SIGKILL)
