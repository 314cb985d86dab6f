"""Loading what serving cases name, and checking everything that can be checked before the first point is planned."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np

from ... import traces
from ...errors import InfeasibleError, InputError, OutOfProfileError
from ...planners import PlannerSource
from ...profiles import ProfileSet
from ...simulator.failures import ScriptedFailure, read_script
from ...simulator.serving.plan.file import Plan
from ...traces.trace import Trace
from ..words import under
from .case import ServingCase
from .check import check_alike, check_case, check_plan, check_repeatable
from .data import ServingData, profile_name, slo_profile_name
from .settled import profile_of
from .solve import planning_case

__all__ = ["load_data"]

T = TypeVar("T")


def load_data(cases: Sequence[ServingCase], folder: Path, *, repeatable: bool = True) -> ServingData:
    """Load what cases name, and what the variants name that they are planned for.

    Parameters
    ----------
    cases : sequence of ServingCase
        All that will be asked.
    folder : Path
        Files that they name are relative to it.
    repeatable : bool
        Whether their plans must come out alike on every machine, as points of studies do. A plan that is made once and
        kept need not.

    Raises
    ------
    InputError
        Every problem, one a line, each beginning with the field that it is about.
    """
    found = _Problems()
    loader = _Loader(folder, found)
    complete: list[ServingCase] = []
    partial: list[ServingCase] = []
    for case in cases:
        variants = [case]
        if case.planner.planned_for:
            planned = found.of("planner.planned_for", lambda c=case: planning_case(c))
            variants += [] if planned is None else [planned]
        for variant in variants:
            (complete if loader.load(variant) else partial).append(variant)
    data = loader.data
    for case in partial:
        if case.models is not None and _is_profiled(case, data):
            found.lines += [line for line in check_case(case, data, complete=False) if line not in found.lines]
    for case in cases if repeatable else ():
        found.of("planner.options", lambda case=case: check_repeatable(case))
    for case in complete:
        found.lines += [line for line in check_case(case, data) if line not in found.lines]
    if not found.lines:
        found.of("workload.resample", lambda: check_alike(cases))
        for file in data.plans:
            _check_somewhere(file, [c for c in complete if c.planner.plan == file], data, found)
    if found.lines:
        raise InputError("\n".join(found.lines))
    return data


def _is_profiled(case: ServingCase, data: ServingData) -> bool:
    try:
        return profile_name(case) in data.profiles
    except InputError:
        return False


def _check_somewhere(file: str, cases: Sequence[ServingCase], data: ServingData, found: _Problems) -> None:
    """A plan that fits no case is a mistake; where it fits some, the others are points without a plan."""
    unfit: list[str] = []
    for case in cases:
        try:
            check_plan(case, data)
        except InfeasibleError as error:
            unfit.append(str(error))
        except (InputError, OutOfProfileError) as error:
            found.add("planner.plan", f"{file}: {error}")
    if cases and len(unfit) == len(cases):
        found.add("planner.plan", f"{file}: {unfit[0]}; take the plan's own cluster, or plan again for this one")


class _Problems:
    """Problems so far, each once, in the order in which they were found."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def of(self, field: str, work: Callable[[], T]) -> T | None:
        """Do some work; what is wrong with it is noted under a field, and None comes back."""
        try:
            return work()
        except (InputError, OutOfProfileError) as error:
            self.add(field, str(error))
            return None

    def add(self, field: str, message: str) -> None:
        """Note a problem."""
        self.lines += [s for s in (under(field, message) if field else message.splitlines()) if s not in self.lines]


@dataclass
class _Loader:
    """Loads each thing once, also where it failed."""

    folder: Path
    found: _Problems
    tried: dict[tuple[str, str], bool] = field(default_factory=dict[tuple[str, str], bool])
    profiles: dict[str, ProfileSet] = field(default_factory=dict[str, ProfileSet])
    traces: dict[str, Trace] = field(default_factory=dict[str, Trace])
    plans: dict[str, Plan] = field(default_factory=dict[str, Plan])
    planners: dict[str, PlannerSource] = field(default_factory=dict[str, PlannerSource])
    digests: dict[str, str] = field(default_factory=dict[str, str])
    scripts: dict[str, tuple[ScriptedFailure, ...]] = field(default_factory=dict[str, tuple[ScriptedFailure, ...]])
    bandwidths: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])

    @property
    def data(self) -> ServingData:
        """What was loaded."""
        return ServingData(
            self.profiles, self.traces, self.plans, self.planners, self.digests, self.scripts, self.bandwidths
        )  # fmt: skip

    def load(self, case: ServingCase) -> bool:
        """Load what a case names; whether all of it is there."""
        own = self.found.of("", lambda: profile_name(case))
        good = own is not None and self._once("profile", own, self._profile)
        if case.workload.slo is None and not isinstance(case.profile, str):
            scaled = self.found.of("", lambda: slo_profile_name(case))
            good = scaled is not None and self._once("profile", scaled, self._profile) and good
        if case.workload.trace is not None:
            good = self._once("workload.trace", case.workload.trace, self._trace) and good
        if isinstance(case.failures.script, str):
            good = self._once("failures.script", case.failures.script, self._script) and good
        if case.loading.measured is not None:
            good = self._once("loading.measured", case.loading.measured, self._bandwidths) and good
        if case.planner.plan is not None:
            return self._once("planner.plan", case.planner.plan, self._plan) and good
        return self._once("planner.name", case.planner.name, self._planner) and good

    def _once(self, field: str, name: str, work: Callable[[str], str]) -> bool:
        """Load a thing by its name, and keep its digest."""
        key = (field, name)
        if key not in self.tried:
            digest = self.found.of(field, lambda: work(name))
            self.tried[key] = digest is not None
            if digest:
                self.digests[name] = digest
        return self.tried[key]

    def _profile(self, name: str) -> str:
        self.profiles[name] = profile_of(name, self.folder)
        return self.profiles[name].digest()

    def _trace(self, name: str) -> str:
        try:
            trace = traces.read(self.folder / name)
        except OSError as error:
            raise InputError(f"{self.folder / name}: cannot be read: {error.strerror}") from None
        except InputError as error:
            raise InputError("; ".join(str(error).splitlines())) from None
        spoken = [m for m, count in zip(trace.models, trace.counts(), strict=True) if count]
        self.traces[name] = trace = trace.select(spoken)
        held = hashlib.sha256("\0".join(trace.models).encode())
        for column in (trace.arrival, trace.model, trace.slo):
            held.update(np.ascontiguousarray(column).tobytes())
        return held.hexdigest()

    def _plan(self, name: str) -> str:
        self.plans[name] = Plan.load(self.folder / name)
        return hashlib.sha256(self.plans[name].to_json().encode()).hexdigest()

    def _script(self, name: str) -> str:
        self.scripts[name] = read_script(self.folder / name)
        return hashlib.sha256("\n".join(map(str, self.scripts[name])).encode()).hexdigest()

    def _bandwidths(self, name: str) -> str:
        from ...profiles.measure.bandwidths import read_bandwidths  # late: few cases measure

        self.bandwidths[name] = read_bandwidths(self.folder / name)
        return hashlib.sha256(repr(sorted(self.bandwidths[name].items())).encode()).hexdigest()

    def _planner(self, name: str) -> str:
        self.planners[name] = PlannerSource.find(name, self.folder)
        return self.planners[name].digest
