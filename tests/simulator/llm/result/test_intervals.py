"""Intervals around figures of one simulation: they cover what they say, on queues whose figures are known."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.profiles.llm import LinearCost
from meshwright.seeds import generator
from meshwright.simulator.llm import LLMResult, LLMTrace, draw, replicated, simulate_llm
from meshwright.simulator.llm.result.interval_math import over_seeds, sectioned
from meshwright.simulator.llm.result.iterations import Iterations, TokenRuns

RATE, SERVICE, N, RUNS = 0.6, 1.0, 6000, 200
BOUND = 4 * np.sqrt(0.9 * 0.1 / RUNS)  # four standard errors of a share of 90 %


def as_result(arrival, start, finish):
    """A queue with one server, told as requests of one token that are served one at a time."""
    n, ones = len(arrival), np.ones(len(arrival), dtype=np.int64)
    nothing = np.zeros(n, dtype=np.int64)
    iterations = Iterations(nothing, start, finish, ones, *[nothing] * 8, capacity_tokens=1, engines=1)
    rows = np.arange(n)
    return LLMResult(
        LLMTrace(arrival, ones, ones), arrival, start, finish, finish, ones, nothing, nothing, nothing,
        np.zeros(n, dtype=bool), iterations, TokenRuns(rows, rows, rows),
    )  # fmt: skip


@cache
def queues(law):
    """Independent runs of M/M/1 or M/D/1 in their steady state, warm-up left out."""
    rng = generator(11, "intervals", law)
    arrival = np.cumsum(rng.exponential(1 / RATE, (N + 500, RUNS)), axis=0)
    service = rng.exponential(SERVICE, arrival.shape) if law == "M/M/1" else np.full(arrival.shape, SERVICE)
    start, finish = np.empty_like(arrival), np.empty_like(arrival)
    free = np.zeros(RUNS)
    for i in range(len(arrival)):
        start[i] = np.maximum(arrival[i], free)
        free = finish[i] = start[i] + service[i]
    return [as_result(arrival[500:, k], start[500:, k], finish[500:, k]) for k in range(RUNS)]


LEFT = SERVICE - RATE  # M/M/1: time in system is exponential with rate 1 / service - rate
FIGURES = (
    ("M/M/1", "ttft", None, {}, 1 / LEFT),
    ("M/M/1", "ttft", 50, {}, np.log(2) / LEFT),
    ("M/M/1", "ttft", 90, {}, np.log(10) / LEFT),
    ("M/M/1", "e2e", 75, {}, np.log(4) / LEFT),
    ("M/M/1", "queue", None, {}, 1 / LEFT - SERVICE),
    ("M/M/1", "throughput", None, {}, RATE),
    ("M/M/1", "attainment", None, {"ttft": 3.0}, 1 - np.exp(-LEFT * 3)),
    ("M/M/1", "goodput", None, {"ttft": 3.0}, RATE * (1 - np.exp(-LEFT * 3))),
    ("M/D/1", "ttft", None, {}, SERVICE + RATE / (2 * LEFT)),
    ("M/D/1", "request_throughput", None, {}, RATE),
)


@pytest.mark.parametrize(("law", "metric", "percentile", "limits", "truth"), FIGURES)
def test_nine_of_ten_intervals_hold_the_true_figure(law, metric, percentile, limits, truth):
    found = [r.interval(metric, percentile, **limits) for r in queues(law)]
    assert np.mean([i.value for i in found]) == pytest.approx(truth, rel=0.02)
    covered = np.mean([i.low <= truth <= i.high for i in found])
    assert abs(covered - 0.9) <= BOUND, covered


@pytest.mark.parametrize(("metric", "percentile"), [("ttft", None), ("ttft", 90), ("throughput", None)])
def test_nine_of_ten_predictions_hold_the_next_run(metric, percentile):
    found = [r.interval(metric, percentile, kind="prediction") for r in queues("M/M/1")]
    after = [i.value for i in found[1:]]
    covered = np.mean([i.low <= x <= i.high for i, x in zip(found, after, strict=False)])
    assert abs(covered - 0.9) <= BOUND, covered


def test_taking_requests_as_independent_would_not_do():
    truth, covered = 1 / LEFT, 0
    for result in queues("M/M/1"):
        x = result.values("ttft")
        covered += abs(x.mean() - truth) <= 1.645 * x.std() / len(x) ** 0.5
    assert covered / RUNS < 0.5


def test_a_run_too_short_says_so():
    walk = np.cumsum(generator(0, "walk").normal(size=4000))
    figure = sectioned(float(walk.mean()), lambda k: [float(p.mean()) for p in np.array_split(walk, k)], len(walk))
    assert figure.correlated
    assert figure.batches == 5
    assert "correlated" in str(figure)
    noise = generator(0, "noise").normal(size=4000)
    figure = sectioned(float(noise.mean()), lambda k: [float(p.mean()) for p in np.array_split(noise, k)], len(noise))
    assert not figure.correlated
    assert figure.batches == 20


def test_every_figure_of_the_summary_has_one():
    trace = draw([60, 20, 100], [20, 8, 40], 600, rate=8.0, seed=1)
    config = {"num_blocks": 400, "max_model_len": 512}
    result = simulate_llm(trace, config=config, cost=LinearCost(base_s=0.02, token_s=1e-4))
    figures, summary = result.intervals(), result.summary()
    assert set(summary) - set(figures) == {"requests", "finished", "ignored", "preemptions", "swapped_blocks"}
    for name, figure in figures.items():
        assert figure.value == pytest.approx(summary[name], rel=1e-9), name
        assert figure.low <= figure.value <= figure.high
        assert figure.batches >= 5
    wide = result.interval("itl", 90, confidence=0.99)
    assert wide.half_width > result.interval("itl", 90, confidence=0.5).half_width
    assert result.interval("itl").value == pytest.approx(
        np.concatenate([np.diff(result.token_times(r)) for r in range(len(trace))]).mean()
    )
    assert result.interval("goodput", ttft=1.0, tpot=0.1).value == result.goodput(ttft=1.0, tpot=0.1)
    assert result.interval("attainment", ttft=0.05).value == result.attainment(ttft=0.05)


def test_too_few_requests_give_no_interval_and_no_figure_stays_none():
    trace = LLMTrace([0.0, 1.0], [8, 8], [1, 1])
    result = simulate_llm(trace, config={"num_blocks": 100}, cost=LinearCost(base_s=0.02))
    figure = result.interval("ttft")
    assert figure.value == pytest.approx(0.02)
    assert np.isnan(figure.low)
    assert np.isnan(figure.high)
    assert figure.batches == 0
    assert np.isnan(result.interval("tpot", 50).value)


def test_over_seeds_it_is_students_t():
    from scipy import stats

    x = [3.0, 5.0, 4.0, 8.0]
    low, high = stats.t.interval(0.9, 3, loc=5.0, scale=stats.sem(x))
    found = over_seeds(x)
    assert (found.value, found.low, found.high) == pytest.approx((5.0, low, high))
    next_one = over_seeds(x, kind="prediction")
    assert next_one.half_width == pytest.approx(found.half_width * (1 + 4) ** 0.5)


def test_replicated_runs_every_seed():
    def run(seed):
        trace = draw([60, 20], [8, 4], 60, rate=4.0, seed=seed)
        return simulate_llm(trace, config={"num_blocks": 400}, cost=LinearCost(base_s=0.02), seed=seed)

    found = replicated(run, 4)
    one_by_one = [run(s).summary()["ttft_p50"] for s in range(4)]
    assert found["ttft_p50"] == over_seeds(one_by_one)
    assert found["finished"].half_width == 0


BAD = (
    (lambda r: r.interval("speed"), "unknown metric 'speed'"),
    (lambda r: r.interval("throughput", 90), "throughput is one number of a run"),
    (lambda r: r.interval("ttft", 101), "from 0 to 100"),
    (lambda r: r.interval("ttft", confidence=1.0), "between 0 and 1"),
    (lambda r: r.interval("ttft", kind="credible"), "expected 'confidence' or 'prediction'"),
    (lambda r: r.interval("goodput", ttft=0.0), "limits > 0"),
    (lambda r: replicated(lambda seed: r, []), "at least one seed"),
    (lambda r: over_seeds([]), "at least one value"),
)


@pytest.mark.parametrize(("ask", "said"), BAD)
def test_bad_questions_are_one_line(ask, said):
    with pytest.raises(InputError, match=said) as error:
        ask(queues("M/D/1")[0])
    assert "\n" not in str(error.value)
