"""Workloads 1 and 2 of Themis (§6.1), drawn: the trace of 85 apps that it replays is not public.

What the text says is met: about a tenth of the apps have one job, the others a few tens to a hundred, with a median of
75 (Fig. 2); the median task takes 3.75 hours (Fig. 4), the median app 11.5 GPU days (Fig. 3), a tenth of the tasks
more than ten times as long and as many less than a tenth. What it does not say is assumed, and an option where it
matters; docs/sharing-workloads.md lists it.
"""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ....reprs import Shown
from ....seeds import generator
from ..cluster import Machine, SharedCluster
from .app import App, Job, LossCurve, Phase, Slowdown
from .models import draw_models

__all__ = ["AppOptions", "WorkloadOptions", "contended", "jobs_quantile", "with_errors", "workload1", "workload2"]

Floats = npt.NDArray[np.float64]

DAY_S = 86400.0
TASK_MEDIAN_S = 3.75 * 3600
"""Median GPU time of a task (Themis, Figure 4)."""
TASK_LOG_SD = math.log(10.0) / 1.2815515655446004
"""Spread of task times such that a tenth is over ten times the median; 1.28… is the normal 90 % quantile."""
JOB_LOG_SD = 0.5
"""Spread among the jobs of an app: they train one model with other hyper-parameters. Assumed."""
APP_LOG_SD = math.sqrt(TASK_LOG_SD**2 - JOB_LOG_SD**2)
"""Spread among apps: variances of independent factors add up to that of the tasks."""
TWO_GPU_SHARE = 0.27
"""Share of Workload 1's jobs with two GPUs: what makes the printed medians of tasks, jobs per app and apps agree."""
# Jobs of an app (§2.2, Fig. 2): a tenth has one, the others "a few tens" (20 is our reading) to a hundred.
SINGLE_SHARE, FEWEST, MEDIAN, MOST = 0.10, 20, 75, 100
FIRST_PHASE_ITERATIONS = 20
"""Iterations of Workload 2's first phase, at least. Assumed: enough that rounding to whole ones changes little."""


@dataclass(frozen=True, slots=True, repr=False)
class AppOptions(Shown):
    """Properties of apps that neither the papers nor cluster logs state.

    Parameters
    ----------
    scale : float
        Factor on all work; 1 leaves the trace's (Themis scales it down; the paper does not say by how much).
    network_intensive : float, optional
        Share of network-intensive apps (Figs. 15–16); by default what Table 4's mix gives.
    error : float
        X of Fig. 17: agents misjudge iterations and slowdown by factors in 1 ± X, drawn once for each app.
    rigid : bool
        Whether a job needs all of its GPUs at once; by default it also runs on fewer, as in Equation 1.

    Raises
    ------
    InputError
        On what is negative, not finite, or out of its range.
    """

    scale: float = 1.0
    network_intensive: float | None = None
    error: float = 0.0
    rigid: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise InputError(f"workload: scale: expected a finite number > 0 (got {self.scale})")
        if self.network_intensive is not None and not 0 <= self.network_intensive <= 1:
            raise InputError(f"workload: network_intensive: expected a share in [0, 1] (got {self.network_intensive})")
        if not 0 <= self.error < 1:
            raise InputError(f"workload: error: expected a share in [0, 1) (got {self.error})")


@dataclass(frozen=True, slots=True, repr=False)
class WorkloadOptions(AppOptions):
    """How a workload is drawn.

    Parameters
    ----------
    scale, network_intensive, error, rigid
        As in `AppOptions`.
    seed : int
        Seed. Each kind of draw has a random stream of its own, so that changing one option leaves other draws alone.
    apps : int
        Number of apps.
    span_s : float
        Seconds over which they arrive, on average.
    burstiness : float
        Coefficient of variation of the times between arrivals (Gamma). The paper says "bursty"; 2 is a guess.
    tasks : tuple of int
        Workload 2: GPUs that a job can use; one of these numbers is drawn for each app. The paper only says that there
        are "more tasks" than Workload 1's 1–2; the numbers are guesses.
    doubling : bool
        Workload 2: whether a job may use 1, 2, 4 … GPUs in the phases (§4.3.2) instead of `tasks` in each (§4.3.3).
    spread : float
        Factor on how far apps' lengths are apart, on a logarithmic scale; 1 is the trace's (Figs. 3 and 4).
    exploring : bool
        Whether all apps explore hyper-parameters (§6.1: jobs "triggered by Hyperdrive"): none has a single job.

    Raises
    ------
    InputError
        On what is negative, not finite, or out of its range.
    """

    seed: int = 0
    apps: int = 85
    span_s: float = 14 * DAY_S
    burstiness: float = 2.0
    tasks: tuple[int, ...] = (2, 4, 8)
    doubling: bool = False
    spread: float = 1.0
    exploring: bool = False

    def __post_init__(self) -> None:
        AppOptions.__post_init__(self)  # super() knows the class from before it had slots
        object.__setattr__(self, "tasks", tuple(self.tasks))
        if isinstance(self.apps, bool) or not isinstance(self.apps, int) or self.apps < 1:
            raise InputError(f"workload: apps: expected a positive integer (got {self.apps!r})")
        for name in ("span_s", "burstiness", "spread"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise InputError(f"workload: {name}: expected a finite number > 0 (got {value})")
        if not 1e-3 <= self.burstiness <= 1e3:
            raise InputError(f"workload: burstiness: expected 0.001 to 1000, Poisson is 1 (got {self.burstiness})")
        if not self.tasks or not all(isinstance(t, int) and not isinstance(t, bool) and t >= 1 for t in self.tasks):
            raise InputError(f"workload: tasks: expected positive integers (got {self.tasks})")
        if self.rigid and self.doubling:
            raise InputError("workload: rigid: jobs whose GPUs double start with one; leave doubling or rigid out")

    def stream(self, *names: str | int) -> np.random.Generator:
        """The random stream of one kind of draw."""
        return generator(self.seed, "themis workload", *names)


def jobs_quantile(chance: Floats) -> npt.NDArray[np.int64]:
    """Jobs of an app by quantile: a distribution function that is straight between what §2.2 tells of it: one job up to
    0.1, then from a few tens (20) to 75 at the median and 100 at the top."""
    low = FEWEST - 0.5 + (MEDIAN - FEWEST + 0.5) * (chance - SINGLE_SHARE) / (0.5 - SINGLE_SHARE)
    high = MEDIAN + (MOST + 0.5 - MEDIAN) * (chance - 0.5) / 0.5
    many = np.floor(np.where(chance < 0.5, low, high) + 0.5)
    return np.where(chance < SINGLE_SHARE, 1, many).astype(np.int64)


def workload1(options: WorkloadOptions | None = None) -> tuple[App, ...]:
    """Workload 1: apps explore hyper-parameters with jobs of one or two GPUs, all jobs of an app at once.

    Agents know when jobs will end, as the paper's simulator assumes (§6.1).
    """
    o = options or WorkloadOptions()
    chance = o.stream("jobs").random(o.apps)
    chance = SINGLE_SHARE + (1.0 - SINGLE_SHARE) * chance if o.exploring else chance
    counts: list[int] = jobs_quantile(chance).tolist()
    apart = o.spread * APP_LOG_SD * o.stream("app length").standard_normal(o.apps)
    centres: Floats = TASK_MEDIAN_S * o.scale * np.exp(apart)
    models = draw_models(o.stream("models"), o.apps, o.network_intensive)
    made: list[App] = []
    for a, (at, n, centre, model) in enumerate(zip(_arrivals(o), counts, centres, models, strict=True)):
        seconds = centre * np.exp(JOB_LOG_SD * o.stream("job length", a).standard_normal(n))
        gpus = 1 + (o.stream("gpus", a).random(n) < TWO_GPU_SHARE).astype(int)
        rates = o.stream("loss", a).uniform(2.0, 6.0, n)  # assumed, around `LossCurve`'s own
        jobs = tuple(
            Job(1.0, int(g), int(g) if o.rigid else 1, LossCurve(rate=float(r)))
            for g, r in zip(gpus, rates, strict=True)
        )
        phase = Phase(tuple(range(n)), tuple((gpus * seconds).tolist()))
        made.append(App(f"app {a}", float(at), jobs, (phase,), "curve", model.slowdown, model.name))
    return with_errors(made, o.error, o.seed)


def workload2(options: WorkloadOptions | None = None) -> tuple[App, ...]:
    """Workload 2: Workload 1's arrivals, models and GPU time, as successive halving of jobs with more tasks.

    An app has the largest power of two that is no more than its jobs in Workload 1. Iterations are of one second or
    shorter, so that the first phase has twenty, and differ by ±20 % among jobs as in the example of §4.3.3.
    """
    o = options or WorkloadOptions()
    chosen = o.stream("tasks").integers(0, len(o.tasks), o.apps)
    made: list[App] = []
    for a, (app, k) in enumerate(zip(workload1(replace(o, error=0.0)), chosen, strict=True)):
        n = 1 << (len(app.jobs).bit_length() - 1)
        budget = app.total_work_s
        least = budget / (n.bit_length() * n * FIRST_PHASE_ITERATIONS)
        seconds = min(1.0, least) * o.stream("iterations", a).uniform(0.8, 1.2, n)
        rates = o.stream("loss", a).uniform(2.0, 6.0, n)
        tasks = o.tasks[int(k)]
        gang = tasks if o.rigid else 1
        jobs = [Job(float(s), tasks, gang, LossCurve(rate=float(r))) for s, r in zip(seconds, rates, strict=True)]
        order = [int(j) for j in o.stream("survivors", a).permutation(n)]
        made.append(
            App.halving(
                app.name, app.arrival_s, jobs, budget, order=order, slowdown=app.slowdown, model=app.model,
                doubling=o.doubling,
            )
        )  # fmt: skip
    return with_errors(made, o.error, o.seed)


def with_errors(apps: Sequence[App], error: float, seed: int = 0) -> tuple[App, ...]:
    """Apps whose agents misjudge iterations and slowdown (Themis §6.3, Fig. 17).

    For each app two factors in 1 ± `error` are drawn, one for iterations, one for the slowdown across GPUs. A believed
    slowdown is never below 1, and inside a slot there is none.

    The same seed gives errors in the same proportions, whatever their size.

    Raises
    ------
    InputError
        If the error is outside [0, 1).
    """
    if not 0 <= error < 1:
        raise InputError(f"workload: error: expected a share in [0, 1) (got {error})")
    if error == 0:
        return tuple(apps)
    drawn = 1.0 + error * generator(seed, "themis workload", "errors").uniform(-1.0, 1.0, (len(apps), 2))
    return tuple(
        replace(app, believed_work=float(work), believed_slowdown=_believed(app.slowdown, float(far)))
        for app, (work, far) in zip(apps, drawn, strict=True)
    )


def contended(cluster: SharedCluster, times: int) -> SharedCluster:
    """The cluster with one in `times` machines of each kind, rounded down.

    Themis §6.2.2 halves and quarters the cluster for a contention of 2 and of 4.

    Raises
    ------
    InputError
        If that leaves no machine, or `times` is no positive integer.
    """
    if isinstance(times, bool) or not isinstance(times, int) or times < 1:
        raise InputError(f"contended: times: expected a positive integer (got {times!r})")
    if times == 1:
        return cluster
    seen: dict[tuple[int, int], int] = {}
    kept: list[Machine] = []
    for machine in cluster.machines:
        kind = machine.slots, machine.gpus_per_slot
        seen[kind] = seen.get(kind, 0) + 1
        if seen[kind] % times == 0:
            kept.append(machine)
    if not kept:
        raise InputError(f"contended: times: no kind of machine is there {times} times in {cluster}")
    # racks in turn again, as the whole cluster has them: every second machine would all stand in every second rack
    racks = len({m.rack for m in cluster.machines})
    dealt: dict[tuple[int, int], int] = {}
    for k, machine in enumerate(kept):
        kind = machine.slots, machine.gpus_per_slot
        kept[k] = replace(machine, rack=dealt.get(kind, 0) % racks)
        dealt[kind] = dealt.get(kind, 0) + 1
    return SharedCluster(tuple(kept))


def _arrivals(o: WorkloadOptions) -> Floats:
    """The first app at 0, the others at Gamma distances."""
    shape = 1.0 / o.burstiness**2
    gaps = o.stream("arrivals").gamma(shape, o.span_s / o.apps / shape, o.apps)
    return np.cumsum(gaps) - gaps[0]


def _believed(slowdown: Slowdown, factor: float) -> Slowdown:
    _, *apart = (max(1.0, level * factor) for level in slowdown.levels)
    return Slowdown(1.0, *apart)
