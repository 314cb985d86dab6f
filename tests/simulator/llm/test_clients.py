"""How requests are sent: arrivals, closed loops, front ends; the reference and the compiled engine agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.planners.vllm import DrawnTraffic
from meshwright.planners.vllm.demand import SpreadOutputs
from meshwright.profiles.llm import LinearCost
from meshwright.simulator.llm import LLMTrace, SimulateOptions, simulate_llm
from meshwright.simulator.llm.result.front import seen_by_clients
from meshwright.simulator.llm.workload.clients import FRONT_ENDS, Clients
from meshwright.traces.lengths import length_profile

CONFIG: dict[str, Any] = {"num_blocks": 400, "max_model_len": 2048, "max_num_batched_tokens": 512, "max_num_seqs": 16}
COST = LinearCost(base_s=0.02, token_s=1e-4, context_s=1e-6)


def traffic(clients: Clients | None, n: int = 40, rate: float = 5.0, **more: Any) -> LLMTrace:
    return DrawnTraffic(length_profile("alpaca"), rate, n, clients=clients, **more).trace(3)


def test_the_same_lengths_however_they_are_sent() -> None:
    plain = traffic(None)
    assert traffic(Clients("poisson")).arrival.tolist() == plain.arrival.tolist()
    assert np.diff(traffic(Clients("constant")).arrival) == pytest.approx(0.2)
    assert traffic(Clients("gamma", 3.0)).arrival.tolist() == traffic(None, cv=3.0).arrival.tolist()
    for clients in (Clients("at_once"), Clients("closed", concurrency=4)):
        sent = traffic(clients)
        assert sent.arrival.max() == 0
        assert sent.output_tokens.tolist() == plain.output_tokens.tolist()


def test_a_closed_loop_has_a_request_of_each_client_at_a_time() -> None:
    """With outputs alike it is the loop of `SimulateOptions`; a client thinks after its answer."""
    lengths = SpreadOutputs(length_profile("alpaca"), 0.0)
    same = DrawnTraffic(lengths, 1.0, 48, clients=Clients("closed", concurrency=6)).trace(0)
    assert len(set(same.output_tokens.tolist())) == 1
    alone = LLMTrace(np.zeros(48), [20] * 48, same.output_tokens)
    mine = alone.at(np.zeros(48), clients=same.clients, after=same.after, think_s=same.think_s)
    looped = simulate_llm(alone, config=CONFIG, cost=COST, options=SimulateOptions(concurrency=6))
    chained = simulate_llm(mine, config=CONFIG, cost=COST)
    assert np.sort(chained.finish) == pytest.approx(np.sort(looped.finish))
    thinking = simulate_llm(traffic(Clients("closed", concurrency=6, think_s=2.0), 60), config=CONFIG, cost=COST)
    before = thinking.trace.after
    assert before is not None
    later = np.flatnonzero(before >= 0)
    waits = thinking.arrival[later] - thinking.finish[before[later]]
    assert waits == pytest.approx(thinking.trace.think_s[later])  # type: ignore[index]
    assert abs(waits.mean() - 2) < 4 * 2 / np.sqrt(len(later))


@settings(max_examples=15)
@given(
    st.integers(1, 6), st.integers(1, 2), st.booleans(), st.sampled_from([0.0, 0.3]),
    st.sampled_from(["round_robin", "session_affinity", "prefix_affinity"]),
)  # fmt: skip
def test_a_closed_loop_compiled_is_the_reference(
    concurrency: int, engines: int, caching: bool, think: float, router: str
) -> None:
    """No request begins with another's text: prefix caching finds nothing, and no session is followed."""
    trace = traffic(Clients("closed", concurrency=concurrency, think_s=think), 24)
    config = {**CONFIG, "enable_prefix_caching": caching}
    same: dict[str, Any] = {"config": config, "cost": COST, "engines": engines, "router": router}
    reference, compiled = (simulate_llm(trace, engine=engine, **same) for engine in ("simpy", "compiled"))
    assert compiled.finish.tolist() == reference.finish.tolist()
    assert compiled.engine.tolist() == reference.engine.tolist()
    assert reference.cached_tokens.sum() == compiled.cached_tokens.sum() == 0


def test_a_front_end_comes_on_top() -> None:
    result = simulate_llm(traffic(None), config=CONFIG, cost=COST)
    front = FRONT_ENDS["separate"]
    seen = seen_by_clients(result, front)
    later = seen.first_token - result.first_token
    running = [
        int(result.iterations.running[int(result.runs.of(row).tokens()[0])]) for row in range(len(result))
    ]  # fmt: skip
    assert later == pytest.approx(front.request_s + front.sequence_s * np.array(running))
    assert seen.finish - result.finish == pytest.approx(later)
    assert seen.latencies["tpot"] == pytest.approx(result.latencies["tpot"], nan_ok=True)
    assert seen_by_clients(result) is result
    sent = traffic(Clients("closed", concurrency=3, front=front), 12)
    assert sent.think_s is not None
    assert sent.think_s[3:] == pytest.approx(front.request_s)


def test_outputs_spread_as_they_are_told() -> None:
    plain = length_profile("sharegpt")
    for cv in (0.0, 0.3, 0.6):
        drawn = SpreadOutputs(plain, cv).sample(20_000, 1)
        assert drawn.output.mean() == pytest.approx(plain.sample(20_000, 1).output.mean(), rel=0.01)
        assert drawn.output.std() / drawn.output.mean() == pytest.approx(cv, abs=0.02)
        assert drawn.prompt.tolist() == plain.sample(20_000, 1).prompt.tolist()


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"arrivals": "rounds"}, "clients.arrivals: expected one of poisson, gamma, constant, at_once, closed"),
        ({"arrivals": "closed"}, "closed: give concurrency"),
        ({"arrivals": "poisson", "concurrency": 3}, "poisson has no concurrency"),
        ({"arrivals": "poisson", "think_s": 3.0}, "clients.think: expected seconds >= 0, and arrivals closed"),
        ({"arrivals": "closed", "concurrency": 3, "think_s": float("inf")}, "clients.think"),
    ],
)
def test_wrong_clients(said: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Clients(**said)
