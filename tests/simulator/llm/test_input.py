"""What is wrong in requests and options is said in one line, before anything runs."""

from __future__ import annotations

import numpy as np
import pytest
from flat_options import llm_asked
from meshwright.errors import InputError
from meshwright.profiles import device
from meshwright.profiles.llm import (
    ConstantCost,
    CostOptions,
    DecoderSpec,
    KernelTables,
    LinearCost,
    decoder,
    iteration_cost,
    kv_capacity,
)
from meshwright.simulator.llm import LLMTrace, drive, simulate_llm

CONFIG = {"num_blocks": 9, "block_size": 4, "max_model_len": 64}
GOOD = {"id": "a", "prompt": 8, "output": 4}


def refused(call, says):
    with pytest.raises(InputError, match=says) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"id": [1]}, "id: expected text or an integer"),
        ({"id": None}, "id: expected text or an integer"),
        ({"prompt": 0}, "prompt: expected an integer >= 1"),
        ({"prompt": "8"}, "prompt: expected an integer >= 1"),
        ({"output": 0}, "output: expected an integer >= 1"),
        ({"output": True}, "output: expected an integer >= 1"),
        ({"priority": "high"}, "priority: expected an integer"),
        ({"priority": float("nan")}, "priority: expected an integer"),
        ({"arrive_step": -1}, "arrival: expected a finite time >= 0"),
        ({"arrive_step": "0"}, "arrival: expected a finite time >= 0"),
        ({"arrive_step": None}, "arrival: expected a finite time >= 0"),
        ({"tokens": 5}, "tokens: expected the prompt's token ids"),
        ({"tokens": "abcdefgh"}, "tokens: expected the prompt's token ids"),
        ({"tokens": [[1]] * 8}, "tokens: expected the prompt's token ids"),
        ({"tokens": [1]}, "tokens: expected as many as the prompt has"),
        ({"prompt": 64}, "leaves no room for an output"),
    ],
)
def test_requests(change, says):
    refused(lambda: drive("vllm-v1", CONFIG, [{**GOOD, **change}]), says)


@pytest.mark.parametrize("requests", [None, 5, "abc", GOOD, [1], [None], ["a"]])
def test_what_is_no_list_of_requests(requests):
    refused(lambda: drive("vllm-v1", CONFIG, requests), "requests: expected")
    refused(lambda: simulate_llm(requests, config=CONFIG, cost=ConstantCost()), "requests: expected")


@pytest.mark.parametrize("most", [0, -1, "x", None, True])
def test_steps(most):
    refused(lambda: drive("vllm-v1", CONFIG, [GOOD], max_steps=most), "max_steps: expected an integer >= 1")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("until", "x"),
        ("until", True),
        ("until", float("nan")),
        ("padded", "x"),
        ("padded", None),
        ("swap", 1),
        ("survivors", 1),
        ("speculative", 1),
        ("scaling", 1),
        ("scaling", [1]),
        ("pools", 1),
        ("faults", 1),
        ("engines", 0),
        ("concurrency", 1.5),
        ("router", None),
        ("seed", -1),
        ("policy", ["vllm-v1"]),
        ("cost", 5),
        ("config", [1]),
    ],
)
def test_options(name, value):
    trace = LLMTrace([0, 0], [4, 4], [3, 3])
    refused(lambda: simulate_llm(trace, **llm_asked(**{"config": CONFIG, "cost": ConstantCost(), name: value})), name)


def test_costs():
    for wrong in ("x", None, float("nan"), -1.0, float("inf")):
        refused(lambda wrong=wrong: ConstantCost(wrong), "iteration_s: expected finite seconds")
        refused(lambda wrong=wrong: LinearCost(wrong), "base_s: expected finite seconds")


def test_numbers_of_numpy_are_numbers():
    config = {name: np.int64(value) for name, value in CONFIG.items()}
    request = {
        "id": 1,
        "prompt": np.int64(8),
        "output": np.int32(4),
        "tokens": np.arange(8),
        "arrive_step": np.int64(2),
    }
    plain = {"id": 1, "prompt": 8, "output": 4, "tokens": range(8), "arrive_step": 2}
    assert drive("vllm-v1", config, [request]) == drive("vllm-v1", CONFIG, [plain])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"hidden_size": "x"}, "hidden_size: expected an integer >= 1"),
        ({"num_attention_heads": 0}, "num_attention_heads: expected an integer >= 1"),
        ({"num_attention_heads": [8]}, "num_attention_heads: expected an integer >= 1"),
        ({"num_key_value_heads": 3}, "does not divide"),
        ({"max_position_embeddings": 0}, "max_position_embeddings: expected an integer >= 1"),
        ({"num_hidden_layers": None, "vocab_size": None}, "missing in config.json: num_hidden_layers, vocab_size"),
    ],
)
def test_fields_of_a_model(change, says):
    config = {
        "model_type": "llama", "hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8,
        "num_key_value_heads": 4, "intermediate_size": 1024, "vocab_size": 1000, "max_position_embeddings": 2048,
    }  # fmt: skip
    assert DecoderSpec.from_config(config).head_dim == 64
    refused(lambda: DecoderSpec.from_config({**config, **change}), says)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"tp": 3}, "tp: 3 does not divide"),
        ({"skew": -1}, "skew: expected"),
        ({"skew": float("nan")}, "skew: expected"),
        ({"overheads": 5}, "overheads: expected Overheads"),
        ({"link": 5}, "link: expected LinkSpec"),
        ({"model": "llama"}, "model: expected DecoderSpec"),
        ({"system": None}, "system: expected KernelTables or DeviceSpec"),
        ({"exchange": "mail"}, "exchange: expected one of"),
        (
            {"max_token": 8},
            "max_token: no such option; the rarer ones are cp, dp, ep, exchange, skew, balanced, all2all, images, "
            "max_tokens, max_outputs$",
        ),
        ({"options": 5}, "options: expected CostOptions"),
        ({"options": CostOptions(dp=2), "ep": 2}, "options: give options or single fields, not both"),
    ],
)
def test_costs_of_models(change, says):
    asked = {"model": decoder("opt-13b"), "system": device("h100-80gb"), **change}
    refused(lambda: iteration_cost(**asked), says)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"utilization": "x"}, "utilization: expected a share"),
        ({"other_bytes": -1}, "other_bytes: expected an integer >= 0"),
        ({"other_bytes": "x"}, "other_bytes: expected an integer >= 0"),
        ({"block_size": 0}, "block_size: expected an integer >= 1"),
        ({"model": "llama"}, "model: expected a DecoderSpec"),
    ],
)
def test_capacity(change, says):
    refused(lambda: kv_capacity(**{"model": decoder("opt-13b"), "memory_bytes": 2**36, **change}), says)


@pytest.mark.parametrize("name", [None, 5, ["opt-13b"]])
def test_names_that_are_none(name):
    refused(lambda: decoder(name), "model: expected a name")
    refused(lambda: KernelTables.load(name), "kernel tables: expected a folder")
