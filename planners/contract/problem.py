"""`Problem`: what a planner is given. A planner is ``plan(problem) -> Plan``."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Literal, SupportsIndex, cast, overload

from ...errors import InfeasibleError, InputError, OutOfProfileError
from ...profiles.config import ParallelConfig
from ...profiles.profile import ModelProfile
from ...reprs import Shown
from ...simulator.cluster import Cluster
from ...simulator.placement import Group, Placement, PlacementSchedule
from ...simulator.serving.breakdowns import Breakdowns
from ...simulator.serving.plan.file import Plan, PlannerEntry, Serving
from ...simulator.serving.policy import check_dispatch
from ...simulator.serving.result import SimulationResult
from ...simulator.serving.simulate import simulate
from ...traces.trace import Trace
from ..alpaserve.bound import upper_bound
from ..alpaserve.clockwork import ScheduledPlan
from ..alpaserve.instance import build_instance, no_room
from ..alpaserve.options import InstanceOptions
from .problem_checks import check_models, check_placement, check_slo, first_problem

__all__ = ["Problem"]

Dispatch = Literal["shortest_queue", "earliest_finish", "earliest_free"]


@dataclass(frozen=True, repr=False)
class Problem(Shown):
    """One planning problem of the serving world: all that a planner may know.

    Parameters
    ----------
    cluster : Cluster
        Where to place.
    models : sequence of str
        What to place; kept as a tuple.
    trace : Trace
        The traffic to plan for; what the plan is scored on may be another draw.
    profiles : Mapping[str, ModelProfile]
        What models cost; may hold more models than `models`.
    dispatch, admission, overhead
        How the plan will be served (`meshwright.simulator.simulate`).
    max_batch : int
        Largest dynamic batch that it will be served with; 1 for none.
    seed : int
        Seed for whatever the planner draws.
    options : Mapping[str, Any]
        The planner's own options, by name.
    breakdowns : Breakdowns, optional
        What fails while the plan is served, and what loading costs then; nothing if left out.

    Raises
    ------
    InputError
        On anything wrong with a field.

    Examples
    --------
    A planner, whole: each model on a device of its own, as far as there are devices.

    >>> from meshwright import simulator, traces
    >>> from meshwright.planners import Problem
    >>> from meshwright.profiles import ModelProfile, ParallelConfig
    >>> one = ParallelConfig(1, 1)
    >>> def plan(problem):
    ...     placed = zip(problem.models, range(problem.cluster.n_devices))
    ...     groups = [simulator.Group(one, [model]) for model, _ in placed]
    ...     return problem.plan(simulator.Placement(groups), name="one-each")
    >>> profiles = {m: ModelProfile.from_stages(m, {one: {1: [0.1]}}, {one: [2e9]}) for m in "ab"}
    >>> trace = traces.poisson(rate=4.0, duration=60.0, models=["a", "b"], slo=0.5, seed=0)
    >>> problem = Problem(simulator.Cluster(1, 2), ["a", "b"], trace, profiles)
    >>> print(plan(problem).placement)
    group 0: op1pp1 on devices 0: a
    group 1: op1pp1 on devices 1: b
    """

    cluster: Cluster
    models: tuple[str, ...]
    trace: Trace
    profiles: Mapping[str, ModelProfile]
    dispatch: str = "shortest_queue"
    admission: bool = True
    overhead: float = 0.0
    max_batch: int = 1
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    breakdowns: Breakdowns | None = None

    def __post_init__(self) -> None:
        for name, kind in (("cluster", Cluster), ("trace", Trace), ("profiles", Mapping), ("options", Mapping)):
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise InputError(f"{name}: expected a {kind.__name__} (got {type(value).__name__})")
        if isinstance(self.models, str):
            raise InputError(f"models: expected a sequence of names (got the string {self.models!r})")
        object.__setattr__(self, "models", tuple(self.models))
        for name in ("profiles", "options"):
            if type(getattr(self, name)) is dict:  # a planner must not change what others are given
                object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        check_models(self.models, self.trace, self.profiles)
        check_slo(self.trace)
        check_dispatch(self.dispatch)
        if not isinstance(self.admission, bool):
            raise InputError(f"admission: expected True or False (got {self.admission!r})")
        overhead = self.overhead
        if (
            isinstance(overhead, bool)
            or not isinstance(overhead, int | float)
            or not (math.isfinite(overhead) and overhead >= 0)
        ):
            raise InputError(f"overhead: expected finite seconds >= 0 (got {overhead!r})")
        for name, least in (("max_batch", 1), ("seed", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, SupportsIndex) or operator.index(value) < least:
                raise InputError(f"{name}: expected an integer >= {least} (got {value!r})")
            object.__setattr__(self, name, operator.index(value))
        if not (self.breakdowns is None or isinstance(self.breakdowns, Breakdowns)):
            raise InputError(f"breakdowns: expected Breakdowns (got {type(self.breakdowns).__name__})")
        for key in cast("Mapping[object, Any]", self.options):
            if not isinstance(key, str):
                raise InputError(f"options: expected names (got {key!r})")

    def __reduce__(self) -> tuple[Any, ...]:
        """Copied between our own processes; a read-only view alone cannot be."""
        values: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        for name in ("profiles", "options"):
            if type(values[name]) is MappingProxyType:
                values[name] = dict(cast("Mapping[str, Any]", values[name]))
        return type(self), tuple(values.values())

    def configs(self, model: str) -> tuple[ParallelConfig, ...]:
        """Configurations under which a model fits a group of its own here, fewest devices first; may be empty."""
        found: list[ParallelConfig] = []
        for config, stage in self.profiles[model].stages.items():
            profiled = 1 in stage.latency and self.max_batch in stage.latency
            if profiled and config.n_devices <= self.cluster.n_devices and self.fits(Group(config, [model])):
                found.append(config)
        return tuple(sorted(found, key=lambda config: (config.n_devices, config)))

    def smallest_config(self, model: str) -> ParallelConfig:
        """The configuration of fewest devices under which a model fits.

        Raises
        ------
        InfeasibleError
            If there is none; says the smallest change that makes one.
        OutOfProfileError
            If the model was not profiled at batch 1 and at `max_batch`.
        """
        found = self.configs(model)
        if found:
            return found[0]
        batches = [set(stage.latency) for stage in self.profiles[model].stages.values()]
        if not any({1, self.max_batch} <= known for known in batches):
            raise OutOfProfileError(
                f"profile {model!r}: no configuration with entries for batch 1 and {self.max_batch}; "
                f"profiled batches: {', '.join(map(str, sorted(set[int]().union(*batches))))}"
            )
        raise InfeasibleError(no_room([model], self.cluster, self.profiles, InstanceOptions()))

    def fits(self, group: Group) -> bool:
        """Whether the weights of a group's models fit the memory of each of its devices."""
        return all(used <= self.cluster.memory_bytes for used in group.memory_bytes(self.profiles))

    def simulate(self, placement: Placement | PlacementSchedule) -> SimulationResult:
        """Serve the planning trace with a placement, as the plan will be served. Pure: counts and keeps nothing."""
        return simulate(
            placement, self.trace, self.profiles, dispatch=self.dispatch,
            batching=self.max_batch if self.max_batch > 1 else None, admission=self.admission, overhead=self.overhead,
        )  # fmt: skip

    def predict(self, placement: Placement | PlacementSchedule) -> dict[str, float]:
        """What a placement attains on the planning trace: attainment, goodput, mean latency (seconds).

        For a fixed placement without batching also ``upper_bound``, which no placement exceeds, and ``gap``, how far
        it is above. Metrics that are not finite are left out.
        """
        result = self.simulate(placement)
        metrics = {
            "attainment": result.attainment, "goodput": result.goodput, "mean_latency": result.mean_latency,
        }  # fmt: skip
        if isinstance(placement, Placement) and self.max_batch == 1:
            bound = self.upper_bound()
            metrics |= {"upper_bound": bound, "gap": bound - result.attainment}
        return {name: value for name, value in metrics.items() if math.isfinite(value)}

    @overload
    def plan(
        self, placement: Placement, *, name: str, options: Mapping[str, Any] | None = None, evaluations: int = 0,
        seconds: float = 0.0,
    ) -> Plan: ...  # fmt: skip

    @overload
    def plan(
        self, placement: PlacementSchedule, *, name: str, options: Mapping[str, Any] | None = None,
        evaluations: int = 0, seconds: float = 0.0,
    ) -> ScheduledPlan: ...  # fmt: skip

    def plan(
        self,
        placement: Placement | PlacementSchedule,
        *,
        name: str,
        options: Mapping[str, Any] | None = None,
        evaluations: int = 0,
        seconds: float = 0.0,
    ) -> Plan | ScheduledPlan:
        """Make the plan of a placement: checked, with what it is predicted to attain (`predict`).

        Parameters
        ----------
        placement : Placement or PlacementSchedule
            What was decided.
        name : str
            Who decided.
        options : Mapping[str, Any], optional
            The options that it was decided with, as JSON values.
        evaluations : int
            Simulations that it took.
        seconds : float
            Time that it took.

        Returns
        -------
        Plan
            Or a ScheduledPlan, of a placement that changes over time.

        Raises
        ------
        InputError
            If the placement holds a model that is not to be placed, or one under a configuration that was not
            profiled, uses a device that is not there, or exceeds a device's memory.
        """
        self.check(placement)
        predicted = self.predict(placement)
        try:
            entry = PlannerEntry(
                name=name, options=dict(options or {}), seed=self.seed, seconds=seconds, evaluations=evaluations
            )
        except ValueError as error:  # pydantic's
            raise InputError(f"plan: name, options, evaluations or seconds: {first_problem(error)}") from None
        if isinstance(placement, PlacementSchedule):
            return ScheduledPlan(self.cluster, placement, entry, predicted)
        return Plan.of(
            self.cluster, placement, self.profiles, planner=entry, trace=self.trace, serving=self.serving,
            predicted=predicted,
        )  # fmt: skip

    @property
    def serving(self) -> Serving:
        """How the plan will be served, as plans say it."""
        return Serving(
            dispatch=cast(Dispatch, self.dispatch), admission=self.admission, overhead_s=self.overhead,
            max_batch=self.max_batch,
        )  # fmt: skip

    def check(self, placement: Placement | PlacementSchedule, where: str = "placement") -> None:
        """Check a placement against the problem: its models, devices, configurations and memory.

        Raises
        ------
        InputError
            Beginning with `where`. Memory exceeded is no `InfeasibleError` here: another placement may well fit.
        """
        placements = placement.placements if isinstance(placement, PlacementSchedule) else (placement,)
        for one in placements:
            check_placement(one, self.cluster, self.models, self.profiles, where)

    def upper_bound(self, trace: Trace | None = None) -> float:
        """What no placement attains more of on `trace`, by default the problem's own; NaN where nothing is known."""
        try:
            instance = build_instance(
                self.cluster, self.models, self.trace if trace is None else trace, self.profiles,
                dispatch=self.dispatch, admission=self.admission, overhead=self.overhead, require="any",
            )  # fmt: skip
        except (InfeasibleError, OutOfProfileError):
            return math.nan
        return upper_bound(instance)
