"""Routers over engines of LLM serving: what they look at, on loads by hand and in simulations."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from meshwright.profiles.llm import ConstantCost, LinearCost
from meshwright.seeds import generator
from meshwright.simulator.llm import LLMRequest, LLMTrace, conversations, simulate_llm
from meshwright.simulator.llm.fleet.engine import Engine
from meshwright.simulator.llm.policy.router import router_named


@dataclass
class Load:
    index: int = 0
    outstanding: int = 0
    outstanding_tokens: int = 0
    running: int = 0
    waiting: int = 0
    kv_use: float = 0.0
    cached: dict[object, int] = field(default_factory=dict)

    def cached_tokens(self, request):
        return self.cached.get(request.id, 0)


def router(name, seed=0):
    return router_named(name, generator(seed, "llm", "router"))


A = LLMRequest("a", 100, 10)


def test_loads_of_every_kind():
    engines = [
        Load(0, outstanding=3, outstanding_tokens=10, running=1, waiting=2, kv_use=0.5),
        Load(1, outstanding=4, outstanding_tokens=5, running=4, waiting=0, kv_use=0.9),
        Load(2, outstanding=2, outstanding_tokens=50, running=0, waiting=2, kv_use=0.1),
    ]
    chosen = {name: router(name)(A, engines) for name in ("least_outstanding", "least_tokens", "least_kv", "vllm_dp")}
    assert chosen == {"least_outstanding": 2, "least_tokens": 1, "least_kv": 2, "vllm_dp": 1}  # 9, 4, 8


def test_power_of_two_choices_takes_the_shorter_of_two():
    engines = [Load(i, outstanding=i) for i in range(4)]
    choose = router("power_of_two", 7)
    count = np.bincount([choose(A, engines) for _ in range(6000)], minlength=4)
    # Of two distinct engines the smaller: 3/6, 2/6, 1/6, 0.
    assert count[3] == 0
    assert count[:3] / 6000 == pytest.approx([3 / 6, 2 / 6, 1 / 6], abs=4 * np.sqrt(0.25 / 6000))
    assert router("power_of_two")(A, engines[:1]) == 0


def test_prefix_aware_goes_where_the_prompt_is_unless_that_one_is_far_behind():
    choose = router("prefix_aware")
    engines = [Load(0, outstanding=30, cached={"a": 64}), Load(1, cached={"a": 32}), Load(2)]
    assert choose(A, engines) == 0
    assert choose(LLMRequest("b", 100, 10), engines) == 1  # nobody has it: the first of the least loaded
    engines[0].outstanding = 33
    assert choose(A, engines) == 1


def test_sessions_stay_at_home_while_it_is_there():
    choose = router("session_affinity")
    engines = [Load(i, outstanding=3 - i) for i in range(3)]
    turn = LLMRequest("a", 10, 5, text="talk")
    assert choose(turn, engines) == 2
    engines[2].outstanding = 50
    assert choose(turn, engines) == 2
    assert choose(LLMRequest("b", 10, 5), engines) == 1  # no session
    assert choose(turn, engines[:2]) == 1  # its home is gone; the new one is the second of these
    assert choose(turn, engines) == 1


def test_the_cache_that_a_router_sees_is_the_one_that_counts(monkeypatch):
    told = []
    look = Engine.cached_tokens

    def spy(self, request):
        told.append((int(request.id), self.index, look(self, request)))
        return told[-1][2]

    monkeypatch.setattr(Engine, "cached_tokens", spy)
    rng = np.random.default_rng(0)
    stems = [tuple(range(1000 * k, 1000 * k + 40)) for k in range(6)]
    ids = [(*stems[rng.integers(6)], *range(10**6 + 20 * i, 10**6 + 20 * i + 20)) for i in range(60)]
    trace = LLMTrace(np.arange(60.0) * 20, [60] * 60, [3] * 60, prefix_ids=ids, prefix_block=1)
    config = {"num_blocks": 200, "block_size": 4, "max_model_len": 128}
    result = simulate_llm(trace, config=config, cost=ConstantCost(1.0), engines=3, router="prefix_aware")
    # Requests come one at a time, so what an engine held on arrival is what it holds at admission.
    seen = {(row, engine): tokens for row, engine, tokens in told}
    assert [seen[row, engine] for row, engine in enumerate(result.engine.tolist())] == result.cached_tokens.tolist()
    assert (result.cached_tokens == 40).sum() == 60 - 6  # only the first of each stem computes it


def test_knowing_the_cache_beats_not_knowing_it():
    trace = conversations([200, 300], [40, 60], 60, rate=2.0, turns=4, think_s=5.0, seed=0)
    config = {"num_blocks": 3000, "block_size": 16, "max_model_len": 8192}
    hits = {
        name: simulate_llm(trace, config=config, cost=LinearCost(base_s=0.01, token_s=1e-4), engines=4,
                           router=name).prefix_hit_rate
        for name in ("round_robin", "random", "prefix_aware", "session_affinity")
    }  # fmt: skip
    assert hits["prefix_aware"] > 1.5 * max(hits["round_robin"], hits["random"])
    assert hits["session_affinity"] == pytest.approx(hits["prefix_aware"], rel=0.02)
