"""What a capacity planner asks: how few devices, how high a rate or CV, how tight an SLO still attain the target.

Each question is a bisection over one quantity. All points use common random numbers: the same seed and, where
the quantity allows, the very same arrivals (a rate is changed by stretching time, an SLO by scaling it), so that points
differ by the quantity alone. Attainment need not be monotone in it: heuristics choose other placements, and first come,
first served has anomalies. The answer therefore says whether any point that was tried contradicts it, and holds for
the side that was tried, not for what lies between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ...errors import InfeasibleError, InputError
from ...profiles.hardware import DeviceSpec
from ...profiles.profile import ModelProfile
from ...reprs import Shown
from ...simulator.cluster import Cluster
from ...simulator.serving.plan.file import Plan
from ...traces.trace import Trace
from ..bisection import Bisection
from .clockwork import ScheduledPlan
from .planner import plan

__all__ = ["Answer", "Probe", "fewest_devices", "highest_cv", "highest_rate", "tightest_slo"]

TARGET = 0.99
"""SLO attainment asked for, as everywhere in the paper."""

Planner = Callable[..., Plan | ScheduledPlan]


@dataclass(frozen=True, slots=True, repr=False)
class Probe(Shown):
    """One point that was tried: the quantity and the attainment there (0 where no plan exists)."""

    value: float
    attainment: float


@dataclass(frozen=True, repr=False)
class Answer(Shown):
    """Answer to an inverse question.

    Parameters
    ----------
    quantity : str
        What was asked for.
    value : float
        The extreme value that attains the target, within the tolerance.
    target : float
        Attainment asked for.
    plan : Plan or ScheduledPlan
        The plan that attains it.
    probes : tuple of Probe
        All points tried, in order of the quantity.
    monotone : bool
        Whether no point that misses the target lies on the easy side of one that attains it.
    """

    quantity: str
    value: float
    target: float
    plan: Plan | ScheduledPlan
    probes: tuple[Probe, ...]
    monotone: bool

    def explain(self) -> str:
        """The answer in words."""
        text = f"{self.quantity}: {self.value:.6g} attains {self.target:.2%} ({len(self.probes)} plans tried)"
        if not self.monotone:
            text += "; attainment is not monotone here: some point on the easy side misses the target"
        return text


def fewest_devices(
    models: Sequence[str] | None,
    trace: Trace,
    profiles: Mapping[str, ModelProfile],
    *,
    device: str | DeviceSpec = "v100-16gb",
    low: int = 1,
    high: int = 64,
    target: float = TARGET,
    planner: Planner = plan,
    **options: Any,
) -> Answer:
    """The fewest devices that attain the target, between `low` and `high`.

    Parameters
    ----------
    models, trace, profiles
        The problem.
    device : str or DeviceSpec
        Device type of the cluster.
    low, high : int
        Range to search.
    target : float
        Attainment, in (0, 1].
    planner : callable
        Any of `meshwright.planners.PLANNERS`.
    **options
        For the planner.

    Raises
    ------
    InputError
        On a wrong range or target.
    InfeasibleError
        If even `high` devices miss the target.
    """
    for name, value in (("low", low), ("high", high)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise InputError(f"fewest_devices: {name} must be an integer (got {value!r})")

    def at(n: float) -> Plan | ScheduledPlan:
        return planner(Cluster.of(int(n), device), models, trace, profiles, **options)

    return _bisect("fewest devices", at, low, high, target, hard="low", tolerance=1.0, whole=True)


def highest_rate(
    cluster: Cluster,
    models: Sequence[str] | None,
    trace: Trace,
    profiles: Mapping[str, ModelProfile],
    *,
    low: float,
    high: float,
    target: float = TARGET,
    tolerance: float = 0.02,
    planner: Planner = plan,
    **options: Any,
) -> Answer:
    """The highest request rate (per second) that attains the target; the trace is stretched to each rate.

    `tolerance` is relative. Other parameters and errors as in `fewest_devices`.
    """

    def at(rate: float) -> Plan | ScheduledPlan:
        stretched = Trace(trace.arrival * (trace.rate / rate), trace.model, trace.models, trace.slo)
        return planner(cluster, models, stretched, profiles, **options)

    return _bisect("highest rate", at, low, high, target, hard="high", tolerance=tolerance)


def highest_cv(
    cluster: Cluster,
    models: Sequence[str] | None,
    trace_at: Callable[[float], Trace],
    profiles: Mapping[str, ModelProfile],
    *,
    low: float = 1.0,
    high: float = 16.0,
    target: float = TARGET,
    tolerance: float = 0.02,
    planner: Planner = plan,
    **options: Any,
) -> Answer:
    """The highest CV of inter-arrival times that attains the target.

    `trace_at` makes the traffic of a CV, with one seed for all, such as ``lambda cv: traces.gamma(…, cv=cv, seed=0)``.
    Other parameters and errors as in `highest_rate`.
    """
    return _bisect(
        "highest CV", lambda cv: planner(cluster, models, trace_at(cv), profiles, **options), low, high, target,
        hard="high", tolerance=tolerance,
    )  # fmt: skip


def tightest_slo(
    cluster: Cluster,
    models: Sequence[str] | None,
    trace: Trace,
    profiles: Mapping[str, ModelProfile],
    *,
    low: float = 0.5,
    high: float = 20.0,
    target: float = TARGET,
    tolerance: float = 0.02,
    planner: Planner = plan,
    **options: Any,
) -> Answer:
    """The smallest SLO scale (multiple of single-device latency) that attains the target.

    Other parameters and errors as in `highest_rate`.
    """

    def at(scale: float) -> Plan | ScheduledPlan:
        return planner(cluster, models, trace.with_slo_scale(scale, profiles), profiles, **options)

    return _bisect("tightest SLO scale", at, low, high, target, hard="low", tolerance=tolerance)


def _bisect(
    quantity: str,
    at: Callable[[float], Plan | ScheduledPlan],
    low: float,
    high: float,
    target: float,
    *,
    hard: Literal["low", "high"],
    tolerance: float,
    whole: bool = False,
) -> Answer:
    """Try what `Bisection` says: the easy end, which must attain the target, the hard end, then between."""
    rule = Bisection(low, high, hard, 0.0 if whole else tolerance, whole, quantity)
    if not 0 < target <= 1:
        raise InputError(f"{quantity}: target must be an attainment in (0, 1] (got {target})")
    made: dict[float, Plan | ScheduledPlan] = {}
    attained: dict[float, float] = {}
    known: dict[float, bool] = {}
    while (value := rule.next(known)) is not None:
        try:
            made[value] = at(value)
            attained[value] = made[value].predicted["attainment"]
        except InfeasibleError:
            attained[value] = 0.0
        known[value] = attained[value] >= target
    reached = rule.reached(known)
    if reached is None:
        raise InfeasibleError(
            f"{quantity}: even {rule.easy_end:g} attains only {attained[rule.easy_end]:.2%} of the {target:.2%} asked "
            f"for; {'raise high' if hard == 'low' else 'lower low'} or the resources"
        )
    probes = tuple(Probe(v, attained[v]) for v in sorted(attained))
    return Answer(quantity, reached, target, made[reached], probes, not rule.contradictions(known))
