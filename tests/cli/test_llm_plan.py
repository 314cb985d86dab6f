"""`plan --planner vllm` and `simulate` of LLM plans on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from meshwright.cli import run
from meshwright.simulator.llm import LLMPlan

TRAFFIC = ["--lengths", "alpaca", "--rate", "40", "--duration", "5"]
LIMITS = ["--slo-ttft", "0.5", "--slo-tpot", "0.02"]
OPTIONS = ["-o", "tp=[1,2]", "-o", "pp=1", "-o", "batched_tokens=[512]", "-o", "seeds=1"]
PLAN = ["plan", "--planner", "vllm", "--models", "llama-3.1-8b", "--devices", "2", *TRAFFIC, *LIMITS, *OPTIONS]


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


def test_simulate_prints_a_table(planned: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    line = ["simulate", str(planned), "--lengths", "alpaca", "--rate", "20", "--duration", "5", "--per-group"]
    assert run([*line, "--per-model", "--slo-ttft", "0.000001"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("100 requests in ")
    assert out[1].split()[:4] == ["plan", "devices", "attainment", "goodput/s"]
    assert out[2].split()[:3] == [str(planned), "1", "0.00%"]
    assert any("kv_peak" in line for line in out)
    assert any("ttft_attainment" in line for line in out)


def test_both_engines_agree(planned: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    found = []
    for engine in ("compiled", "simpy"):
        assert (
            run(["simulate", str(planned), "--lengths", "alpaca", "--duration", "3", "--json", "--engine", engine]) == 0
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
    line = ["plan", "--planner", "vllm", "--models", "llama-3.1-8b,qwen2.5-7b", "--devices", "1", "--lengths", "alpaca"]
    line += ["--rate", "6", "--duration", "5", *LIMITS, "-o", "tp=1", "-o", "pp=1", "-o", "share=true", "--json"]
    assert run([*line, "--out", out]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["dedicated"] is None  # one device for two models
    assert found["plan"]["predicted"]["attainment"] == found["shared"] > 0.5
    assert run(["simulate", out, "--lengths", "alpaca", "--duration", "5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["plans"][0]["attainment"] == found["shared"]
    assert run([*line, "--objective", "devices"]) == 2
    assert "does not go with -o share=true" in capsys.readouterr().err


def test_traces_with_tokens(planned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ["arrival,model,prompt_tokens,output_tokens", *(f"{i / 10},x,{20 + i},5" for i in range(30))]
    trace = tmp_path / "t.csv"
    trace.write_text("\n".join(rows) + "\n")
    capsys.readouterr()
    assert run(["simulate", str(planned), "--trace", str(trace), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["requests"] == 30
    assert run(["simulate", str(planned), "--trace", str(trace), "--rate", "3"]) == 2
    assert "--rate: makes traffic, which --trace" in capsys.readouterr().err


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
        ([*PLAN[:3], "--devices", "2"], "--models: which language models?"),
        ([*PLAN, "--slo", "1"], "--slo: does not go with --planner vllm"),
        ([*PLAN, "-o", "tensor=2"], "--option: unknown option 'tensor'; expected one of tp, pp"),
        ([*PLAN, "--objective", "speed"], "objective: expected one of goodput, devices, rate"),
        (["plan", "--devices", "2", "--slo-ttft", "1"], "--slo-ttft: is for language models"),
        ([*PLAN, "--lengths", "nowhere.csv"], "--lengths: lengths: unknown profile 'nowhere.csv'"),
        ([w for w in PLAN if w not in ("--rate", "40")], "--rate: how many requests per second?"),
        ([*PLAN, "--kernels", "nowhere"], "nowhere"),
        ([*PLAN, "--slo-ttft", "-1"], "ttft_s: expected a limit > 0 seconds"),
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
        ([], "--lengths: how long are the requests?"),
        (["--lengths", "alpaca", "--slo", "1"], "--slo: does not go with LLM plans"),
        (["--lengths", "alpaca", "--engine", "c"], "--engine: expected compiled or simpy"),
        (["--lengths", "alpaca", "--slo-tpot", "0"], "--slo-tpot: expected seconds > 0"),
        ([str(other)], "is no LLM plan"),
    ):
        assert run(["simulate", str(planned), *line]) == 2
        assert said in capsys.readouterr().err
    planned.write_text(planned.read_text().replace('"tp": 1', '"tp": 0'))
    assert run(["simulate", str(planned), "--lengths", "alpaca"]) == 2
    assert "deployments[0].tp: input should be greater than 0" in capsys.readouterr().err


def test_options_for_language_models_have_a_heading(capsys: pytest.CaptureFixture[str]) -> None:
    """In the help of verbs that serve both worlds; every other option stands under "Options", before."""
    for verb, option in (("plan", "--slo-ttft"), ("simulate", "--kernels"), ("run", "--serve")):
        assert run([verb, "--help"]) == 0
        plain, heading, rest = capsys.readouterr().out.partition("\nLanguage models (")
        assert heading, verb
        assert f"\n  {option}" in rest
        assert f"\n  {option}" not in plain
        assert "\n  --seed" in plain.partition("\nOptions:")[2]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "--llm", "tiny-llama", "--duration", "3"], "--duration: is not for language models; leave it out"),
        (["plan", "--planner", "alpaserve,vllm"], "--planner: vllm plans language models and goes alone"),
        (["run", "ONE-SHOT", "--tp", "2"], "--tp: goes with --llm MODEL or a plan of language models"),
        (["run", "ONE-SHOT", "--llm", "tiny-llama"], "--llm: goes without a plan"),
    ],
)
def test_the_two_worlds_do_not_mix(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    one_shot = str(Path(__file__).parents[2] / "examples" / "plan.json")
    assert run([one_shot if word == "ONE-SHOT" else word for word in words]) == 2
    assert message in capsys.readouterr().err


def test_a_plan_of_language_models_is_no_one_shot_plan(planned: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", str(planned)]) == 2
    assert "is a plan of language models; compare its engine: meshwright compare --llm MODEL" in capsys.readouterr().err
