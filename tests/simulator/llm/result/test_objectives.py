"""What was promised: how it is said, and what becomes of it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.profiles.llm import LinearCost
from meshwright.simulator.llm import LLMResult, LLMTrace, simulate_llm
from meshwright.simulator.llm.result.objectives import Objective, Promises, objectives_of

CONFIG = {"num_blocks": 200, "max_model_len": 512, "max_num_batched_tokens": 256, "max_num_seqs": 8}
COST = LinearCost(base_s=0.02, token_s=1e-4, context_s=1e-6)


def served(n: int = 60, seed: int = 0) -> LLMResult:
    rng = np.random.default_rng(seed)
    trace = LLMTrace(
        np.cumsum(rng.exponential(0.15, n)), rng.integers(5, 120, n), rng.integers(1, 40, n),
        kind=rng.integers(0, 2, n), classes=("chat", "batch"),
    )  # fmt: skip
    return simulate_llm(trace, config=CONFIG, cost=COST)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("p90 ttft <= 1 s", Objective("ttft", 1.0, 90.0)),
        ("P99 ITL<50ms".replace("P99", "p99"), Objective("itl", 0.05, 99.0)),
        ("chat: p99.9 e2el ≤ 20 s", Objective("e2e", 20.0, 99.9, "chat")),
        ("long prompts: tpot <= 2.5e1 ms", Objective("tpot", 0.025, None, "long prompts")),
    ],
)
def test_a_promise_is_said_and_said_again(text: str, expected: Objective) -> None:
    found = Objective.parse(text)
    assert replace(found, limit_s=expected.limit_s) == expected
    assert found.limit_s == pytest.approx(expected.limit_s, rel=1e-12)
    again = Objective.parse(str(found))
    assert str(again) == str(found)


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (["ttft 1 s"], "slo: expected something like 'p90 ttft <= 1 s'"),
        (["p90 ttft <= 1"], "expected something like"),
        (["p90 ttft <= 1.2.3 s"], "expected something like"),
        (["p90 speed <= 1 s"], "unknown metric 'speed'; expected one of ttft, tpot, itl, e2e"),
        (["p100 ttft <= 1 s"], "percentile above 0 and below 100"),
        (["p90 ttft <= 0 s"], "limit > 0 seconds"),
        (["itl <= 50 ms"], "itl: a request has many; say a percentile"),
        (["p90 ttft <= 1 s", "p90 ttft <= 2 s"], "p90 ttft is limited twice"),
    ],
)
def test_what_is_no_promise(texts: list[str], says: str) -> None:
    with pytest.raises(InputError, match=says):
        objectives_of(texts)


def test_percentiles_are_those_of_the_requests_of_their_class() -> None:
    result = served()
    chat = result.trace.of_class("chat")
    for metric in ("ttft", "e2e"):
        times = result.latencies[metric]
        for kind, mine in (("", np.ones(len(result), dtype=bool)), ("chat", chat)):
            limit = float(np.percentile(times[mine], 80))
            (verdict,) = Promises(objectives=(Objective(metric, limit, 75, kind),)).judge(result).verdicts
            assert verdict.share == pytest.approx(float((times[mine] <= limit).mean()))
            assert verdict.value_s == np.percentile(times[mine], 75, method="inverted_cdf")
            assert verdict.met
    gaps = np.concatenate([np.diff(result.token_times(row)) for row in np.flatnonzero(chat)])
    (verdict,) = Promises(objectives=(Objective("itl", 0.03, 90, "chat"),)).judge(result).verdicts
    assert verdict.share == pytest.approx(float((gaps <= 0.03).mean()))
    assert verdict.value_s == pytest.approx(np.percentile(gaps, 90, method="inverted_cdf"), rel=1e-9)


@given(st.integers(0, 5), st.sampled_from(["ttft", "tpot", "itl", "e2e"]), st.floats(1, 99), st.floats(0.001, 3))
def test_a_percentile_is_met_where_its_value_is_within_the_limit(
    seed: int, metric: str, percentile: float, limit: float
) -> None:
    (verdict,) = Promises(objectives=(Objective(metric, limit, percentile),)).judge(served(20, seed)).verdicts
    assert verdict.met == (verdict.value_s <= limit)
    assert verdict.kept == 1 if verdict.met else verdict.kept < 1


def test_what_is_missed_counts_as_far_as_it_was_kept() -> None:
    """Attainment is 1 just where all is met; a class that misses its percentile is discounted, others are not."""
    result = served()
    chat = result.trace.of_class("chat")
    late = float(np.percentile(result.latencies["ttft"][chat], 45, method="inverted_cdf"))
    said = Promises(objectives=(Objective("ttft", late, 90, "chat"), Objective("e2e", 1e3, 99)))
    judged = said.judge(result)
    assert not judged.met
    share = judged.verdicts[0].share
    assert judged.attainment == pytest.approx((chat.sum() * share / 0.9 + (~chat).sum()) / len(result))
    assert Promises(objectives=(Objective("ttft", 1e3, 90, "chat"),)).judge(result).attainment == 1
    assert "MISSED" in str(judged.verdicts[0])
    assert "met" in str(judged.verdicts[1])


def test_limits_of_a_class_are_for_its_requests_alone() -> None:
    result = served()
    batch = result.trace.of_class("batch")
    said = Promises(objectives=(Objective("e2e", 1e-9, None, "batch"),))
    assert said.judge(result).attainment == pytest.approx(float((~batch).mean()))
    plain = Promises(ttft_s=0.1, tpot_s=0.03)
    assert plain.judge(result).attainment == result.attainment(ttft=0.1, tpot=0.03)
    same = Promises(objectives=(Objective("ttft", 0.1), Objective("tpot", 0.03)))
    assert same.judge(result).attainment == plain.judge(result).attainment


def test_requests_that_did_not_finish_are_not_within_any_limit() -> None:
    result = served()
    finish = result.finish.copy()
    finish[:30] = np.nan
    half = replace(result, finish=finish)
    for metric in ("ttft", "tpot", "itl", "e2e"):
        said = Promises(objectives=(Objective(metric, 1e3, 60),))
        (verdict,) = said.judge(half).verdicts
        assert (verdict.share, verdict.value_s, verdict.met) == (0.5, math.inf, False)
        (verdict,) = Promises(objectives=(Objective(metric, 1e3, 40),)).judge(half).verdicts
        assert verdict.met


def test_a_class_without_requests_promises_nothing() -> None:
    (verdict,) = Promises(objectives=(Objective("ttft", 1.0, 90, "none"),)).judge(served()).verdicts
    assert verdict.met
    assert "no such request" in str(verdict)
