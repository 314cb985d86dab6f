"""Figures 14 to 17 on small samples: their parts, their identities, and that one parameter is fitted only once."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from meshwright.reproduce import FIGURES
from meshwright.reproduce.vllm import decoding_rates, fig14, fig15, fig16, fig17
from meshwright.reproduce.vllm.decoding_rates import Method
from meshwright.reproduce.vllm.hinges import sharing
from meshwright.simulator.llm.decoding.genealogy import SURVIVAL, Genealogy
from meshwright.traces.lengths import ALPACA, SHAREGPT

COST = decoding_rates.OPT.cost()


def test_they_are_registered():
    assert {"vllm/fig14", "vllm/fig15", "vllm/fig16", "vllm/fig17"} <= set(FIGURES)


def test_all_methods_see_the_same_requests():
    one = decoding_rates.arrivals(ALPACA, 5.0, 20.0, 3)
    beams = decoding_rates.arrivals(ALPACA, 10.0, 10.0, 3, Method(4, True))
    np.testing.assert_array_equal(one.prompt_tokens, beams.prompt_tokens)
    np.testing.assert_allclose(one.arrival, 2 * beams.arrival)
    assert set(beams.best_of.tolist()) == {4}
    assert beams.beam.all()
    assert [str(m) for m in (Method(), Method(2), Method(6, True))] == [
        "basic", "parallel sampling (n=2)", "beam search (k=6)",
    ]  # fmt: skip


def test_what_beams_save_follows_the_paper_from_one_bar():
    """A tenth of the figure's requests, with its own tolerance for "holds"."""
    saved = {n: fig15.saving("Alpaca", Method(n, True), SURVIVAL, 300, (0, 1)) for n in (2, 4)}
    paper = fig15.PAPER["Alpaca", True]
    assert saved[2] == pytest.approx(paper[2], rel=0.05)  # fitted
    assert saved[4] == pytest.approx(paper[4], rel=0.1)  # predicted
    kept = fig15.saving("Alpaca", Method(2, True), 1.0, 60, (0,))
    neutral = fig15.saving("Alpaca", Method(2, True), 0.0, 60, (0,))
    samples = fig15.saving("Alpaca", Method(2), 0.0, 60, (0,))
    assert kept == samples < saved[2] < neutral < 0.5
    assert fig15.FITTED not in fig15.EXPECTED


def test_samples_save_the_full_blocks_of_their_prompts():
    """Two samples over a prompt of 33 tokens and outputs of 15: two of three blocks are shared, the third is copied."""
    trace = Method(2).trace(np.array([0.0]), [33], [15])
    result = decoding_rates.serve("vLLM", decoding_rates.OPT, trace, COST)
    assert set(result.iterations.shared_tokens.tolist()) == {0, 32}
    length = result.iterations.end - result.iterations.start
    assert result.memory_saving == pytest.approx(2 / 6 * length[1:].sum() / length.sum())


def test_capacity_leaves_out_the_beginning_and_asks_for_more_than_can_finish():
    run = partial(decoding_rates.serve, "Orca (Max)", decoding_rates.OPT)
    asked = []

    def at(rate, seconds):
        asked.append(round(rate * seconds))
        return decoding_rates.arrivals(ALPACA, rate, seconds, 0)

    most = decoding_rates.capacity(lambda trace, until: run(trace, COST, until=until), at, 90.0)
    assert asked == [256, 1024]
    result = run(at(1e9, 1024e-9), COST, until=90.0)
    assert most == pytest.approx(np.sum((result.finish > 30) & (result.finish <= 90)) / 60)
    # Seven chunks of 2048 are always taken: a request leaves every (iterations of a request) / 7.
    steady = 7 / (ALPACA.output_mean * COST.seconds(decoding_rates_iteration()))
    assert most == pytest.approx(steady, rel=0.15)


def decoding_rates_iteration():
    from meshwright.profiles.llm.iteration import Iteration

    return Iteration((), 7, 7 * 60, 7)


def test_beams_let_vllm_take_more_than_chunks_do():
    taken = {}
    for system in ("Orca (Oracle)", "vLLM"):
        trace = decoding_rates.arrivals(ALPACA, 1e9, 200e-9, 0, Method(6, True))
        run = decoding_rates.serve(system, decoding_rates.OPT, trace, COST, survivors=Genealogy(0), until=15.0)
        taken[system] = run.mean_batch
    assert 1.5 * taken["Orca (Oracle)"] < taken["vLLM"]
    assert set(fig14.FAST) <= set(fig14.METHODS)


def test_a_shared_prefix_lets_more_requests_in_and_computes_less():
    at = partial(fig16._at, 341, 0)
    most = {
        name: decoding_rates.capacity(partial(fig16.serve, name, 341, COST), at, 20.0)
        for name in ("Orca (Oracle)", "vLLM, not shared", "vLLM")
    }
    assert most["vLLM"] > 2 * most["Orca (Oracle)"]
    assert most["vLLM"] > 2 * most["vLLM, not shared"]
    assert fig16.SENTENCES.moments()[2] == pytest.approx(40.0)


def test_long_prompts_of_chat_take_one_chunk_under_every_orca():
    assert fig17.least_chunk() == 2048
    assert decoding_rates.OPT.slots // 2048 == 7
    trace = fig17._at(3.5, 0, 2.0, 100.0)
    assert len(trace) == 200
    assert trace.prompt_tokens.max() == 1024
    assert trace.output_tokens.max() <= 1024
    assert SHAREGPT.longest == 2048


def test_a_curve_ends_above_the_limit_and_gives_the_rate_at_it():
    class Result:
        def __init__(self, latency):
            self.normalized_latency = latency

    found = decoding_rates.curve(lambda trace, until: Result(trace), lambda rate, seconds: rate / 40, 10.0, 1.0)
    np.testing.assert_allclose(found.rate, [6, 8.5, 10, 11.5, 14, 18, 25])
    assert found.sustained(decoding_rates.LIMIT) == pytest.approx(10.0)


def test_samples_savings_from_lengths_alone():
    """By hand: 33 + 15 tokens, as in the test above; and the simulated figure within a tenth."""
    prompt, output = np.array([33]), np.array([15])
    assert sharing.shared(prompt, np.stack([output, output])) == pytest.approx(2 / 6)
    one = sharing.shared(np.array([16]), np.array([[16], [32]]))  # 2 blocks for 16 steps; 2 and 3 for 32
    assert one == pytest.approx(16 / (2 * 16 + 2 * 16 + 3 * 16))
    simulated = fig15.saving("Alpaca", Method(2), 0.0, 300, (0, 1))
    drawn = [ALPACA.sample(300, seed) for seed in (0, 1)]  # the simulation's own
    alone = [sharing.shared(x.prompt, np.stack([x.output, x.output])) for x in drawn]
    assert np.mean(alone) == pytest.approx(simulated, rel=0.1)
    found = sharing.sample_sensitivity(6.09, 2, 0)
    at = {s.assumption.split(",")[0]: s for s in found.swings}
    assert at["CV of outputs"].at_high < found.ours < at["CV of outputs"].at_low
    assert at["samples of a request"].at_low < found.ours == at["samples of a request"].at_high
    assert "CV of outputs" in found.needed
