"""Decode steps of Figs. 4.2–4.5: single terms by hand, and verdicts that the tables bear out."""

import numpy as np
import pytest
from meshwright.reproduce.cache_parallel import decode_steps, fig02, fig03, fig04, fig05, shards
from meshwright.reproduce.cache_parallel.decode_steps import BRIDGE, DEFAULT, GPU, Assumed, step

E, L = 4096, 10_000


def test_terms_of_a_step_by_hand():
    """32 requests of 10K tokens: weights, keys and values at 80 % of 768 GB/s; ramps; collectives."""
    lengths, rate = [L] * 32, 0.8 * 768e9
    weights = 2 * decode_steps.MODEL.layer_weights
    cache = 32 * L * 2 * E * 2
    tp, cp, dp = (step(kind, lengths) for kind in ("TP", "CP", "DP"))
    ramps = 32 * DEFAULT.ramp_tokens * 2 * E * 2 / rate
    assert tp.compute_s == pytest.approx((weights + cache) / 4 / rate + ramps / 4)
    assert cp.compute_s == pytest.approx((weights + cache / 4) / rate + ramps)
    assert dp.compute_s == pytest.approx(tp.compute_s + 3 / 4 * weights / rate)
    r = DEFAULT.ramp_tokens
    assert cp.attention_s / tp.attention_s == pytest.approx((L + 4 * r) / (L + r))
    assert tp.communication_s == pytest.approx(
        12 * BRIDGE.latency_s + 2 * 2 * 3 / 4 * 32 * E * 2 / BRIDGE.bandwidth_bytes_per_s
    )
    assert dp.communication_s == 0
    assert tp.tables_s == pytest.approx(32 * 625 * DEFAULT.entry_s)
    assert cp.tables_s == pytest.approx(32 * 157 * DEFAULT.entry_s)
    assert dp.tables_s == pytest.approx(8 * 625 * DEFAULT.entry_s)


def test_what_does_not_fit_is_moved_in_and_out():
    """One GPU's memory under DP; four GPUs' together otherwise."""
    room = GPU.usable_memory_bytes - 2 * decode_steps.MODEL.weights // decode_steps.MODEL.layers
    tokens = room // (4 * E)
    lengths = [tokens + 1000, 10, 10, 10]
    assert step("TP", lengths).moved_s == 0
    assert step("DP", lengths).moved_s == pytest.approx(2 * 1000 * 4 * E / 24e9, rel=1e-3)
    assert step("CP", [tokens + 1000] * 4).moved_s == pytest.approx(2 * 1000 * 4 * E / 24e9, rel=1e-3)


def test_what_does_not_fit_waits_if_it_may():
    room = GPU.usable_memory_bytes - 2 * decode_steps.MODEL.weights // decode_steps.MODEL.layers
    tokens = room // (4 * E)
    found = step("TP", [tokens] * 6, Assumed(waiting=True))
    assert (found.tokens, found.moved_s) == (4, 0)
    assert step("TP", [tokens] * 6).tokens == 6
    assert step("DP", [tokens] * 6, Assumed(waiting=True)).tokens == 4


def test_a_ramp_is_found_from_the_ratios_that_it_makes():
    made = [shards.Ratio(n, 1.0, (n + 4 * 60) / (n + 60)) for n in (100, 400, 1600)]
    assert shards.ramp_tokens(made) == pytest.approx(60, rel=1e-3)
    assert shards.ramp_for(10_000, (10_000 + 4 * 60) / 10_060) == pytest.approx(60)


def test_both_shares_and_tables_are_timed():
    found = shards.attention_ratio(64, batch=1, heads=4, budget_s=0.01)
    assert found.tp_s > 0
    assert found.ratio == found.cp_s / found.tp_s
    entry = shards.entry_seconds(batch=2, entries=50, budget_s=0.01)
    assert set(entry) == {"lists", "tensor", "array"}
    assert min(entry.values()) > 0


def test_orderings_over_the_host_time_are_said_with_their_range():
    import pandas as pd

    swept = pd.DataFrame({"entry_ns": [1.0, 10.0, 50.0], "ordering": "x", "ratio": [1.0, 1.04, 1.2]})
    assert fig02.holding(swept, "x") == "from 10 to 50 ns"
    assert fig02.holding(swept.assign(ratio=1.02), "x") == "at none (at most 1.020×)"


@pytest.mark.parametrize("figure", [fig02, fig03, fig04, fig05])
def test_figures_are_made_with_verdicts(tmp_path, figure):
    report = figure.run(True, tmp_path, 0)
    assert report.claims
    name = f"cache_parallel/{figure.__name__.rpartition('.')[2]}"
    frame = report.tables[name]
    assert np.allclose(
        frame[["compute_ms", "communication_ms", "tables_ms", "moved_ms"]].sum(axis=1), frame.step_ms, rtol=1e-9
    )
    assert np.allclose(frame.throughput, 1e3 * frame.batch / frame.step_ms)
    assert (tmp_path / f"{name}.csv").is_file()
