"""Decode steps of Figs. 4.2–4.5: single terms by hand, and verdicts that the tables bear out."""

import numpy as np
import pytest
from meshwright.reproduce.cache_parallel import decode_steps, fig02, fig03, fig04, fig05
from meshwright.reproduce.cache_parallel.decode_steps import BRIDGE, ENTRY_S, GPU, break_even, step

E, L = 4096, 10_000


def test_terms_of_a_step_by_hand():
    """32 requests of 10K tokens: weights, keys and values at 80 % of 768 GB/s; waves of 128 blocks; collectives."""
    lengths, rate = [L] * 32, 0.8 * 768e9
    weights = 2 * decode_steps.MODEL.layer_weights
    cache = 32 * L * 2 * E * 2
    tp, cp, dp = (step(kind, lengths) for kind in ("TP", "CP", "DP"))
    assert tp.compute_s == pytest.approx((weights + cache) / 4 / rate + 2 * 2e-6)
    assert cp.compute_s == pytest.approx((weights + cache / 4) / rate + 8 * 2e-6)
    assert dp.compute_s == pytest.approx(cp.compute_s - 6 * 2e-6)
    assert tp.communication_s == pytest.approx(
        12 * BRIDGE.latency_s + 2 * 2 * 3 / 4 * 32 * E * 2 / BRIDGE.bandwidth_bytes_per_s
    )
    assert dp.communication_s == 0
    assert tp.tables_s == pytest.approx(32 * 625 * ENTRY_S)
    assert cp.tables_s == pytest.approx(32 * 157 * ENTRY_S)
    assert dp.tables_s == pytest.approx(8 * 625 * ENTRY_S)


def test_what_does_not_fit_is_moved_in_and_out():
    """One GPU's memory under DP; four GPUs' together otherwise."""
    room = GPU.usable_memory_bytes - 2 * decode_steps.MODEL.weights // decode_steps.MODEL.layers
    tokens = room // (4 * E)
    lengths = [tokens + 1000, 10, 10, 10]
    assert step("TP", lengths).moved_s == 0
    assert step("DP", lengths).moved_s == pytest.approx(2 * 1000 * 4 * E / 24e9, rel=1e-3)
    assert step("CP", [tokens + 1000] * 4).moved_s == pytest.approx(2 * 1000 * 4 * E / 24e9, rel=1e-3)


def test_break_even_is_where_both_take_as_long():
    even = break_even(40_000, 128, 0)
    lengths = decode_steps.prefixes(40_000, 128, decode_steps.generator(0, "decode steps", "40000", "0"))
    assert step("CP", lengths, entry_s=even).total_s == pytest.approx(step("TP", lengths, entry_s=even).total_s)


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
