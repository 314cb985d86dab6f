"""`RunOptions`: how a world is run for real on this machine."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
import math
from dataclasses import dataclass
from pathlib import Path

from ...errors import InputError
from ...reprs import Shown
from ...simulator.sharing.workload.app import App
from ...simulator.sharing.world import SharingWorld
from ..serving.assignment import usable_cores

__all__ = ["RunOptions", "check_slots", "phase_steps", "total_steps"]


@dataclass(frozen=True, slots=True, repr=False)
class RunOptions(Shown):
    """Options of a real run of a world.

    Parameters
    ----------
    time_scale : float
        Seconds of the world that pass in a real second: with 60, a lease of 10 minutes takes 10 s.
    slot_steps : float
        Training steps per real second to which a GPU entitles a job.
    slots_per_core : int
        Most GPUs of the world per core of this machine.
    seed : int
        Seed of weights and data.
    folder : Path, optional
        Folder for checkpoints; by default a temporary one, deleted after the run.
    answer_s : float
        An agent that does not answer for so many seconds is ended and counts as lost.
    orphan_s : float
        Seconds for which agents train on without an arbiter, waiting for it, before they end.
    patience : float
        The run is given up when it takes this many times as long as simulated, plus 30 s.

    Raises
    ------
    InputError
        If a number is not positive and finite, or the seed negative.
    """

    # Guesses that fit a small machine: a slot needs about a hundredth of a core, and a minute of the world a second.
    time_scale: float = 60.0
    slot_steps: float = 40.0
    slots_per_core: int = 2
    seed: int = 0
    folder: Path | None = None
    answer_s: float = 10.0
    orphan_s: float = 30.0
    patience: float = 3.0

    def __post_init__(self) -> None:
        if isinstance(self.folder, str):
            object.__setattr__(self, "folder", Path(self.folder))
        for name in ("time_scale", "slot_steps", "slots_per_core", "answer_s", "orphan_s", "patience"):
            value = getattr(self, name)
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not (math.isfinite(value) and value > 0)
            ):
                raise InputError(f"run_sharing: {name}: expected a finite number > 0 (got {value!r})")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise InputError(f"run_sharing: seed: expected an integer >= 0 (got {self.seed!r})")


def check_slots(world: SharingWorld, options: RunOptions) -> None:
    """See that this machine has cores for the world's GPUs.

    Raises
    ------
    InputError
        If there are more than `slots_per_core` GPUs per core.
    """
    if world.containers != "job":
        raise InputError(
            f"run_sharing: containers: for real each job builds its own anew (got {world.containers!r}); choose 'job'"
        )
    cores, gpus = len(usable_cores()), world.cluster.n_gpus
    if gpus > cores * options.slots_per_core:
        raise InputError(
            f"run_sharing: cluster: {gpus} GPUs are slots on {cores} cores, at most {options.slots_per_core} per core; "
            f"take {cores * options.slots_per_core} GPUs, or raise slots_per_core and lower slot_steps"
        )


def phase_steps(app: App, phase: int, job: int, options: RunOptions) -> float:
    """Training steps of a job in a phase: its GPU seconds at the scale of time, times what a slot does per second."""
    p = app.phases[phase]
    work_s = p.iterations[p.jobs.index(job)] * app.jobs[job].iteration_s
    return work_s / options.time_scale * options.slot_steps


def total_steps(app: App, job: int, options: RunOptions) -> int:
    """Training steps that a job has run when its app has ended; a partial step at a phase's end counts as one."""
    return sum(math.ceil(phase_steps(app, k, job, options) - 1e-9) for k, p in enumerate(app.phases) if job in p.jobs)
