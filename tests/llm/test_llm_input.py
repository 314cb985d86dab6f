"""What is wrong in requests and options is said in one line, before anything runs."""

from __future__ import annotations

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.profiles.llm import ConstantCost, LinearCost
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
    refused(lambda: simulate_llm(trace, **{"config": CONFIG, "cost": ConstantCost(), name: value}), name)


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
