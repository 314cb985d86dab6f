"""Plans over several device types: each deployment by its own device's cost, requests dealt by shares."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.profiles import device
from meshwright.profiles.llm import decoder, iteration_cost
from meshwright.simulator import Cluster
from meshwright.simulator.llm import Deployment, LLMPlan, LLMTrace, ServedModel, draw, simulate_llm, simulate_plan
from meshwright.simulator.llm.options import SimulateOptions
from meshwright.simulator.llm.plan.costs import kv_bytes_per_token, transfer_link
from meshwright.simulator.llm.policy.deal import dealt
from meshwright.simulator.mixed import MixedCluster
from meshwright.simulator.plan.entries import PlannerEntry

MODEL = "Llama-3.1-8B"
OPTIONS = {"max_model_len": 1024, "max_num_batched_tokens": 1024, "max_num_seqs": 64, "enable_prefix_caching": False}
FLEET = MixedCluster((Cluster(1, 2, "h100-80gb"), Cluster(1, 3, "l40s-48gb")))


def deployment(name: str, devices: tuple[tuple[int, ...], ...], **fields: Any) -> Deployment:
    said = {"config": OPTIONS, "num_blocks": 400, "replicas": len(devices), **fields}
    return Deployment(name=name, model=MODEL, devices=devices, **said)


FAST = deployment("fast", ((0,), (1,)), share=0.7, num_blocks=500)
CHEAP = deployment("cheap", ((2,), (4,)), share=0.3)


def plan_of(*deployments: Deployment, router: str = "round_robin") -> LLMPlan:
    limits = {"slo_ttft_s": 0.5, "slo_tpot_s": 0.03}
    return LLMPlan.of(
        FLEET, (ServedModel.of(decoder(MODEL), **limits),), deployments, planner=PlannerEntry(name="hand"),
        router=router,
    )  # fmt: skip


def traffic(n: int = 120) -> LLMTrace:
    return draw([30, 200, 80], [40, 10, 120], n, rate=30.0, seed=0)


@pytest.mark.parametrize("router", ["round_robin", "least_outstanding"])
def test_each_part_is_simulate_llm_on_its_own_device(router: str) -> None:
    result = simulate_plan(plan_of(FAST, CHEAP, router=router), traffic()).results[MODEL]
    rows = dealt(traffic(), (0.7, 0.3))
    for mine, each, name, first in ((rows[0], FAST, "h100-80gb", 0), (rows[1], CHEAP, "l40s-48gb", 2)):
        by_hand = simulate_llm(
            traffic().select(mine), config=OPTIONS | {"num_blocks": each.num_blocks},
            cost=iteration_cost(decoder(MODEL), device(name), link=device(name).intra_node), engines=2, router=router,
        )  # fmt: skip
        np.testing.assert_array_equal(result.finish[mine], by_hand.finish)
        np.testing.assert_array_equal(result.engine[mine], by_hand.engine + first)
        for row, there in list(enumerate(mine.tolist()))[::7]:
            np.testing.assert_array_equal(result.token_times(there), by_hand.token_times(row))
    assert result.iterations.engines == 4
    assert np.isclose(result.itl(50), np.median(np.concatenate([np.diff(result.token_times(i)) for i in range(120)])))


def test_both_engines_say_the_same() -> None:
    one, other = (simulate_plan(plan_of(FAST, CHEAP), traffic(), engine=e) for e in ("compiled", "simpy"))
    assert (one.made_by, other.made_by) == ("compiled", "reference")
    np.testing.assert_allclose(one.results[MODEL].finish, other.results[MODEL].finish, rtol=1e-9)
    frame = one.per_deployment()
    assert frame["requests"].sum() == 120
    assert frame["kv_peak"].between(0, 1, inclusive="right").all()
    np.testing.assert_allclose(frame["busy"], other.per_deployment()["busy"])


def test_a_share_without_a_request_is_an_idle_engine() -> None:
    plan = plan_of(FAST.model_copy(update={"share": 0.999}), CHEAP.model_copy(update={"share": 0.001}))
    found = simulate_plan(plan, traffic(20))
    assert found.results[MODEL].finished.all()
    assert found.per_deployment()["requests"].tolist() == [20, 0]


def test_prompts_on_one_type_and_decodes_on_the_other() -> None:
    """Each half by its own device's cost, keys and values over the slower network."""
    prompts, decodes = (
        each.model_copy(update={"role": role, "share": None}) for each, role in ((FAST, "prefill"), (CHEAP, "decode"))
    )
    plan = plan_of(prompts, decodes)
    link = transfer_link(plan, prompts, decodes)
    assert link.bandwidth_bytes_per_s == device("l40s-48gb").inter_node.bandwidth_bytes_per_s
    from meshwright.simulator.llm.fleet.pools import Pools

    def cost(name: str) -> Any:
        return iteration_cost(decoder(MODEL), device(name), link=device(name).intra_node)

    pools = Pools(
        2, 2, link, kv_bytes_per_token=kv_bytes_per_token(plan, prompts),
        decode_config=OPTIONS | {"num_blocks": 400}, decode_cost=cost("l40s-48gb"),
    )  # fmt: skip
    by_hand = simulate_llm(
        traffic(40), config=OPTIONS | {"num_blocks": 500}, cost=cost("h100-80gb"),
        options=SimulateOptions(pools=pools),
    )  # fmt: skip
    found = simulate_plan(plan, traffic(40)).results[MODEL]
    np.testing.assert_array_equal(found.finish, by_hand.finish)
    alone = simulate_plan(plan_of(prompts.model_copy(update={"role": "both"})), traffic(40)).results[MODEL]
    assert found.tpot(50) > 1.5 * alone.tpot(50)  # an L40S reads its memory at a quarter of the rate
    assert found.ttft(50) == pytest.approx(alone.ttft(50), rel=0.5)


def test_the_file_says_all_of_it(tmp_path: Path) -> None:
    plan = plan_of(FAST, CHEAP)
    path = plan.save(tmp_path / "plan.json")
    again = LLMPlan.load(path)
    assert again == plan
    assert again.mixed == FLEET
    h100, l40s = device("h100-80gb"), device("l40s-48gb")
    assert again.used_by_type == {h100: 2, l40s: 2}
    assert again.price_per_hour == pytest.approx(2 * h100.price_per_hour + 2 * l40s.price_per_hour)
    assert again.watts == 2 * h100.watts + 2 * l40s.watts
    assert again.capacity(CHEAP).tokens < again.capacity(FAST).tokens
    said = again.explain()
    assert "devices: 2 of 2 h100-80gb, 2 of 3 l40s-48gb" in said
    assert "cheap: 2 x Llama-3.1-8B TP1, 0.3 of the requests, vllm-v1, 400 KV blocks each on devices 2; 4 (l40s" in said
    alone = json.loads(plan_of(FAST.model_copy(update={"share": None})).to_json())
    assert "share" not in alone["deployments"][0]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ((FAST, CHEAP.model_copy(update={"share": 0.2})), r"shares of 'Llama-3.1-8B' are 0.9 together; expected 1"),
        ((FAST, CHEAP.model_copy(update={"share": None})), "some deployments of 'Llama-3.1-8B' have a share"),
        ((deployment("x", ((1, 2),), tp=2),), "stand on devices of several types"),
        ((deployment("x", ((1,), (2,))),), "stand on devices of several types"),
        ((deployment("x", ((5,),)),), "device 5 does not exist; the cluster has 0 … 4"),
        (
            (deployment("p", ((0,),), share=0.5, role="prefill"), deployment("d", ((2,),), share=0.5, role="decode")),
            "dealt among engines with role 'both'",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(changes: tuple[Deployment, ...], said: str) -> None:
    with pytest.raises(InputError, match=said):
        plan_of(*changes)


def test_a_type_has_one_pool_in_a_file(tmp_path: Path) -> None:
    written = json.loads(plan_of(FAST, CHEAP).to_json())
    written["pools"][0]["device"] = written["cluster"]["device"]
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(written))
    with pytest.raises(InputError, match=r"pools\[0\].device.name: 'h100-80gb' has a pool already"):
        LLMPlan.load(path)


def test_tables_are_of_the_type_that_they_say() -> None:
    """Those of the cluster's own device do not price another type; types without tables keep their rooflines."""
    from meshwright.profiles.llm import KernelTables, Overheads
    from meshwright.profiles.llm.tables.kernels import Peaks
    from meshwright.simulator.llm.plan.costs import deployment_cost

    plan = plan_of(FAST, CHEAP)
    slow = KernelTables("measured", Peaks.of(device("v100-16gb")), source="a test's")
    assert deployment_cost(plan, FAST, slow, Overheads()).source == "a test's"
    assert "roofline of l40s-48gb" in deployment_cost(plan, CHEAP, slow).source
    assert deployment_cost(plan, CHEAP, {"l40s-48gb": slow}).source == "a test's"
    assert "roofline of h100-80gb" in deployment_cost(plan, FAST, {"l40s-48gb": slow}).source
