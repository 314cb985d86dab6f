"""Small planning problems, each with a trap of its own, that the planner contract is tested on."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from ... import traces
from ...profiles.config import ParallelConfig
from ...profiles.hardware import DeviceSpec, LinkSpec
from ...profiles.profile import ModelProfile
from ...simulator.cluster import Cluster
from ...traces.trace import Trace
from .problem import Problem

__all__ = ["contract_problems", "infeasible_problem"]

GB = 10**9
ONE = ParallelConfig(1, 1)
CONFIGS = (ONE, ParallelConfig(1, 2), ParallelConfig(2, 1), ParallelConfig(1, 4), ParallelConfig(2, 2))
SPEED = {1: 1.0, 2: 0.6}
"""Latency of an operator on so many devices, relative to one."""


class Afresh(Mapping[str, Problem]):
    """Copies of problems, each made when it is first asked for: a test asks for one of ten."""

    def __init__(self, problems: Mapping[str, Problem]) -> None:
        self._problems, self._copies = problems, dict[str, Problem]()

    def __getitem__(self, case: str) -> Problem:
        if case not in self._copies:
            problem = copy.deepcopy(self._problems[case])
            self._copies[case] = replace(problem, trace=_own(problem.trace))
        return self._copies[case]

    def __iter__(self) -> Iterator[str]:
        return iter(self._problems)

    def __len__(self) -> int:
        return len(self._problems)

    def __or__(self, more: Mapping[str, Problem]) -> dict[str, Problem]:
        return {**self, **more}


def contract_problems(*, without: Collection[str] = ()) -> Mapping[str, Problem]:
    """The problems, by what is special about each: a few models, a few devices of 16 GB, some hundred requests.

    Made afresh at each call, always the same. Profiles are made by hand: a model under ``op1pp1`` (0.1 s as a rule),
    pipelines of 2 and 4 stages, and 2 devices to an operator, 0.6 of the time; batches of 1, 2 and 4.

    Parameters
    ----------
    without : collection of str
        Those that are left out.
    """
    return Afresh({case: problem for case, problem in _made().items() if case not in without})


def infeasible_problem() -> Problem:
    """A problem whose only models fit no group of its cluster."""
    return _problem(2, {"a": 90, "b": 80}, rate=4.0, cv=1.0)


@cache
def _made() -> dict[str, Problem]:
    """The problems, drawn once; who asks gets copies, which a planner may change as it likes."""
    even = _problem(4, {"a": 6, "b": 6, "c": 6}, rate=18.0, cv=1.0)
    problems = {
        "one model on one device": _problem(1, {"a": 10}, rate=5.0, cv=1.0),
        "even traffic": even,
        "bursts": _problem(4, {"a": 6, "b": 6, "c": 6, "d": 6}, rate=14.0, cv=4.0),
        "one busy model": _problem(
            4, {"a": 7, "b": 7, "c": 7, "d": 7}, rate=16.0, cv=2.0, split=(0.85, 0.05, 0.05, 0.05)
        ),
        "tight memory": _problem(3, {"a": 10, "b": 9, "c": 8, "d": 6, "e": 7, "f": 8}, rate=10.0, cv=2.0),
        "a model for two devices": _problem(4, {"a": 6, "big": 30, "b": 6}, rate=8.0, cv=2.0),
        "only large models": _problem(4, {"a": 28, "b": 20}, rate=4.0, cv=3.0),
        "overload": _problem(2, {"a": 6, "b": 6}, rate=60.0, cv=1.0),
        "a silent model": replace(even, trace=even.trace.select(["a", "c"])),
        "other ways to serve": _problem(
            3, {"a": 6, "b": 6, "c": 9}, rate=20.0, cv=2.0, dispatch="earliest_finish", admission=False, overhead=0.02,
            max_batch=4, seed=7,
        ),
    }  # fmt: skip
    return problems


def _own(trace: Trace) -> Trace:
    """Equal, checked and locked anew: a copy of locked arrays is not locked."""
    return Trace.trusted(trace.arrival.copy(), trace.model.copy(), trace.models, trace.slo.copy())


def _problem(
    n_devices: int,
    weights_gb: Mapping[str, float],
    *,
    rate: float,
    cv: float,
    split: Sequence[float] | None = None,
    **served: Any,
) -> Problem:
    """So many devices and models of so many GB under Gamma traffic; `served` are further fields of the problem."""
    link = LinkSpec(10e9, 1e-5)
    device = DeviceSpec("toy-16gb", 16 * GB, 16 * GB, 1e14, 1e12, link, link, "made for tests of planners")
    models = list(weights_gb)
    profiles = {name: _profile(name, 0.1 + 0.02 * m, weights_gb[name]) for m, name in enumerate(models)}
    trace = traces.gamma(rate, cv, 300 / rate, models, split, seed=11).with_slo_scale(4.0, profiles)
    return Problem(Cluster(1, n_devices, device), tuple(models), trace, profiles, **served)


def _profile(name: str, latency_s: float, weight_gb: float) -> ModelProfile:
    """A model that is cut evenly; a batch of b takes (1 + b) / 2 of the time of one."""
    return ModelProfile.from_stages(
        name,
        {c: {b: [latency_s * SPEED[c.op] / c.pp * (1 + b) / 2] * c.pp for b in (1, 2, 4)} for c in CONFIGS},
        {c: [weight_gb * GB / c.n_devices] * c.pp for c in CONFIGS},
        hop_s=0.001,
    )
