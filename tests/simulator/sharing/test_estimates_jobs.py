"""What agents say of jobs that are not alike: limits and curves of their own, gangs, survivors that nobody knows."""

from __future__ import annotations

import math

import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.simulator.sharing import App, AppView, Job, Phase, Shape, SharedCluster, Slowdown
from meshwright.simulator.sharing.policy.split import RunningJob, split

FLAT = Slowdown(1.0, 1.0, 1.0, 1.0)


def view(jobs: list[Job], works: list[float], convention: str, kind: str = "jobs", left: float = 1.0) -> AppView:
    """Jobs of which a share is left, in a cluster of 32 GPUs."""
    phase = Phase(tuple(range(len(jobs))), tuple(w / j.iteration_s for w, j in zip(works, jobs, strict=True)))
    app = App("a", 0.0, tuple(jobs), (phase,), kind, FLAT)  # type: ignore[arg-type]
    running = tuple(RunningJob(k, left * w, j.gpus, j.gang) for k, (w, j) in enumerate(zip(works, jobs, strict=True)))
    return AppView(0, app, 0.0, 0, running, (), (), 0.0, 1.0, 32, convention)  # type: ignore[arg-type]


def near(n: int) -> Shape:
    return Shape((n,))


def test_the_slowest_job_is_held_by_its_own_limit() -> None:
    """1000 s on one GPU and 10 s on up to four: with five GPUs the first still takes 1000 s (Equation 1)."""
    jobs, works = [Job(1.0, 1), Job(1.0, 4)], [1000.0, 10.0]
    assert view(jobs, works, "slowest").remaining_s(near(5)) == 1000.0
    assert view(jobs, works, "fluid").remaining_s(near(5)) == 1010.0 / 5


def test_gpus_that_no_job_can_use_do_not_help() -> None:
    """Jobs of one and of four GPUs use five, however many there are."""
    jobs, works = [Job(1.0, 1), Job(1.0, 4)], [500.0, 500.0]
    for convention, seconds in (("fluid", 200.0), ("slowest", 500.0)):
        seen = view(jobs, works, convention)
        assert [seen.remaining_s(near(n)) for n in (5, 8, 32)] == [seconds] * 3
        assert [seen.speed(near(n)) for n in (4, 5, 8, 32)] == [4.0, 5.0, 5.0, 5.0]


def test_gangs_run_one_after_the_other() -> None:
    """Three jobs that need four GPUs each: on four one after the other, 25 + 25 + 25 s; on eight two beside each other,
    then the third; on ten those two have five each, and so has the third."""
    jobs, works = [Job(1.0, 8, 4)] * 3, [100.0] * 3
    seen = view(jobs, works, "slowest")
    assert seen.remaining_s(near(3)) == math.inf
    assert seen.remaining_s(near(4)) == 75.0
    assert seen.remaining_s(near(8)) == 50.0
    assert seen.remaining_s(near(10)) == pytest.approx(40.0)
    assert seen.remaining_s(near(12)) == 25.0


def test_the_most_optimistic_curve_decides_when_the_last_job_ends() -> None:
    """§4.3.2: the curve that gives the largest predicted completion time. Half done, a job whose first guess was twice
    the truth is still believed to take 1.5 times what is left."""
    sure, hopeful = Job(1.0, 1), Job(1.0, 1, optimism=2.0)
    for left, factor in ((1.0, 2.0), (0.5, 1.5)):
        seen = view([sure, hopeful], [100.0, 100.0], "slowest", "curve", left)
        assert seen.remaining_s(near(2)) == pytest.approx(100.0 * left * factor)
        fluid = view([sure, hopeful], [100.0, 100.0], "fluid", "curve", left)
        assert fluid.remaining_s(near(2)) == pytest.approx(100.0 * left * (1 + factor) / 2)


def test_nobody_knows_yet_who_will_be_left() -> None:
    """Two apps that differ only in which job survives, one of eight GPUs or one of two: their agents say the same."""
    jobs = [Job(100.0, 2), Job(100.0, 2), Job(100.0, 2), Job(100.0, 8)]
    said: list[list[float]] = []
    for order in ((3, 0, 1, 2), (0, 1, 2, 3)):
        app = App.halving("a", 0.0, jobs, 12_000.0, order=order, slowdown=FLAT)
        running = tuple(RunningJob(k, app.phases[0].iterations[k] * 100.0, j.gpus, 1) for k, j in enumerate(jobs))
        for convention in ("fluid", "slowest"):
            seen = AppView(0, app, 0.0, 0, running, (), (), 0.0, 1.0, 32, convention)  # type: ignore[arg-type]
            said.append([seen.remaining_s(near(n)) for n in range(1, 15)])
    assert said[:2] == said[2:]
    # phases of 4000 s: 4 jobs on 14 GPUs in all, then two and one of two GPUs each, as the median of the four can use
    assert said[0][-1] == pytest.approx(4000 / 14 + 4000 / 4 + 4000 / 2)


def test_the_revised_example() -> None:
    """§4.3.3, after the first phase: those that go on take 120 and 100 s. T_sh(2) = 120 · 16, which is 1920 and not the
    printed 3200, and T_sh(3) = 120 · 36/2 = 2160: by the letter the median of two is the slower. Divided evenly, as
    Table 3 is, the two phases take what their work takes on two GPUs, with 110 s for the last."""
    jobs = [Job(s, 8) for s in (80.0, 100.0, 100.0, 120.0)]
    app = App.halving("example", 0.0, jobs, 10_000.0, order=(3, 1, 0, 2), slowdown=FLAT)
    assert app.phases[1].jobs == (1, 3)
    running = (RunningJob(1, 1600.0, 8, 1), RunningJob(3, 1920.0, 8, 1))
    for convention, seconds in (("slowest", 1920 + 2160), ("fluid", 3520 / 2 + 36 * 110 / 2)):
        seen = AppView(0, app, 0.0, 1, running, (), (), 0.0, 4.0, 16, convention)  # type: ignore[arg-type]
        assert seen.remaining_s(near(2)) == pytest.approx(seconds)


@settings(max_examples=examples(40, anew=150), deadline=None)
@given(
    works=st.lists(st.floats(1.0, 1e4), min_size=1, max_size=6),
    extra=st.lists(st.integers(0, 6), min_size=6, max_size=6),
    gang=st.integers(1, 3),
    n=st.integers(1, 40),
)
def test_the_last_job_is_that_of_the_division(works: list[float], extra: list[int], gang: int, n: int) -> None:
    """Held against `split` where all jobs fit; with fewer GPUs no less than its longest job; Table 3's is a bound."""
    jobs = [Job(1.0, gang + more, gang) for more in extra[: len(works)]]
    seen = view(jobs, works, "slowest")
    said = seen.remaining_s(near(n))
    if n < gang:
        assert said == math.inf
        return
    assert said >= view(jobs, works, "fluid").remaining_s(near(n)) * (1 - 1e-12)
    if n >= gang * len(works):
        given_gpus = split(SharedCluster.uniform(1, n), range(n), seen.jobs, FLAT)
        ends = [w / len(given_gpus[k]) for k, w in enumerate(works)]
        assert said == pytest.approx(max(ends), rel=1e-12)
    else:
        assert said >= max(w / j.gpus for w, j in zip(works, jobs, strict=True)) * (1 - 1e-12)
