"""The LLM world of studies: what a case says is what is simulated, and nothing else moves it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.profiles import device
from meshwright.profiles.llm import decoder, iteration_cost
from meshwright.simulator.llm import LLMTrace, simulate_llm
from meshwright.simulator.llm.workload.draw import renewal_times
from meshwright.studies import Session, Study
from meshwright.studies.study import load
from meshwright.traces.lengths import ALPACA
from meshwright.worlds.llm.case import LLMCase
from meshwright.worlds.llm.solve import solve
from meshwright.worlds.llm.world import WORLD
from meshwright.worlds.outcome import Outcome
from pydantic import ValidationError

BASE: dict[str, Any] = {
    "cluster": {"devices": 2},
    "model": "llama-3.1-8b",
    "workload": {"rate": 40, "requests": 300, "lengths": "alpaca", "slo_ttft": 0.1, "slo_tpot": 0.02},
    "planner": {"name": "fixed"},
}
STUDY: dict[str, Any] = {"study": 1, "name": "llm", "world": "llm", **{k: v for k, v in BASE.items() if k != "planner"}}
STUDY["planners"] = ["fixed"]


def case_of(**fields: Any) -> LLMCase:
    """The base case with other fields, given as ``workload__rate=…``."""
    said = json.loads(json.dumps(BASE))
    for name, value in fields.items():
        *inner, last = name.split("__")
        place = said
        for step in inner:
            place = place.setdefault(step, {})
        place[last] = value
    return LLMCase.model_validate_json(json.dumps(said))


def evaluate(case: LLMCase, folder: Path = Path()) -> Outcome:
    return WORLD.evaluate(case, WORLD.share([case], folder))


def test_a_case_is_the_simulator_called_by_hand() -> None:
    case = case_of(seed=5, engine__max_num_batched_tokens=1024, engine__router="random", workload__cv=2)
    solved = solve(case, WORLD.share([case], Path()))
    (engine,) = solved.plan.deployments
    drawn = ALPACA.sample(300, 5)
    trace = LLMTrace(renewal_times(40.0, 300, cv=2.0, seed=5), drawn.prompt, drawn.output)
    by_hand = simulate_llm(
        trace, config=engine.options, cost=iteration_cost(decoder("llama-3.1-8b"), device("h100-80gb")), engines=2,
        router="random", seed=5,
    )  # fmt: skip
    assert engine.options.max_num_batched_tokens == 1024
    assert np.array_equal(solved.result.finish, by_hand.finish)
    assert evaluate(case).metrics["attainment"] == by_hand.attainment(ttft=0.1, tpot=0.02)


def test_another_rate_stretches_the_same_requests() -> None:
    slow, fast = (solve(c, WORLD.share([c], Path())).result for c in (case_of(), case_of(workload__rate_scale=2)))
    assert np.allclose(slow.trace.arrival, 2 * fast.trace.arrival)
    assert np.array_equal(slow.trace.prompt_tokens, fast.trace.prompt_tokens)


def test_limits_scale_and_move_no_request() -> None:
    shares = [evaluate(case_of(workload__slo_scale=scale)).metrics["attainment"] for scale in (0.2, 0.5, 1, 4)]
    assert shares == sorted(shares)
    assert shares[0] < shares[-1]
    data = WORLD.share([case_of()], Path())
    finishes = [solve(case_of(workload__slo_scale=scale), data).result.finish for scale in (0.2, 4)]
    assert np.array_equal(*finishes)


def test_what_fits_nowhere_is_infeasible_and_no_error() -> None:
    small = evaluate(case_of(model="llama-3.1-70b"))
    assert small.status == "infeasible"
    assert "room" in small.error
    none = evaluate(case_of(cluster__devices=1, engine__tensor_parallel_size=2))
    assert none.status == "infeasible"
    apart = evaluate(case_of(engine__decode_engines=2))
    assert "reads prompts at least" in apart.error


def test_prompts_and_decodes_apart() -> None:
    outcome = evaluate(case_of(cluster__devices=3, engine__decode_engines=2))
    assert outcome.status == "ok"
    assert "prefill only" in outcome.decision
    assert outcome.metrics["n_requests"] == 300


def test_the_planner_searches_and_is_never_worse_on_its_own_traffic() -> None:
    options = {"tp": [1, 2], "pp": [1], "batched_tokens": [512, 2048], "seeds": 1, "eta": 1}
    found = evaluate(case_of(planner={"name": "vllm", "options": options}, workload__rate=150))
    fixed = [
        evaluate(case_of(engine__tensor_parallel_size=tp, engine__max_num_batched_tokens=b, workload__rate=150))
        for tp in (1, 2)
        for b in (512, 2048)
    ]
    assert found.metrics["evaluations"] > 0
    assert found.metrics["attainment"] >= max(f.metrics["attainment"] for f in fixed) - 1e-12


def test_files_are_read_and_told_by_their_digests(tmp_path: Path) -> None:
    (tmp_path / "lengths.csv").write_text("num_prefill_tokens,num_decode_tokens\n30,20\n50,10\n")
    config = {
        "num_hidden_layers": 4, "hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 512,
        "vocab_size": 1000, "max_position_embeddings": 2048, "model_type": "llama",
    }  # fmt: skip
    (tmp_path / "own.json").write_text(json.dumps(config))
    case = case_of(model="own.json", workload__lengths="lengths.csv")
    data = WORLD.share([case], tmp_path)
    assert set(WORLD.digests(case, data)) == {"own.json", "lengths.csv"}
    result = solve(case, data).result
    assert set(zip(result.trace.prompt_tokens.tolist(), result.trace.output_tokens.tolist(), strict=True)) == {
        (30, 20), (50, 10),
    }  # fmt: skip


def test_everything_wrong_is_said_at_once() -> None:
    cases = [
        case_of(model="llama-9"), case_of(workload__lengths="sharegtp"), case_of(cluster__device="h101"),
        case_of(engine__policy="vllm"), case_of(engine__router="robin"), case_of(kernels="nowhere"),
        case_of(planner={"name": "vllm", "options": {"tpp": [1]}}),
        case_of(planner={"name": "fixed", "options": {"a": 1}}),
    ]  # fmt: skip
    with pytest.raises(InputError) as caught:
        WORLD.share(cases, Path())
    lines = str(caught.value).splitlines()
    assert [line.split(": ")[0] for line in lines] == [
        "model", "workload.lengths", "cluster.device", "engine.policy", "engine.router", "kernels", "planner.options",
        "planner.options",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"workload__trace": "t.csv"}, "give one of rate"),
        ({"workload__requests": 0}, "greater than 0"),
        ({"engine__gpu_memory_utilization": 1.2}, "less than or equal to 1"),
        ({"engine__tp": 2}, "Extra inputs"),
        ({"workload__slo_ttft": -1}, "greater than 0"),
    ],
)
def test_a_case_that_contradicts_itself_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        case_of(**fields)


def test_fewest_devices_against_trying_all(tmp_path: Path) -> None:
    question = {"find": "fewest devices", "target": 0.9, "high": 6}
    workload = {**BASE["workload"], "rate": 300, "requests": 200, "slo_ttft": 0.05}
    study = Study.from_dict(STUDY | {"question": question, "replications": 2, "workload": workload}, tmp_path)
    with Session.open(study) as running:
        running.run()
        (answer,) = running.answers
        scanned = {}
        for n in range(1, 7):
            points = [running.ask({"devices": n}, None, r) for r in range(2)]
            scanned[n] = sum(o.metrics["attainment"] for _, o in running.evaluate(points)) / 2
    assert scanned[answer.value] >= 0.9
    assert answer.value == 1 or scanned[answer.value - 1] < 0.9


def test_the_example_is_a_study() -> None:
    study = load(Path(__file__).resolve().parents[2] / "examples/llm-capacity.yaml")
    assert study.world.name == "llm"
    assert [p["name"] if isinstance(p, dict) else p for p in study.document()["planners"]] == ["fixed", "vllm"]
    assert len(study) == 3 * 2 * 3
