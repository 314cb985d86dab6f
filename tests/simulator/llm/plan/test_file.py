"""LLM plan files: bytes, schema, words, and every bad input with its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from meshwright.errors import InputError
from meshwright.profiles import DeviceSpec, LinkSpec
from meshwright.profiles.llm import DecoderSpec, decoder, kv_capacity
from meshwright.simulator import Cluster
from meshwright.simulator.llm.plan.file import Deployment, LLMPlan, LLMWorkload, ServedModel
from meshwright.simulator.llm.policy.vllm_v1.state import V1Config
from meshwright.simulator.serving.plan.file import PlannerEntry

ROOT = Path(__file__).resolve().parents[4]
OPTIONS = {"block_size": 16, "max_model_len": 4096, "max_num_batched_tokens": 2048, "enable_prefix_caching": False}


def small(**changes: Any) -> LLMPlan:
    """Two models: one on two engines of two devices, one split into prefill and decode."""
    said: dict[str, Any] = {
        "models": (
            ServedModel.of(decoder("llama-3.1-8b"), slo_ttft_s=1.0, slo_tpot_s=0.05),
            ServedModel.of(decoder("qwen2.5-7b"), name="helper"),
        ),
        "deployments": (
            Deployment(
                name="main", model="Llama-3.1-8B", replicas=2, tp=2, config=OPTIONS, num_blocks=9000,
                devices=((0, 1), (2, 3)),
            ),
            Deployment(
                name="in", model="helper", config=OPTIONS, num_blocks=20000, role="prefill", devices=((4,),)
            ),
            Deployment(
                name="out", model="helper", config=OPTIONS, num_blocks=20000, role="decode", devices=((5,),)
            ),
        ),
        "planner": PlannerEntry(name="hand", seed=3),
        "workload": LLMWorkload(requests=10, duration_s=5.0, rate_per_s={"Llama-3.1-8B": 1.5, "helper": 0.5}),
        "predicted": {"goodput": 1.9},
    } | changes  # fmt: skip
    return LLMPlan.of(Cluster(1, 8, "h100-80gb"), **said)


def test_round_trip_is_equal_and_byte_identical(tmp_path: Path) -> None:
    plan = small()
    path = plan.save(tmp_path / "plan.json")
    again = LLMPlan.load(path)
    assert again == plan
    assert again.save(tmp_path / "again.json").read_bytes() == path.read_bytes()
    assert LLMPlan.is_one(path)
    assert again.cluster_spec == Cluster(1, 8, "h100-80gb")
    assert again.used_devices == (0, 1, 2, 3, 4, 5)
    assert again.price_per_hour == pytest.approx(6 * 12.3)


def test_options_are_the_policys_own() -> None:
    main = small().deployments[0]
    assert main.options == V1Config(num_blocks=9000, **OPTIONS)
    assert main.block_size == 16
    contiguous = Deployment(name="x", model="m", policy="orca-max", num_blocks=4096, devices=((0,),))
    assert contiguous.options.num_slots == 4096
    assert contiguous.block_size == 1


def test_a_model_that_is_not_shipped_is_spelt_out() -> None:
    own = DecoderSpec("own", 4, 64, 4, 128, 1000, 2, 16)
    entry = ServedModel.of(own)
    assert ServedModel.model_validate_json(entry.model_dump_json()).spec == own
    assert ServedModel.of(decoder("qwen2.5-7b"), name="helper").spec == decoder("qwen2.5-7b")
    assert ServedModel.of(decoder("qwen2.5-7b")).shape == {}


def test_committed_schema_is_the_models() -> None:
    committed = json.loads((ROOT / "docs/schema/llm-plan.schema.json").read_text())
    assert committed == LLMPlan.json_schema(), "write LLMPlan.json_schema() to docs/schema/llm-plan.schema.json"
    jsonschema.Draft202012Validator.check_schema(committed)
    jsonschema.validate(json.loads(small().to_json()), committed)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("cluster", "nodes"), 0),
        (("deployments", 0, "tp"), "2"),
        (("deployments", 0, "role"), "all"),
        (("deployments", 0, "tensor"), 2),
        (("deployments", 0, "gpu_memory_utilization"), 1.5),
        (("kind",), "meshwright/plan"),
        (("version",), 2),
    ],
)
def test_schema_and_reader_refuse_the_same(path: tuple[str | int, ...], value: object) -> None:
    data = json.loads(small().to_json())
    place: Any = data
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, LLMPlan.json_schema())
    with pytest.raises(InputError):
        LLMPlan.from_json(json.dumps(data))


def test_all_errors_at_once_with_their_lines() -> None:
    data = json.loads(small().to_json())
    data["router"] = "nearest"
    first, second, third = data["deployments"]
    first["config"]["blocksize"] = 16
    first["devices"] = [[0, 1], [1, 2]]
    second["model"] = "helpr"
    third["devices"] = [[9]]
    third["tp"] = 0
    with pytest.raises(InputError) as caught:
        LLMPlan.from_json(json.dumps(data, indent=1), "p.json")
    text = str(caught.value)
    for said in (
        "router: unknown router 'nearest'; expected one of round_robin",
        "deployments[0].config: config: unknown option 'blocksize'; did you mean 'block_size'?",
        "deployments[1].model: unknown model 'helpr'; the plan lists Llama-3.1-8B, helper",
        "deployments[2].tp: should be greater than 0 (got 0)",
    ):
        assert said in text, text
    assert all(line.startswith("p.json:") and line.split(":")[1].isdigit() for line in text.splitlines())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"devices": ((0, 1),)}, "expected a row for each of 2 engines (got 1)"),
        ({"devices": ((0, 1), (2,))}, "an engine has 2 devices (got 1)"),
        ({"devices": ((0, 1), (2, 2))}, "a device stands twice in one engine (got [2, 2])"),
        ({"devices": ((0, 1), (2, 8))}, "device 8 does not exist; the cluster has 0 … 7"),
        ({"devices": ((0, 1), (1, 2))}, "shares some but not all devices with an engine on [0, 1]"),
        ({"devices": ((0, 1), (0, 1))}, "the engines on [0, 1] take 1.8 of the memory together"),
        ({"policy": "vllm-2"}, "unknown policy 'vllm-2'"),
        ({"config": {"num_blocks": 3}}, "num_blocks is the plan's num_blocks; leave it out"),
        ({"role": "prefill"}, "'Llama-3.1-8B' has no deployment with role 'decode'"),
    ],
)
def test_contradictions_are_named(changes: dict[str, Any], said: str) -> None:
    main, *others = small().deployments
    fields = main.model_dump() | changes
    with pytest.raises(InputError) as caught:
        small(deployments=(Deployment(**fields), *others))
    assert said in str(caught.value)


def test_explain_prints_the_memory_with_its_formula() -> None:
    lines = small().explain().splitlines()
    assert lines[0].startswith("hand ")
    assert "SLO of Llama-3.1-8B: TTFT 1 s, TPOT 0.05 s" in lines
    main = next(i for i, line in enumerate(lines) if line.startswith("main: 2 x Llama-3.1-8B TP2"))
    assert lines[main].endswith("on devices 0-1; 2-3")
    whole = kv_capacity(decoder("llama-3.1-8b"), 80 * 2**30, tp=2)
    assert whole.explain() in lines[main + 2]
    assert "the plan uses 144000 tokens of them" in lines[main + 2]
    assert "devices: 6 of 8, 73.8 per hour" in lines


def test_quantised_weights_leave_more_room() -> None:
    plan = small()
    blocks = {}
    for precision in ("bf16", "fp8", "int4_wo"):
        blocks[precision] = plan.capacity(plan.deployments[0].model_copy(update={"precision": precision})).num_blocks
    assert blocks["bf16"] < blocks["fp8"] < blocks["int4_wo"]
    spec = decoder("llama-3.1-8b")
    assert blocks["fp8"] == kv_capacity(spec, 80 * 2**30, tp=2, weights="fp8").num_blocks


def test_shards_of_a_sequence_hold_other_tokens() -> None:
    """8 KV heads on 16 ranks: repeated twice without shards, once with two of them."""
    plan = small()
    wide = {"tp": 16, "replicas": 1, "devices": (tuple(range(16)),)}
    whole, shards = (plan.capacity(plan.deployments[0].model_copy(update=wide | {"cp": cp})).tokens for cp in (1, 2))
    assert shards == 2 * whole


def test_other_devices_are_spelt_out() -> None:
    link = LinkSpec(1e9, 1e-6)
    device = DeviceSpec("mine", 80 * 2**30, 70 * 2**30, 1e14, 1e12, link, link, "datasheet")
    plan = small()
    made = LLMPlan.of(Cluster(1, 8, device), plan.models, plan.deployments, planner=plan.planner)
    assert LLMPlan.from_json(made.to_json()).cluster_spec.spec == device
