"""Metrics of LLM serving, from results worked out by hand and against their definitions."""

from __future__ import annotations

import json

import numpy as np
import pytest
from flat_options import llm_asked
from meshwright.errors import InputError
from meshwright.profiles.llm import ConstantCost, LinearCost
from meshwright.simulator.llm import LLMTrace, draw, simulate_llm
from meshwright.simulator.llm.result.iterations import TokenRuns, weighted_percentile

CONFIG = {"num_blocks": 201, "block_size": 4, "max_model_len": 512, "max_num_batched_tokens": 64}


def served(trace, cost=None, **more):
    return simulate_llm(trace, config=CONFIG, cost=cost or ConstantCost(1.0), **llm_asked(**more))


@pytest.fixture(scope="module")
def crowd():
    rng = np.random.default_rng(3)
    trace = draw(rng.integers(1, 100, 300), rng.integers(1, 60, 300), rate=3.0, seed=1)
    return served(trace, LinearCost(0.01, token_s=5e-4), engines=2)


def test_metrics_of_two_requests():
    # a: 0.0 -> tokens at 1, 2, 3. b: 0.5 -> tokens at 2, 3.
    result = served(LLMTrace([0.0, 0.5], [4, 4], [3, 2]))
    assert result.values("ttft").tolist() == [1, 1.5]
    assert result.values("tpot").tolist() == [1, 1]
    assert result.values("e2e").tolist() == [3, 2.5]
    assert result.values("queue").tolist() == [0, 0.5]
    assert result.normalized_latency == (3 / 3 + 2.5 / 2) / 2
    assert result.throughput == pytest.approx(5 / 3)
    assert result.request_throughput == pytest.approx(2 / 3)
    assert result.goodput(ttft=1.2) == pytest.approx(1 / 0.5)  # they arrive in half a second
    assert result.attainment(ttft=1.2) == 0.5
    assert result.mean_batch == pytest.approx((1 + 2 + 2) / 3)
    assert result.itl(50) == 1


def test_a_single_token_has_no_tpot_and_is_judged_by_its_first():
    result = served(LLMTrace([0.0, 0.0], [4, 4], [1, 3]))
    assert result.values("tpot").tolist() == [1]
    assert np.isnan(result.to_frame()["tpot"][0])
    assert result.attainment(ttft=2, tpot=2) == 1
    alone = served(LLMTrace([0.0], [4], [1]))
    assert np.isnan(alone.tpot(50))
    assert np.isnan(alone.itl(50))
    assert alone.goodput(tpot=1e-9) == 1


def test_gaps_between_tokens_equal_those_of_the_token_times(crowd):
    gaps = np.concatenate([np.diff(crowd.token_times(i)) for i in range(len(crowd))])
    for p in (0, 10, 50, 90, 99, 100):
        assert crowd.itl(p) == pytest.approx(np.percentile(gaps, p))
    some = crowd.trim(first=100, last=50)
    rows = np.flatnonzero(some.finished)
    assert len(rows) == 150
    gaps = np.concatenate([np.diff(crowd.token_times(i)) for i in rows])
    assert some.itl(75) == pytest.approx(np.percentile(gaps, 75))


def test_tpot_is_the_mean_gap(crowd):
    frame = crowd.to_frame()
    for i in range(0, 300, 17):
        if frame["generated"][i] > 1:
            assert frame["tpot"][i] == pytest.approx(np.diff(crowd.token_times(i)).mean())


def test_runs_are_compact_and_give_every_token_back():
    tokens = np.array([0, 1, 0, 1, 0, 0, 2])
    when = np.array([0, 0, 1, 1, 2, 4, 5])
    runs = TokenRuns.of_tokens(tokens, when)
    assert runs.request.tolist() == [0, 0, 1, 2]
    assert runs.first.tolist() == [0, 4, 0, 5]
    assert runs.last.tolist() == [2, 4, 1, 5]
    assert runs.tokens().tolist() == [0, 1, 2, 4, 0, 1, 5]
    assert runs.of(0).tokens().tolist() == [0, 1, 2, 4]


def test_percentiles_of_weighted_values_are_those_of_the_values_written_out():
    rng = np.random.default_rng(0)
    values, weights = rng.random(40), rng.integers(1, 9, 40)
    for p in (0, 3.3, 50, 97.5, 100):
        assert weighted_percentile(values, weights, p) == pytest.approx(np.percentile(np.repeat(values, weights), p))


def test_tails_are_refused_where_they_are_not_known(crowd):
    assert crowd.tail("ttft", 50).value == crowd.ttft(50)
    assert "needs 10000 finished requests, there are 300" in crowd.tail("ttft", 99).why


def test_an_interval_covers_the_mean(crowd):
    estimate = crowd.estimate("ttft")
    assert estimate.n == 20
    assert estimate.low < crowd.values("ttft").mean() < estimate.high
    with pytest.raises(InputError, match="do not make 400 batches"):
        crowd.estimate("ttft", batches=400)


def test_state_over_time_integrates_to_the_totals(crowd):
    frame = crowd.over_time(5.0)
    it = crowd.iterations
    length = it.end - it.start
    assert (frame["running"] * 5).sum() == pytest.approx((it.running * length).sum())
    assert (frame["decode_tokens_s"] * 5).sum() == pytest.approx(it.decodes.sum())
    assert (frame["prefill_tokens_s"] * 5).sum() == pytest.approx(it.prefill.sum())
    assert (frame["busy"] <= 1 + 1e-9).all()
    assert (frame["kv_waste"] <= frame["kv_use"]).all()


def test_state_of_a_window():
    # One request of 4 + 2 tokens in blocks of 4 from 1 to 3, of 200 usable blocks; tokens held: 4, then 5.
    frame = served(LLMTrace([1.0], [4], [2])).over_time(2.0)
    assert frame.index.tolist() == [0, 2]
    assert frame["running"].tolist() == [0.5, 0.5]
    assert frame["kv_use"].tolist() == pytest.approx([0.5 * 4 / 800, 0.5 * 8 / 800])
    assert frame["kv_waste"].tolist() == pytest.approx([0, 0.5 * 3 / 800])


def test_summary_frame_and_timeline(crowd, tmp_path):
    summary = crowd.summary()
    assert summary["finished"] == 300
    assert summary["itl_p90"] == crowd.itl(90)
    frame = crowd.to_frame()
    assert len(frame) == 300
    assert {"arrival", "ttft", "tpot", "preemptions", "prompt_tokens", "engine"} <= set(frame.columns)
    line = crowd.timeline()
    assert len(line) == len(crowd.iterations)
    events = json.loads(line.to_chrome(tmp_path / "t.json").read_text())["traceEvents"]
    assert sum(e["ph"] == "X" for e in events) == len(crowd.iterations)
    assert "300 of 300 requests finished" in repr(crowd)


def test_bad_questions(crowd):
    for ask, says in (
        (lambda: crowd.ttft(101), "from 0 to 100"),
        (lambda: crowd.itl(-1), "from 0 to 100"),
        (lambda: crowd.values("speed"), "unknown metric 'speed'"),
        (lambda: crowd.goodput(ttft=0), "limits > 0"),
        (lambda: crowd.over_time(0), "window > 0"),
        (lambda: crowd.trim(first=300), "leave none of 300"),
    ):
        with pytest.raises(InputError, match=says):
            ask()


def test_nothing_finished():
    result = served(LLMTrace([5.0], [4], [3]), until=1.0)
    assert np.isnan(result.throughput)
    assert np.isnan(result.ttft(50))
    assert np.isnan(result.normalized_latency)
    assert result.over_time(1.0).empty
    assert "0 of 1 requests finished" in repr(result)
