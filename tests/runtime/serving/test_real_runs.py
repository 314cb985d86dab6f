"""Placements of every kind really run, with tiny models: answers are right, nothing is lost, nothing overlaps."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from forked import fork_server
from meshwright.errors import InputError, RunError
from meshwright.profiles import ModelProfile, ParallelConfig
from meshwright.runtime import RunOptions, Session, calibrate, compare, run
from meshwright.simulator import Group, Placement
from meshwright.traces import Trace

torch = pytest.importorskip("torch")

MODELS = ("cpu-bert-tiny", "cpu-gpt-tiny")
ONE, PIPELINE, SHARDED = ParallelConfig(1, 1), ParallelConfig(1, 2), ParallelConfig(2, 1)
LATENCY = 0.002


def profile(name):
    batches = (1, 2, 4)
    return ModelProfile.from_stages(
        name,
        {
            ONE: {b: [LATENCY * b] for b in batches},
            PIPELINE: {b: [LATENCY * b / 2] * 2 for b in batches},
            SHARDED: {b: [LATENCY * b] for b in batches},
        },
    )


PROFILES = {name: profile(name) for name in MODELS}


def trace(n=60, gap=0.01, slo=5.0, burst=1):
    arrival = np.repeat(np.arange(n // burst) * gap * burst, burst)
    return Trace(arrival, np.arange(len(arrival)) % 2, MODELS, slo)


def children():
    """Workers, zombies left out: this process's (other tests' helpers are not our concern), and those forked for it."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as stat:
                    fields = stat.read().rpartition(")")[2].split()
                with open(f"/proc/{entry}/cmdline", "rb") as text:
                    words = text.read().split(b"\0")
            except OSError:
                continue
            mine = int(fields[1]) == os.getpid() and b"meshwright.runtime.serving.worker" in words
            if fields[0] != "Z" and (mine or int(fields[1]) == fork_server()):
                found.append(int(entry))
    return [pid for pid in found if pid not in OTHERS]


OTHERS: set[int] = set()
"""Forked for other tests, such as ranks that a whole folder shares."""


@pytest.fixture(autouse=True)
def others():
    OTHERS.clear()
    OTHERS.update(children())


def consistent(result):
    """Invariants of every real run."""
    served = ~result.rejected
    n_stages = np.array([g.config.pp for g in result.placement.groups])
    assert (result.finish[served] > result.trace.arrival[served]).all()
    assert np.isnan(result.finish[~served]).all()
    for i in np.flatnonzero(served):
        stages = slice(0, n_stages[result.group[i]])
        start, seconds = result.stage_start[i, stages], result.stage_s[i, stages]
        assert (seconds > 0).all()
        assert start[0] >= result.trace.arrival[i] - 1e-3
        assert (start[1:] >= start[:-1] + seconds[:-1] - 1e-6).all(), "a stage began before the one before had ended"
        assert result.finish[i] >= start[-1] + seconds[-1] - 1e-6
    line = result.timeline()
    for lane in range(len(line.lanes)):
        mine = np.flatnonzero(line.lane == lane)
        mine = mine[np.argsort(line.start[mine])]
        assert (line.start[mine][1:] >= line.end[mine][:-1] - 1e-6).all(), "a device did two things at once"


def expected_check(name):
    """First figure of the answer of the whole model on one device."""
    from meshwright.kernels.specs import SPECS
    from meshwright.kernels.transformer import build_stage, make_input

    spec = SPECS[name]
    return float(build_stage(spec, 0, spec.n_layers, seed=0)(make_input(spec, 1, 0)).reshape(-1)[0])


PLACEMENTS = {
    "simple": (Placement([Group(ONE, [MODELS[0]]), Group(ONE, [MODELS[1]])]), None),
    "replicated": (Placement([Group(ONE, MODELS), Group(ONE, MODELS)]), None),
    "pipeline": (Placement([Group(PIPELINE, MODELS)]), None),
    "sharded": (Placement([Group(SHARDED, MODELS)]), None),
    "pipeline, batching": (Placement([Group(PIPELINE, MODELS)]), 4),
}


@pytest.mark.parametrize("kind", PLACEMENTS)
def test_placement_runs_and_answers_as_one_device_does(kind):
    placement, batching = PLACEMENTS[kind]
    result = run(placement, trace(burst=6), profiles=PROFILES, batching=batching)
    consistent(result)
    assert not result.failures
    assert (~result.rejected).all(), "an SLO of seconds rejects nobody"
    for m, name in enumerate(MODELS):
        assert result.check[result.trace.model == m] == pytest.approx(expected_check(name), rel=1e-4)
    if batching:
        assert result.sizes.max() > 1, "a burst of six forms batches"
    if kind == "replicated":
        assert set(result.group) == {0, 1}, "the shortest queue is now here, now there"
    assert children() == []
    assert list(result.per_model().index) == list(MODELS)
    assert result.per_model()["requests"].sum() == len(result)


def test_session_calibrates_and_serves_again():
    placement = Placement([Group(PIPELINE, MODELS)])
    with Session(placement, MODELS, PROFILES) as session:
        found = calibrate(session, repeats=3, together_s=0.2)
        first = session.run(trace(20), profiles=found.profiles)
        hopeless = session.run(trace(20, slo=1e-5), profiles=found.profiles)
    assert found.overhead_s > 0
    assert found.profiles.overhead_s == found.overhead_s
    assert found.hop_s[0] > 0
    assert found.profiles[MODELS[0]].hop_s(PIPELINE) == found.hop_s[0]
    latency = found.profiles[MODELS[0]].latency(PIPELINE)
    assert min(latency) > 0
    assert latency != PROFILES[MODELS[0]].latency(PIPELINE)
    assert found.profiles[MODELS[0]].latency(ONE) == (LATENCY,), "what does not run is left as it was"
    consistent(first)
    assert first.attainment == 1.0
    assert hopeless.rejected.all()


def test_comparison_splits_every_difference():
    plans = {"replicated": PLACEMENTS["replicated"][0]}
    found = compare(plans, trace(100, gap=0.02), PROFILES, (0.01, 1e4))  # 2 s: of four stretches two tell
    hopeless, easy = found.cells
    assert (hopeless.attribution.simulated, hopeless.attribution.real) == (0.0, 0.0)
    assert (easy.attribution.simulated, easy.attribution.real) == (1.0, 1.0)
    assert [(cell.expected.low, cell.expected.high) for cell in found.cells] == [(0.0, 0.0), (1.0, 1.0)]
    assert found.within
    assert found.measured["replicated"].service.visits == pytest.approx(50, abs=2)
    for cell in found.cells:
        parts = cell.attribution
        assert parts.level + parts.jitter + parts.rest == pytest.approx(parts.difference)
    assert "mean difference 0.0 points, largest 0.0; 2 of 2 inside" in str(found)
    assert "2 of 2 real runs lie inside" in found.sentence()
    assert set(found.curves["plan"]) == {"replicated"}


def test_killed_worker_fails_its_group_only():
    placement = Placement([Group(ONE, [MODELS[0]]), Group(ONE, [MODELS[1]])])
    asked = trace(800, gap=0.005)
    with Session(placement, MODELS, PROFILES) as session:
        victim = next(p for p in session.fleet.processes if p.task.group == 1)
        threading.Timer(3.0, lambda: os.kill(victim.popen.pid, signal.SIGKILL)).start()
        result = session.run(asked)
        again = session.run(trace(20))
    consistent(result)
    mine = asked.model == 1
    assert not result.rejected[~mine].any(), "the other group goes on"
    assert result.rejected[mine].any()
    (failure,) = result.failures
    before = mine & (asked.arrival < failure.at - 0.5)  # half a second on: a busy machine answers late
    assert before.any()
    assert not result.rejected[before].any(), "what was answered before stays answered"
    assert failure.group == 1
    assert "SIGKILL" in failure.reason
    assert int(result.failed.sum()) == failure.requests
    with pytest.raises(RunError, match="group 1 lost"):
        result.raise_failures()
    assert (again.group[again.trace.model == 1] == -1).all(), "a lost group stays lost"
    assert (again.group[again.trace.model == 0] == 0).all()


def test_replica_elsewhere_takes_over():
    asked = trace(300, gap=0.005)
    with Session(PLACEMENTS["replicated"][0], MODELS, PROFILES) as session:
        victim = session.fleet.processes[0]
        assert len(children()) == 2
        threading.Timer(0.5, lambda: os.kill(victim.popen.pid, signal.SIGKILL)).start()
        result = session.run(asked)
    assert len(result.failures) == 1
    late = asked.arrival > 1.2
    assert (result.group[late] == 1).all()
    assert int(result.rejected.sum()) == int(result.failed.sum())


def test_too_short_startup_says_so_and_leaves_nobody():
    with pytest.raises(RunError, match=r"not ready after 0.05 s: worker of group 0, stage 0"):
        run(PLACEMENTS["pipeline"][0], trace(2), profiles=PROFILES, options=RunOptions(startup_timeout_s=0.05))
    time.sleep(0.1)
    assert children() == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_missing_gpu_is_an_error_with_the_workers_own_words():
    with pytest.raises(
        RunError, match=r"worker of group 0, stage 0 died at start-up: exit code 1: .*finds 0 CUDA devices"
    ):
        run(Placement([Group(ONE, MODELS)]), trace(2), profiles=PROFILES, device="cuda")


def test_more_devices_than_cores_warns():
    from meshwright.runtime.serving.assignment import usable_cores

    n = len(usable_cores()) + 1
    with pytest.warns(UserWarning, match=f"{n} devices share"):
        Session(Placement([Group(ONE, [MODELS[0]]) for _ in range(n)]), MODELS, PROFILES)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"device": "tpu"}, "device must be 'auto', 'cpu' or 'cuda' .got 'tpu'"),
        ({"dispatch": "fastest"}, "dispatch: unknown policy 'fastest'"),
        ({"profiles": None}, "a placement carries no costs"),
        ({"batching": 0}, "max_batch: expected a positive integer"),
    ],
)
def test_bad_arguments_are_refused_before_anything_starts(change, message, monkeypatch):
    monkeypatch.setattr("meshwright.runtime.serving.processes.Fleet.__enter__", lambda self: pytest.fail("started"))
    with pytest.raises(InputError, match=message):
        run(PLACEMENTS["simple"][0], trace(2), **{"profiles": PROFILES, **change})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startup_timeout_s": 0.0}, "startup_timeout_s: expected > 0"),
        ({"answer_s": 0.0}, "answer_s: expected > 0"),
        ({"overhead": float("nan")}, "overhead: expected finite seconds"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        RunOptions(**options)


def test_unknown_architecture_is_named():
    names = ("mystery", MODELS[1])
    asked = Trace([0.0], [0], names, 1.0)
    known = {name: profile(name) for name in names}
    with pytest.raises(InputError, match="model 'mystery': cannot be built"):
        run(Placement([Group(ONE, names)]), asked, profiles=known)
