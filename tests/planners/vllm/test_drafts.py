"""Speculative decoding as an option of the planner: simulated from its file, tried against none, refused elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.planners.vllm import DrawnTraffic, Effort, LLMDemand, SearchSpace, plan
from meshwright.profiles import device
from meshwright.profiles.llm import Overheads, decoder, iteration_cost
from meshwright.simulator import Cluster
from meshwright.simulator.llm import LLMPlan, simulate_llm, simulate_plan
from meshwright.simulator.llm.decoding.speculative import Speculative
from meshwright.simulator.llm.options import SimulateOptions
from meshwright.simulator.llm.plan.costs import flight_options
from meshwright.traces.lengths import length_profile

LLAMA = decoder("llama-3.1-8b")
ONE = Effort(eta=1, finalists=1, seeds=1)
DRAFTS = {"tokens": 3, "acceptance": 0.8, "draft": "llama-3.2-1b"}


def demand(tpot: float = 0.02, rate: float = 1.0, n: int = 12) -> LLMDemand:
    return LLMDemand(LLAMA, DrawnTraffic(length_profile("alpaca"), rate, n), 1.0, tpot)


def found(asked: LLMDemand, *drafts: Any, **options: Any) -> Any:
    space = SearchSpace(tp=(1,), pp=(1,), batched_tokens=(512,), seqs=(16,), speculative=drafts)
    return plan(Cluster(1, 1, "l40s-48gb"), [asked], space=space, effort=ONE, **options)


def test_a_plan_with_drafts_is_simulate_llm_with_them(tmp_path: Path) -> None:
    asked = demand()
    made = LLMPlan.load(found(asked, DRAFTS).plan.save(tmp_path / "plan.json"))
    (each,) = made.deployments
    assert str(each.speculative) == "3 drafts of llama-3.2-1b"
    l40s = device("l40s-48gb")
    draft = iteration_cost(decoder("llama-3.2-1b"), l40s, overheads=Overheads(scheduler_s=0.0, per_sequence_s=0.0))
    by_hand = simulate_llm(
        asked.traffic.trace(0), config=flight_options(each), cost=iteration_cost(LLAMA, l40s, link=l40s.intra_node),
        options=SimulateOptions(speculative=Speculative(3, 0.8, draft)),
    )  # fmt: skip
    result = simulate_plan(made, asked.traffic.trace(0))
    np.testing.assert_array_equal(result.results[LLAMA.name].finish, by_hand.finish)
    assert result.attainment == made.predicted["attainment"]


def test_drafts_take_memory() -> None:
    """Weights of the draft beside the model's, and keys and values of both for every token."""
    plain, drafted, free = (
        found(demand(), each).plan.deployments[0] for each in (None, DRAFTS, {**DRAFTS, "draft": ""})
    )
    small = decoder("llama-3.2-1b")
    assert drafted.other_bytes - plain.other_bytes == small.weight_bytes()
    kept = LLAMA.kv_bytes_per_token() / (LLAMA.kv_bytes_per_token() + small.kv_bytes_per_token())
    assert drafted.num_blocks == pytest.approx(kept * (plain.num_blocks - small.weight_bytes() / 2097152), rel=0.01)
    assert free.num_blocks == plain.num_blocks


@pytest.mark.parametrize(("acceptance", "takes"), [(0.9, True), (0.0, False)])
def test_they_are_taken_where_they_help(acceptance: float, takes: bool) -> None:
    """Of none and of drafts the better one is the answer: accepted drafts shorten the time per token."""
    drafts = {**DRAFTS, "acceptance": acceptance}
    alone = (found(demand(), x).plan.predicted_per_model[LLAMA.name] for x in (None, drafts))
    tpot = [each["tpot_p50_s"] for each in alone]
    assert (tpot[1] < tpot[0]) == takes
    limit = min(tpot) * 1.2
    chosen = found(demand(limit), None, drafts).plan.deployments[0]
    assert (chosen.speculative is not None) == takes


@pytest.mark.parametrize(
    ("drafts", "said"),
    [
        ({"tokens": 0, "acceptance": 0.5}, "space: speculative: tokens"),
        ({"tokens": 2, "acceptance": 1.5}, "space: speculative: acceptance"),
        ({"tokens": 2}, "space: speculative: acceptance"),
        ({"tokens": 2, "acceptance": 0.5, "model": "x"}, "space: speculative: model"),
        ("eagle", "space: speculative: "),
    ],
)
def test_wrong_drafts_are_refused(drafts: Any, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        SearchSpace(speculative=(drafts,))
    assert len(str(caught.value).splitlines()) == 1


def test_where_drafts_are_not_modelled_the_plan_is_refused() -> None:
    (each,) = found(demand(), DRAFTS).plan.deployments
    made = found(demand(), None).plan
    for changes, said in (({"role": "prefill"}, "not modelled across a hand-off"), ({"policy": "orca-max"}, "vllm-v1")):
        with pytest.raises(InputError, match=said):
            LLMPlan.of(made.cluster_spec, made.models, (each.model_copy(update=changes),), planner=made.planner)
