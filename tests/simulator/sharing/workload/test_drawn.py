"""Workloads 1 and 2 have the medians that Themis prints (§2.2, Table 4), within what sampling allows."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.simulator.sharing import (
    MODELS,
    App,
    SharingWorld,
    WorkloadOptions,
    baseline,
    contended,
    simulate,
    themis_168,
    themis_256,
    themis_testbed,
    trained_model,
    with_errors,
    workload1,
    workload2,
)
from meshwright.simulator.sharing.workload import themis as module
from meshwright.simulator.sharing.workload.models import MIX, TABLE1
from meshwright.simulator.sharing.workload.statistics import (
    app_gpu_s,
    demand,
    gpus_per_job,
    jobs_per_app,
    mean_demand,
    offered_load,
    task_s,
)
from scipy.optimize import brentq
from scipy.special import ndtr

N = 1500
MANY = WorkloadOptions(seed=11, apps=N)


@pytest.fixture(scope="module")
def first() -> tuple[App, ...]:
    return workload1(MANY)


def share_within(count: int, n: int, p: float) -> bool:
    """Whether a count of n is within four standard errors of the share p."""
    return abs(count - n * p) <= 4 * math.sqrt(n * p * (1 - p))


def test_apps_that_explore_have_no_single_job_and_lengths_come_nearer(first: tuple[App, ...]) -> None:
    """All else is the same draw: a length's distance to the median, as a logarithm, is multiplied by `spread`."""
    near = workload1(replace(MANY, exploring=True, spread=0.5))
    assert min(len(a.jobs) for a in near) >= module.FEWEST
    assert [a.arrival_s for a in near] == [a.arrival_s for a in first]
    middle = [np.array([np.median(task_s([a])) for a in apps]) for apps in (first, near)]
    several = np.array([len(a.jobs) for a in first]) > 1
    apart = [np.log(m / module.TASK_MEDIAN_S).std() for m in (middle[0][several], middle[1])]
    # jobs of an app scatter around it, their median by little
    assert apart[1] / apart[0] == pytest.approx(0.5, abs=0.03)


def test_the_law_of_the_jobs_is_what_the_text_says() -> None:
    fine = module.jobs_quantile((np.arange(10**5) + 0.5) / 10**5)
    assert (fine == 1).mean() == pytest.approx(0.10, abs=1e-4)
    assert np.median(fine) == 75
    assert fine.max() == 100
    assert np.unique(fine)[1] == 20  # "a few tens"


def test_medians_agree_with_each_other_in_theory() -> None:
    """Jobs per app, task time and GPUs per job give the median app of 11.5 GPU days: integrated, not drawn."""
    n = module.jobs_quantile((np.arange(20000) + 0.5) / 20000)
    counts, weight = np.unique(n, return_counts=True)
    # the mean over an app's jobs of tasks × length; an app of many jobs is all but at it
    each = (1 + module.TWO_GPU_SHARE) * math.exp(module.JOB_LOG_SD**2 / 2) * 3.75

    def below(log_hours: float) -> float:
        return float((weight * ndtr((log_hours - np.log(counts * each)) / module.APP_LOG_SD)).sum() / weight.sum())

    median = math.exp(brentq(lambda x: below(x) - 0.5, 0.0, 12.0))
    assert median / 24 == pytest.approx(11.5, rel=0.01)
    assert math.hypot(module.APP_LOG_SD, module.JOB_LOG_SD) == pytest.approx(module.TASK_LOG_SD)


def test_drawn_medians_are_the_papers(first: tuple[App, ...]) -> None:
    jobs = jobs_per_app(first)
    assert share_within(int((jobs == 1).sum()), N, 0.10)
    # half of the apps have 75 jobs or fewer; of whole numbers that is half of those with 75 more
    assert share_within(int((jobs <= 75).sum()), N, 0.5 + 0.5 * 0.5 / 25.5)
    assert share_within(int((app_gpu_s(first) <= 11.5 * 86400).sum()), N, 0.5)
    # of each app one task, for tasks of an app are alike: more of them say little more
    tasks = np.array([task_s((app,))[0] for app in first])
    assert share_within(int((tasks <= 3.75 * 3600).sum()), N, 0.5)
    assert share_within(int((tasks > 37.5 * 3600).sum()), N, 0.1)
    assert share_within(int((tasks < 0.375 * 3600).sum()), N, 0.1)


def test_workload_1_has_one_or_two_gpus(first: tuple[App, ...]) -> None:
    gpus = gpus_per_job(first)
    assert set(gpus.tolist()) == {1, 2}
    assert share_within(int((gpus == 2).sum()), len(gpus), module.TWO_GPU_SHARE)
    assert {a.kind for a in first} == {"curve"}


def test_the_mix_is_table_4(first: tuple[App, ...]) -> None:
    for category, share in MIX.items():
        count = sum(MODELS[a.model].category == category for a in first)
        assert abs(count - share * N) <= 1
    counts = np.array(
        [sum(a.model == m.name for a in first) * 5 / MIX["CV"] for m in MODELS.values() if m.category == "CV"]
    )
    assert np.abs(counts / N - 1).max() <= 5 / MIX["CV"] / N  # to within an app
    assert {a.model for a in first} == set(MODELS)
    assert sum(MIX.values()) == pytest.approx(1.0)
    assert {c: sum(m.category == c for m in MODELS.values()) for c in MIX} == {"CV": 5, "NLP": 4, "Speech": 2}


def test_table_1s_slowdowns() -> None:
    assert MODELS["VGG16"].slowdown.rack == pytest.approx(103.6 / 80.4)
    assert MODELS["Inception-v3"].slowdown.levels == (1.0, 1.0, 1.0, 1.0)  # 242/243 is below one: not slowed
    assert {m.name for m in MODELS.values() if m.measured} == set(TABLE1)
    for m in MODELS.values():
        assert m.slowdown.cluster - 1 == pytest.approx(3 * (m.slowdown.rack - 1))
    more = sorted(MODELS.values(), key=lambda m: m.parameters)
    assert all(a.slowdown.rack <= b.slowdown.rack for a, b in pairwise(more))
    with pytest.raises(InputError, match="did you mean 'VGG16'"):
        trained_model("VGG-16")


def test_arrivals_span_what_was_asked_for_and_are_bursty(first: tuple[App, ...]) -> None:
    gaps = np.diff([a.arrival_s for a in first])
    mean = MANY.span_s / N
    # standard error of the mean is cv/√n
    assert abs(gaps.mean() / mean - 1) <= 4 * MANY.burstiness / math.sqrt(N)
    # Gamma of shape 1/4: the variance of the sample variance has the fourth moment 3 + 6/shape
    kurtosis = 3 + 6 * MANY.burstiness**2
    assert abs(gaps.var() / (mean * MANY.burstiness) ** 2 - 1) <= 4 * math.sqrt((kurtosis - 1) / N) + 0.1
    assert first[0].arrival_s == 0


def test_workload_2_halves_and_has_more_tasks() -> None:
    options = WorkloadOptions(seed=3)
    one, two = workload1(options), workload2(options)
    assert gpus_per_job(two).mean() > gpus_per_job(one).mean()
    for a, b in zip(one, two, strict=True):
        assert (a.arrival_s, a.model, a.slowdown) == (b.arrival_s, b.model, b.slowdown)
        assert b.total_work_s == pytest.approx(a.total_work_s)
        n = len(b.jobs)
        assert n & (n - 1) == 0
        assert n <= len(a.jobs) < 2 * n
        assert [len(p.jobs) for p in b.phases] == [n >> k for k in range(n.bit_length())]
        assert all(set(q.jobs) < set(p.jobs) for p, q in pairwise(b.phases))
        assert all(f >= 15 for p in b.phases for f in p.iterations)
        assert len({j.gpus for j in b.jobs}) == 1


def test_doubling_and_rigid_jobs() -> None:
    doubled = workload2(WorkloadOptions(apps=5, doubling=True))
    assert all([p.gpus for p in a.phases] == [2**k for k in range(len(a.phases))] for a in doubled)
    assert all(j.gang == j.gpus for a in workload1(WorkloadOptions(apps=5, rigid=True)) for j in a.jobs)
    assert all(j.gang == 1 for a in workload1(WorkloadOptions(apps=5)) for j in a.jobs)
    with pytest.raises(InputError, match="rigid"):
        WorkloadOptions(rigid=True, doubling=True)


@pytest.mark.parametrize("share", [0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
def test_shares_of_network_intensive_apps_are_exact(share: float) -> None:
    apps = workload1(WorkloadOptions(network_intensive=share))
    assert sum(MODELS[a.model].network_intensive for a in apps) == round(share * 85)
    if share == 0:
        assert all(a.slowdown.rack < 1.05 for a in apps)


def test_shares_of_network_intensive_apps_are_nested() -> None:
    """With a larger share the same apps stay network-intensive: workloads are compared on common draws."""
    heavy = [
        {a.name for a in workload1(WorkloadOptions(network_intensive=x)) if MODELS[a.model].network_intensive}
        for x in (0.2, 0.4, 0.8)
    ]
    assert heavy[0] < heavy[1] < heavy[2]


@pytest.mark.parametrize("seed", range(5))
def test_85_apps_have_the_mix_to_an_app(seed: int) -> None:
    apps = workload1(WorkloadOptions(seed=seed))
    for category, share in MIX.items():
        assert abs(sum(MODELS[a.model].category == category for a in apps) - 85 * share) < 1


def test_network_intensive_apps_follow_the_mix_among_themselves() -> None:
    apps = workload1(WorkloadOptions(seed=2, apps=N, network_intensive=1.0))
    weight = {m.name: MIX[m.category] / sum(x.category == m.category for x in MODELS.values()) for m in MODELS.values()}
    heavy = {name: w for name, w in weight.items() if MODELS[name].network_intensive}
    for name, w in heavy.items():
        assert share_within(sum(a.model == name for a in apps), N, w / sum(heavy.values()))


def test_options_do_not_move_each_others_draws() -> None:
    base = workload1(WorkloadOptions(seed=5))
    scaled = workload1(WorkloadOptions(seed=5, scale=0.1, network_intensive=0.5))
    assert [a.arrival_s for a in base] == [a.arrival_s for a in scaled]
    np.testing.assert_allclose(app_gpu_s(scaled), 0.1 * app_gpu_s(base))
    assert workload1(WorkloadOptions(seed=5)) == base
    assert workload1(WorkloadOptions(seed=6)) != base
    longer = workload1(WorkloadOptions(seed=5, apps=100, span_s=14 * 86400 * 100 / 85))
    np.testing.assert_allclose(app_gpu_s(longer[:85]), app_gpu_s(base))


@pytest.mark.parametrize("make", [workload1, workload2])
def test_errors_are_within_their_range_and_only_believed(make) -> None:  # type: ignore[no-untyped-def]
    exact, wrong = make(WorkloadOptions(apps=400)), make(WorkloadOptions(apps=400, error=0.2))
    factors = np.array([a.believed_work for a in wrong])
    assert factors.min() >= 0.8
    assert factors.max() <= 1.2
    # uniform: mean 1, standard deviation 0.2/√3
    assert abs(factors.mean() - 1) <= 4 * 0.2 / math.sqrt(3 * 400)
    assert abs(factors.std() - 0.2 / math.sqrt(3)) <= 0.015
    for a, b in zip(exact, wrong, strict=True):
        assert replace(b, believed_work=1.0, believed_slowdown=None) == a
        assert b.believed_slowdown is not None
        ratio = b.believed_slowdown.cluster / a.slowdown.cluster
        assert 0.8 <= ratio <= 1.2 or b.believed_slowdown.cluster == 1.0
        assert b.believed_slowdown.slot == 1.0
    half = with_errors(exact, 0.1)
    np.testing.assert_allclose([a.believed_work - 1 for a in half], (factors - 1) / 2)
    assert with_errors(exact, 0.0) == exact


def test_demand_of_a_hand_made_workload() -> None:
    a = App.single("a", 0.0, 100.0, gpus=2)  # 2 GPUs for 50 s
    b = App.single("b", 20.0, 90.0, gpus=3)  # 3 GPUs for 30 s
    at, gpus = demand((a, b))
    assert at.tolist() == [0.0, 20.0, 50.0]
    assert gpus.tolist() == [2.0, 5.0, 0.0]
    assert mean_demand((a, b)) == pytest.approx(190 / 50)
    assert offered_load((a, b), 4) == pytest.approx(190 / (20 * 4))
    assert offered_load((a,), 4) == math.inf
    assert task_s((a, b)).tolist() == [50.0, 50.0, 30.0, 30.0, 30.0]


def test_demand_sums_to_the_work() -> None:
    for make in (workload1, workload2):
        apps = make(WorkloadOptions(apps=20))
        at, gpus = demand(apps)
        assert (gpus[:-1] * np.diff(at)).sum() == pytest.approx(app_gpu_s(apps).sum())
        assert gpus.min() >= 0


def test_contention_by_a_smaller_cluster() -> None:
    assert [contended(themis_256(), k).n_gpus for k in (1, 2, 4)] == [256, 128, 64]
    assert contended(themis_256(), 1) == themis_256()
    assert contended(themis_168(), 4).n_gpus == 4 * 8 + 1 * 4 + 4  # six machines of four: one is left, half is lost
    assert len({m.rack for m in contended(themis_256(), 4).machines}) == 4
    with pytest.raises(InputError, match="no kind of machine"):
        contended(themis_testbed(), 100)
    with pytest.raises(InputError, match="positive integer"):
        contended(themis_testbed(), 0)


def test_a_scaled_workload_runs() -> None:
    for make in (workload1, workload2):
        apps = make(WorkloadOptions(apps=12, scale=1 / 128, span_s=7200))
        result = simulate(SharingWorld(themis_testbed(), apps), baseline("tiresias"))
        assert result.completed.all()
        # GPUs are held at least as long as there is work
        assert np.all(result.gpu_seconds >= app_gpu_s(apps) * (1 - 1e-9))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"apps": 0}, "apps: expected a positive integer"),
        ({"scale": -1.0}, "scale: expected a finite number > 0"),
        ({"span_s": math.inf}, "span_s: expected a finite number > 0"),
        ({"network_intensive": 1.5}, r"network_intensive: expected a share in \[0, 1\]"),
        ({"error": 1.0}, r"error: expected a share in \[0, 1\)"),
        ({"tasks": ()}, "tasks: expected positive integers"),
    ],
)
def test_bad_options(options: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        WorkloadOptions(**options)  # type: ignore[arg-type]
