"""Options of AlpaServe's planner and of the baselines: what may be said of each besides the problem itself.

Planners take them by name, ``plan(cluster, models, trace, profiles, beam=2)``, and check them here before any work.
"""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import InputError
from ...profiles.config import ParallelConfig
from ...reprs import Shown
from ...simulator.cluster import Cluster
from ...simulator.failures import Failures
from ...simulator.serving.breakdowns import Breakdowns
from ...simulator.serving.loading import Loading
from ...simulator.serving.policy import check_dispatch
from ...traces.trace import Trace
from ..option_names import options_from

__all__ = [
    "ALGORITHMS",
    "MEMORY_RULES",
    "ClockworkOptions",
    "InstanceOptions",
    "PartitionOptions",
    "PlanOptions",
    "ReplicationOptions",
    "SURVIVE",
    "SelectionOptions",
]

SURVIVE = ("none", "device", "node")
"""What a plan is to survive the loss of, any one at a time."""

ALGORITHMS = ("auto", "algorithm1", "algorithm2")
"""``auto``: Algorithm 2 with and without separate model buckets, the better one. ``algorithm2``: the paper's, separate
buckets only. ``algorithm1``: model selection alone, for equal groups of `config`."""

MEMORY_RULES = ("per_stage", "max_stage")
"""``per_stage``: on every stage, the weights of the group's models sum to at most a device's usable memory (the paper).
``max_stage``: the sum of each model's fullest stage does (the AlpaServe authors' code); never holds more."""

MEANS = ("mtbf", "mttr", "node_mtbf", "node_mttr")
"""What says how often something fails, and for how long, as options name it."""

POLISH = 300
"""Moves of single replicas that ``auto`` tries on its answer by default."""


@dataclass(frozen=True, kw_only=True, repr=False)
class InstanceOptions(Shown):
    """How a plan will be served, and which configurations its groups may have. All planners take these.

    Parameters
    ----------
    max_op, max_pp : int, optional
        Largest degrees to use; whatever is profiled if not given.
    dispatch, admission
        How the plan will be served (`meshwright.simulator.simulate`).
    overhead : float, optional
        Seconds that serving adds to every request; by default the profile set's own (0 where it has none).
    memory : str
        A rule of `MEMORY_RULES`.

    Raises
    ------
    InputError
        On a value out of its range.
    """

    max_op: int | None = None
    max_pp: int | None = None
    dispatch: str = "shortest_queue"
    admission: bool = True
    overhead: float | None = None
    memory: str = "per_stage"

    def __post_init__(self) -> None:
        check_dispatch(self.dispatch)
        if self.memory not in MEMORY_RULES:
            raise InputError(f"memory: unknown rule {self.memory!r}; expected one of {', '.join(MEMORY_RULES)}")
        overhead = self.overhead
        if overhead is not None and (isinstance(overhead, bool) or not (math.isfinite(overhead) and overhead >= 0)):
            raise InputError(f"overhead: expected finite seconds >= 0 (got {overhead})")
        for name in ("max_op", "max_pp"):
            if getattr(self, name) is not None:
                _check_whole(self, name, least=1, otherwise=" or None")


@dataclass(frozen=True, kw_only=True, repr=False)
class SelectionOptions(InstanceOptions):
    """How models are chosen for groups that are given; the rest as in `InstanceOptions`.

    Parameters
    ----------
    selection : {"fast", "greedy"}
        ``fast``: one simulation per step, the most unserved model to the least utilised group. ``greedy``: Algorithm 1,
        which simulates every candidate.
    beam : int
        Beam size of Algorithm 1.
    """

    selection: str = "fast"
    beam: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_word(self, "selection", ("fast", "greedy"))
        _check_whole(self, "beam", least=1)


@dataclass(frozen=True, kw_only=True, repr=False)
class ReplicationOptions(SelectionOptions):
    """Options of planners whose groups are all alike; the rest as in `SelectionOptions`.

    Parameters
    ----------
    fill : bool
        Fill spare memory with replicas that do no harm.
    """

    fill: bool = True


@dataclass(frozen=True, kw_only=True, repr=False)
class ClockworkOptions(SelectionOptions):
    """Options of Clockwork++; the rest as in `SelectionOptions`.

    Parameters
    ----------
    window : float
        Seconds; the paper takes 60 for MAF1 and 5,400 for MAF2.
    windows : {"fixed", "drifting"}
        ``fixed``: [0, w), [w, 2w), …; ``drifting`` (the authors' code): a window begins at an arrival and ends at the
        first arrival more than `window` later.
    clairvoyant : bool
        Plan a window from its own arrivals (the paper's hypothetical bound); False: from those of the window before,
        as an online system must (the first window from its own).
    carry : bool
        Keep devices busy over a boundary (see `PlacementSchedule`); the authors' code does not.
    loading : Loading or Mapping or float, optional
        What changing the placement costs: bandwidths (fields of `Loading`), or the disk's alone, bytes per second. Then
        `carry` holds, models stay on devices that have them where they can, and a placement is changed only if that
        attains more of the window's requests. The paper's bound, swapping at no cost, if left out.
    """

    window: float = 60.0
    windows: str = "fixed"
    clairvoyant: bool = True
    carry: bool = False
    loading: Loading | Mapping[str, float] | float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.loading
        if isinstance(given, Mapping):
            object.__setattr__(self, "loading", options_from(Loading, given, "loading"))
        elif isinstance(given, int | float) and not isinstance(given, bool):
            object.__setattr__(self, "loading", Loading(float(given)))
        elif not (given is None or isinstance(given, Loading)):
            raise InputError(f"loading: expected bytes per second, or fields of Loading (got {given!r})")
        if self.loading is not None:
            object.__setattr__(self, "carry", True)
        if not (math.isfinite(self.window) and self.window > 0):
            raise InputError(f"window: expected positive, finite seconds (got {self.window})")
        _check_word(self, "windows", ("fixed", "drifting"))


@dataclass(frozen=True, repr=False)
class PartitionOptions(Shown):
    """What Algorithm 2 enumerates.

    Parameters
    ----------
    selection : str
        ``"fast"`` (one simulation per step) or ``"greedy"`` (Algorithm 1).
    beam : int
        Beam size of Algorithm 1.
    bucket_threshold : float
        Relative latency difference above which models go to different buckets, in [0, 1].
    bucketings : str
        ``"coarsest"`` (the bucketing with the fewest buckets), ``"all"`` (the paper) or ``"none"`` (one bucket).
    unseparated : bool
        Try one bucket for all models too, as the authors' code does.
    remainder : str
        See `enumeration.group_partitions`.
    max_splits : int
        Device splits to try for each bucketing after pruning by discrepancy.
    """

    selection: str = "fast"
    beam: int = 1
    bucket_threshold: float = 0.38
    bucketings: str = "coarsest"
    unseparated: bool = True
    remainder: str = "powers_of_two"
    max_splits: int = 100

    def __post_init__(self) -> None:
        _check_word(self, "selection", ("fast", "greedy"))
        _check_word(self, "bucketings", ("coarsest", "all", "none"))
        _check_word(self, "remainder", ("powers_of_two", "last_group"))
        _check_whole(self, "beam", least=1)
        _check_whole(self, "max_splits", least=1)
        if not 0 <= self.bucket_threshold <= 1:
            raise InputError(f"bucket_threshold: expected a fraction from 0 to 1 (got {self.bucket_threshold})")


@dataclass(frozen=True, kw_only=True, repr=False)
class PlanOptions(InstanceOptions):
    """Options of AlpaServe's planner; the rest as in `InstanceOptions`, but for `max_op` and `max_pp`: 8 and 16.

    Parameters
    ----------
    algorithm : str
        One of `ALGORITHMS`.
    selection : str, optional
        As in `SelectionOptions`. By default greedy for ``algorithm1`` and fast otherwise; ``greedy`` is never worse.
    beam : int
        Beam size of Algorithm 1.
    config : ParallelConfig or str, optional
        The groups of ``algorithm1``.
    bucket_threshold, bucketings, remainder, max_splits
        See `PartitionOptions`.
    polish : int, optional
        Moves of single replicas tried on the answer, kept where they do not harm; by default 300 for ``auto`` and none
        for the paper's algorithms.
    local_search_iterations, local_search_seconds : int, float
        Improve the answer by local search until either is reached; 0 for no limit of that kind, both 0 for no search.
        With iterations alone the plan depends only on the arguments.
    robust : int or sequence of Trace, optional
        Plan for these traces, or for so many resamples of the trace, instead of the trace itself.
    times : {"mean", "drawn"}
        ``drawn``: judge placements over draws of the times that the profile says vary (see `drawn`).
    failures : {"none", "drawn"} or mapping or Breakdowns
        ``drawn``: judge placements over draws of the failures that the problem has (see `drawn`); or what fails itself:
        mean seconds `mtbf` and `mttr` of a device, `node_mtbf` and `node_mttr`, or Breakdowns with loading times.
    draws : int
        So many draws of what is drawn, at least 2.
    criterion : str or float
        ``"mean"`` attainment over robust traces or draws, or the quantile of it to make large (0: the worst).
    survive : str
        ``device`` or ``node``: plan for what is attained when any one of them is lost, whichever hurts most, and only
        then for what is attained while all is well; ``none``: all stays well. With drawn times or failures both are
        means over the draws (or the quantile `criterion`), what is lost being away in all of them from the beginning.
    fill : bool
        Fill spare memory with replicas that do no harm.
    """

    algorithm: str = "auto"
    selection: str | None = None
    beam: int = 1
    config: ParallelConfig | str | None = None
    max_op: int | None = 8
    max_pp: int | None = 16
    bucket_threshold: float = 0.38
    bucketings: str = "coarsest"
    remainder: str = "powers_of_two"
    max_splits: int = 100
    polish: int | None = None
    local_search_iterations: int = 0
    local_search_seconds: float = 0.0
    robust: int | Sequence[Trace] | None = None
    times: str = "mean"
    failures: str | Mapping[str, float] | Breakdowns = "none"
    draws: int = 20
    criterion: str | float = "mean"
    survive: str = "none"
    fill: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_word(self, "algorithm", ALGORITHMS)
        if self.selection is None:
            object.__setattr__(self, "selection", "greedy" if self.algorithm == "algorithm1" else "fast")
        if self.polish is None:
            object.__setattr__(self, "polish", POLISH if self.algorithm == "auto" else 0)
        _ = self.partition  # checks what is its own
        if (self.config is None) == (self.algorithm == "algorithm1"):
            needed = (
                "needs the configuration of its groups" if self.config is None else f"searches it (got {self.config})"
            )
            raise InputError(f"config: {self.algorithm} {needed}; it goes with algorithm1 only")
        _check_whole(self, "polish", least=0)
        _check_whole(self, "local_search_iterations", least=0)
        seconds = self.local_search_seconds
        if not (math.isfinite(seconds) and seconds >= 0):
            raise InputError(f"local_search_seconds: expected finite seconds >= 0 (got {seconds})")
        _check_word(self, "survive", SURVIVE)
        if self.survive != "none" and self.robust is not None:
            raise InputError(f"survive: {self.survive} and robust are two aims; leave one out")
        self._check_failures()
        self._check_robust()

    def _check_failures(self) -> None:
        given = self.failures
        if isinstance(given, Mapping):
            object.__setattr__(self, "failures", Breakdowns(_failures_of(given)))
        elif not isinstance(given, Breakdowns):
            _check_word(self, "failures", ("none", "drawn"))
        if self.failures != "none" and self.robust is not None:
            raise InputError("failures: drawn failures and robust are two aims; leave one out")

    def breakdowns(self, told: Breakdowns | None, cluster: Cluster) -> Breakdowns | None:
        """What fails while placements are judged; `told` is what the problem says of it.

        Raises
        ------
        InputError
            If failures are to be drawn and nothing fails, or what fails is a group, or is not there.
        """
        if self.failures == "none":
            return None
        found = self.failures if isinstance(self.failures, Breakdowns) else told
        if found is None or found.failures is None:
            raise InputError(
                "failures: drawn: nothing fails in this problem; give failures.mtbf and failures.mttr, "
                "failures.node_mtbf and failures.node_mttr, or a script"
            )
        if any(event.kind == "group" for event in found.failures.events):
            raise InputError("failures: drawn: the script names groups, which the plan has yet to make; name devices")
        found.failures.check(cluster.n_devices, cluster.devices_per_node)
        return found

    def _check_robust(self) -> None:
        criterion = self.criterion
        if criterion != "mean":
            if isinstance(criterion, bool) or not isinstance(criterion, int | float) or not 0 <= criterion <= 1:
                raise InputError(f"criterion: expected 'mean' or a quantile from 0 to 1 (got {criterion!r})")
            if self.robust is None and self.times == "mean" and self.failures == "none":
                raise InputError(
                    "criterion: a quantile needs several traces, or draws; give robust, or times=drawn, or "
                    "failures=drawn"
                )
        _check_word(self, "times", ("mean", "drawn"))
        _check_whole(self, "draws", least=2)
        if self.times == "drawn" and self.robust is not None:
            raise InputError("times: drawn times are of one trace; leave robust out")
        if self.robust is not None and not isinstance(self.robust, int):
            given = list(self.robust)
            if not given or not all(isinstance(t, Trace) for t in given):
                raise InputError(f"robust: expected traces or a number of resamples (got {given[:3]})")

    @property
    def partition(self) -> PartitionOptions:
        """What Algorithm 2 enumerates under these options."""
        same = ("selection", "beam", "bucket_threshold", "bucketings", "remainder", "max_splits")
        values: dict[str, Any] = {name: getattr(self, name) for name in same}
        return PartitionOptions(unseparated=self.algorithm != "algorithm2", **values)

    @property
    def quantile(self) -> float | None:
        """The quantile of attainment over the robust traces that is made large; None: the mean."""
        return None if self.criterion == "mean" else float(self.criterion)


def _failures_of(given: Mapping[str, float]) -> Failures:
    """Failures from mean times by name, in seconds."""
    unknown = [name for name in given if name not in MEANS]
    if unknown:
        raise InputError(f"failures: unknown {unknown[0]!r}; expected {', '.join(MEANS)}, in seconds")
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"failures: {name}: expected seconds > 0 (got {value!r})")
    mtbf_s, mttr_s, node_mtbf_s, node_mttr_s = (given.get(name) for name in MEANS)
    return Failures(mtbf_s, mttr_s, node_mtbf_s, node_mttr_s)


def _check_word(options: object, name: str, allowed: Sequence[str]) -> None:
    value = getattr(options, name)
    if value not in allowed:
        raise InputError(f"{name}: expected one of {', '.join(allowed)} (got {value!r})")


def _check_whole(options: object, name: str, *, least: int, otherwise: str = "") -> None:
    value = getattr(options, name)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        what = "a positive integer" if least else "an integer >= 0"
        raise InputError(f"{name}: expected {what}{otherwise} (got {value!r})")
