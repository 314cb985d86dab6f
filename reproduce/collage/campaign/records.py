"""What a campaign measures, as records: contests of whole networks, searches, planning times, backends one by one."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from ....errors import InputError

__all__ = ["Campaign", "Contest", "Made", "Planning", "Profiled", "Search", "Steps", "Unit", "Way"]


@dataclass(frozen=True, slots=True)
class Way:
    """One way to run a network, timed by turns with the others of its contest.

    Parameters
    ----------
    name : str
        Backend that has all of it, or what the placement is called.
    backends : tuple of str
        That it uses.
    groups : int
        Units that the network is cut into.
    predicted_ms : float or None
        Sum of its measured costs; None where a unit has none.
    ms : tuple of float
        CPU time of each round, milliseconds. Empty where it does not run.
    reason : str
        Why it does not run; empty if it does.
    """

    name: str
    backends: tuple[str, ...]
    groups: int
    predicted_ms: float | None
    ms: tuple[float, ...]
    reason: str = ""

    def __post_init__(self) -> None:
        if bool(self.ms) == bool(self.reason) or not all(math.isfinite(x) and x > 0 for x in self.ms):
            raise InputError(f"{self.name}: expected rounds of positive milliseconds, or a reason (got {self.ms})")

    @property
    def median(self) -> float:
        """Milliseconds of a round, NaN where it does not run."""
        return statistics.median(self.ms) if self.ms else math.nan

    @property
    def deviation(self) -> float:
        """Standard deviation of a round over the mean."""
        return statistics.stdev(self.ms) / statistics.fmean(self.ms) if len(self.ms) > 1 else math.nan


@dataclass(frozen=True, slots=True)
class Unit:
    """Operators that a placement gives to one backend as one: their kinds in the network's order, and their cost."""

    backend: str
    ops: tuple[str, ...]
    cost_ms: float


@dataclass(frozen=True, slots=True)
class Search:
    """An evolution, from the op level on.

    Parameters
    ----------
    library : str
        The graph library.
    bits : int
        Groups that it may be given.
    start_ms : float
        What the op level takes, milliseconds.
    at_s : tuple of float
        When each placement was known, seconds since the search began.
    ratio : tuple of float or None
        What each takes over what the op level takes in the same rounds; None where it does not run.
    budget_s : float
        When the search had to end.
    """

    library: str
    bits: int
    start_ms: float
    at_s: tuple[float, ...]
    ratio: tuple[float | None, ...]
    budget_s: float

    def __post_init__(self) -> None:
        if len(self.at_s) != len(self.ratio) or list(self.at_s) != sorted(self.at_s):
            raise InputError("search: expected as many times, in order, as ratios")

    def best(self, until_s: float = math.inf) -> float:
        """Speedup over the op level of the best placement that was known at a time."""
        known = [r for at, r in zip(self.at_s, self.ratio, strict=True) if r is not None and at <= until_s]
        return 1 / min([1.0, *known])


@dataclass(frozen=True, slots=True)
class Profiled:
    """What measuring the costs of a network took: units measured, units known from before, CPU seconds."""

    backends: tuple[str, ...]
    measured: int
    kept: int
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Contest:
    """A network at a batch: every framework, and Collage's placements, by turns.

    Parameters
    ----------
    model : str
        Name of the network.
    batch : int
        Samples of a call.
    operators : int
        Of its graph.
    matches : int
        Groups that some backend can run.
    profiled : Profiled
        What their costs took.
    ways : tuple of Way
        Contestants; the first is PyTorch as it is, and ``control`` is it once more.
    chosen : str
        Which way Collage's plan is: the fastest of its placements and single backends, in rounds of their own before.
    op_level : tuple of Unit
        The op level's placement, in an order in which it can run.
    search : Search or None
        The evolution; None where no graph library is, or none was asked for.
    taken_at : str
        UTC, ISO 8601.
    """

    model: str
    batch: int
    operators: int
    matches: int
    profiled: Profiled
    ways: tuple[Way, ...]
    chosen: str
    op_level: tuple[Unit, ...]
    search: Search | None
    taken_at: str

    def __post_init__(self) -> None:
        names = [way.name for way in self.ways]
        if len(set(names)) < len(names) or not {"control", "Collage", "Collage, op level"} <= set(names):
            raise InputError(f"{self.model}: expected ways that are called differently, control among them ({names})")

    def way(self, name: str) -> Way | None:
        """A way by its name; None if it is not among them."""
        return next((way for way in self.ways if way.name == name), None)

    def ms(self, name: str) -> float:
        """Median milliseconds of a way, NaN if it is not among them or does not run."""
        found = self.way(name)
        return math.nan if found is None else found.median

    def speedup(self, of: str, over: str) -> float:
        """Median over rounds of what `over` takes over what `of` takes in the same round; NaN if one does not run."""
        one, other = self.way(of), self.way(over)
        if one is None or other is None or not one.ms or not other.ms:
            return math.nan
        return statistics.median(b / a for a, b in zip(one.ms, other.ms, strict=True))


@dataclass(frozen=True, slots=True)
class Planning:
    """What planning at the op level takes: CPU seconds of this process and the measuring one.

    Parameters
    ----------
    model : str
        Name of the network.
    backends : tuple of str
        Those that were planned for.
    units : int
        Different groups that were measured.
    profile_s, place_s : float
        From scratch: measuring costs, and the search.
    again_profile_s, again_place_s : float
        The same once all costs are kept.
    """

    model: str
    backends: tuple[str, ...]
    units: int
    profile_s: float
    place_s: float
    again_profile_s: float
    again_place_s: float


@dataclass(frozen=True, slots=True)
class Steps:
    """Op-level placements with backends added one by one, timed by turns.

    Parameters
    ----------
    model : str
        Name of the network.
    added : tuple of str
        The backend that each step adds.
    ways : tuple of Way
        The placement of each step. Steps that come to the same placement have the same rounds.
    """

    model: str
    added: tuple[str, ...]
    ways: tuple[Way, ...]

    def __post_init__(self) -> None:
        if len(self.added) != len(self.ways) or not self.ways:
            raise InputError(f"{self.model}: expected a placement for each backend that is added")

    def gain(self, k: int) -> float:
        """Throughput of a step over that of the step before, in the same rounds; of the first 1."""
        if k == 0 or self.ways[k].ms == self.ways[k - 1].ms:
            return 1.0
        pairs = zip(self.ways[k - 1].ms, self.ways[k].ms, strict=True)
        return statistics.median(before / after for before, after in pairs)


@dataclass(frozen=True, slots=True)
class Made:
    """Where and how a campaign was measured.

    Parameters
    ----------
    cpu : str
        The processor.
    threads : int
        Of each process.
    versions : tuple of (str, str)
        Of meshwright, Python, torch and each backend.
    missing : tuple of (str, str)
        Frameworks and backends that are not there, each with the reason.
    day : str
        When it was begun, ISO 8601.
    rounds : int
        Least rounds of a contest.
    search_s : float
        Seconds that each evolution had.
    """

    cpu: str
    threads: int
    versions: tuple[tuple[str, str], ...]
    missing: tuple[tuple[str, str], ...]
    day: str
    rounds: int
    search_s: float

    @property
    def said(self) -> str:
        """In a line, for pictures and notes."""
        return f"measured on {self.cpu}, {self.threads} thread, {self.day}"


@dataclass(frozen=True, slots=True)
class Campaign:
    """A whole campaign, or as much of it as there is.

    Parameters
    ----------
    made : Made
        Where and how.
    contests : tuple of Contest
        Of networks at batches.
    plannings : tuple of Planning
        Fig. 2.9a.
    steps : tuple of Steps
        Fig. 2.11.
    """

    made: Made
    contests: tuple[Contest, ...] = ()
    plannings: tuple[Planning, ...] = ()
    steps: tuple[Steps, ...] = ()

    def contest(self, model: str, batch: int = 1) -> Contest | None:
        """That of a network at a batch, if it was measured."""
        return next((one for one in self.contests if (one.model, one.batch) == (model, batch)), None)
