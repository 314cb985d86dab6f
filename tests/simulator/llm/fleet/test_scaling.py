"""Engines that come and go with the load: worked by hand."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from flat_options import llm_asked
from meshwright.errors import InputError
from meshwright.profiles import LinkSpec
from meshwright.profiles.llm import ConstantCost, LinearCost
from meshwright.simulator.llm import Autoscaling, Fault, Faults, LLMTrace, Pools, draw, simulate_llm
from meshwright.simulator.llm.fleet.scaling import TargetTracking

CONFIG = {"num_blocks": 101, "block_size": 4, "max_model_len": 64}


def serve(trace, scaling, cost=None, *, config=None, **more):
    return simulate_llm(
        trace, config={**CONFIG, **(config or {})}, cost=cost or ConstantCost(1.0),
        router=more.pop("router", "least_outstanding"), **llm_asked(scaling=scaling, **more),
    )  # fmt: skip


@dataclass
class Load:
    outstanding: int


def test_target_tracking_is_a_ceiling_with_a_tolerance_and_patience():
    scaler = TargetTracking("outstanding", 4.0, 0.1, 3)
    assert scaler([Load(9)], 0) == 3  # 9 / 4
    assert scaler([Load(9)], 2) == 3  # two start: that is enough
    assert scaler([Load(4), Load(4), Load(5)], 0) == 3  # 13 / 12 is within 10 %
    assert scaler([Load(4), Load(4), Load(6)], 0) == 4
    assert scaler([Load(0)] * 3, 0) == 3  # the last three answers were 3, 4, 0: not down yet
    assert scaler([Load(0)] * 3, 0) == 3
    assert scaler([Load(0)] * 3, 0) == 0
    at_once = TargetTracking("outstanding", 4.0, 0.1, 1)
    assert at_once([Load(1), Load(1)], 0) == 1


def test_an_engine_is_added_after_its_start_and_taken_away_when_idle():
    # Six requests of 10 tokens at 0, at most 2 at a time. At 2: 6 outstanding / 3 = 2 engines, the second from 5 on.
    # g, h arrive at 6 and go there: 8 / 3, a third engine, from 9 on.
    trace = LLMTrace([0.0] * 6 + [6.0] * 2, [4] * 8, [10] * 8)
    rule = Autoscaling(1, 4, 3.0, interval_s=2.0, start_s=3.0, patience=1)
    result = serve(trace, rule, config={"max_num_seqs": 2})
    assert result.engine.tolist() == [0] * 6 + [1] * 2
    assert result.finish.tolist() == [10, 10, 20, 20, 30, 30, 16, 16]
    spans = result.fleet.spans()
    mine = spans[spans.engine == 1]
    # At 10 two finish: 6 / 3 = 2 engines, the idle one goes. At 16 two more: 4 / 3, still 2. At 20: 2 / 3, one engine.
    assert list(zip(mine.state, mine.start, mine.end, strict=True)) == [
        ("starting", 2, 5), ("up", 5, 20), ("gone", 20, 30)
    ]  # fmt: skip
    third = spans[spans.engine == 2]
    assert list(zip(third.state, third.start, third.end, strict=True)) == [
        ("starting", 6, 9), ("up", 9, 10), ("gone", 10, 30)
    ]  # fmt: skip
    assert result.fleet.engine_seconds == 30 + 18 + 4
    assert result.fleet.serving_engines([1, 5, 9.5, 19.9, 20]).tolist() == [1, 2, 3, 2, 1]


def test_an_engine_that_is_drained_finishes_what_it_has():
    # Two engines with a request each, of 10 and 30 tokens; a target of 5 wants one: the younger (of equals) drains.
    rule = Autoscaling(1, 2, 5.0, interval_s=2.0, start_s=0.0, patience=1)
    result = serve(LLMTrace([0.0, 0.0, 3.0], [4] * 3, [10, 30, 2]), rule, engines=2)
    assert result.engine.tolist() == [0, 1, 0]
    spans = result.fleet.spans()
    mine = spans[spans.engine == 1]
    assert list(zip(mine.state, mine.start, mine.end, strict=True)) == [("up", 0, 2), ("draining", 2, 30)]
    assert result.finish[1] == 30


def test_a_drained_engine_is_taken_back_before_a_new_one_starts():
    trace = LLMTrace([0.0, 0.0] + [3.0] * 10, [4] * 12, [10, 10] + [4] * 10)
    rule = Autoscaling(1, 2, 5.0, interval_s=2.0, start_s=100.0, patience=1)
    result = serve(trace, rule, engines=2)
    spans = result.fleet.spans()
    mine = spans[spans.engine == 1]
    assert list(zip(mine.state, mine.start, strict=True))[:3] == [("up", 0), ("draining", 2), ("up", 4)]
    assert spans.engine.max() == 1


def test_a_dead_engine_is_replaced():
    trace = LLMTrace(np.arange(40.0), [4] * 40, [3] * 40)
    rule = Autoscaling(2, 4, 10.0, interval_s=2.0, start_s=3.0, patience=1)
    result = serve(trace, rule, engines=2, faults=Faults((Fault(0, 5.5, math.inf),)))
    spans = result.fleet.spans()
    assert result.finished.all()
    assert spans[spans.engine == 2]["start"].min() == 6  # min_engines serve or start
    assert result.fleet.deaths.tolist() == [1, 0, 0]


def test_each_pool_scales_by_itself():
    trace = draw([20], [10], 200, rate=6.0, seed=0)
    pools = Pools(1, 1, LinkSpec(1e9, 0.0), kv_bytes_per_token=1)
    rules = (
        Autoscaling(1, 1, 1.0, role="prefill", interval_s=1.0),
        Autoscaling(1, 6, 2.0, role="decode", interval_s=1.0, start_s=1.0),
    )
    result = serve(trace, rules, LinearCost(base_s=0.1, token_s=1e-4), pools=pools)
    assert result.finished.all()
    assert result.fleet.roles.count("prefill") == 1
    assert result.fleet.roles.count("decode") > 2


def test_a_scaler_of_ones_own_sees_loads():
    seen = []

    class Mine:
        def __call__(self, serving, starting):
            seen.append([(e.outstanding, e.running, e.waiting, e.kv_use) for e in serving])
            return 1

    rule = Autoscaling(1, 2, 1.0, interval_s=2.5, scaler=Mine)
    serve(LLMTrace([0.0] * 3, [8] * 3, [4] * 3), rule, config={"max_num_seqs": 2})
    assert seen == [[(3, 2, 1, 6 / 100)], [(1, 1, 0, 2 / 100)], [(1, 1, 0, 3 / 100)]]  # after the decisions at 2, 4, 7
    with pytest.raises(InputError, match=r"the scaler gave 1\.5"):
        serve(LLMTrace([0.0], [8], [4]), Autoscaling(1, 2, 1.0, interval_s=1.0, scaler=lambda: lambda s, n: 1.5))


def test_bounds_hold_and_nothing_is_lost():
    trace = draw([30, 10, 40], [10, 4, 20], 400, rate=10.0, seed=3)
    for metric, target in (("outstanding", 3.0), ("kv_use", 0.2), ("waiting", 1.0), ("outstanding_tokens", 60.0)):
        rule = Autoscaling(2, 5, target, metric=metric, interval_s=1.0, start_s=2.0, patience=2)
        result = serve(trace, rule, LinearCost(base_s=0.05, token_s=1e-3), engines=3)
        assert result.finished.all()
        assert (result.generated == trace.output_tokens).all()
        report = result.fleet
        times = np.arange(0.0, report.end_s, 0.25)
        assert report.serving_engines(times).min() >= 2
        assert report.serving_engines(times).max() <= 5
        assert report.engine_seconds >= report.busy_s.sum()


BAD = (
    (lambda: Autoscaling(0, 2, 1.0), "min_engines: expected an integer >= 1"),
    (lambda: Autoscaling(3, 2, 1.0), "max_engines: 2 is below min_engines 3"),
    (lambda: Autoscaling(1, 2, 0.0), "target: expected a finite number > 0"),
    (lambda: Autoscaling(1, 2, 1.0, metric="load"), "metric: expected one of outstanding"),
    (lambda: Autoscaling(1, 2, 1.0, interval_s=math.nan), "interval_s: expected a finite number > 0"),
    (lambda: Autoscaling(1, 2, 1.0, start_s=-1.0), "start_s: expected a finite number >= 0"),
    (lambda: Autoscaling(1, 2, 1.0, role="all"), "role: expected 'both'"),
    (lambda: Autoscaling(1, 2, 1.0, patience=0), "patience: expected an integer >= 1"),
    (lambda: serve(LLMTrace([0.0], [8], [4]), Autoscaling(2, 4, 1.0)), "begins with 1 engines; expected 2 to 4"),
    (lambda: serve(LLMTrace([0.0], [8], [4]), Autoscaling(1, 4, 1.0, role="decode")), "expected one of both here"),
    (lambda: serve(LLMTrace([0.0], [8], [4]), (Autoscaling(1, 2, 1.0),) * 2), "two for the role 'both'"),
    (lambda: serve(LLMTrace([0.0], [8], [4]), (3,)), "expected Autoscaling"),
)


@pytest.mark.parametrize(("make", "said"), BAD)
def test_bad_scaling_is_one_line(make, said):
    with pytest.raises(InputError, match=said) as error:
        make()
    assert "\n" not in str(error.value)
