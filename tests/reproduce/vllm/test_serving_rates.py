"""Figures 11, 12, 18 and 19 of the vLLM thesis: what they are made of, held against arithmetic."""

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.profiles import device
from meshwright.profiles.llm import Iteration, LinearCost, decoder
from meshwright.reproduce.vllm import fig11, fig12, fig18, fig19
from meshwright.reproduce.vllm import serving_rates as setup
from meshwright.traces.lengths import ALPACA, SHAREGPT


def test_servers_are_table_5_1():
    assert [s.slots for s in setup.SERVERS.values()] == [15_728, 9_557, 60_074]
    assert [s.gpus * device(s.device).memory_bytes / 2**30 for s in setup.SERVERS.values()] == [40, 160, 640]


def test_devices_reach_a_share_of_their_roofline():
    server = setup.SERVERS["OPT-13B"]
    decode = Iteration((), 1, 1, 1)
    weights = decoder("opt-13b").weight_bytes() / 1.555e12
    assert 1 < server.cost(1.0).seconds(decode) / weights < 1 / 0.65  # 70 % of the bandwidth in matrices
    assert server.cost(0.4).seconds(decode) == pytest.approx(2 * server.cost(0.8).seconds(decode), rel=0.05)
    with pytest.raises(InputError, match="share of the speed"):
        server.cost(1.2)


def test_the_share_is_the_one_at_which_thirty_requests_are_batched():
    share = setup.calibrated_share(3, 1200.0)
    server, trace = setup.SERVERS["OPT-13B"], setup.requests(SHAREGPT, 2.0, 1200.0, 3)
    result = setup.served("vLLM", server, trace, server.cost(share))
    inside = result.over_time(10.0)
    late = inside[(inside.time >= 200) & (inside.time < 1200)] if "time" in inside else inside.iloc[20:120]
    assert late.running.mean() == pytest.approx(setup.BATCH, rel=0.05)


def test_a_curve_is_crossed_on_a_logarithmic_line():
    curve = setup.Curve(np.array([1.0, 2.0, 4.0]), np.array([0.1, 0.1, 1.6]))
    assert curve.sustained(0.4) == pytest.approx(2.0 * 2**0.5)  # half way from 0.1 to 1.6 in logarithms
    for limit in (0.05, 2.0):
        with pytest.raises(InputError, match="does not cross"):
            curve.sustained(limit)


def test_rates_share_their_gaps_and_lengths():
    slow, fast = (setup.requests(ALPACA, rate, 100.0, 1) for rate in (5.0, 10.0))
    m = len(slow)
    assert np.allclose(slow.arrival[:m], 2 * fast.arrival[:m])
    assert np.array_equal(slow.prompt_tokens, fast.prompt_tokens[:m])
    assert abs(m - 500) < 4 * 500**0.5


def test_orca_max_finishes_what_seven_chunks_finish():
    # Seven requests at a time, each for as many iterations as it has tokens: 7 / (E[O] x iteration).
    server, cost = setup.SERVERS["OPT-13B"], LinearCost(base_s=0.03)
    expected = 7 / (SHAREGPT.sample(700, 0).output.mean() * 0.03)
    assert setup.capacity("Orca (Max)", server, SHAREGPT, cost, 0) == pytest.approx(expected, rel=0.15)


def test_prompts_apart_take_iterations_of_their_own():
    cost = setup.PromptsApart(LinearCost(base_s=1.0, token_s=0.1, context_s=0.01))
    assert cost.seconds(Iteration(((10, 0),), 2, 50, 3)) == pytest.approx((1 + 1.0) + (1 + 0.2 + 0.5))
    assert cost.seconds(Iteration((), 2, 50, 2)) == pytest.approx(1 + 0.2 + 0.5)


def test_swapping_1024_tokens_takes_what_the_bus_says():
    one = fig19.alone(0.8).set_index("block_size")
    # 40 layers, keys and values, each block a copy: 1024 x 80 copies of 8 us; large blocks: 800 KiB a token at 24 GB/s.
    assert one.swap_out[1] == pytest.approx(1024 * 80 * 8e-6)
    assert one.swap[16] == pytest.approx(2 * 64 * 80 * 8e-6)
    assert one.swap[64] == pytest.approx(2 * 1024 * 819_200 / 24e9)
    assert one.recompute.nunique() == 1
    assert one.recompute[1] > 2 * decoder("opt-13b").layers * decoder("opt-13b").layer_weights * 1024 / (0.8 * 312e12)


def test_lengths_are_told_with_their_means(tmp_path):
    report = fig11.run(True, tmp_path, 0)
    assert [c.verdict for c in report.claims] == ["holds"] * 4
    frame = report.tables["vllm/fig11"]
    assert frame.groupby(["dataset", "kind"]).share.sum().to_numpy() == pytest.approx(1.0)
    assert (tmp_path / "vllm/fig11.png").read_bytes().startswith(b"\x89PNG")


def test_larger_blocks_waste_more(monkeypatch):
    monkeypatch.setattr(fig18, "SIZES", (16, 128))
    monkeypatch.setattr(fig18, "calibrated_share", lambda seed: 0.85)
    monkeypatch.setattr(fig18, "WORKLOADS", {"ShareGPT": (SHAREGPT, 1.0), "Alpaca": (ALPACA, 2.0)})
    frame, _ = fig18.sizes(True, 0)
    by = frame.set_index(["workload", "block_size"]).wasted
    # A sequence wastes half a block on average: 8 and 64 of some 300 tokens.
    assert by["ShareGPT", 128] / by["ShareGPT", 16] == pytest.approx(8, rel=0.35)


def test_every_claim_of_figure_5_12_has_a_rule_of_the_paper():
    for model in setup.SERVERS:
        assert fig12.EXPECTED[model, "Orca (Oracle)"].paper == "1.7× to 2.7×"
        assert fig12.EXPECTED[model, "Orca (Max)"].paper == "2.7× to 8×"
