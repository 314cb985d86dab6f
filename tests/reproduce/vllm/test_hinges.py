"""What figures hinge on: each end is measured, and host time is moved as its words say."""

from __future__ import annotations

import numpy as np
import pytest
from meshwright.reproduce.vllm import decoding_rates, fig16, fig17, fig18, servers
from meshwright.reproduce.vllm.hinges.decoding import Moved, hinge, hosts, ratio
from meshwright.simulator.llm import LLMTrace


def test_host_time_is_moved_as_it_is_said() -> None:
    def added(host: servers.HostTime) -> float:
        return host.iteration_s + 6 * host.sequence_s

    both, each = hosts(added)
    assert (both.at_low(), both.at_high()) == (pytest.approx(0.0), pytest.approx(0.02))
    iteration = servers.HOST.iteration_s
    assert each.low == "0.2 ms"
    assert each.at_low() == pytest.approx(iteration + 6 * 0.2e-3)
    assert each.at_high() == pytest.approx(iteration + 6 * 0.1e-3)
    _, request = hosts(added, sequences=6)
    assert request.low == "a request"
    assert request.at_low() == pytest.approx(iteration + servers.HOST.sequence_s)


def test_a_hinge_measures_both_ends() -> None:
    found = hinge("lead", 2.0, 1.5, "×", (Moved("host", "none", "twice", lambda: 2.5, lambda: 1.0),))
    assert (found.swings[0].at_low, found.swings[0].at_high) == (2.5, 1.0)
    assert found.needed == "2 is reached with host: none"


class Result:
    """Three servers' worth of requests, one second each; "fast" has six."""

    def __init__(self, trace: LLMTrace, until: float | None, servers: int) -> None:
        start = np.arange(len(trace)) // servers
        end = np.inf if until is None else until
        self.scheduled = np.where(start < end, start, np.nan)
        self.finish = np.where(start + 1 <= end, start + 1.0, np.nan)
        self.normalized_latency = len(trace) / servers / 100


def test_a_ratio_is_of_what_finishes_while_somebody_waits() -> None:
    def run(name: str):
        return lambda trace, until: Result(trace, until, {"vLLM": 6, "Orca (Oracle)": 3}[name])

    def at(rate: float, seconds: float) -> LLMTrace:
        n = max(1, round(rate * seconds))
        return LLMTrace(np.zeros(n), np.ones(n), np.ones(n))

    assert decoding_rates.capacity(run("vLLM"), at, 60.0) == pytest.approx(6.0)  # 256 requests would not do
    assert ratio(run, at, 60.0) == pytest.approx(2.0)
    assert np.isnan(ratio(run, at, 60.0, limit=1e-6))


def test_blocks_hold_less_than_twice_as_many_chats_as_chunks() -> None:
    """15,728 slots: seven chunks of 2048, and prompts of 1024 with part of an answer."""
    most = fig17._most_held(0)
    assert 15_728 / (1024 + 512) / 7 < most < 15_728 / 1024 / 7
    assert most == pytest.approx(1.75, abs=0.03)
    assert fig16._at(80, 0, 10.0, 5.0).prompt_tokens.min() > 80


def test_blocks_are_compared_with_the_fastest_size() -> None:
    trace = LLMTrace(np.zeros(3), np.full(3, 20), np.full(3, 5))
    assert fig18.worst(trace, fig18.OPT.cost()) == pytest.approx(1.0)
    assert set(fig18.BEST) < set(fig18.SIZES)
