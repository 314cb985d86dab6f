"""What cases of the LLM world say of their traffic: files as they are published, and what becomes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from meshwright.cli import run
from meshwright.errors import InfeasibleError, InputError
from meshwright.simulator.llm import LLMPlan
from meshwright.worlds.faces import case, load, plan

OPTIONS = {"tp": [1], "pp": 1, "batched_tokens": [2048], "seeds": 1}
CASE: dict[str, Any] = {
    "model": "llama-3.1-8b", "devices": 1, "device": "h100-80gb",
    "planner": {"name": "vllm", "options": OPTIONS},
}  # fmt: skip


def mooncake(folder: Path, shared: bool) -> Path:
    """Requests every 100 ms whose prompts of 8,192 tokens begin alike, or not."""
    path = folder / "mooncake.jsonl"
    rows = [
        {
            "timestamp": 100 * k, "input_length": 8192, "output_length": 20,
            "hash_ids": [*(range(15) if shared else range(100 * k, 100 * k + 15)), 10_000 + k],
        }
        for k in range(60)
    ]  # fmt: skip
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_prefix_hashes_reach_the_planner(tmp_path: Path) -> None:
    """Where prompts share 15 of their 16 blocks the planner turns prefix caching on, and it is worth something."""
    found: dict[bool, LLMPlan] = {}
    for shared in (True, False):
        mooncake(tmp_path, shared)
        made = plan(case("llm", **CASE, trace="mooncake.jsonl", slo_ttft=0.5), folder=tmp_path)
        assert isinstance(made.file, LLMPlan)
        found[shared] = made.file
    (alike,) = found[True].deployments
    assert alike.config["enable_prefix_caching"] is True
    assert found[True].predicted["attainment"] == 1.0
    assert found[False].predicted["attainment"] < 0.5
    mooncake(tmp_path, shared=True)
    off = plan(
        case("llm", **{**CASE, "planner": {"name": "fixed"}}, trace="mooncake.jsonl", slo_ttft=0.5), folder=tmp_path
    )
    assert off.simulate().attainment < 0.5


def test_a_log_that_names_no_models_is_for_one(tmp_path: Path) -> None:
    mooncake(tmp_path, shared=True)
    two = {**CASE, "model": ["llama-3.1-8b", "qwen2.5-7b"]}
    with pytest.raises(
        InputError, match=r"workload\.trace: mooncake\.jsonl: does not say which model a request is for"
    ):
        plan(case("llm", **two, trace="mooncake.jsonl"), folder=tmp_path)


def drawn(**more: Any) -> dict[str, Any]:
    """Two devices under drawn traffic."""
    return {**CASE, "devices": 2, "lengths": "alpaca", "rate": 40.0, "duration": 5.0} | more


def test_percentiles_of_classes_are_promised_kept_and_printed() -> None:
    said = case(
        "llm", **drawn(classes={"chat": 0.7, "batch": 0.3}, slo=["chat: p90 ttft <= 1 s", "batch: e2e <= 20 s"])
    )
    made = plan(said)
    assert isinstance(made.file, LLMPlan)
    (model,) = made.file.models
    assert model.slo == ("chat: p90 ttft <= 1 s", "batch: e2e <= 20 s")
    assert made.file.predicted["attainment"] == made.simulate().attainment == 1.0
    assert "SLO of Llama-3.1-8B: chat: p90 ttft <= 1 s, batch: e2e <= 20 s" in made.file.explain()
    late = made.simulate(case("llm", **drawn(classes={"chat": 0.7, "batch": 0.3}, slo=["chat: p90 ttft <= 1 ms"])))
    (judged,) = late.judgements.values()
    assert not judged.met
    (served,) = late.results.values()
    assert 0.6 < served.trace.of_class("chat").mean() < 0.8
    assert late.attainment == pytest.approx(1 - served.trace.of_class("chat").mean(), abs=1e-9)


def test_a_percentile_decides_how_many_devices_are_needed() -> None:
    """What is promised to 50 % of the requests needs fewer devices than what is promised to 99 %."""
    few, many = (
        plan(
            case("llm", **drawn(
                devices=4, rate=120.0, lengths="sharegpt", slo=[f"p{p} ttft <= 300 ms"],
                planner={"name": "vllm", "options": OPTIONS, "objective": "devices"},
            ))
        ).file
        for p in (50, 99)
    )  # fmt: skip
    assert isinstance(few, LLMPlan)
    assert isinstance(many, LLMPlan)
    assert len(few.used_devices) < len(many.used_devices)
    assert few.predicted["attainment"] == many.predicted["attainment"] == 1.0


def test_a_percentile_that_no_devices_keep_is_said_with_the_one_that_they_do() -> None:
    asked = case("llm", **drawn(
        slo=["p99 e2e <= 10 ms"], planner={"name": "vllm", "options": OPTIONS, "objective": "devices"},
    ))  # fmt: skip
    with pytest.raises(
        InfeasibleError, match=r"within p99 e2e <= 10 ms is not reached .* smallest change: p99 e2e <= \d"
    ):
        plan(asked)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"slo": ["p90 ttft 1 s"]}, "workload.*slo: expected something like 'p90 ttft <= 1 s'"),
        ({"slo": ["chat: p90 ttft <= 1 s"]}, "no request is of class 'chat': there are no classes; give shares"),
        ({"slo": ["cat: p90 ttft <= 1 s"], "classes": {"chat": 1}}, "of class 'cat': classes are chat"),
        ({"classes": {"chat": 0.7, "batch": 0.2}}, "classes: expected shares above 0 that add up to 1"),
    ],
)
def test_wrong_promises_are_refused(said: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        case("llm", **drawn(**said))


def test_classes_of_a_trace_are_those_that_it_names(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("arrival,model,class,prompt_tokens,output_tokens\n0,a,chat,5,6\n2,a,chat,7,8\n")
    with pytest.raises(InputError, match=r"workload\.slo: no request of t\.csv is of class 'batch'; it has chat"):
        plan(case("llm", **CASE, trace="t.csv", slo=["batch: p90 ttft <= 1 s"]), folder=tmp_path)
    made = plan(case("llm", **CASE, trace="t.csv", slo=["chat: p90 ttft <= 1 s"]), folder=tmp_path)
    assert made.file.predicted["attainment"] == 1.0


ONE: dict[str, Any] = {**CASE, "planner": {"name": "fixed"}, "lengths": "alpaca"}


def test_how_clients_send_is_a_part_of_the_case(tmp_path: Path) -> None:
    """A front end is in TTFT; clients without a rate have requests alone; a plan that is read knows them."""
    near, far = (
        plan(case("llm", **ONE, rate=20.0, duration=5.0, front_end=name)).simulate() for name in ("engine", "separate")
    )
    assert far.percentiles("ttft", (50,))[0] - near.percentiles("ttft", (50,))[0] > 5e-3
    closed = plan(case("llm", **{**CASE, "lengths": "alpaca"}, requests=60, arrivals="closed", concurrency=8))
    (served,) = closed.simulate().results.values()
    assert served.mean_batch <= 8
    again = load(closed.save(tmp_path / "plan.json")).simulate()
    assert again.goodput == closed.file.predicted["goodput"]
    (burst,) = plan(case("llm", **ONE, requests=60, arrivals="at_once")).simulate().results.values()
    assert burst.arrival.max() == 0
    mooncake(tmp_path, shared=True)
    looped = case(
        "llm", **{**CASE, "planner": {"name": "fixed"}}, trace="mooncake.jsonl", arrivals="closed", concurrency=2
    )
    (served,) = plan(looped, folder=tmp_path).simulate().results.values()
    assert (len(served), served.trace.prefix_ids is not None) == (60, True)


def test_what_not_knowing_costs_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = case("llm", **ONE, rate=20.0, duration=5.0, front_end="unknown", arrivals="unknown")
    path = plan(said).save(tmp_path / "plan.json")
    assert run(["simulate", str(path), "--json"]) == 0
    (document,) = json.loads(capsys.readouterr().out)["plans"]
    found = document["over_ways"]
    assert len(found["ways"]) == 9
    low, high = found["ranges_s"]["ttft_p50"]
    near = plan(case("llm", **ONE, rate=20.0, duration=5.0, arrivals="constant")).simulate()
    assert low <= near.percentiles("ttft", (50,))[0] <= high
    assert high - low > 5e-3
    assert run(["simulate", str(path)]) == 0
    assert "how requests are sent is not known: TTFT p50" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"arrivals": "closed", "requests": 5}, "clients.concurrency: closed arrivals need it"),
        ({"concurrency": 3, "rate": 1.0}, "clients.concurrency: goes with arrivals closed"),
        ({"think": 3.0, "rate": 1.0}, "clients.think: goes with arrivals closed"),
        ({"arrivals": "at_once", "rate": 1.0}, "at_once has no rate; give requests alone"),
        ({"arrivals": "at_once"}, "at_once has no rate; say how many requests"),
        ({"arrivals": "constant", "rate": 1.0, "cv": 2.0}, "cv: is of gamma arrivals"),
        ({"arrivals": "poisson", "trace": "t.csv", "lengths": None}, "a trace says when requests come"),
        ({"front_end_s": 0.1, "rate": 1.0}, "front_end_s: goes with front_end separate or in_process"),
    ],
)
def test_clients_that_contradict_themselves(said: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        case("llm", **{name: value for name, value in {**ONE, **said}.items() if value is not None})


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_a_fleet_that_cannot_hold_one_prompt_is_refused_in_a_line(
    role: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = case("llm", **{**ONE, "devices": 2}, rate=5.0, requests=20, decode_engines=1)
    path = plan(said).save(tmp_path / "plan.json")
    document = json.loads(path.read_text())
    (small,) = (each for each in document["deployments"] if each["role"] == role)
    small["num_blocks"] = 2
    path.write_text(json.dumps(document))
    assert run(["simulate", str(path)]) == 2
    told = capsys.readouterr().err.strip()
    assert "\n" not in told
    assert "request" in told
    assert "blocks" in told


def test_a_trace_with_negative_lengths_is_refused_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.csv").write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,-374,44\n")
    monkeypatch.chdir(tmp_path)
    line = ["plan", "llm", "--model", "llama-3.1-8b", "--devices", "1", "--device", "h100-80gb", "--trace", "t.csv"]
    assert run(line) == 2
    told = capsys.readouterr().err.strip()
    assert "\n" not in told
    assert "workload.trace: t.csv:2: column 'ContextTokens' must be an integer >= 0 (got '-374')" in told
