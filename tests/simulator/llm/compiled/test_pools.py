"""The compiled loop over prefill and decode pools against the reference, on drawn worlds."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from drawn_fleets import TICK, both, costs, faults, options, same, ticks, traces
from flat_options import llm_asked
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.profiles import LinkSpec
from meshwright.profiles.llm import ConstantCost, LinearCost
from meshwright.profiles.spread import Spread
from meshwright.simulator.llm import Autoscaling, Fault, Faults, LLMTrace, Pools, conversations, draw, simulate_llm
from meshwright.simulator.llm.compiled.dynamic.growth import METRICS
from meshwright.simulator.llm.compiled.fleet.routing import KINDS
from meshwright.simulator.llm.fleet.pools import NICS

TOKENS_S = [1 / TICK, 4 / TICK, 1 / (8 * TICK), math.inf]
"""Bytes per second, at one byte a token: all transfers take whole quarters of ticks."""


@st.composite
def pools(draw_, config, trace):
    """Two pools, a link, who decodes with what options, how what is sent gets there."""
    more = {}
    if draw_(st.booleans()):
        more["decode_config"] = draw_(options(trace, alone=False, size=config["block_size"]))
    if draw_(st.booleans()):
        more["decode_cost"] = draw_(costs(ticks(1, 200)))
    if draw_(st.booleans()):
        more = {**more, "handoff": "buffer", "overlap_layers": draw_(st.sampled_from([0, 1, 4]))}
    return Pools(
        draw_(st.integers(1, 3)), draw_(st.integers(1, 3)),
        LinkSpec(draw_(st.sampled_from(TOKENS_S)), draw_(st.one_of(st.just(0.0), ticks(0, 60)))),
        kv_bytes_per_token=1, serialise=draw_(st.sampled_from(NICS)),
        decode_router=draw_(st.sampled_from(sorted(KINDS))), **more,
    )  # fmt: skip


def rules(draw_, apart, role):
    there = apart.prefill if role == "prefill" else apart.decode
    return Autoscaling(
        draw_(st.integers(1, there)), draw_(st.integers(there, 4)), draw_(st.sampled_from([0.3, 1.0, 2.5, 20.0])),
        metric=draw_(st.sampled_from(METRICS)), interval_s=draw_(ticks(20, 400)), start_s=draw_(ticks(0, 300)),
        tolerance=draw_(st.sampled_from([0.0, 0.5])), patience=draw_(st.integers(1, 3)), role=role,
    )  # fmt: skip


@st.composite
def worlds(draw_, changing):
    trace = draw_(traces())
    config = draw_(options(trace, alone=False))
    way = {"pools": draw_(pools(config, trace)), "router": draw_(st.sampled_from(sorted(KINDS)))}
    way["seed"] = draw_(st.integers(0, 9))
    if draw_(st.integers(0, 2)) == 0:
        way["concurrency"] = draw_(st.integers(1, 8))
    if draw_(st.integers(0, 4)) == 0:
        way["until"] = draw_(ticks(1, 3000))
    kind = draw_(st.sampled_from(["faults", "scaling", "both"])) if changing else ""
    if kind in ("scaling", "both"):
        roles = draw_(st.sampled_from([("prefill",), ("decode",), ("decode", "prefill")]))
        way["scaling"] = tuple(rules(draw_, way["pools"], role) for role in roles)
    if kind in ("faults", "both"):
        there = way["pools"].prefill + way["pools"].decode
        way["faults"] = draw_(faults(there - 1 if kind == "faults" else 6))
    if not changing:  # only as many blocks as prompts need; some end at the longest sequence, some never begin
        least = -(-int(trace.prompt_tokens.max()) // config["block_size"])
        config["num_blocks"] = least + 1 + draw_(st.integers(0, 6))
        if draw_(st.integers(0, 4)) == 0:
            config["max_model_len"], way["too_long"] = draw_(st.sampled_from([16, 24])), "ignore"
    return trace, config, draw_(costs(ticks(1, 200))), way


@settings(max_examples=examples(40, anew=400), deadline=None)
@given(case=worlds(changing=False))
def test_bit_for_bit_on_a_grid_of_times(case):
    trace, config, cost, way = case
    if found := both(trace, config, cost, **way):
        same(*found)


@settings(max_examples=examples(40, anew=400), deadline=None)
@given(case=worlds(changing=True))
def test_bit_for_bit_with_engines_that_fail_come_and_go(case):
    trace, config, cost, way = case
    if found := both(trace, config, cost, **way):
        same(*found)


@pytest.mark.parametrize("handoff", ["reserve", "buffer"])
def test_conversations_on_pools_that_fail_and_scale(handoff):
    chat = conversations([200, 60, 900], [60, 20, 40], 150, rate=20.0, turns=3, think_s=0.5, seed=3)
    config = {"num_blocks": 300, "max_model_len": 4096, "max_num_batched_tokens": 2048}
    apart = Pools(
        3, 5, LinkSpec(2e9, 0.003), kv_bytes_per_token=160_000, handoff=handoff, decode_router="session_affinity",
        decode_config={**config, "num_blocks": 260, "enable_prefix_caching": handoff == "reserve"},
        decode_cost=LinearCost(0.02, 3e-5, 2e-7), overlap_layers=40 if handoff == "buffer" else 0,
    )  # fmt: skip
    way = {
        "pools": apart, "router": "prefix_aware", "seed": 5, "times": Spread(visits=(0.9, 1.0, 1.2)),
        "faults": Faults((Fault(2, 3.0, 1.0), Fault(4, 5.0, 1.0)), mtbf_s=8.0, mttr_s=2.0, load_s=0.5, retry_s=0.1),
        "scaling": (
            Autoscaling(2, 6, 2.0, interval_s=1.0, start_s=2.0, patience=2, role="prefill"),
            Autoscaling(3, 9, 3.0, interval_s=1.5, start_s=2.0, patience=1, role="decode"),
        ),
    }  # fmt: skip
    ours, theirs = both(chat, config, LinearCost(0.01, 2e-5, 1e-7, 1e-9, 1e-5), **way)
    assert {"prefill", "decode"} == set(np.array(ours.fleet.roles)[ours.fleet.deaths > 0])
    assert len(ours.fleet.roles) > 8
    assert ours.fleet.retries.sum() > 10
    assert np.isfinite(ours.fleet.transfer_start).all()
    same(ours, theirs, tolerance=1e-9)


def test_tables_that_grow_change_nothing():
    """Dozens of engines one after the other, dozens of failures: rows are used again, tables are widened."""
    trace = draw([30, 10], [40, 20], 1500, rate=40.0, seed=0)
    way = {
        "pools": Pools(2, 2, LinkSpec(1e6, 1e-3), kv_bytes_per_token=1000, decode_router="power_of_two"),
        "router": "random",
        "faults": Faults(mtbf_s=6.0, mttr_s=1.0, load_s=0.5, tokens="keep", max_retries=50),
        "scaling": (
            Autoscaling(1, 7, 4.0, interval_s=0.3, start_s=1.0, patience=1, role="decode"),
            Autoscaling(1, 3, 2.0, interval_s=0.4, start_s=1.0, patience=3, role="prefill"),
        ),
    }  # fmt: skip
    config = {"num_blocks": 200, "max_model_len": 256}
    ours, theirs = both(trace, config, LinearCost(0.01, 2e-5, 1e-7), **way)
    assert len(ours.fleet.roles) > 24
    assert ours.fleet.deaths.sum() > 12
    assert len(ours.iterations) > 4096
    same(ours, theirs, tolerance=1e-9)


def test_nics_full_pools_and_preemptions_make_requests_wait():
    """Each does something here, so that agreement on drawn worlds is about them."""
    trace, cost = draw([12, 20], [18, 9], 60, rate=2.0, seed=1), ConstantCost(0.5)
    config = {"num_blocks": 16, "block_size": 4, "max_model_len": 64}
    apart = Pools(2, 2, LinkSpec(40.0, 0.25), kv_bytes_per_token=1, decode_config={**config, "num_blocks": 18})
    ours, theirs = both(trace, config, cost, pools=apart)
    same(ours, theirs)
    report = ours.fleet
    assert ours.preemptions.sum() > 0
    assert (report.waits(ours.first_token)[0] > 0).sum() > 20
    free, _ = both(trace, config, cost, pools=replace(apart, link=LinkSpec(math.inf, 0.0)))
    assert (ours.scheduled > free.scheduled).sum() > 10  # blocks that are held for transfers stop prompts


def test_pools_are_compiled_by_themselves():
    trace = draw([100], [500], 300, rate=20.0, seed=0)
    apart = Pools(1, 2, LinkSpec(1e9, 1e-3), kv_bytes_per_token=1000)
    result = simulate_llm(trace, config={"num_blocks": 4000}, cost=LinearCost(0.01), **llm_asked(pools=apart))
    assert result.made_by == "compiled"


def test_what_is_not_compiled_says_why():
    trace, link = LLMTrace([0.0], [8], [4]), LinkSpec(1e9, 0.0)

    class Own:
        def seconds(self, iteration):
            return 1.0

    def asked(trace=trace, config=None, faults=None, **more):
        config = {"num_blocks": 100, "max_model_len": 64, **(config or {})}
        with pytest.raises(InputError, match="engine: compiled") as error:
            simulate_llm(
                trace, config=config, cost=ConstantCost(1.0), engine="compiled",
                **llm_asked(pools=Pools(1, 1, link, kv_bytes_per_token=1, **more), faults=faults),
            )  # fmt: skip
        return str(error.value)

    assert "decode_cost: a cost of type Own" in asked(decode_cost=Own())
    assert "decode_config: max_num_active_seqs is not" in asked(
        decode_config={"num_blocks": 100, "max_model_len": 64, "max_num_active_seqs": 3}
    )
    short = {"num_blocks": 100, "max_model_len": 64}
    kept = Faults((Fault(1, 2.0),), tokens="keep")
    assert "max_model_len are not compiled" in asked(config={"max_model_len": 10}, decode_config=short, faults=kept)
