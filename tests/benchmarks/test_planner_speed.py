"""Placement search on one core: time, simulations and attainment, beside the AlpaServe authors' search.

The cases are those that the authors' code was measured on: Table 1's latencies and sizes, a pipeline overhead of 1,
2.5 and 6 % for 2, 4 and 8 stages, an intra-operator factor of .62 and .39 for 2 and 4, a 30,000-request Gamma trace of
CV 4, SLO 5x, 13 GiB, op <= 4 and pp <= 8. Arrivals differ from theirs, so their selection rule, restated here, runs on
ours. Times are CPU seconds, the smallest of three runs, and stand beside a bare Lindley recursion over the trace.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numba
import numpy as np
import pytest
from meshwright import traces
from meshwright.planners.alpaserve import Evaluator, build_instance, plan
from meshwright.planners.alpaserve.enumeration import coarsest_buckets, layouts
from meshwright.planners.alpaserve.evaluator import State, canonical
from meshwright.planners.alpaserve.instance import Instance
from meshwright.planners.alpaserve.partition import PartitionOptions, Search
from meshwright.planners.alpaserve.selection import Room
from meshwright.profiles import ModelProfile, ParallelConfig
from meshwright.simulator import Cluster
from meshwright.simulator.serving.compiled.counting import count_served
from meshwright.simulator.serving.tables import build_tables

TABLE_1 = {
    "bert-1.3b": (2.4e9, 0.151), "bert-2.6b": (5.4e9, 0.238), "bert-6.7b": (13.4e9, 0.395),
    "moe-1.3b": (2.6e9, 0.150), "moe-2.4b": (4.8e9, 0.171), "moe-5.3b": (10.6e9, 0.234),
}  # fmt: skip
OP = {1: 1.0, 2: 0.62, 4: 0.39}
PP = {1: 1.0, 2: 1.01, 4: 1.025, 8: 1.06}
REQUESTS = 30_000


@dataclass(frozen=True)
class Case:
    """Models, devices and rate; the planner's options; seconds and score of the authors' code, and our target."""

    kinds: tuple[str, ...]
    n_devices: int
    rate: float
    options: dict
    authors_seconds: float
    authors_score: float
    target_seconds: float


MULTI = {"max_op": 4, "max_pp": 8}
FULL = {**MULTI, "algorithm": "algorithm1", "config": "op1pp8", "beam": 1}
CASES = {
    "A": Case(("bert-1.3b",) * 32, 64, 64.0, MULTI, 14.9, 1.0, 1.0),
    "B": Case(("bert-2.6b",) * 40, 32, 64.0, FULL, 25.9, 0.9997, 1.5),
    "B mp-search": Case(("bert-2.6b",) * 40, 32, 64.0, MULTI, 2.78, 0.9998, 1.5),
    "C": Case(tuple(k for k in TABLE_1 for _ in range(10)), 32, 64.0, MULTI, 52.2, 0.9756, 3.0),
    "D": Case(("bert-2.6b",) * 24, 16, 40.0, MULTI, 0.74, 0.9916, 0.74),
}  # fmt: skip


def profile(name: str, kind: str) -> ModelProfile:
    size, latency = TABLE_1[kind]
    grid = {ParallelConfig(op, pp): latency * OP[op] * PP[pp] / pp for op in OP for pp in PP}
    return ModelProfile.from_stages(
        name,
        {c: {1: [stage] * c.pp} for c, stage in grid.items()},
        {c: [size / c.n_devices] * c.pp for c in grid},
    )


def problem(case: Case):
    names = [f"{kind}-{i}" for i, kind in enumerate(case.kinds)]
    profiles = {name: profile(name, kind) for name, kind in zip(names, case.kinds, strict=True)}
    trace = traces.gamma(case.rate, 4.0, REQUESTS / case.rate, names, seed=0).with_slo_scale(5.0, profiles)
    return Cluster.of(case.n_devices), names, trace, profiles


@numba.njit
def lindley(arrival, service):
    finish = 0.0
    for now in arrival:
        finish = max(finish, now) + service
    return finish


def authors_greedy(evaluator: Evaluator, groups: tuple[int, ...], bucket: int) -> State:
    """The authors' fast greedy, restated: least requested group first, its most unserved model; packs until full."""
    instance = evaluator.instance
    room = Room(instance, bucket)
    state = canonical((c, 0) for c in groups)
    while True:
        tables = build_tables(evaluator.placement(state), instance.models, instance.profiles)
        counts = count_served(instance.arrival, instance.model, instance.slo, tables)
        unserved = instance.counts - counts.attained_per_model
        order = np.argsort(unserved, kind="stable")[::-1].tolist()
        step = next(
            (
                (g, m)
                for g in np.argsort(counts.dispatched, kind="stable").tolist()
                for m in order
                if room.free(state[g]) >> m & 1
            ),
            None,
        )
        if step is None:
            return state
        g, m = step
        state = canonical([*state[:g], (state[g][0], state[g][1] | 1 << m), *state[g + 1 :]])


def authors_search(instance: Instance) -> float:
    """Best attainment of the final packed placements over all layouts, in one bucket and in two (most even split)."""
    evaluator = Evaluator(instance)
    everything = (1 << instance.n_models) - 1
    best = max(
        evaluator.attainment(authors_greedy(evaluator, groups, everything))
        for groups in layouts(instance, instance.n_devices)
    )
    latency = [instance.profiles[name].single_device_latency() for name in instance.models]
    buckets = coarsest_buckets(latency, 0.38)
    if len(buckets) > 1:
        split = Search(evaluator, PartitionOptions())._splits(buckets)[0]
        state: list = []
        for bucket, n in zip(buckets, split, strict=True):
            mask = sum(1 << m for m in bucket)
            found = [authors_greedy(evaluator, groups, mask) for groups in layouts(instance, n, bucket)]
            state += max(found, key=evaluator.attainment)
        best = max(best, evaluator.attainment(canonical(state)))
    return best


@pytest.mark.parametrize("name", CASES)
def test_placement_search(name, benchmark):
    case = CASES[name]
    where, names, trace, profiles = problem(case)
    arguments = (where, names, trace, profiles)
    lindley(trace.arrival, 0.001)
    begun = time.perf_counter()
    for _ in range(10):
        lindley(trace.arrival, 0.001)
    bare = (time.perf_counter() - begun) / 10

    def search():
        begun = time.process_time()
        found = plan(*arguments, **case.options)
        return found, time.process_time() - begun

    search()  # compiles
    runs = [search() for _ in range(3)]
    seconds = min(s for _, s in runs)
    benchmark.pedantic(search, rounds=1)
    found = runs[0][0]
    attained = found.predicted["attainment"]
    theirs = authors_search(build_instance(*arguments, **MULTI))
    print(
        f"\n{name}: {seconds:.3f} CPU s (target {case.target_seconds} s; authors {case.authors_seconds} s, "
        f"{case.authors_seconds / seconds:.0f}x), {found.planner.evaluations} simulations, "
        f"{seconds / bare:.0f} Lindley passes; attainment {attained:.4f}, restated authors {theirs:.4f} on this trace "
        f"({case.authors_score} published on theirs), bound {found.predicted['upper_bound']:.4f}"
    )
    benchmark.extra_info.update(cpu_s=seconds, lindley=seconds / bare, attainment=attained, authors=theirs)
    assert attained >= theirs
