"""Traffic without a single SLO: nothing to attain, so nobody plans by attainment, and nobody prints 100 %."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from meshwright import simulator, traces
from meshwright.cli import run
from meshwright.errors import InputError
from meshwright.planners import Problem, alpaserve
from meshwright.planners.vllm import DrawnTraffic, LLMDemand
from meshwright.planners.vllm import plan as plan_llm
from meshwright.profiles import ModelProfile, ParallelConfig
from meshwright.profiles.llm import decoder

ONE, PIPE = ParallelConfig(1, 1), ParallelConfig(1, 2)
PROFILES = {
    name: ModelProfile.from_stages(
        name, {ONE: {1: [0.4]}, PIPE: {1: [0.2, 0.2]}}, {ONE: [2e9], PIPE: [1e9, 1e9]}
    )
    for name in "ab"
}  # fmt: skip
CLUSTER = simulator.Cluster(1, 2)
NONE = traces.poisson(rate=2.0, duration=60.0, models=["a", "b"], seed=0)
SAID = r"no request has an SLO.*slo=.*with_slo.*with_slo_scale.*--slo"


def test_planning_by_attainment_needs_an_slo() -> None:
    named = [getattr(alpaserve, name) for name in ("plan", "selective_replication", "round_robin", "dedicated",
                                                   "greedy_no_partition", "clockwork_pp")]  # fmt: skip
    for plan in named:
        with pytest.raises(InputError, match=SAID):
            plan(CLUSTER, ["a", "b"], NONE, PROFILES)
    with pytest.raises(InputError, match=SAID):
        Problem(CLUSTER, ("a", "b"), NONE, PROFILES)


def test_one_slo_is_enough_and_what_has_none_counts_when_it_is_served() -> None:
    slo = np.full(len(NONE), np.inf)
    slo[::2] = 0.1  # below the latency: none of these is attained
    mixed = NONE.with_slo(slo)
    assert mixed.has_slo
    assert not NONE.has_slo
    plan = alpaserve.plan(CLUSTER, ["a", "b"], mixed, PROFILES)
    assert plan.predicted["attainment"] == pytest.approx(1 - np.isfinite(slo).mean())
    result = simulator.simulate(plan.placement, mixed, PROFILES)
    assert result.attainment == plan.predicted["attainment"]
    assert result.has_slo
    assert "attainment" in repr(result)
    only = simulator.simulate(plan.placement, NONE, PROFILES)
    assert not only.has_slo
    assert "no SLO" in repr(only)
    assert "attainment" not in repr(only)
    assert only.per_model()["attainment"].isna().all()


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bare.csv").write_text("arrival,model\n" + "".join(f"{k},bert-1.3b-0\n" for k in range(1, 60)))
    return tmp_path


def test_the_verbs(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = ["plan", "serving", "--devices", "2", "--models", "bert-1.3b=1", "--trace", "bare.csv"]
    for planner in ("alpaserve", "selective-replication", "round-robin"):
        assert run([*plan, "--planner", planner]) == 2
        err = capsys.readouterr().err.splitlines()
        assert len(err) == 1, err
        assert "no request of bare.csv has an SLO" in err[0]
        assert "--slo" in err[0]
    assert run([*plan, "--slo", "1", "--out", "p.json"]) == 0
    capsys.readouterr()
    assert run(["simulate", "p.json", "--trace", "bare.csv"]) == 0
    out = capsys.readouterr().out
    assert "no SLO" in out
    assert "100" not in out.splitlines()[-1]
    assert run(["simulate", "p.json", "--trace", "bare.csv", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["plans"][0]
    assert said["attainment"] is None
    assert {row["attainment"] for row in said["per_model"]} == {None}


class Lengths:
    name = "short"

    def sample(self, n: int, seed: int = 0):
        from meshwright.traces.lengths import Lengths as Drawn

        return Drawn(np.full(n, 8), np.full(n, 4))


@pytest.mark.parametrize("objective", ["devices", "rate"])
def test_llm_objectives_that_ask_for_a_share_need_a_limit(objective: str) -> None:
    demand = LLMDemand(decoder("llama-3.1-8b"), DrawnTraffic(Lengths(), 2.0, 20))
    with pytest.raises(InputError, match=r"no model has a limit.*--slo-ttft or --slo-tpot"):
        plan_llm(simulator.Cluster.of(2, "h100-80gb"), [demand], objective=objective)
