"""What only some kinds of models have, from the case to the plan, its file, its simulation and the exported command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from meshwright.errors import InfeasibleError, InputError
from meshwright.profiles import device
from meshwright.profiles.llm import DecoderSpec, Iteration, decoder, iteration_cost, kv_capacity
from meshwright.runtime.export.llm.arguments import arguments, servers
from meshwright.simulator.llm import LLMPlan
from meshwright.simulator.llm.plan.costs import deployment_cost, drafts_of, flight_options
from meshwright.worlds.faces import case, load, plan

MOE = "Qwen3-30B-A3B"
SMALL: dict[str, Any] = {
    "device": "h100-80gb", "lengths": "alpaca", "rate": 40.0, "duration": 2.0, "planner": "fixed",
}  # fmt: skip
FOUR = {"tensor_parallel_size": 4, "enable_expert_parallel": True}
RANKS = {"data_parallel_size": 4, "enable_expert_parallel": True}
STEP = Iteration(((200, 0),), decodes=60, context=60 * 300, outputs=61)
TEXT = {
    "model_type": "qwen2_vl", "num_hidden_layers": 28, "hidden_size": 3584, "num_attention_heads": 28,
    "num_key_value_heads": 4, "intermediate_size": 18944, "vocab_size": 152064, "max_position_embeddings": 32768,
    "vision_config": {"depth": 32, "embed_dim": 1280, "hidden_size": 3584},
}  # fmt: skip


def made(model: str = MOE, devices: int = 4, **more: Any) -> Any:
    return plan(case("llm", model=model, devices=devices, **SMALL | more))


def latency(found: Any) -> float:
    return next(iter(found.simulate().results.values())).normalized_latency


@pytest.mark.parametrize(
    ("said", "plain", "options"),
    [
        ({"engine": FOUR}, {"engine": {"tensor_parallel_size": 4}}, {"tp": 4, "ep": 4}),
        ({"engine": {**FOUR, "enable_eplb": True}}, {"engine": FOUR}, {"tp": 4, "ep": 4, "balanced": True}),
        ({"engine": {"data_parallel_size": 4}}, {}, {"dp": 4}),
        (
            {"engine": {**RANKS, "all2all_backend": "deepep_high_throughput"}},
            {"engine": RANKS},
            {"dp": 4, "ep": 4, "all2all": "deepep_high_throughput"},
        ),
        ({"expert_skew": 2.0}, {}, {"skew": 2.0}),
    ],
    ids=["ep", "eplb", "dp", "all2all", "skew"],
)
def test_it_is_priced_like_the_python_option(
    tmp_path: Path, said: dict[str, Any], plain: dict[str, Any], options: dict[str, Any]
) -> None:
    """Cost, simulation and plan file: each of them says what `iteration_cost` says with the option."""
    found = made(**said)
    (each,) = found.file.deployments
    h100 = device("h100-80gb")
    by_hand = iteration_cost(decoder(MOE), h100, link=h100.intra_node, **options).seconds(STEP)
    assert deployment_cost(found.file, each).seconds(STEP) == by_hand
    without = made(**plain)
    assert by_hand != deployment_cost(without.file, without.file.deployments[0]).seconds(STEP)
    assert latency(found) != latency(without)
    again = load(LLMPlan.save(found.file, tmp_path / "plan.json"))
    assert latency(again) == latency(found)
    assert again.file == found.file


def test_ranks_share_nothing_but_steps() -> None:
    """Four ranks have the budgets of four engines, and a request has one rank's at most."""
    (each,) = made(engine=RANKS).file.deployments
    options = flight_options(each)
    assert each.devices_per_engine == 4
    assert (options.max_num_batched_tokens, options.max_num_seqs) == (4 * 2048, 4 * 256)
    assert options.long_prefill_token_threshold == 2048
    room = kv_capacity(decoder(MOE), device("h100-80gb").memory_bytes, dp=4, ep=4, other_bytes=each.other_bytes)
    assert each.num_blocks == room.engine_blocks


def test_the_planner_tries_them() -> None:
    found = made(
        planner={"name": "vllm", "options": {
            "tp": [1], "pp": [1], "dp": [2], "expert_parallel": [True], "eplb": [False, True], "batched_tokens": [2048],
            "all2all": ["deepep_high_throughput"], "eta": 1, "finalists": 2, "seeds": 1,
        }}, slo_ttft=1.0, slo_tpot=0.05, devices=2, duration=1.0,
    )  # fmt: skip
    (each,) = found.file.deployments
    assert (each.dp, each.ep, each.all2all) == (2, True, "deepep_high_throughput")
    assert str(each).startswith(f"{MOE}: 1 x {MOE} TP1 DP2 EP" if each.tp > 1 else f"{MOE}: 1 x {MOE} DP2 EP")
    assert each.eplb, "equal loads are never slower, and the search has seen them"


def test_commands_say_them() -> None:
    file: LLMPlan = made(engine={**RANKS, "enable_eplb": True, "all2all_backend": "deepep_high_throughput"}).file
    said = arguments(file, servers(file, 8000)[0], "/models/x")
    blocks = file.deployments[0].num_blocks // 4
    assert {
        "--enable-expert-parallel", "--enable-eplb", "--all2all-backend=deepep_high_throughput",
        "--data-parallel-size=4", f"--num-gpu-blocks-override={blocks}", "--max-num-seqs=256",
    } <= set(said)  # fmt: skip


def sees(folder: Path) -> str:
    (folder / "sees.json").write_text(json.dumps(TEXT))
    return str(folder / "sees.json")


def test_images_take_time_and_tokens(tmp_path: Path) -> None:
    model = sees(tmp_path)
    plain, found = (made(model, 1, rate=4.0, **more) for more in ({}, {"images": ["1120x1120", "448x448"]}))
    spec = DecoderSpec.from_config(TEXT, "sees")
    assert spec.tower is not None
    tokens = spec.tower.image_tokens((1120, 1120)) + spec.tower.image_tokens((448, 448))
    (with_them,), (without,) = (list(p.simulate().results.values()) for p in (found, plain))
    np.testing.assert_array_equal(with_them.trace.prompt_tokens, without.trace.prompt_tokens + tokens)
    (each,), h100 = found.file.deployments, device("h100-80gb")
    cost = iteration_cost(spec, h100, link=h100.intra_node, images=((1120, 1120), (448, 448)))
    assert deployment_cost(found.file, each).seconds(STEP) == cost.seconds(STEP)
    again = load(LLMPlan.save(found.file, tmp_path / "plan.json"))
    assert again.file.models[0].images == ((1120, 1120), (448, 448))
    (once_more,) = again.simulate().results.values()
    np.testing.assert_array_equal(once_more.finish, with_them.finish)


def test_measured_prompts_hold_their_images(tmp_path: Path) -> None:
    model, lengths = sees(tmp_path), tmp_path / "lengths.csv"
    lengths.write_text("prompt_tokens,output_tokens\n2000,20\n1700,10\n")
    found = made(model, 1, lengths=str(lengths), images=["1120x1120"], rate=4.0)
    (result,) = found.simulate().results.values()
    assert set(result.trace.prompt_tokens.tolist()) == {2000, 1700}
    lengths.write_text("prompt_tokens,output_tokens\n2000,20\n1500,10\n")
    with pytest.raises(InputError, match=r"images: they are 1600 tokens, and a prompt of .* has 1500"):
        made(model, 1, lengths=str(lengths), images=["1120x1120"])


def test_the_checkpoints_own_drafts(tmp_path: Path) -> None:
    """Their weights, keys and values take memory, their passes time, and what is accepted comes sooner."""
    config = json.loads((Path(__file__).parent / "drafting.json").read_text())
    (tmp_path / "drafting.json").write_text(json.dumps(config))
    model = str(tmp_path / "drafting.json")
    drafts = {"method": "mtp", "num_speculative_tokens": 1, "acceptance": 0.9}
    plain, found = (made(model, 1, rate=4.0, engine=e) for e in ({}, {"speculative_config": drafts}))
    spec = DecoderSpec.from_config(config, "drafting")
    (each,) = found.file.deployments
    room = {
        mtp: kv_capacity(spec, device("h100-80gb").memory_bytes, other_bytes=each.other_bytes, mtp=mtp).num_blocks
        for mtp in (True, False)
    }
    assert each.num_blocks == room[True] < room[False] == plain.file.deployments[0].num_blocks
    assert found.file.capacity(each).num_blocks == each.num_blocks
    said = drafts_of(found.file, each)
    assert said is not None
    assert (said.tokens, said.acceptance) == (1, 0.9)
    assert latency(found) < latency(plain)
    assert latency(load(LLMPlan.save(found.file, tmp_path / "plan.json"))) == latency(found)
    command = arguments(found.file, servers(found.file, 8000)[0], "/models/x")
    assert '--speculative-config={"method": "mtp", "num_speculative_tokens": 1}' in command


DENSE = {"model": "llama-3.1-8b", "devices": 1}


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"engine": {"enable_eplb": True}}, "enable_eplb: balances experts that are spread; set enable_expert"),
        ({"engine": {**FOUR, "all2all_backend": "deepep_high_throughput"}}, "all2all_backend: tokens are sent where"),
        ({"engine": {"all2all_backend": "pplx"}}, "all2all_backend: should be 'allgather_reducescatter' or"),
        ({"engine": {**RANKS, "decode_engines": 1}}, "decode_engines: not modelled with data_parallel_size"),
        ({**DENSE, "engine": {"enable_expert_parallel": True}}, "engine.enable_expert_parallel: Llama-3.1-8B has"),
        ({**DENSE, "engine": {"data_parallel_size": 2}}, "engine.data_parallel_size: Llama-3.1-8B has no experts"),
        ({**DENSE, "expert_skew": 1.0}, "workload.expert_skew: Llama-3.1-8B has no experts; leave it out"),
        ({"expert_skew": -1.0}, "expert_skew"),
        ({**DENSE, "images": ["448x448"]}, "workload.images: Llama-3.1-8B has no tower that sees"),
        ({"images": ["448"]}, "images: expected height x width in pixels, each from 1 to 65535, as 1120x1120"),
        ({"images": ["0x448"]}, "images: expected height x width in pixels"),
        ({"engine": {"speculative_config": {"acceptance": 0.5}}}, "has no layer that predicts further tokens"),
        ({"engine": {"speculative_config": {"method": "draft_model", "acceptance": 0.5}}}, "model: goes with method"),
        (
            {"engine": {"speculative_config": {"method": "ngram", "acceptance": [0.5, 0.4]}}},
            "acceptance: expected one, or one for each of 1",
        ),
        (
            {"engine": {"speculative_config": {"method": "draft_model", "model": "lama", "acceptance": 0.5}}},
            "engine.speculative_config.model: ",
        ),
        (
            {"engine": {"policy": "orca-max", "speculative_config": {"method": "ngram", "acceptance": 0.5}}},
            "speculative_config: not modelled with this policy",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(said: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as told:
        made(**said)
    assert says in str(told.value)
    assert len(str(told.value).splitlines()) == 1


def test_engines_that_do_not_fit_are_said() -> None:
    with pytest.raises(InfeasibleError, match="DP3"):
        made(engine={"data_parallel_size": 3, "enable_expert_parallel": True}, devices=3)
