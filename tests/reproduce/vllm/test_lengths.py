"""Figures of the vLLM thesis that need lengths and allocators only."""

import json

import pytest
from meshwright.profiles.llm.linear import ConstantCost
from meshwright.reproduce.vllm import fig02, fig13, host_time, kv_memory, table1
from meshwright.reproduce.vllm.servers import HOST, SERVERS
from meshwright.reproduce.vllm.serving_rates import LATER
from meshwright.simulator.llm import LLMRequest
from meshwright.traces.lengths import SHAREGPT


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


def test_fig13_fits_two_batches_and_predicts_six():
    assert fig13.held("Orca (Max)", "Alpaca", 0) == pytest.approx(7.0)
    host = host_time.calibrated((0,))
    for workload, target in host_time.BATCHES.items():
        assert host_time.mean_batch("vLLM", workload, SERVERS["OPT-13B"].cost(host), (0,)) == pytest.approx(
            target, rel=host_time.CLOSE
        )
    # Another trace's constants: the rest of the figures take those of three.
    assert host.iteration_s == pytest.approx(HOST.iteration_s, rel=0.2)
    assert host.sequence_s == pytest.approx(HOST.sequence_s, rel=0.05)
    kinds = {key: e.kind for key, e in fig13.EXPECTED.items() if isinstance(key, tuple)}
    assert [key for key, kind in kinds.items() if kind == "calibrated"] == list(fig13.FITTED)
    assert len(kinds) == 8


def test_released_later_it_batches_all_that_fits():
    """0.2's rule stops decoding for prompts: at the paper's rate it is full, where the paper's vLLM is not."""
    cost = SERVERS["OPT-13B"].cost()
    later, paper = (host_time.mean_batch(s, "Alpaca", cost, (0,)) for s in (LATER, "vLLM"))
    assert later > 1.3 * paper
    assert later == pytest.approx(fig13.held(LATER, "Alpaca", 0), rel=0.05)
