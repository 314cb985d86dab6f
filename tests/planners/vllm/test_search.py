"""The LLM planner against exhaustive search, closed forms, and itself under changes whose effect is known."""

from __future__ import annotations

import itertools
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from meshwright.errors import InfeasibleError, InputError
from meshwright.planners.vllm import DrawnTraffic, Effort, GivenTraffic, LLMDemand, Planning, SearchSpace, plan
from meshwright.profiles.llm import ConstantCost, LinearCost, decoder
from meshwright.simulator import Cluster
from meshwright.simulator.llm import Deployment, LLMPlan, LLMTrace, simulate_llm, simulate_plan
from meshwright.simulator.llm.workload.draw import renewal_times
from meshwright.traces.lengths import length_profile

LLAMA, QWEN = decoder("llama-3.1-8b"), decoder("qwen2.5-7b")
ALPACA = length_profile("alpaca")
ALL = Effort(eta=1, finalists=1, seeds=1)
SMALL = SearchSpace(tp=(1, 2, 4), pp=(1, 2), batched_tokens=(256, 1024), seqs=(8, 32))


def linear(d: Deployment) -> LinearCost:
    """Halves with tensor parallelism, but for what each further rank adds."""
    return LinearCost(base_s=0.012 / d.tp + 0.0005 * (d.tp - 1), token_s=4e-5 / (d.tp * d.pp), context_s=1e-7 / d.tp)


def one_second(_: Deployment) -> ConstantCost:
    return ConstantCost(1.0)


def cluster(devices: int) -> Cluster:
    return Cluster(1, devices, "h100-80gb")


def demand(rate: float = 60.0, ttft: float = 0.3, tpot: float = 0.02, n: int = 300, **fields: Any) -> LLMDemand:
    return LLMDemand(fields.pop("model", LLAMA), DrawnTraffic(ALPACA, rate, n), ttft, tpot, **fields)


def solve(devices: int = 4, asked: LLMDemand | None = None, **options: Any) -> Planning:
    said: dict[str, Any] = {"costs": linear, "space": SMALL, "effort": ALL} | options
    return plan(cluster(devices), [asked or demand()], **said)


def by_hand(devices: int, asked: LLMDemand, space: SearchSpace) -> dict[int, float]:
    """Devices -> the best share of good requests, every candidate simulated without the planner's code."""
    trace, best = asked.traffic.trace(0), dict[int, float]()
    for tp, pp, batched, seqs in itertools.product(space.tp, space.pp, space.batched_tokens, space.seqs):
        for replicas in range(1, devices // (tp * pp) + 1):
            cost = linear(Deployment(name="x", model="x", tp=tp, pp=pp, num_blocks=9, devices=(tuple(range(tp * pp)),)))
            config = {
                "num_blocks": 20_000 // pp, "max_model_len": 2048, "max_num_batched_tokens": batched,
                "max_num_seqs": seqs // pp, "enable_prefix_caching": False,
            }  # fmt: skip
            result = simulate_llm(trace, config=config, cost=cost, engines=replicas * pp, engine="fast")
            used = replicas * tp * pp
            best[used] = max(best.get(used, 0.0), result.attainment(ttft=asked.ttft_s, tpot=asked.tpot_s))
    return best


@pytest.mark.parametrize(("rate", "ttft", "tpot"), [(60, 0.3, 0.02), (150, 0.1, 0.012), (400, 0.5, 0.05)])
def test_keeping_all_is_exhaustive_search(rate: float, ttft: float, tpot: float) -> None:
    """KV memory never binds here, so the blocks of the search by hand may be others."""
    asked = demand(rate, ttft, tpot, n=150)
    found = solve(4, asked)
    best = by_hand(4, asked, SMALL)
    for bracket in found.fronts[0].brackets:
        assert bracket.best.attained == best[bracket.devices]
    assert {b.devices for b in found.fronts[0].brackets} == set(best)
    assert found.chosen[0].best.attained == max(best.values())
    fewest = min(n for n, share in best.items() if share == max(best.values()))
    assert found.chosen[0].devices == fewest


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
def test_halving_is_within_two_percent_of_exhaustive_search(seed: int) -> None:
    for rate, ttft, tpot in ((60, 0.3, 0.02), (150, 0.1, 0.012)):
        asked = demand(rate, ttft, tpot, n=200)
        whole = solve(4, asked, seed=seed)
        raced = solve(4, asked, seed=seed, effort=Effort(eta=3, finalists=2, smallest=50, seeds=1))
        assert raced.chosen[0].best.attained >= whole.chosen[0].best.attained - 0.02
        assert sum(b.rounds[-1].candidates for b in raced.fronts[0].brackets) < sum(
            b.rounds[-1].candidates for b in whole.fronts[0].brackets
        )


def waits_at_most(t: float, rate: float, service: float) -> float:
    """Distribution of the wait in M/D/1 (Erlang 1909; Crommelin 1932)."""
    load = rate * service
    terms = (
        math.exp(rate * (t - k * service)) * (-rate * (t - k * service)) ** k / math.factorial(k)
        for k in range(int(t / service) + 1)
    )
    return (1 - load) * sum(terms)


def test_highest_rate_of_a_single_server_is_that_of_queueing_theory() -> None:
    """One token in, one out, one at a time, 1 s each: M/D/1. 90 % must wait no longer than 3 s."""
    n, target = 20_000, 0.9
    traffic = GivenTraffic(LLMTrace(renewal_times(0.5, n, seed=1), [1] * n, [1] * n))
    space = SearchSpace(tp=(1,), pp=(1,), batched_tokens=(64,), seqs=(1,))
    found = plan(
        cluster(1), [LLMDemand(LLAMA, traffic, ttft_s=4.0)], objective="rate", target=target, costs=one_second,
        space=space, effort=ALL,
    )  # fmt: skip
    rate = 0.5 * found.chosen[0].best.value
    low, high = 0.01, 0.99
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if waits_at_most(3.0, middle, 1.0) >= target else (low, middle)
    assert rate == pytest.approx(low, rel=0.04)


def test_highest_rate_does_not_depend_on_the_given_load() -> None:
    """However far off it is; no load at all is said only of what one request alone misses; no end is "at least"."""
    space = SearchSpace(tp=(1,), pp=(1,), batched_tokens=(64,), seqs=(1,))

    def highest(rate: float, ttft: float) -> tuple[dict[str, float], float]:
        traffic = GivenTraffic(LLMTrace(renewal_times(rate, 60, seed=1), [1] * 60, [1] * 60))
        found = plan(
            cluster(1), [LLMDemand(LLAMA, traffic, ttft_s=ttft)], objective="rate", target=0.9, costs=one_second,
            space=space, effort=ALL,
        )  # fmt: skip
        said = {k: v for k, v in found.plan.predicted_per_model[LLAMA.name].items() if k.startswith("highest")}
        return said, rate * next(iter(said.values()))

    usual = highest(0.5, 4.0)[1]
    for rate in (1e-3, 40.0, 1e6):
        assert highest(rate, 4.0)[1] == pytest.approx(usual, rel=0.03)
    assert highest(0.5, 0.5) == ({"highest_load_factor": 0.0}, 0.0)
    assert highest(1e-6, 4.0)[0] == highest(0.5, 1e9)[0] == {"highest_load_factor_at_least": 4096.0}


@pytest.mark.parametrize(("tpot", "tp"), [(0.02, 1), (0.011, 2), (0.006, 4)])
def test_tensor_parallelism_is_the_smallest_that_keeps_tpot(tpot: float, tp: int) -> None:
    """A lone request decodes in base + token + context of its cost: 12.0, 6.5 or 4.5 ms and a little."""
    alone = demand(rate=0.5, ttft=1.0, tpot=tpot, n=40)
    found = solve(8, alone, objective="devices", target=1.0, space=SearchSpace(tp=(1, 2, 4), pp=(1,)))
    assert found.plan.deployments[0].tp == tp
    assert len(found.plan.used_devices) == tp


def test_more_devices_are_never_worse_and_more_room_never_less_good() -> None:
    asked = demand(250, 0.2, 0.012, n=100)
    raced = Effort(eta=3, finalists=2, smallest=50, seeds=1)
    reached = [solve(n, asked, effort=raced).chosen[0].best.attained for n in (1, 2, 3, 5)]
    assert reached == sorted(reached)
    assert reached[0] < reached[-1]
    for field, values in (("ttft_s", (0.05, 0.1, 0.4)), ("tpot_s", (0.007, 0.012, 0.05))):
        good = [solve(2, LLMDemand(LLAMA, asked.traffic, **{"ttft_s": 0.2, "tpot_s": 0.012, field: v})) for v in values]
        shares = [g.chosen[0].best.attained for g in good]
        assert shares == sorted(shares)
        assert shares[0] < shares[-1]


def test_what_bears_the_load_is_found_behind_what_has_room_for_a_while() -> None:
    """Six engines of one L40S bear 60 requests a second; three of two look better for the first 40 s, and are not."""
    asked = LLMDemand(LLAMA, DrawnTraffic(length_profile("sharegpt"), rate=60.0, n=7200), ttft_s=1.0, tpot_s=0.05)
    found = plan(Cluster(1, 6, "l40s-48gb"), [asked], space=SearchSpace(tp=(1, 2), pp=(1,)), effort=Effort(seeds=1))
    (chosen,) = found.plan.deployments
    assert (chosen.tp, len(chosen.devices)) == (1, 6)
    assert simulate_plan(found.plan, asked.traffic.trace(0)).attainment > 0.99


def test_the_plan_is_simulated_as_it_was_scored(tmp_path: Path) -> None:
    asked = demand(150, 0.1, 0.012, n=100)
    found = solve(2, asked)
    again = LLMPlan.load(found.plan.save(tmp_path / "plan.json"))
    assert again == found.plan
    result = simulate_plan(again, asked.traffic.trace(0), costs=linear)
    assert result.attainment == found.chosen[0].best.attained == again.predicted["attainment"]
    assert again.predicted["goodput"] == pytest.approx(result.goodput)


def without_seconds(found: Planning) -> dict[str, Any]:
    said = json.loads(found.plan.to_json())
    del said["planner"]["seconds"]
    return said


def test_the_same_on_any_number_of_processes() -> None:
    two = plan(cluster(2), [demand(n=60)], space=SearchSpace(tp=(1, 2), pp=(1,)), effort=Effort(seeds=2), workers=2)
    alone = plan(cluster(2), [demand(n=60)], space=SearchSpace(tp=(1, 2), pp=(1,)), effort=Effort(seeds=2))
    assert without_seconds(two) == without_seconds(alone)


def test_two_models_share_the_devices_as_well_as_any_split() -> None:
    first = demand(200, 0.2, 0.015, n=80)
    second = demand(60, 0.1, 0.009, n=80, model=QWEN)
    found = plan(cluster(5), [first, second], costs=linear, space=SMALL, effort=ALL)
    alone = [solve(4, d) for d in (first, second)]
    reached = [{b.devices: b.best.attained for b in p.fronts[0].brackets} for p in alone]
    best = max(
        sum(max(v for n, v in r.items() if n <= k) for r, k in zip(reached, (a, 5 - a), strict=True))
        for a in range(1, 5)
    )
    assert sum(b.best.attained for b in found.chosen) == pytest.approx(best)
    assert {d.model for d in found.plan.deployments} == {LLAMA.name, QWEN.name}
    rows = [x for d in found.plan.deployments for row in d.devices for x in row]
    assert len(rows) == len(set(rows)) <= 5


def test_the_smallest_change_that_is_named_is_one() -> None:
    asked = demand(300, 0.05, 0.02, n=100)
    with pytest.raises(InfeasibleError) as caught:
        solve(1, asked, objective="devices", target=0.9)
    said = re.search(r"smallest change: (\d+) more devices \((\d+)\), or a TTFT limit of ([\d.]+) s", str(caught.value))
    assert said, caught.value
    enough = int(said[2])
    assert len(solve(enough, asked, objective="devices", target=0.9).plan.used_devices) == enough
    with pytest.raises(InfeasibleError):
        solve(enough - 1, asked, objective="devices", target=0.9)
    looser = LLMDemand(LLAMA, asked.traffic, float(said[3]), asked.tpot_s)
    assert len(solve(1, looser, objective="devices", target=0.9).plan.used_devices) == 1


def test_models_that_do_not_fit() -> None:
    large = demand(model=decoder("llama-3.1-70b"))
    with pytest.raises(InfeasibleError, match="smallest change: allow TP2 PP1, 2 devices"):
        solve(8, large, space=SearchSpace(tp=(1,), pp=(1,)))
    with pytest.raises(
        InfeasibleError, match=r"need 3 h100-80gb devices \(Llama-3.1-70B 2, Qwen2.5-7B 1\), there are 2"
    ):
        plan(cluster(2), [large, demand(model=QWEN)], costs=linear)
    with pytest.raises(InfeasibleError, match=r"smallest change: devices with \d+ GiB"):
        plan(Cluster(1, 1, "v100-16gb"), [demand(model=decoder("llama-3.1-405b"))])


def test_rejected_engines_say_why() -> None:
    found = solve(4, demand(model=decoder("llama-3.1-70b")), space=SearchSpace(tp=(1, 2, 3, 4, 8), pp=(1,)))
    why = {r.what.split(",")[0]: r.why for r in found.rejected["Llama-3.1-70B"]}
    assert "does not divide the 64 attention heads" in why["TP3 PP1"]
    assert "leaves the node of 4" in why["TP8 PP1"]
    assert "leave no room for one KV block" in why["TP1"]


def test_explanation_names_the_front_and_the_losers() -> None:
    text = solve(2, demand(250, 0.2, 0.012, n=100), effort=Effort(finalists=3, smallest=50, seeds=2)).explain()
    assert "goodput against devices" in text
    assert "runners-up on" in text
    assert re.search(r"\d+ simulations in", text)


def test_prompts_and_decodes_apart() -> None:
    space = SearchSpace(tp=(1,), pp=(1,), batched_tokens=(1024,), seqs=(32,), disaggregate="only")
    found = solve(3, demand(100, 0.3, 0.02, n=30), space=space)
    assert [d.role for d in found.plan.deployments] == ["prefill", "decode"]
    tried = {
        (c.replicas, c.decode) for f in found.fronts for b in f.brackets for c in (x.candidate for x in b.finalists)
    }
    assert tried == {(1, 1), (1, 2), (2, 1)}
    with pytest.raises(InputError, match="windows are not modelled across a hand-off"):
        solve(3, demand(100, 0.3, 0.02, n=30, model=decoder("gemma-3-1b")), space=space)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"objective": "speed"}, "objective: expected one of goodput, devices, rate"),
        ({"target": 0}, "target: expected a share"),
        ({"workers": 0}, "workers: expected a whole number of processes"),
    ],
)
def test_bad_options(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        solve(**changes)


def test_bad_demands() -> None:
    with pytest.raises(InputError, match="expected models of different names"):
        plan(cluster(2), [demand(), demand()])
    with pytest.raises(InputError, match="a request of 300000 tokens"):
        plan(cluster(2), [LLMDemand(LLAMA, GivenTraffic(LLMTrace([0], [299_999], [1])))])
    with pytest.raises(InputError, match="space: tp: expected integers >= 1"):
        SearchSpace(tp=(0,))
    with pytest.raises(InputError, match="effort: seeds: expected an integer >= 1"):
        Effort(seeds=0)
    routers = SearchSpace(routers=("round_robin", "random"))
    with pytest.raises(InputError, match="routers: a plan has one for all of its models"):
        plan(cluster(2), [demand(), demand(model=QWEN)], space=routers)


def test_routers_are_chosen_and_said() -> None:
    space = SearchSpace(tp=(1,), pp=(1,), batched_tokens=(1024,), seqs=(8,), routers=("random", "least_outstanding"))
    found = solve(2, demand(18, 0.1, 0.02, n=200), space=space)
    assert found.plan.router == "least_outstanding"  # looks at the load, random does not
    assert simulate_plan(found.plan, demand(18, n=200).traffic.trace(0), costs=linear).attainment == (
        found.chosen[0].best.attained
    )


def test_engines_that_no_node_holds_are_no_candidates() -> None:
    """Two nodes of three: two engines of two devices at most, so nothing uses six with TP2."""
    found = plan(
        Cluster(2, 3, "h100-80gb"), [demand(n=60)], costs=linear, space=SearchSpace(tp=(2,), pp=(1,)), effort=ALL
    )
    assert [b.devices for b in found.fronts[0].brackets] == [2, 4]
