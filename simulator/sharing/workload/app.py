"""`App`: what a user trains on a shared cluster: jobs, the phases in which a tuner runs them, what placement costs."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from ....errors import InputError
from ....reprs import Shown
from .app_check import check_app

__all__ = ["App", "Job", "Kind", "LossCurve", "Phase", "Slowdown"]

Kind = Literal["jobs", "halving", "curve"]


@dataclass(frozen=True, slots=True, repr=False)
class Slowdown(Shown):
    """How much slower than with linear speed-up a job is, by the widest link between its GPUs (Themis §4.3.1).

    Parameters
    ----------
    slot, machine, rack, cluster : float
        At least 1 and not falling. The defaults are the paper's crude estimates (footnote 3): 1 in one machine, 1.1
        across machines, 1.3 across racks.

    Raises
    ------
    InputError
        If one is below 1, not finite, or below the one before it.
    """

    slot: float = 1.0
    machine: float = 1.0
    rack: float = 1.1
    cluster: float = 1.3

    def __post_init__(self) -> None:
        levels = self.levels
        if not all(math.isfinite(x) and x >= 1 for x in levels) or any(b < a for a, b in pairwise(levels)):
            raise InputError(f"Slowdown: expected finite factors >= 1 that do not fall with distance (got {levels})")

    @property
    def levels(self) -> tuple[float, float, float, float]:
        """By `Level`."""
        return (self.slot, self.machine, self.rack, self.cluster)


@dataclass(frozen=True, slots=True, repr=False)
class LossCurve(Shown):
    """Loss after a share p of a job's work: end + (start − end)·exp(−rate·p). The SLAQ baseline decides by it.

    Parameters
    ----------
    start, end, rate : float
        Loss at the start, the limit that it tends to, and the rate of the decay.

    Raises
    ------
    InputError
        If one is not finite, or the loss would rise.
    """

    # Assumed, as Themis prints no curves: at rate 4 the loss has fallen by 98 % of the way when the work is done.
    start: float = 1.0
    end: float = 0.0
    rate: float = 4.0

    def __post_init__(self) -> None:
        if (
            not all(math.isfinite(x) for x in (self.start, self.end, self.rate))
            or self.end > self.start
            or self.rate < 0
        ):
            raise InputError(f"LossCurve: expected finite numbers, end <= start and rate >= 0 (got {self})")

    def at(self, progress: float) -> float:
        """Loss when a share of the work is done."""
        return self.end + (self.start - self.end) * math.exp(-self.rate * progress)


@dataclass(frozen=True, slots=True, repr=False)
class Job(Shown):
    """One training job: a gang of tasks of one GPU each, synchronous, with a fixed batch.

    Parameters
    ----------
    iteration_s : float
        Seconds of one iteration on one GPU.
    gpus : int
        GPUs that it can use at most.
    gang : int
        GPUs that it needs at least.
    loss : LossCurve
        How its loss falls.
    optimism : float
        How much the most optimistic convergence curve overstates the work that is left at the job's start, ≥ 1; the
        excess shrinks as the job progresses (performance-curve apps, §4.3.2).

    Raises
    ------
    InputError
        If the time is not positive, or the gang larger than what the job can use.
    """

    iteration_s: float
    gpus: int = 1
    gang: int = 1
    loss: LossCurve = LossCurve()
    optimism: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.iteration_s) and self.iteration_s > 0):
            raise InputError(f"Job.iteration_s: expected seconds > 0 (got {self.iteration_s})")
        for name in ("gpus", "gang"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise InputError(f"Job.{name}: expected a positive integer (got {value!r})")
        if self.gang > self.gpus:
            raise InputError(f"Job.gang: {self.gang} tasks run together but it can use {self.gpus}; raise gpus")
        if not (math.isfinite(self.optimism) and self.optimism >= 1):
            raise InputError(f"Job.optimism: expected a finite factor >= 1 (got {self.optimism})")


@dataclass(frozen=True, slots=True, repr=False)
class Phase(Shown):
    """Jobs that run side by side until the last of them has done its iterations.

    Parameters
    ----------
    jobs : tuple of int
        Positions in the app's jobs.
    iterations : tuple of float
        Iterations of each job in this phase, > 0.
    gpus : int
        GPUs that each job can use at most in this phase; 0: as many as `Job.gpus` says.
    """

    jobs: tuple[int, ...]
    iterations: tuple[float, ...]
    gpus: int = 0


@dataclass(frozen=True, repr=False)
class App(Shown):
    """One user's training: a job, some jobs, or a search over hyper-parameters.

    Parameters
    ----------
    name : str
        Its name in results.
    arrival_s : float
        Time of its arrival, seconds.
    jobs : tuple of Job
        Its jobs.
    phases : tuple of Phase
        What really runs. Which jobs go on to the next phase, the tuner learns only at the end of a phase.
    kind : {"jobs", "halving", "curve"}
        How the app's agent estimates the work that is left. ``"jobs"``: it knows all jobs. ``"halving"``: of later
        phases it knows only the number of jobs (successive halving). ``"curve"``: it extrapolates loss curves.
    slowdown : Slowdown
        How much slower jobs are on GPUs that are far apart.
    model : str
        The model that it trains.
    budget_s : float
        GPU seconds that its T_id counts, B of Equation 2; 0: the sum of its phases.
    believed_work : float
        The agent's estimate of iterations (those left, and all of them) over the truth: the error that Figure 17
        varies.
    believed_slowdown : Slowdown, optional
        The slowdown that the agent believes in; by default the true one.

    Raises
    ------
    InputError
        On negative or missing work, a factor that is not positive, a phase that names no or unknown jobs or lets one
        use fewer GPUs than its gang, an unknown kind, or more than one phase of a kind whose agent sees one.
    """

    name: str
    arrival_s: float
    jobs: tuple[Job, ...]
    phases: tuple[Phase, ...]
    kind: Kind = "jobs"
    slowdown: Slowdown = Slowdown()
    model: str = ""
    budget_s: float = 0.0
    believed_work: float = 1.0
    believed_slowdown: Slowdown | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "jobs", tuple(self.jobs))
        object.__setattr__(self, "phases", tuple(self.phases))
        check_app(self)

    @classmethod
    def single(
        cls, name: str, arrival_s: float, work_s: float, *, gpus: int = 1, gang: int = 1,
        slowdown: Slowdown = Slowdown(), model: str = "",
    ) -> App:  # fmt: skip
        """Make an app of a single job of `work_s` GPU seconds."""
        return cls(name, arrival_s, (Job(1.0, gpus, gang),), (Phase((0,), (work_s,)),), "jobs", slowdown, model)

    @classmethod
    def halving(
        cls, name: str, arrival_s: float, jobs: Sequence[Job], budget_s: float, *,
        order: Sequence[int] | None = None, slowdown: Slowdown = Slowdown(), model: str = "", doubling: bool = False,
    ) -> App:  # fmt: skip
        """Successive halving of a budget of GPU seconds (§4.3.2, §4.3.3).

        The budget is divided evenly over the phases, in whole iterations of the jobs' median; the last phase has what
        is left of it: 10,000 s over 80, 100, 100 and 120 s make 8, 16 and 36 iterations.

        Parameters
        ----------
        jobs : sequence of Job
            The candidates.
        budget_s : float
            GPU seconds of the whole app.
        order : sequence of int, optional
            Jobs from the best to the worst; the better half of a phase goes on. By default as they stand.
        doubling : bool
            Whether a job may use 1 GPU in the first phase and twice as many in each that follows (§4.3.2), instead of
            what it says in all of them (§4.3.3).

        Raises
        ------
        InputError
            If there are no jobs, or the budget is too small for an iteration of each phase.
        """
        if not jobs or not math.isfinite(budget_s):
            raise InputError(
                f"app {name!r}: halving: expected jobs and a finite budget_s (got {len(jobs)}, {budget_s})"
            )
        ranked = list(range(len(jobs))) if order is None else list(order)
        if sorted(ranked) != list(range(len(jobs))):
            raise InputError(f"app {name!r}: order: expected each of {len(jobs)} jobs once (got {ranked})")
        sizes = [len(jobs)]
        while sizes[-1] > 1:
            sizes.append(sizes[-1] // 2)  # of an odd number the smaller half goes on
        median = float(np.median([job.iteration_s for job in jobs]))
        left, phases = float(budget_s), list[Phase]()
        for k, n in enumerate(sizes):
            share = left if k == len(sizes) - 1 else budget_s / len(sizes)
            iterations = share / (n * median)
            iterations = iterations if k == len(sizes) - 1 else float(math.floor(iterations))
            if iterations <= 0:
                raise InputError(
                    f"app {name!r}: budget_s: {budget_s:g} s over {len(sizes)} phases leave phase {k} no iteration of "
                    f"{n} jobs of {median:g} s; raise it to {len(sizes) * n * median:g}"
                )
            left -= iterations * n * median
            phases.append(Phase(tuple(sorted(ranked[:n])), (iterations,) * n, 2**k if doubling else 0))
        return cls(name, arrival_s, tuple(jobs), tuple(phases), "halving", slowdown, model, float(budget_s))

    @property
    def estimated_slowdown(self) -> Slowdown:
        """The slowdown with which its agent estimates."""
        return self.slowdown if self.believed_slowdown is None else self.believed_slowdown

    def cap(self, phase: int, job: int) -> int:
        """GPUs that a job can use at most in a phase."""
        return self.phases[phase].gpus or self.jobs[job].gpus

    def work_s(self, phase: int) -> float:
        """GPU seconds of a phase on one GPU each, no slowdown."""
        p = self.phases[phase]
        return sum(n * self.jobs[j].iteration_s for j, n in zip(p.jobs, p.iterations, strict=True))

    @property
    def total_work_s(self) -> float:
        """GPU seconds of the whole app: B of Equation 2."""
        return self.budget_s or sum(self.work_s(k) for k in range(len(self.phases)))

    @property
    def max_gpus(self) -> int:
        """GPUs that the app can use at most: app_demandmax of Equation 2."""
        return max(sum(self.cap(k, j) for j in p.jobs) for k, p in enumerate(self.phases))
