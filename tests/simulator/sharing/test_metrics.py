"""Metrics of a shared cluster: closed forms, both engines, what must add up."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.simulator.sharing import (
    App,
    AppFailure,
    SharedCluster,
    SharingWorld,
    Slowdown,
    WorkloadOptions,
    baseline,
    simulate,
    themis_testbed,
    workload2,
)
from meshwright.simulator.sharing.result.metrics import (
    bootstrap,
    cdf,
    jain,
    placement_scores,
    rho_cdf,
    sharing_metrics,
)
from meshwright.simulator.sharing.result.timeline import chrome_trace, draw_gantt, gpu_timeline

FAR = Slowdown(1.0, 1.0, 1.25, 2.0)


def two_alone(**more: object) -> SharingWorld:
    """Two machines of two GPUs; a job of four GPUs spans them, then one of two fits."""
    apps = (
        App.single("wide", 0.0, 4000.0, gpus=4, gang=4, slowdown=FAR),
        App.single("near", 5000.0, 200.0, gpus=2, gang=2, slowdown=FAR),
    )
    options = {"lease_s": 1e6, "checkpoint_s": 0.0, "container_s": 0.0, **more}
    return SharingWorld(SharedCluster.uniform(2, 2), apps, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", ["simpy", "compiled"])
def test_two_apps_that_never_meet(engine):
    """The first is slowed by 1.25 on all four GPUs; T_id is alone on the cluster, without slowdown: ρ = 1.25 and 1."""
    result = simulate(two_alone(), baseline("fifo"), engine=engine)
    m = sharing_metrics(result)
    assert result.rho == pytest.approx([1.25, 1.0])
    assert (m.max_rho, m.median_rho, m.fair_share) == pytest.approx((1.25, 1.125, 0.5))
    assert m.jain == pytest.approx((0.8 + 1) ** 2 / (2 * (0.8**2 + 1)))
    assert (m.gpu_hours * 3600, m.work_hours * 3600) == pytest.approx((4 * 1250 + 200, 4200))
    assert m.makespan_s == pytest.approx(5100)
    assert m.mean_completion_s == pytest.approx((1250 + 100) / 2)
    assert m.utilisation == pytest.approx((4 * 1250 + 200) / (4 * 5100))
    scores, counts = placement_scores(result)
    assert scores.tolist() == pytest.approx([0.8, 1.0])
    assert counts.tolist() == [1, 1]
    assert m.placement == pytest.approx(0.9)
    np.testing.assert_allclose(rho_cdf(result), ([1.0, 1.25], [0.5, 1.0]))


def test_an_app_that_failed_has_no_rho():
    world = two_alone(app_failures=(AppFailure(0, 100.0),))
    m = sharing_metrics(simulate(world, baseline("fifo")))
    assert (m.max_rho, m.fair_share, m.jain) == pytest.approx((1.0, 1.0, 1.0))
    assert m.gpu_hours * 3600 == pytest.approx(4 * 100 + 200)
    assert m.work_hours * 3600 == pytest.approx(200)
    nobody = two_alone(app_failures=(AppFailure(0, 100.0), AppFailure(1, 5010.0)))
    none = sharing_metrics(simulate(nobody, baseline("fifo")))
    assert math.isnan(none.max_rho)
    assert none.to_json()["max_rho"] is None


@pytest.mark.parametrize("name", ["gandiva", "tiresias", "fifo"])
def test_engines_place_alike_and_time_adds_up(name):
    """Both count the same allocations; the model's spells are those, fill GPUs once at most, and do all the work."""
    apps = workload2(WorkloadOptions(seed=3, apps=5, scale=0.01, span_s=3600.0))
    world = SharingWorld(themis_testbed(), apps)
    readable, compiled = (simulate(world, baseline(name), engine=e) for e in ("simpy", "compiled"))  # type: ignore[arg-type]
    np.testing.assert_array_equal(readable.placed, compiled.placed)
    assert readable.placed[:, 2:].sum() > 0
    placed = np.zeros_like(readable.placed)
    work, held = np.zeros(len(apps)), np.zeros(len(apps))
    busy: dict[int, list[tuple[float, float]]] = {}
    for s in readable.spells:
        level = world.cluster.level(s.gpus)
        placed[s.app, level] += 1
        spec = apps[s.app]
        work[s.app] += (
            (s.end_s - s.resumes_s) * min(len(s.gpus), spec.cap(s.phase, s.job)) / spec.slowdown.levels[level]
        )
        held[s.app] += (s.end_s - s.start_s) * len(s.gpus)
        for g in s.gpus:
            busy.setdefault(g, []).append((s.start_s, s.end_s))
    np.testing.assert_array_equal(placed, readable.placed)
    np.testing.assert_allclose(work, [sum(a.work_s(k) for k in range(len(a.phases))) for a in apps])
    np.testing.assert_allclose(held, readable.gpu_seconds)
    for spells in busy.values():
        ends = sorted(spells)
        assert all(b[0] >= a[1] - 1e-6 for a, b in pairwise(ends))


def test_jain():
    assert jain([3.0, 3.0, 3.0]) == pytest.approx(1.0)
    assert jain([0.0, 0.0, 5.0, 0.0]) == pytest.approx(0.25)
    for bad in ([], [0.0], [1.0, math.nan], [-1.0, 2.0]):
        with pytest.raises(InputError, match="jain"):
            jain(bad)


def test_a_cdf_weighs():
    values, share = cdf(np.array([2.0, 1.0]), np.array([3, 1]))
    assert (values.tolist(), share.tolist()) == ([1.0, 2.0], [0.25, 1.0])


def test_the_bootstrap_covers_as_it_says():
    """Of 200 samples of 25 normal numbers about 90 % of the intervals of the mean hold the true mean (a percentile
    bootstrap of 25 is a little short); the same seed gives the same interval."""
    rng = np.random.default_rng(1)
    found = [bootstrap(rng.normal(5.0, 1.0, 25), statistic=np.mean, draws=400) for _ in range(200)]
    covered = np.mean([i.low <= 5.0 <= i.high for i in found])
    assert 0.80 <= covered <= 0.96
    assert bootstrap([1.0, 2.0, 4.0]) == bootstrap([1.0, 2.0, 4.0])
    one = bootstrap([3.0])
    assert (one.value, one.low, one.high) == (3.0, 3.0, 3.0)
    for bad in ([], [math.nan]):
        with pytest.raises(InputError, match="bootstrap"):
            bootstrap(bad)
    with pytest.raises(InputError, match="level"):
        bootstrap([1.0], level=1.0)


def test_timeline():
    """The trace says what each GPU does, in microseconds; the chart has a bar for each spell on each GPU."""
    from matplotlib.figure import Figure

    result = simulate(two_alone(container_s=10.0), baseline("fifo"), engine="simpy")
    trace = json.loads(json.dumps(chrome_trace(result)))
    rows = [(e["name"], e["tid"], e["ts"], e["dur"]) for e in trace["traceEvents"] if e["ph"] == "X"]
    assert ("wide, job 0: restart", 3, 0.0, 10e6) in rows
    assert ("wide, job 0", 3, 10e6, pytest.approx(1250e6)) in rows
    assert len(rows) == 2 * (4 + 2)
    ax = draw_gantt(result, Figure().subplots())
    assert sum(len(part.get_paths()) for part in ax.collections) == 2 * (4 + 2)
    assert ax.get_legend_handles_labels()[1] == ["wide", "near"]
    table = gpu_timeline(result)
    held = (table.end_s - table.start_s).groupby(table.app).sum()
    assert [held["wide"], held["near"]] == pytest.approx(result.gpu_seconds.tolist())
    for _, mine in table.groupby("gpu"):
        assert (mine.start_s.to_numpy()[1:] >= mine.end_s.to_numpy()[:-1]).all()  # a GPU is one job's at a time
    assert (table.resumes_s - table.start_s).tolist() == [10.0] * len(table)
    with pytest.raises(InputError, match="simpy"):
        chrome_trace(simulate(two_alone(), baseline("fifo"), engine="compiled"))
