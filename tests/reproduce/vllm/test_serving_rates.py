"""Figures 11, 12, 18 and 19 of the vLLM thesis: what they are made of, held against arithmetic."""

import numpy as np
import pandas as pd
import pytest
from meshwright.errors import InputError
from meshwright.profiles import device
from meshwright.profiles.llm import ConstantCost, Iteration, LinearCost, decoder
from meshwright.reproduce.sensitivity import Swing
from meshwright.reproduce.vllm import fig11, fig12, fig18, fig19, servers
from meshwright.reproduce.vllm import serving_rates as setup
from meshwright.reproduce.vllm.hinges import serving as headlines
from meshwright.simulator.llm import LLMTrace
from meshwright.traces.lengths import ALPACA, SHAREGPT


def test_servers_are_table_5_1():
    assert [s.slots for s in servers.SERVERS.values()] == [15_728, 9_557, 60_074]
    assert [s.gpus * device(s.device).memory_bytes / 2**30 for s in servers.SERVERS.values()] == [40, 160, 640]


def test_an_iteration_is_the_roofline_and_the_host():
    server = servers.SERVERS["OPT-13B"]
    decode, wide = Iteration((), 1, 1, 1), Iteration((), 100, 1000, 100)
    weights = decoder("opt-13b").weight_bytes() / 1.555e12
    none = servers.HostTime(0.0, 0.0)
    assert 1 < server.cost(none).seconds(decode) / weights < 1 / 0.65  # 70 % of the bandwidth in matrices
    host = servers.HostTime(3e-3, 1e-4)
    for one, sequences in ((decode, 1), (wide, 100)):
        added = server.cost(host).seconds(one) - server.cost(none).seconds(one)
        assert added == pytest.approx(3e-3 + 1e-4 * sequences)
    prompt = Iteration(((2000, 0),), outputs=1)
    slow, fast = (server.cost(none, computing=c).seconds(prompt) for c in (1.0, 2.0))
    assert slow == pytest.approx(2 * fast, rel=0.1)
    with pytest.raises(InputError, match="positive factor"):
        server.cost(computing=0.0)


def test_a_batch_is_averaged_over_time():
    server, cost = servers.SERVERS["OPT-13B"], ConstantCost(1.0)
    trace = LLMTrace([0.0, 5.0], [4, 4], [2, 2])
    assert setup.batch(setup.served("vLLM", server, trace, cost), 0.0, 10.0) == pytest.approx(4 / 10)
    assert setup.batch(setup.served("Orca (Max)", server, trace, cost), 6.0, 10.0) == pytest.approx(1 / 4)


def test_what_a_headline_needs_is_said():
    swings = (Swing("host time", "none", "twice", 1.8, 1.2), Swing("spread", "0.6", "1.2", float("nan"), 1.4))
    assert headlines.needed(1.7, 1.5, swings) == "1.7 is reached with host time: none"
    assert headlines.needed(2.0, 1.5, swings) == "no end tried reaches 2"
    assert headlines.needed(1.3, 1.5, swings) == "above 1.3; below it with host time: twice"
    assert headlines.needed(1.1, 1.5, swings) == "above 1.1; so are all ends tried"
    titles = {f"{title}: vLLM over {over}" for title, _, over, _, _ in headlines.HEADLINES}
    assert "OPT-175B, ShareGPT: vLLM over Orca (Max)" in titles


def test_claims_are_judged_on_leads(tmp_path):
    """A frame of leads, of which one system is slower with OPT-175B: no advantage that is less pronounced."""
    lead = {"Orca (Oracle)": 2.0, "Orca (Max)": 4.0, "Orca (Pow2)": 2.5, "FasterTransformer": 9.0, setup.LATER: 1.1}
    rows = [
        {"model": m, "workload": w, "over": s, "lead": x}
        for m in servers.SERVERS for w in fig12.WORKLOADS for s, x in lead.items()
    ]  # fmt: skip
    frame = pd.DataFrame(rows)
    alpaca = frame.workload == "Alpaca"
    frame.loc[alpaca & (frame.over == "FasterTransformer") & (frame.model == "OPT-66B"), "lead"] = 23.0
    frame.loc[alpaca & (frame.over == "Orca (Oracle)"), "lead"] = [1.3, 1.5, 0.9]
    verdicts = {c.text: (c.verdict, c.ours) for c in fig12.judged(frame, {})}
    assert len(verdicts) == len(fig12.EXPECTED) - 1
    text = fig12.EXPECTED["FasterTransformer"].text
    assert verdicts[text] == ("holds", "ShareGPT: 9.0× (OPT-66B); Alpaca: 23.0× (OPT-66B)")
    assert verdicts[fig12.EXPECTED["panel f", "Orca (Oracle)"].text][0] == "does not hold"
    assert verdicts[fig12.EXPECTED["panel f", "Orca (Pow2)"].text] == ("partly", "1.00")
    assert verdicts[fig12.EXPECTED["alpaca"].text][0] == "holds"


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
    server, cost = servers.SERVERS["OPT-13B"], LinearCost(base_s=0.03)
    expected = 7 / (SHAREGPT.sample(4000, 0).output.mean() * 0.03)
    assert setup.capacity("Orca (Max)", server, SHAREGPT, cost, 0) == pytest.approx(expected, rel=0.15)


def test_swapping_1024_tokens_takes_what_the_bus_says():
    one = fig19.alone().set_index("block_size")
    # 40 layers, keys and values, each block a copy: 1024 x 80 copies of 8 us; large blocks: 800 KiB a token at 24 GB/s.
    assert one.swap_out[1] == pytest.approx(1024 * 80 * 8e-6)
    assert one.swap[16] == pytest.approx(2 * 64 * 80 * 8e-6)
    assert one.swap[64] == pytest.approx(2 * 1024 * 819_200 / 24e9)
    assert one.recompute.nunique() == 1
    assert one.recompute[1] > 2 * decoder("opt-13b").layers * decoder("opt-13b").layer_weights * 1024 / 312e12


def test_lengths_are_told_with_their_means(tmp_path):
    report = fig11.run(True, tmp_path, 0)
    assert [c.verdict for c in report.claims] == ["holds"] * 4
    frame = report.tables["vllm/fig11"]
    assert frame.groupby(["dataset", "kind"]).share.sum().to_numpy() == pytest.approx(1.0)
    assert (tmp_path / "vllm/fig11.png").read_bytes().startswith(b"\x89PNG")


def test_larger_blocks_waste_more(monkeypatch):
    monkeypatch.setattr(fig18, "SIZES", (16, 128))
    monkeypatch.setattr(fig18, "WORKLOADS", {"ShareGPT": (SHAREGPT, 1.0), "Alpaca": (ALPACA, 2.0)})
    frame = fig18.sizes(True, 0)
    by = frame.set_index(["workload", "block_size"]).wasted
    # A sequence wastes half a block on average: 8 and 64 of some 300 tokens.
    assert by["ShareGPT", 128] / by["ShareGPT", 16] == pytest.approx(8, rel=0.35)


def test_every_claim_of_figure_5_12_has_a_rule_of_the_paper():
    for model in servers.SERVERS:
        assert fig12.EXPECTED[model, "Orca (Oracle)"].paper == "1.7× to 2.7×"
        assert fig12.EXPECTED[model, "Orca (Max)"].paper == "2.7× to 8×"


def test_copies_are_rehearsed_without_a_gpu():
    pytest.importorskip("torch")
    from meshwright.reproduce.vllm import host_copies

    rows = host_copies.measured("cpu", (16, 32), tokens=64)
    assert [r.block_size for r in rows] == [16, 32]
    assert all(r.seconds > 0 for r in rows)
    assert host_copies.recomputed("cpu", size=256, tokens=64) > 0
    import torch

    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="expected a CUDA device"):
            host_copies.main()
