"""Mixes of device types against brute force, and against themselves under changes whose effect is known."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from meshwright.errors import InfeasibleError, InputError
from meshwright.planners.vllm import DrawnTraffic, Effort, LLMDemand, SearchSpace
from meshwright.planners.vllm.mixes import IDLE_SHARE, MixPlanning, plan_mixed
from meshwright.profiles import device
from meshwright.profiles.llm import LinearCost, decoder
from meshwright.simulator import Cluster
from meshwright.simulator.llm import Deployment, LLMPlan, simulate_llm, simulate_plan
from meshwright.simulator.llm.policy.deal import dealt
from meshwright.simulator.mixed import MixedCluster
from meshwright.traces.lengths import length_profile

LLAMA, QWEN = decoder("llama-3.1-8b"), decoder("qwen2.5-7b")
ALPACA = length_profile("alpaca")
STEPS = 5
ALL = Effort(eta=1, seeds=1, share_steps=STEPS)
SMALL = SearchSpace(tp=(1, 2), pp=(1,), batched_tokens=(256,), seqs=(8, 32))
FLEET = MixedCluster((Cluster(1, 2, "h100-80gb"), Cluster(1, 3, "l40s-48gb")))
PRICE = (12.3, 1.86)
WATTS = (700.0, 350.0)


def linear(tp: int, fast: bool) -> LinearCost:
    slower = 1.0 if fast else 2.5
    return LinearCost(slower * (0.012 / tp + 0.0005 * (tp - 1)), slower * 4e-5 / tp, slower * 1e-7 / tp)


def by_type(d: Deployment) -> LinearCost:
    """Devices 0 and 1 are H100s; an L40S takes two and a half times as long."""
    return linear(d.tp, d.devices[0][0] < 2)


def demand(rate: float = 150.0, ttft: float = 0.3, tpot: float = 0.04, n: int = 150, **fields: Any) -> LLMDemand:
    return LLMDemand(fields.pop("model", LLAMA), DrawnTraffic(ALPACA, rate, n), ttft, tpot, **fields)


def solve(asked: LLMDemand | None = None, fleet: MixedCluster = FLEET, **options: Any) -> MixPlanning:
    said: dict[str, Any] = {"costs": by_type, "space": SMALL, "effort": ALL, "target": 0.9} | options
    return plan_mixed(fleet, [asked or demand()], **said)


def by_hand(asked: LLMDemand, most: tuple[int, int] = (2, 3)) -> dict[tuple[int, int], list[tuple[float, float]]]:
    """Counts -> share of good requests and watts of every mix of them, without the planner's code."""
    trace, found = asked.traffic.trace(0), dict[tuple[int, int], list[tuple[float, float]]]()
    n = len(trace)
    parts: dict[tuple[int, int, int], list[tuple[float, float, float]]] = {}
    for pool, steps in itertools.product((0, 1), range(1, STEPS + 1)):
        low = 0.0 if pool == 0 else 1 - steps / STEPS
        shares = {(0, STEPS): [1.0], (1, STEPS): [1.0]}.get(
            (pool, steps), [steps / STEPS, 1 - steps / STEPS] if pool == 0 else [low, steps / STEPS]
        )
        rows = dealt(trace, shares)[-1 if pool else 0]
        for tp, seqs in itertools.product(SMALL.tp, SMALL.seqs):
            for engines in range(1, most[pool] // tp + 1):
                config = {
                    "num_blocks": 20_000, "max_model_len": 2048, "max_num_batched_tokens": 256, "max_num_seqs": seqs,
                    "enable_prefix_caching": False,
                }  # fmt: skip
                result = simulate_llm(
                    trace.select(rows), config=config, cost=linear(tp, pool == 0), engines=engines, engine="fast"
                )
                good = float(result.good(asked.ttft_s, asked.tpot_s).sum())
                busy = float((result.iterations.end - result.iterations.start).sum()) / engines
                parts.setdefault((pool, engines * tp, steps), []).append((good, busy, float(result.finish.max())))
    begin = float(trace.arrival[0])

    def watts(used: list[tuple[int, int, tuple[float, float, float]]]) -> float:
        span = max(last for _, _, (_, _, last) in used) - begin
        return sum(
            count * WATTS[pool] * (IDLE_SHARE + (1 - IDLE_SHARE) * min(1.0, busy / span))
            for pool, count, (_, busy, _) in used
        )

    for counts in itertools.product(range(most[0] + 1), range(most[1] + 1)):
        rows = found.setdefault(counts, [])
        for pool in (0, 1):
            if counts[1 - pool] == 0:
                rows += [
                    (each[0] / n, watts([(pool, counts[pool], each)]))
                    for each in parts.get((pool, counts[pool], STEPS), [])
                ]
        for steps in range(1, STEPS):
            pairs = itertools.product(
                parts.get((0, counts[0], steps), []), parts.get((1, counts[1], STEPS - steps), [])
            )
            rows += [((a[0] + b[0]) / n, watts([(0, counts[0], a), (1, counts[1], b)])) for a, b in pairs]
    return {counts: rows for counts, rows in found.items() if rows}


@pytest.mark.parametrize(
    ("rate", "ttft", "tpot"), [(60, 0.3, 0.04), (150, 0.3, 0.04), (260, 0.2, 0.04), (90, 0.1, 0.02)]
)
def test_the_cheapest_mix_is_that_of_brute_force(rate: float, ttft: float, tpot: float) -> None:
    asked = demand(rate, ttft, tpot)
    every = by_hand(asked)
    reaching = [counts for counts, rows in every.items() if max(rows)[0] >= 0.9]
    price = {counts: sum(n * p for n, p in zip(counts, PRICE, strict=True)) for counts in every}
    found = solve(asked)
    option = found.chosen[LLAMA.name]
    assert option.value == pytest.approx(min(price[counts] for counts in reaching))
    assert found.plan.price_per_hour == pytest.approx(option.value)
    assert option.level.counts == min(reaching, key=price.__getitem__)
    for level in found.levels[LLAMA.name]:
        assert level.finalists[0].attained == max(every[level.counts])[0]
        assert level.tried == len(every[level.counts])
    cheaper = {counts for counts in every if price[counts] < option.value}
    assert cheaper <= {level.counts for level in found.levels[LLAMA.name]}


def test_a_mix_is_cheaper_than_either_type_alone() -> None:
    """What one H100 cannot do is done by L40Ss beside it, at a price below that of a second H100."""
    found = solve(demand(150, n=300))
    counts = found.chosen[LLAMA.name].level.counts
    assert min(counts) > 0
    assert sum(d.share or 0 for d in found.plan.deployments) == pytest.approx(1)
    alone = found.one_type(LLAMA.name)
    assert all(point is None or point.price_per_hour > found.plan.price_per_hour for point in alone.values())


@pytest.mark.parametrize("rate", [60, 150])
def test_the_least_power_is_that_of_brute_force(rate: float) -> None:
    asked = demand(rate)
    least = min(watts for rows in by_hand(asked).values() for good, watts in rows if good >= 0.9)
    found = solve(asked, objective="energy")
    assert found.chosen[LLAMA.name].value == pytest.approx(least)
    assert found.plan.predicted["mean_power_w"] == pytest.approx(least)
    assert IDLE_SHARE * found.plan.watts <= least <= found.plan.watts


def test_most_good_requests_are_those_of_brute_force() -> None:
    asked = demand(500, 0.05, 0.04)
    every = by_hand(asked)
    best = max(max(rows)[0] for rows in every.values())
    found = solve(asked, objective="goodput")
    option = found.chosen[LLAMA.name]
    assert option.finalist.attained == best
    assert sum(option.level.counts) == min(sum(c) for c, rows in every.items() if max(rows)[0] == best)


def test_fewest_devices_are_those_of_brute_force() -> None:
    asked = demand(150)
    fewest = min(sum(counts) for counts, rows in by_hand(asked).items() if max(rows)[0] >= 0.9)
    found = solve(asked, objective="devices")
    assert len(found.plan.used_devices) == fewest
    assert fewest > 1


@pytest.mark.parametrize("seed", range(3))
def test_racing_finds_what_trying_all_finds(seed: int) -> None:
    for rate in (60, 100):
        asked = demand(rate, n=400)
        whole = solve(asked, seed=seed)
        raced = solve(asked, seed=seed, effort=Effort(eta=3, finalists=3, smallest=50, seeds=1, share_steps=STEPS))
        assert raced.chosen[LLAMA.name].value <= whole.chosen[LLAMA.name].value * 1.0001
        assert raced.chosen[LLAMA.name].level.counts == whole.chosen[LLAMA.name].level.counts


def test_a_plan_that_was_read_simulates_to_its_own_figures(tmp_path: Path) -> None:
    asked = demand(150, n=300)
    found = solve(asked)
    again = LLMPlan.load(found.plan.save(tmp_path / "plan.json"))
    assert again == found.plan
    result = simulate_plan(again, asked.traffic.trace(0), costs=by_type)
    said = result.predictions()
    assert said["predicted_per_model"] == again.predicted_per_model
    assert {k: v for k, v in again.predicted.items() if k in said["predicted"]} == said["predicted"]
    assert again.predicted["attainment"] == found.chosen[LLAMA.name].finalist.scores[0].attained
    slow = simulate_plan(again, asked.traffic.trace(0), costs=by_type, engine="simpy")
    np.testing.assert_allclose(slow.results[LLAMA.name].finish, result.results[LLAMA.name].finish, rtol=1e-9)


def test_two_models_go_together_into_the_fleet_as_cheaply_as_any_pair() -> None:
    """Each alone wants all four L40Ss; the cheapest pair that fits is found."""
    fleet = MixedCluster((Cluster(1, 1, "h100-80gb"), Cluster(1, 4, "l40s-48gb")))
    effort = Effort(eta=1, seeds=1, share_steps=4)

    def costs(d: Deployment) -> LinearCost:
        return linear(d.tp, d.devices[0][0] < 1)

    first, second = demand(70, 0.3, 0.021, n=80), demand(90, 0.3, 0.021, n=80, model=QWEN)
    said: dict[str, Any] = {"costs": costs, "space": SMALL, "effort": effort, "target": 0.9}
    options: list[dict[tuple[int, ...], float]] = []
    for asked in (first, second):
        every = plan_mixed(fleet, [asked], objective="goodput", **said)
        options.append({
            level.counts: 12.3 * level.counts[0] + 1.86 * level.counts[1]
            for level in every.levels[asked.name]
            if level.reaching(0.9)
        })  # fmt: skip
    pairs = [
        a + b
        for (x, a), (y, b) in itertools.product(options[0].items(), options[1].items())
        if x[0] + y[0] <= 1 and x[1] + y[1] <= 4
    ]
    cheapest = [min(mine, key=mine.__getitem__) for mine in options]
    assert sum(counts[1] for counts in cheapest) > 4
    found = plan_mixed(fleet, [first, second], **said)
    assert found.plan.price_per_hour == pytest.approx(min(pairs))
    used = [x for d in found.plan.deployments for row in d.devices for x in row]
    assert len(used) == len(set(used))


def without_seconds(found: MixPlanning) -> dict[str, Any]:
    said = json.loads(found.plan.to_json())
    del said["planner"]["seconds"]
    return said


def test_the_same_on_any_number_of_processes() -> None:
    """With rooflines: what a process is sent must be importable."""
    said: dict[str, Any] = {"space": SMALL, "effort": Effort(seeds=2, share_steps=4), "target": 0.9}
    asked = demand(60, n=60)
    one, two = (plan_mixed(FLEET, [asked], workers=n, **said) for n in (1, 2))
    assert without_seconds(one) == without_seconds(two)


def test_prompts_on_one_type_and_decodes_on_the_other_are_tried() -> None:
    space = SearchSpace(tp=(1,), pp=(1,), batched_tokens=(256,), seqs=(32,), disaggregate="only")
    found = solve(demand(40, n=30), MixedCluster((Cluster(1, 1, "h100-80gb"), Cluster(1, 1, "l40s-48gb"))), space=space,
                  objective="goodput", costs=lambda d: linear(d.tp, d.devices[0][0] < 1))  # fmt: skip
    (level,) = found.levels[LLAMA.name]
    assert level.tried == 2
    tried = {tuple((p.pool, p.role) for p in f.mix.parts) for f in level.finalists}
    assert tried == {((0, "prefill"), (1, "decode")), ((1, "prefill"), (0, "decode"))}
    assert [d.role for d in found.plan.deployments] == ["prefill", "decode"]


def test_no_plan_names_a_change_that_is_one() -> None:
    asked = demand(260, 0.05, 0.04)
    fleet = MixedCluster((Cluster(1, 1, "h100-80gb"), Cluster(1, 2, "l40s-48gb")))

    def costs(d: Deployment) -> LinearCost:
        return linear(d.tp, d.devices[0][0] < at)

    at = 1
    with pytest.raises(InfeasibleError) as caught:
        plan_mixed(fleet, [asked], costs=costs, space=SMALL, effort=ALL, target=0.9)
    said = str(caught.value)
    assert "0.9 of the requests within TTFT 0.05 s and TPOT 0.04 s is not reached on 1 node(s) x 1 h100-80gb + " in said
    changes = dict(re.findall(r"more (\S+) \((\d+)\)", said))
    assert "l40s-48gb" in changes
    for count, enough in ((int(changes["l40s-48gb"]), True), (int(changes["l40s-48gb"]) - 1, False)):
        larger = MixedCluster((fleet.pools[0], Cluster(1, count, "l40s-48gb")))
        same: dict[str, Any] = {"costs": costs, "space": SMALL}
        if enough:
            assert plan_mixed(larger, [asked], effort=ALL, target=0.9, **same).plan.used_devices
        else:
            with pytest.raises(InfeasibleError):
                plan_mixed(larger, [asked], effort=ALL, target=0.9, **same)
    looser = re.search(r"a TTFT limit of ([\d.]+) s", said)
    assert looser
    assert plan_mixed(fleet, [demand(260, float(looser[1]), 0.04)], costs=costs, space=SMALL, effort=ALL, target=0.9)


def test_the_explanation_says_what_one_device_less_would_reach() -> None:
    found = solve(demand(150, n=300), effort=Effort(eta=1, seeds=3, share_steps=STEPS))
    text = found.explain()
    for name, count in zip(("h100-80gb", "l40s-48gb"), found.chosen[LLAMA.name].level.counts, strict=True):
        assert (f"one {name} less: " in text) == (count > 0)
    assert "a guess; hosts and cooling are not counted" in text
    front = found.front(LLAMA.name)
    chosen = next(p for p in front if p.mix == found.chosen[LLAMA.name].finalist.mix.said(found.names))
    assert chosen.attained_gap.mean == chosen.attained_gap.half_width == 0
    assert [p.price_per_hour for p in front] == sorted(p.price_per_hour for p in front)
    assert all(p.attained_gap.n == 3 for p in front)
    json.dumps([p.to_dict() for p in front], allow_nan=False)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"objective": "rate"}, "rate: plan_highest looks for it"),
        ({"objective": "price"}, "objective: expected one of cost, energy, devices, goodput"),
        ({"target": 1.5}, "target: expected a share"),
        ({"workers": 0}, "workers"),
        ({"asked": LLMDemand(LLAMA, DrawnTraffic(ALPACA, 1.0, 10))}, "no model has a limit"),
        (
            {"fleet": MixedCluster((Cluster(1, 1, "rtx-4090-24gb"),))},
            r"cost needs price_per_hour of rtx-4090-24gb, which is not known; say it in a device file",
        ),
    ],
)
def test_bad_options(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        solve(**changes)


def test_no_engine_on_any_type_says_why_of_each() -> None:
    with pytest.raises(InfeasibleError, match=r"on any of 2 device types; .*h100-80gb: .*l40s-48gb: .*smallest change"):
        solve(demand(model=decoder("llama-3.1-405b")))


def test_one_type_is_a_fleet_too() -> None:
    """On a cluster of one type nothing is dealt, and the price is that of its fewest devices."""
    found = plan_mixed(Cluster(1, 4, "l40s-48gb"), [demand(40)], costs=lambda d: linear(d.tp, False), space=SMALL,
                       effort=ALL, target=0.9)  # fmt: skip
    (made,) = found.plan.deployments
    assert made.share is None
    assert found.plan.price_per_hour == pytest.approx(1.86 * len(found.plan.used_devices))
    assert found.plan.pools == ()
    assert device("l40s-48gb").price_per_hour == 1.86


def test_formats_are_traded_by_time_and_memory() -> None:
    """Of two formats that are tried, the answer is the cheaper of the answers to each alone."""
    asked = demand(90, 0.5, 0.025, n=80)
    said: dict[str, Any] = {"effort": Effort(eta=1, seeds=1, share_steps=2), "target": 0.9}
    fleet = MixedCluster((Cluster(1, 1, "h100-80gb"), Cluster(1, 2, "l40s-48gb")))
    prices: dict[Any, float] = {}
    for formats in ("bf16", "fp8", ("bf16", "fp8")):
        space = SearchSpace(tp=(1,), pp=(1,), batched_tokens=(512,), precision=formats, kv_precision=formats)
        found = plan_mixed(fleet, [asked], space=space, **said)
        prices[formats] = found.plan.price_per_hour
    assert prices["bf16", "fp8"] == min(prices["bf16"], prices["fp8"]) < max(prices["bf16"], prices["fp8"])
    assert {d.precision for d in found.plan.deployments} == {"fp8"}
    assert "fp8 KV cache" in found.explain()
    with pytest.raises(InputError, match="space: kv_precision: expected some of bf16"):
        SearchSpace(kv_precision=("fp7",))
