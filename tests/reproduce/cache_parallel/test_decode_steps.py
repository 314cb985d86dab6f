"""Decode steps of Figs. 4.2–4.5: single terms by hand, and verdicts that the tables bear out."""

import numpy as np
import pytest
from meshwright.reproduce.cache_parallel import decode_steps, fig02, fig04, fig05, orderings, shards
from meshwright.reproduce.cache_parallel.decode_steps import BRIDGE, DEFAULT, GPU, Assumed, step
from meshwright.seeds import generator

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


def test_what_does_not_fit_moves_as_often_as_it_is_said():
    room = GPU.usable_memory_bytes - 2 * decode_steps.MODEL.weights // decode_steps.MODEL.layers
    lengths = [room // (4 * E)] * 6
    moved = step("TP", lengths).moved_s
    assert moved > 0
    assert step("TP", lengths, Assumed(stay_steps=20)).moved_s == pytest.approx(moved / 20)
    assert step("TP", lengths, Assumed(stay_steps=np.inf)).moved_s == 0


def test_tensor_and_data_parallelism_start_as_many_thread_blocks():
    """A quarter of the heads of all requests, or all heads of a quarter of them; 20 partitions of 512 tokens."""
    blocks = {kind: decode_steps.thread_blocks(kind, [L] * 32) for kind in ("TP", "DP", "CP")}
    assert blocks == {"TP": 8 * 32 * 20, "DP": 32 * 8 * 20, "CP": 32 * 32 * 5}


def test_a_maximum_batch_of_each_instance_is_four_times_as_many_requests():
    each = Assumed(each=True)
    assert (each.batch("DP", 32), each.batch("TP", 32), DEFAULT.batch("DP", 32)) == (128, 32, 32)
    frame = decode_steps.cells(decode_steps.equal, (L,), (32,), 1, 0, each).set_index("system")
    assert frame.throughput["DP"] == pytest.approx(128e3 / frame.step_ms["DP"])
    assert frame.tables_ms["DP"] == pytest.approx(frame.tables_ms["TP"])


def test_lengths_of_every_regime_have_the_mean_that_was_asked_for():
    for regime, more in ((decode_steps.prefixes, 0), (decode_steps.equal, 0), (decode_steps.exponential, 16)):
        assert regime(1000, 20_000, generator(0, "lengths")).mean() == pytest.approx(1000 + more, rel=0.03)


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
    assert orderings.holding(swept, "x") == "from 10 to 50 ns"
    assert orderings.holding(swept.assign(ratio=1.02), "x") == "at none (at most 1.020×)"


def test_moves_at_which_a_lead_and_a_fall_go_together_are_said():
    import pandas as pd

    moves = pd.DataFrame({"stay_steps": [1.0, 5.0, 20.0], "CP over TP": [1.0, 1.1, 1.3], "falls": [0.1, 0.5, 0.9]})
    assert orderings.stay_range(moves) == "5 to 20 steps"
    assert orderings.stay_range(moves.assign(falls=1.0)) == "none of the stays that were swept"


@pytest.mark.parametrize("figure", [fig02, fig04, fig05])  # fig03 is fig02 with other lengths
def test_figures_are_made_with_verdicts(tmp_path, figure):
    report = figure.run(True, tmp_path, 0)
    assert report.claims
    name = f"cache_parallel/{figure.__name__.rpartition('.')[2]}"
    frame = report.tables[name]
    assert np.allclose(
        frame[["compute_ms", "communication_ms", "tables_ms", "moved_ms"]].sum(axis=1), frame.step_ms, rtol=1e-9
    )
    assert np.allclose(frame.throughput, 1e3 * frame.batch / frame.step_ms)
    assert all(
        np.isfinite(swing.at_low) and np.isfinite(swing.at_high) for s in report.sensitivity for swing in s.swings
    )
    assert (tmp_path / f"{name}.csv").is_file()
