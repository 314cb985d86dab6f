"""`plan llm` and `simulate` of LLM plans on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from meshwright.cli import run
from meshwright.simulator.llm import LLMPlan

ONE_SHOT = Path(__file__).parents[3] / "examples" / "plan.json"
TRAFFIC = ["--lengths", "alpaca", "--rate", "40", "--duration", "5"]
LIMITS = ["--slo-ttft", "0.5", "--slo-tpot", "0.02"]
OPTIONS = ["-o", "tp=[1,2]", "-o", "pp=1", "-o", "batched_tokens=[512]", "-o", "seeds=1"]
PLAN = ["plan", "llm", "--model", "llama-3.1-8b", "--devices", "2", *TRAFFIC, *LIMITS, *OPTIONS]


def words(*more: str) -> list[str]:
    return [*PLAN, *more]


@pytest.fixture
def planned(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    assert run(words("--out", str(path))) == 0
    return path


def test_plan_then_simulate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same traffic under the same seed gives the attainment that was predicted."""
    planned = tmp_path / "plan.json"
    assert run(words("--out", str(planned))) == 0
    plan = LLMPlan.load(planned)
    said = capsys.readouterr().out
    assert "KV memory of a rank: 80.00 GiB x 0.9" in said
    assert said.splitlines()[-1] == f"plan written: {planned}"
    assert run(["simulate", str(planned), "--lengths", "alpaca", "--duration", "5", "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["requests"] == plan.workload.requests == 200  # pyright: ignore[reportOptionalMemberAccess]
    assert found["plans"][0]["attainment"] == plan.predicted["attainment"]
    assert found["plans"][0]["goodput"] == plan.predicted["goodput"]
    assert run(["simulate", str(planned), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["plans"] == found["plans"]


def test_simulate_prints_a_table(planned: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    line = ["simulate", str(planned), "--lengths", "alpaca", "--rate", "20", "--requests", "200", "--per-group"]
    assert run([*line, "--per-model", "--slo-ttft", "0.000001"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("200 requests in ")
    assert out[1].split()[:4] == ["plan", "devices", "attainment", "goodput/s"]
    assert out[2].split()[:3] == [str(planned), "1", "0.00%"]
    assert any("kv_peak" in line for line in out)
    assert any("ttft_attainment" in line for line in out)


def test_both_engines_agree(planned: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    found = []
    for engine in ("compiled", "simpy"):
        assert (
            run(["simulate", str(planned), "--lengths", "alpaca", "--duration", "5", "--json", "--engine", engine]) == 0
        )
        found.append(json.loads(capsys.readouterr().out)["plans"][0])
    assert (found[0].pop("engine"), found[1].pop("engine")) == ("compiled", "reference")
    assert found[0] == found[1]


def test_json_holds_the_front(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words("--json", "--objective", "devices", "--target", "0.9")) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["plan"]["kind"] == "meshwright/llm-plan"
    assert found["front"]["Llama-3.1-8B"][0]["devices"] == 1
    assert found["simulations"] > 0


def test_models_that_share_devices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "shared.json")
    line = ["plan", "llm", "--model", "llama-3.1-8b,qwen2.5-7b", "--devices", "1", "--lengths", "alpaca"]
    line += ["--rate", "6", "--duration", "5", *LIMITS, "-o", "tp=1", "-o", "pp=1", "-o", "share=true", "--json"]
    assert run([*line, "--out", out]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["dedicated"] is None  # one device for two models
    assert found["plan"]["predicted"]["attainment"] == found["shared"] > 0.5
    assert run(["simulate", out, "--lengths", "alpaca", "--duration", "5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["plans"][0]["attainment"] == found["shared"]
    assert run([*line, "--objective", "devices"]) == 2
    assert "planner.options.share: maximises goodput in one process" in capsys.readouterr().err


def test_traces_with_tokens(planned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ["arrival,model,prompt_tokens,output_tokens", *(f"{i / 10},x,{20 + i},5" for i in range(30))]
    trace = tmp_path / "t.csv"
    trace.write_text("\n".join(rows) + "\n")
    capsys.readouterr()
    assert run(["simulate", str(planned), "--trace", str(trace), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["requests"] == 30
    assert run(["simulate", str(planned), "--trace", str(trace), "--rate", "3"]) == 2
    assert "give one of rate (generated traffic) and trace (a file)" in capsys.readouterr().err


def test_no_plan_is_exit_code_three_with_the_smallest_change(capsys: pytest.CaptureFixture[str]) -> None:
    line = words("--objective", "devices")
    line[line.index("40")] = "900"
    line[line.index("--slo-ttft") + 1] = "0.2"
    line[line.index("--slo-tpot") + 1] = "0.05"
    line[line.index("--devices") + 1] = "1"
    assert run(line) == 3
    assert "smallest change: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ([*PLAN, "--slo", "one"], "slo: expected something like"),
        ([*PLAN, "-o", "tensor=2"], "planner.options: unknown option 'tensor'; known: "),
        (
            [*PLAN, "--objective", "speed"],
            "planner.objective: should be 'goodput', 'devices', 'cost', 'energy' or 'rate'",
        ),
        ([*PLAN, "--lengths", "nowhere.csv"], "nowhere.csv"),
        ([w for w in PLAN if w not in ("--rate", "40")], "workload.rate"),
        ([*PLAN, "--kernels", "nowhere"], "nowhere"),
        ([*PLAN, "--slo-ttft", "-1"], "workload.slo_ttft: should be greater than 0"),
        ([*PLAN, "--model", "llama-3.1-9b"], "did you mean 'Llama-3.1-8B'"),
        ([*PLAN, "--rate", "60ms"], "workload.rate: should be a number (got '60ms')"),
        ([*PLAN, "--devices", "1000000000"], "cluster.devices"),
        ([*PLAN, "-s", "workload.rat=3"], "did you mean"),
        ([*PLAN, "--planner", "alpaserve"], "planner"),
    ],
)
def test_bad_plan_options(line: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(line) == 2
    err = capsys.readouterr().err
    assert said in err
    assert len(err.splitlines()) == 1


def test_bad_simulate_options(planned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    other = tmp_path / "other.json"
    other.write_text("{}")
    for line, said in (
        (["--lengths", "alpaca", "--slo", "one"], "slo: expected something like"),
        (["--lengths", "alpaca", "--engine", "c"], "engine"),
        (["--lengths", "alpaca", "--slo-tpot", "0"], "slo_tpot"),
        (["--lengths", "alpaca", "--devices", "3"], "No such option: --devices"),
        ([str(other)], "other.json"),
        ([str(ONE_SHOT)], "is a plan of another world than"),
    ):
        assert run(["simulate", str(planned), *line]) == 2
        assert said in capsys.readouterr().err
    planned.write_text(planned.read_text().replace('"tp": 1', '"tp": 0'))
    assert run(["simulate", str(planned), "--lengths", "alpaca"]) == 2
    assert "deployments[0].tp: should be greater than 0" in capsys.readouterr().err


@pytest.mark.parametrize("door", ["plan", "simulate", "run", "compare", "measure"])
def test_help_fits_one_screen(door: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Fields of the case under one heading, what is said here under another; all fields with `--help-all` only."""
    assert run([door, "llm", "--help"]) == 0
    short = capsys.readouterr().out
    assert len(short.splitlines()) < 60
    assert "\nThe case:" in short
    assert "\nHere:" in short
    assert run([door, "llm", "--help-all"]) == 0
    whole = capsys.readouterr().out
    assert {line.split()[0] for line in short.splitlines() if line.startswith("  --")} < {
        line.split()[0] for line in whole.splitlines() if line.startswith("  --")
    }


@pytest.mark.parametrize("planner", ["vllm", "alpaserve,vllm"])
def test_planners_of_other_worlds_do_not_know_it(planner: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["plan", "serving", "--models", "bert-1.3b=1", "--devices", "1", "--rate", "1", "--slo", "1"]
    assert run([*line, "--planner", planner]) == 2
    err = capsys.readouterr().err
    assert "'vllm'" in err
    assert err.count("\n") == 1


def test_a_plan_of_language_models_is_compared_by_its_model(planned: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", str(planned)]) == 2
    assert "the engine is compared model by model: meshwright compare llm --model NAME" in capsys.readouterr().err
