"""Policies that users bring: the page's and the example's, and what the rest of the house does with them."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.planners.vllm import DrawnTraffic, LLMDemand, SearchSpace, plan
from meshwright.profiles.llm import LinearCost, decoder
from meshwright.simulator import Cluster
from meshwright.simulator.llm import POLICIES, LLMTrace, drive, register_policy, simulate_llm
from meshwright.simulator.llm.plan.entries import MEMORY_OPTION
from meshwright.simulator.llm.policy.vllm02 import Vllm02Scheduler
from meshwright.simulator.llm.policy.vllm_v1 import V1Scheduler
from meshwright.traces.lengths import length_profile

ROOT = Path(__file__).parents[4]
COST = LinearCost(base_s=1.0, token_s=0.0, context_s=0.0)


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    shipped, memory = dict(POLICIES), dict(MEMORY_OPTION)
    yield
    for table, before in ((POLICIES, shipped), (MEMORY_OPTION, memory)):
        for name in set(table) - set(before):
            del table[name]  # type: ignore[attr-defined]


class LastFirst(V1Scheduler):
    """Who comes last is admitted first."""

    def schedule(self) -> Any:
        self.waiting.sort(key=lambda r: -r.order)
        return super().schedule()


class LastFirst02(Vllm02Scheduler):
    """The same on the paper's vLLM."""

    def schedule(self) -> Any:
        self.waiting.sort(key=lambda group: -int(group.request.id))
        return super().schedule()


def test_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    runpy.run_path(str(ROOT / "examples" / "own_llm_policy.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert "short-prompts-first: admitted 20 tokens, 40 tokens, 60 tokens" in said
    assert "vllm-v1: for real, first tokens of the prompts of 60, 20, 40 tokens" in said
    assert "short-prompts-first: for real, first tokens of the prompts of 20, 40, 60 tokens" in said
    fcfs, short = re.findall(r"mean TTFT ([\d.]+) s", said)
    assert float(short) < float(fcfs)


@pytest.mark.parametrize(
    ("like", "scheduler", "config"),
    [("vllm-v1", LastFirst, {"num_blocks": 9}), ("vllm-0.2", LastFirst02, {"num_gpu_blocks": 9})],
)
@pytest.mark.parametrize("engine", ["auto", "fast"])
def test_it_decides_in_every_engine(like: str, scheduler: Any, config: dict[str, int], engine: str) -> None:
    """One at a time, the last first: with seconds of one iteration each, first tokens at 1, 3, 5.

    ``engine="fast"`` takes the compiled engine where it can: it must see that this scheduler is not the shipped one.
    """
    register_policy("last-first", replace(POLICIES[like], scheduler=scheduler))
    options = {**config, "max_num_seqs": 1, "max_model_len": 64}
    records = drive("last-first", options, [{"id": k, "prompt": 8, "output": 2} for k in range(3)])
    assert [list(record["scheduled"]) for record in records] == [[2], [2], [1], [1], [0], [0]]
    trace = LLMTrace([0.0, 0.0, 0.0], [8, 8, 8], [2, 2, 2])
    result = simulate_llm(trace, policy="last-first", config=options, cost=COST, engine=engine)
    assert result.made_by == "reference"
    np.testing.assert_array_equal(result.first_token, [5.0, 3.0, 1.0])
    with pytest.raises(InputError, match="a scheduler of your own is not compiled"):
        simulate_llm(trace, policy="last-first", config=options, cost=COST, engine="compiled")


def test_a_step_that_drive_cannot_read() -> None:
    register_policy("odd", replace(POLICIES["vllm-v1"], work=lambda scheduler, step, padded: None))  # type: ignore[arg-type, return-value]
    with pytest.raises(InputError, match=r"'odd': drive records steps that work_02, work_paper, work_06, work_v1"):
        drive("odd", {"num_blocks": 9}, [])


def test_names_and_types() -> None:
    with pytest.raises(InputError, match="'vllm-v1' is a shipped policy; take another name"):
        register_policy("vllm-v1", POLICIES["vllm-v1"])
    with pytest.raises(InputError, match="name: expected a name"):
        register_policy(" ", POLICIES["vllm-v1"])
    with pytest.raises(InputError, match=r"expected a Policy, such as .* \(got type\)"):
        register_policy("mine", LastFirst)  # type: ignore[arg-type]
    register_policy("mine", POLICIES["sarathi"])
    register_policy("mine", POLICIES["orca-max"])  # a notebook's second try
    assert POLICIES["mine"] is POLICIES["orca-max"]
    assert "mine" not in MEMORY_OPTION


@pytest.mark.parametrize("policy", [*(name for name in POLICIES), "last-first"])
def test_the_planner_tries_every_policy(policy: str) -> None:
    register_policy("last-first", replace(POLICIES["vllm-v1"], scheduler=LastFirst))
    demand = LLMDemand(
        decoder("llama-3.1-8b"), DrawnTraffic(length_profile("alpaca"), rate=2.0, n=30), ttft_s=1.0, tpot_s=0.1
    )
    space = SearchSpace(tp=(1,), pp=(1,), batched_tokens=(512,), policies=(policy,))
    found = plan(Cluster(1, 1, "h100-80gb"), [demand], space=space).plan
    (deployment,) = found.deployments
    assert deployment.policy == policy
    assert found.predicted is not None
    assert found.predicted["attainment"] >= (0.5 if policy == "fastertransformer" else 1.0)  # batches wait
