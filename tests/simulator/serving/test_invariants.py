"""What must hold whatever the world: conservation, lanes without overlap, determinism, metamorphic relations."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from meshwright.profiles import ModelProfile, ParallelConfig
from meshwright.simulator import Group, Placement, PlacementSchedule, simulate
from meshwright.traces import Trace

ONE, PIPE3, WIDE = ParallelConfig(1, 1), ParallelConfig(1, 3), ParallelConfig(2, 2)
DISPATCH = ("shortest_queue", "earliest_finish", "earliest_free")
NAMES = ("a", "b", "c")


def world(seed=0, n=3000, rate=40.0, slo=0.6, scale=1.0):
    """Heterogeneous groups, bursty arrivals; times are multiples of 2**-20 s, so that scaling them is exact."""
    rng = np.random.default_rng(seed)

    def grid(x):
        return np.round(np.asarray(x) * 2**20) / 2**20 * scale

    profiles = {}
    for name in NAMES:
        latency = {
            c: {b: grid(rng.uniform(0.02, 0.12, c.pp) * (1 + 0.5 * (b - 1))) for b in (1, 2, 4)}
            for c in (ONE, PIPE3, WIDE)
        }
        profiles[name] = ModelProfile.from_stages(name, latency, hop_s=float(grid(0.004)))
    placement = Placement([Group(ONE, NAMES[:2]), Group(PIPE3, NAMES), Group(WIDE, NAMES[1:]), Group(ONE, NAMES)])
    arrival = grid(np.cumsum(rng.gamma(1 / 9, 9 / rate, n)))
    trace = Trace(arrival, rng.integers(0, 3, n), NAMES, float(grid(slo)))
    return placement, trace, profiles


every_option = pytest.mark.parametrize(
    "options",
    [
        {"dispatch": d, "batching": b, "admission": a, "overhead": 2.0**-6}
        for d in DISPATCH
        for b in (None, 4)
        for a in (True, False)
    ],
    ids=str,
)


@every_option
def test_conservation_and_causality(options):
    placement, trace, profiles = world()
    result = simulate(placement, trace, profiles, **options)
    served = ~result.rejected
    assert (np.isnan(result.finish) == result.rejected).all()
    assert (np.isnan(result.start) == result.rejected).all()
    assert (result.start[served] >= trace.arrival[served]).all()
    assert (result.finish[served] > result.start[served]).all()
    if not options["admission"]:
        assert served.all()
    if options["admission"]:
        assert result.attained[served].all()  # what is admitted keeps its deadline
    held = [set(placement.groups_of(name)) for name in NAMES]
    for m, allowed in enumerate(held):
        assert set(result.group[served & (trace.model == m)].tolist()) <= allowed
    assert result.per_model()["requests"].sum() == len(trace)
    assert result.per_group()["requests"].sum() == served.sum()


@every_option
def test_no_stage_runs_two_things_at_once_and_busy_time_is_the_work_done(options):
    placement, trace, profiles = world()
    result = simulate(placement, trace, profiles, **options)
    timeline = result.timeline()
    for lane in range(len(timeline.lanes)):
        mine = timeline.lane == lane
        start, end = timeline.start[mine], timeline.end[mine]
        order = np.argsort(start)
        assert (start[order][1:] >= end[order][:-1]).all(), timeline.lanes[lane]
    # Sum of work, recomputed from the profile, request by request.
    batch = np.ones(len(trace)) if result.batch is None else result.batch
    work = np.zeros(len(placement.groups))
    for g, group in enumerate(placement.groups):
        for m, name in enumerate(NAMES):
            for b in (1, 2, 4):
                mine = (result.group == g) & (trace.model == m) & (batch == b)
                work[g] += mine.sum() / b * sum(profiles[name].latency(group.config, b))
    lanes = [g for g, group in enumerate(placement.groups) for _ in range(group.config.pp)]
    np.testing.assert_allclose(np.bincount(lanes, weights=timeline.busy()), work, rtol=1e-9)
    stages = np.array([group.config.pp for group in placement.groups])
    np.testing.assert_allclose(result.utilization() * stages * result.horizon, work, rtol=1e-9)
    devices = np.array([group.config.op for group in placement.groups])
    windows = result.utilization(5.0)
    assert windows.sum() * 5.0 * placement.n_devices == pytest.approx((work * devices).sum(), rel=1e-9)
    assert (windows <= 1 + 1e-9).all()
    # What the timeline says the last stage did is what the result says.
    last = np.zeros(len(trace))
    np.maximum.at(last, timeline.request, timeline.end)
    first = np.isin(np.arange(len(trace)), timeline.request)
    np.testing.assert_allclose(last[first] + options["overhead"], result.finish[first], rtol=1e-12)


def test_a_first_stage_never_idles_while_a_request_waits():
    """Work conservation: with one group, a request starts on arrival or when the one before leaves stage 0."""
    placement, trace, profiles = world()
    placement = Placement([Group(PIPE3, NAMES)])
    result = simulate(placement, trace, profiles, admission=False)
    stage0 = np.array([profiles[n].latency(PIPE3)[0] for n in NAMES])[trace.model]
    free = np.concatenate(([0.0], (result.start + stage0)[:-1]))
    np.testing.assert_array_equal(result.start, np.maximum(trace.arrival, free))


SCRIPT = """
import hashlib, sys
sys.path.insert(0, {folder!r})
from test_invariants import digest
print(digest())
"""


def digest() -> str:
    placement, trace, profiles = world(n=500)
    out = hashlib.sha256()
    for batching in (None, 4):
        result = simulate(placement, trace, profiles, batching=batching)
        out.update(result.finish.tobytes() + result.group.tobytes() + result.start.tobytes())
    return out.hexdigest()


def test_another_process_with_another_hash_seed_gives_the_same_bytes():
    script = SCRIPT.format(folder=os.path.dirname(__file__))
    environment = {**os.environ, "PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"}
    run = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == digest()


@every_option
def test_doubling_every_time_doubles_every_latency(options):
    one = simulate(*world(), **options)
    two = simulate(*world(scale=2.0), **(options | {"overhead": 2 * options["overhead"]}))
    np.testing.assert_array_equal(two.group, one.group)
    np.testing.assert_array_equal(two.finish, 2 * one.finish)
    np.testing.assert_array_equal(two.start, 2 * one.start)


@every_option
def test_names_and_device_numbers_change_nothing(options):
    placement, trace, profiles = world()
    alias = dict(zip(NAMES, ("zeta", "eta", "theta"), strict=True))
    n = placement.n_devices
    renamed = Placement(
        Group(g.config, [alias[m] for m in g.models], [n - 1 - d for d in g.devices]) for g in placement.groups
    )
    there = Trace(trace.arrival, trace.model, tuple(alias.values()), trace.slo)
    a = simulate(placement, trace, profiles, **options)
    b = simulate(renamed, there, {alias[k]: p.renamed(alias[k]) for k, p in profiles.items()}, **options)
    np.testing.assert_array_equal(a.finish, b.finish)
    np.testing.assert_array_equal(a.group, b.group)


@every_option
def test_a_model_that_nobody_asks_for_changes_nothing(options):
    placement, trace, profiles = world()
    idle = Placement(Group(g.config, [*g.models, "idle"], g.devices) for g in placement.groups)
    profiles["idle"] = profiles["a"].renamed("idle")
    wider = Trace(trace.arrival, trace.model, (*NAMES, "idle"), trace.slo)
    a, b = simulate(placement, trace, profiles, **options), simulate(idle, wider, profiles, **options)
    np.testing.assert_array_equal(a.finish, b.finish)
    assert np.isnan(b.per_model().loc["idle", "attainment"])


@pytest.mark.parametrize("seed", range(5))
def test_a_longer_slo_never_lowers_what_a_fixed_fcfs_group_attains(seed):
    _, trace, profiles = world(seed)
    placement = Placement([Group(PIPE3, NAMES)])
    attained = [
        simulate(placement, trace.with_slo(slo), profiles, admission=False).attainment for slo in (0.2, 0.4, 0.8, 1.6)
    ]
    assert attained == sorted(attained)
    assert attained[0] < attained[-1]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("dispatch", DISPATCH)
def test_one_more_identical_group_does_not_lower_attainment(seed, dispatch):
    _, trace, profiles = world(seed, rate=80.0)
    attained = [
        simulate(Placement([Group(ONE, NAMES)] * n), trace, profiles, dispatch=dispatch).attainment
        for n in (1, 2, 4, 8)
    ]
    assert attained == sorted(attained)
    assert attained[0] < attained[-1]


@every_option
def test_the_future_does_not_change_decisions(options):
    """The oracle boundary: cut or change what comes after t and everything decided up to t stays."""
    placement, trace, profiles = world()
    cut = 1500
    model = trace.model.copy()
    model[cut:] = (model[cut:] + 1) % 3
    slo = trace.slo.copy()
    slo[cut:] *= 3
    other = Trace(trace.arrival, model, NAMES, slo)
    a, b = simulate(placement, trace, profiles, **options), simulate(placement, other, profiles, **options)
    now = trace.arrival[cut]
    decided = np.arange(cut) if options["batching"] is None else np.flatnonzero(a.start[:cut] < now)
    np.testing.assert_array_equal(a.group[decided], b.group[decided])
    np.testing.assert_array_equal(a.finish[decided], b.finish[decided])
    assert (a.group[cut:] != b.group[cut:]).any()


def test_a_schedule_of_one_placement_that_carries_is_that_placement():
    placement, trace, profiles = world()
    once = simulate(placement, trace, profiles, dispatch="earliest_finish")
    steps = [0.0, *np.linspace(5, 60, 6)]
    carried = simulate(
        PlacementSchedule(steps, [placement] * 7, carry=True), trace, profiles, dispatch="earliest_finish"
    )
    np.testing.assert_array_equal(once.finish, carried.finish)
    np.testing.assert_array_equal(once.group, carried.group)
    per_group = carried.per_group()
    assert per_group.index.names == ["window", "group"]
    assert per_group["requests"].sum() == (~carried.rejected).sum()
    np.testing.assert_array_equal(
        per_group["requests"].groupby("group").sum().to_numpy(), once.per_group()["requests"].to_numpy()
    )
