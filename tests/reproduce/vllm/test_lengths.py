"""Figures of the vLLM thesis that need lengths and allocators only."""

import json
from itertools import pairwise

import pytest
from meshwright.errors import InputError
from meshwright.profiles.llm.iteration import Iteration
from meshwright.profiles.llm.linear import ConstantCost
from meshwright.reproduce.vllm import fig02, fig13, kv_memory, table1
from meshwright.simulator.llm import LLMRequest
from meshwright.traces.lengths import ALPACA, SHAREGPT


def test_table1_says_which_entries_do_not_add_up(tmp_path):
    report = table1.run(True, tmp_path, 0)
    verdicts = {claim.paper: claim.verdict for claim in report.claims}
    assert [verdicts[p] for p in ("15.7K", "9.7K", "60.1K", "26 GB", "346 GB")] == [
        "holds", "partly", "holds", "holds", "partly",
    ]  # fmt: skip
    table = report.tables["vllm/table1"].set_index("model")
    assert table.slots.tolist() == [15_728, 9_557, 60_074]
    assert table.kv_bytes_per_token["opt-13b"] == 819_200
    assert (tmp_path / "vllm/table1.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "vllm/table1.json").read_text())["claims"]


def test_fig02_shares_sum_to_one_and_need_no_clock():
    """The long run is `meshwright reproduce vllm/fig02`; here a tenth, with a tenth's tolerance."""
    for system, paper in (("Orca (Max)", 0.204), ("Orca (Pow2)", 0.268), ("Orca (Oracle)", 0.382), ("vLLM", 0.963)):
        steps = 1500 if system == "vLLM" else 8000
        found = kv_memory.serve(system, kv_memory.saturated(SHAREGPT, 1), ConstantCost(), (500.0, 500.0 + steps))
        assert found.memory.used == pytest.approx(paper, abs=0.05)
        assert found.seconds == steps
    assert set(fig02.EXPECTED) > set(kv_memory.SYSTEMS)


def test_batches_average_over_time_idle_time_included():
    # Two requests of two iterations each: at 0 s, and at 5 s; nothing runs between 2 s and 5 s, nor after 7 s.
    requests = [LLMRequest("a", 4, 2), LLMRequest("b", 4, 2, arrival=5.0)]
    found = kv_memory.serve("Orca (Max)", requests, ConstantCost(1.0), (0.0, 10.0))
    assert found.batch == pytest.approx(4 / 10)
    assert found.finished == 2
    late = kv_memory.serve("Orca (Max)", requests, ConstantCost(1.0), (6.0, 10.0))
    assert (late.batch, late.finished) == (pytest.approx(1 / 4), 1)


def test_an_iteration_reads_weights_and_keys_and_values():
    cost = kv_memory.bandwidth_cost(0.5)
    weights = kv_memory.MODEL.weight_bytes() / (0.5 * 1.555e12)
    assert cost.seconds(Iteration(((100, 0),), outputs=1)) == pytest.approx(weights)
    read = cost.seconds(Iteration((), 2, 1000, 2)) - weights
    assert read == pytest.approx(1000 * 819_200 / (0.5 * 1.555e12))
    apart = kv_memory.PromptsApart(cost)
    assert apart.seconds(Iteration(((100, 0),), 2, 1000, 3)) == pytest.approx(2 * weights + read)
    with pytest.raises(InputError, match="share of the bandwidth"):
        kv_memory.bandwidth_cost(1.5)


def test_calibration_finds_the_share_and_says_when_there_is_none():
    assert kv_memory.calibrate(30.0, lambda share: 18.0 / share) == pytest.approx(0.6, abs=0.003)
    with pytest.raises(InputError, match="no share of the bandwidth"):
        kv_memory.calibrate(30.0, lambda share: 1.0 / share)


def test_arrivals_are_poisson_and_the_same_for_every_system():
    requests = list(kv_memory.poisson(ALPACA, 30.0, 100.0, 2))
    assert abs(len(requests) - 3000) < 4 * 3000**0.5
    assert requests == list(kv_memory.poisson(ALPACA, 30.0, 100.0, 2))
    assert all(a.arrival <= b.arrival < 100 for a, b in pairwise(requests))


def test_fig13_predicts_all_but_one():
    cost = kv_memory.bandwidth_cost(0.57)
    assert fig13.batch("Orca (Max)", "Alpaca", cost, 30.0, (0,))[0] == pytest.approx(7.0)
    pow2 = fig13.batch("Orca (Pow2)", "ShareGPT", cost, 600.0, (0,))[0]
    assert pow2 == pytest.approx(fig13.PAPER["ShareGPT"]["Orca (Pow2)"], rel=0.2)
    assert ("ShareGPT", "vLLM") not in fig13.EXPECTED
