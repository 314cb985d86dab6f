"""Goodput is attained requests over the time in which requests arrived: the offered rate where all are attained."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import numpy as np
import pytest
from meshwright import simulator, traces
from meshwright.cli import run
from meshwright.profiles import ModelProfile, ParallelConfig
from meshwright.profiles.llm.linear import ConstantCost
from meshwright.runtime.serving.result import RunResult
from meshwright.simulator.llm import LLMTrace, simulate_llm
from meshwright.simulator.metrics import goodput
from meshwright.simulator.serving import SimulationResult
from meshwright.studies import Study

ONE = ParallelConfig(1, 1)
RATE, N = 60.0, 240
SLOW = {"a": ModelProfile.from_stages("a", {ONE: {1: [2.0]}}, {ONE: [1e9]})}  # a tail as long as half the trace
EVEN = np.arange(1, N + 1) / RATE


def placed(count: int) -> simulator.Placement:
    return simulator.Placement([simulator.Group(ONE, ["a"]) for _ in range(count)])


@pytest.mark.parametrize("engine", ["compiled", "simpy"])
def test_serving_attains_what_is_offered(engine: str) -> None:
    trace = traces.Trace(EVEN, np.zeros(N, dtype=int), ("a",), 1000.0)
    result = simulator.simulate(placed(8), trace, SLOW, engine=engine)
    assert result.attainment == 1
    assert result.horizon > 1.4 * trace.duration, "there is a tail to leave out"
    assert result.goodput == pytest.approx(trace.rate) == pytest.approx(RATE)
    kept = result.trim(1.0)
    assert kept.goodput == pytest.approx(RATE, rel=0.01)


def test_a_real_run_and_a_schedule_have_the_same_definition() -> None:
    assert RunResult.goodput is SimulationResult.goodput
    trace = traces.Trace(EVEN, np.zeros(N, dtype=int), ("a",), 1000.0)
    schedule = simulator.PlacementSchedule([0.0, 2.0], [placed(8), placed(4)])
    assert simulator.simulate(schedule, trace, SLOW).goodput == pytest.approx(RATE)


@pytest.mark.parametrize("engines", [1, 3])
@pytest.mark.parametrize("begin", [0.0, 3600.0])
def test_llm_serving_attains_what_is_offered(engines: int, begin: float) -> None:
    trace = LLMTrace(begin + EVEN, np.full(N, 8), np.full(N, 40))
    config = {"num_blocks": 400, "block_size": 16, "max_num_seqs": 256, "max_num_batched_tokens": 2048}
    result = simulate_llm(trace, config=config, cost=ConstantCost(0.02), engines=engines)
    assert result.attainment(ttft=5.0, tpot=1.0) == 1
    assert result.span[1] > begin + 1.1 * EVEN[-1], "there is a tail to leave out"
    assert result.goodput(ttft=5.0, tpot=1.0) == pytest.approx(RATE, rel=0.01)
    assert result.interval("goodput", ttft=5.0, tpot=1.0).value == result.goodput(ttft=5.0, tpot=1.0)
    assert result.trim(20, 20).goodput(ttft=5.0, tpot=1.0) == pytest.approx(RATE, rel=0.01)
    assert result.request_throughput < 0.95 * RATE, "that one counts until the last finish"


def test_an_llm_study_attains_what_is_offered() -> None:
    said = {
        "study": 1, "world": "llm", "cluster": {"devices": 4}, "planners": ["fixed"],
        "workload": {"rate": 20, "cv": 1, "requests": 400, "lengths": "alpaca", "slo_ttft": 100.0},
    }  # fmt: skip
    frame = Study.from_dict(said).run()
    assert frame["attainment"][0] == 1
    assert frame["goodput"][0] == pytest.approx(20, rel=0.1)  # the rate of 400 Poisson arrivals
    assert frame["goodput"][0] > frame["request_throughput"][0]


def test_a_serving_study_attains_what_is_offered() -> None:
    said = {
        "study": 1, "cluster": {"devices": 8}, "models": {"bert-1.3b": 1}, "planners": ["selective-replication"],
        "workload": {"rate": 10, "duration": 60, "slo": 60},
    }  # fmt: skip
    frame = Study.from_dict(said).run()
    assert frame["attainment"][0] == 1
    assert frame["goodput"][0] == pytest.approx(frame["n_requests"][0] / 60, rel=0.02)


def test_the_definition() -> None:
    assert goodput(30, 0.0, 60.0, 90.0) == 0.5
    assert goodput(3, 5.0, 5.0, 8.0) == 1, "all at once: until the last one is finished"
    assert goodput(0, 0.0, 60.0, float("nan")) == 0
    assert np.isnan(goodput(0, 5.0, 5.0, float("nan")))


def test_nobody_else_defines_it() -> None:
    """A second definition would be a division by a span of its own: all that are there call the one."""
    from meshwright.simulator.llm.plan.result import LLMPlanResult
    from meshwright.simulator.llm.result.columns import LLMResult

    for owner in (SimulationResult, LLMResult, LLMPlanResult):
        source = inspect.getsource(owner.__dict__["_goodput"] if owner is LLMResult else owner.__dict__["goodput"].fget)
        assert "goodput(" in source.split('"""')[-1]
    root = Path(simulator.__file__).parents[1]
    names = {
        str(path.relative_to(root))
        for folder in ("simulator", "planners", "runtime", "worlds", "studies", "gate", "cli")
        for path in (root / folder).rglob("*.py")
        if "def goodput" in path.read_text(encoding="utf-8")
    }
    assert names == {
        "simulator/metrics.py", "simulator/serving/result.py", "simulator/llm/result/columns.py",
        "simulator/llm/plan/result.py", "simulator/sharing/result/columns.py",
        "worlds/inference/result.py",  # of its metrics
        "simulator/training/result/iteration.py",  # samples per second: an iteration has no limit to meet
        # The share of time that was work, as those who train on machines that fail say it (Daly 2006).
        "simulator/training/goodput/closed_form.py", "simulator/training/goodput/result.py",
    }  # fmt: skip


def test_the_verb_prints_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = [
        "plan",
        "serving",
        "--devices",
        "8",
        "--models",
        "bert-1.3b=1",
        "--rate",
        "10",
        "--duration",
        "60",
        "--slo",
        "60",
    ]
    assert run([*plan, "--planner", "selective-replication", "--out", str(tmp_path / "p.json")]) == 0
    lines = "arrival,model\n" + "".join(f"{k / 10},bert-1.3b-0\n" for k in range(1, 601))
    (tmp_path / "t.csv").write_text(lines)
    capsys.readouterr()
    code = run(["simulate", str(tmp_path / "p.json"), "--trace", str(tmp_path / "t.csv"), "--slo", "60", "--json"])
    out = capsys.readouterr().out
    assert code == 0, out
    assert json.loads(out)["plans"][0]["goodput_per_s"] == pytest.approx(10.0)
