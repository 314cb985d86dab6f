"""Failures and scaling of plans with prefill and decode engines, and of engines with shares: each by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.profiles.llm import decoder
from meshwright.simulator import Cluster
from meshwright.simulator.failures import events_of
from meshwright.simulator.llm import (
    Autoscaling,
    Deployment,
    Fault,
    Faults,
    LLMPlan,
    LLMTrace,
    Pools,
    ServedModel,
    SimulateOptions,
    draw,
    simulate_llm,
)
from meshwright.simulator.llm.plan.conditions import Conditions, ScalingRule
from meshwright.simulator.llm.plan.costs import deployment_cost, flight_options, kv_bytes_per_token, transfer_link
from meshwright.simulator.llm.plan.simulate import simulate_under
from meshwright.simulator.llm.policy.deal import dealt
from meshwright.simulator.mixed import MixedCluster
from meshwright.simulator.plan.entries import PlannerEntry

MODEL = "Llama-3.1-8B"
OPTIONS = {"max_model_len": 1024, "max_num_batched_tokens": 1024, "max_num_seqs": 64, "enable_prefix_caching": False}
FLEET = MixedCluster((Cluster(1, 2, "h100-80gb"), Cluster(1, 3, "l40s-48gb")))
RULE = ScalingRule(1, 3.0, "running", 0.5, 1.0)


def deployment(name: str, devices: tuple[tuple[int, ...], ...], **fields: Any) -> Deployment:
    said = {"config": OPTIONS, "num_blocks": 400, "replicas": len(devices), **fields}
    return Deployment(name=name, model=MODEL, devices=devices, **said)


FAST = deployment("fast", ((0,), (1,)), share=0.7, num_blocks=500)
CHEAP = deployment("cheap", ((2,), (4,)), share=0.3)
PREFILL = deployment("prompts", ((0,), (1,)), role="prefill")
DECODE = deployment("decodes", ((2,), (3,), (4,)), role="decode")


def plan_of(*deployments: Deployment) -> LLMPlan:
    return LLMPlan.of(
        FLEET, (ServedModel.of(decoder(MODEL), slo_ttft_s=0.5, slo_tpot_s=0.03),), deployments,
        planner=PlannerEntry(name="hand"),
    )  # fmt: skip


def traffic(n: int = 150) -> LLMTrace:
    return draw([30, 200, 80], [40, 10, 120], n, rate=30.0, seed=0)


def pools_by_hand(plan: LLMPlan, **options: Any) -> Any:
    pools = Pools(
        2, 3, transfer_link(plan, PREFILL, DECODE), kv_bytes_per_token=kv_bytes_per_token(plan, PREFILL),
        decode_config=flight_options(DECODE), decode_cost=deployment_cost(plan, DECODE),
    )  # fmt: skip
    return simulate_llm(
        traffic(), config=flight_options(PREFILL), cost=deployment_cost(plan, PREFILL),
        options=SimulateOptions(pools=pools, **options),
    )  # fmt: skip


@pytest.mark.parametrize("engine", ["compiled", "simpy"])
def test_each_pool_is_scaled_by_its_own_load(engine: str) -> None:
    """The plan may name the decodes first."""
    plan = plan_of(DECODE, PREFILL)
    whole = simulate_under(plan, traffic(), Conditions(start_s=0.2, scaling=RULE), engine=engine)
    found, figures = whole.results[MODEL], whole.deployment_figures()
    assert figures["decodes"]["requests"] == 150  # on engines that were started later, too
    rules = [
        Autoscaling(1, most, 3.0, "running", 0.5, 0.2, patience=2, role=role)
        for role, most in (("prefill", 2), ("decode", 3))
    ]
    by_hand = pools_by_hand(plan, scaling=rules)
    np.testing.assert_allclose(found.finish, by_hand.finish, rtol=1e-9)
    assert found.fleet is not None
    assert found.fleet.engine_seconds < 5 * found.fleet.end_s
    assert set(found.fleet.roles) == {"prefill", "decode"}


def test_devices_of_either_pool_fail() -> None:
    """Engines of the plan are numbered through its deployments; those of the pools prompts first."""
    plan = plan_of(DECODE, PREFILL)
    script = events_of([{"at": 1, "device": 3, "for": 1}, {"at": 2, "group": 3, "for": 0.5}])
    found = simulate_under(plan, traffic(), Conditions(script=script)).results[MODEL]
    by_hand = pools_by_hand(plan, faults=Faults((Fault(3, 1.0, 1.0), Fault(0, 2.0, 0.5))))
    np.testing.assert_array_equal(found.finish, by_hand.finish)
    assert found.fleet is not None
    assert tuple(np.flatnonzero(found.fleet.deaths)) == (0, 3)


def test_a_script_of_unlike_pools_needs_no_rate() -> None:
    """Two devices fail twice as often as one: only what is drawn asks how large engines are."""
    big = deployment("prompts", ((0, 1),), role="prefill", tp=2)
    plan = plan_of(big, DECODE)
    script = Conditions(script=events_of([{"at": 1, "device": 1, "for": 1}]))
    found = simulate_under(plan, traffic(20), script).results[MODEL]
    assert found.fleet is not None
    assert found.fleet.deaths[0] == 1
    with pytest.raises(InputError, match="for prompts and for decodes that fail at unlike rates are not simulated"):
        simulate_under(plan, traffic(20), Conditions(3600.0, 60.0))
    halved = plan_of(PREFILL, DECODE.model_copy(update={"precision": "fp8"}))
    with pytest.raises(InputError, match="that load for unlike times are not simulated"):
        simulate_under(halved, traffic(20), Conditions(script=script.script, disk_bytes_per_s=1e9))


@pytest.mark.parametrize("engine", ["compiled", "simpy"])
def test_engines_with_shares_fail_each_by_itself(engine: str) -> None:
    plan = plan_of(FAST, CHEAP)
    script = events_of([{"at": 1, "device": 0, "for": 1}, {"at": 2, "device": 4, "for": 0.5}])
    met = Conditions(script=script, disk_bytes_per_s=50e9)
    found = simulate_under(plan, traffic(), met, engine=engine).results[MODEL]
    hit = {"fast": Fault(0, 1.0, 1.0), "cheap": Fault(1, 2.0, 0.5)}
    assert found.fleet is not None
    assert tuple(np.flatnonzero(found.fleet.deaths)) == (0, 3)
    total = 0.0
    for rows, each, first in zip(dealt(traffic(), (0.7, 0.3)), (FAST, CHEAP), (0, 2), strict=True):
        load = plan.capacity(each).weight_bytes / 50e9
        by_hand = simulate_llm(
            traffic().select(rows), config=flight_options(each), cost=deployment_cost(plan, each), engines=2,
            options=SimulateOptions(faults=Faults((hit[each.name],), load_s=load)),
        )  # fmt: skip
        np.testing.assert_allclose(found.finish[rows], by_hand.finish, rtol=1e-9)
        assert by_hand.fleet is not None
        np.testing.assert_array_equal(found.fleet.retries[rows], by_hand.fleet.retries)
        np.testing.assert_array_equal(found.fleet.first_engine[rows], by_hand.fleet.first_engine + first)
        total += by_hand.fleet.engine_seconds
    assert found.fleet.engine_seconds == pytest.approx(total)
    with pytest.raises(InputError, match="scaling: of engines with shares of the requests is not simulated"):
        simulate_under(plan, traffic(20), Conditions(scaling=RULE))


def test_engines_that_nothing_befell_are_there_all_the_time() -> None:
    plan = plan_of(FAST, CHEAP)
    script = Conditions(script=events_of([{"at": 1, "device": 0, "for": 1}]))
    found = simulate_under(plan, traffic(), script).results[MODEL]
    assert found.fleet is not None
    assert tuple(np.flatnonzero(found.fleet.deaths)) == (0,)
    cheap = np.isin(found.fleet.engine, (2, 3))
    rows = dealt(traffic(), (0.7, 0.3))[1]
    np.testing.assert_array_equal(found.fleet.end[cheap], 2 * [np.nanmax(found.finish[rows])])
    assert set(found.fleet.first_engine[rows]) == {2, 3}
    ran = found.iterations.end - found.iterations.start
    np.testing.assert_allclose(found.fleet.busy_s[2:], [ran[found.iterations.engine == n].sum() for n in (2, 3)])
    assert found.fleet.availability < 1


def test_what_is_drawn_differs_between_deployments() -> None:
    twin = deployment("twin", ((2,), (3,)), share=0.5)
    plan = plan_of(deployment("one", ((0,), (1,)), share=0.5), twin)
    found = simulate_under(plan, traffic(), Conditions(3.0, 0.2), seed=1).results[MODEL].fleet
    assert found is not None
    down = [found.start[(found.engine == n) & (found.state == "down")] for n in range(4)]
    assert all(len(each) for each in down)
    assert len({float(each[0]) for each in down}) == 4
