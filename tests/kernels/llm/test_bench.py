"""What is measured and how it is told; tiles and pieces. No time is asserted."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from meshwright.kernels.llm import bench  # noqa: E402
from meshwright.kernels.llm.measured import Measured, table  # noqa: E402
from meshwright.kernels.llm.tiles import Tiles, decode_tiles, next_power_of_2, splits_for  # noqa: E402


def test_the_processor_is_measured_and_judged_by_nothing(monkeypatch, capsys):
    small = bench.measure_cpu(batch=2, context=40, heads=4, kv_heads=2, width=8, budget_s=0.01)
    monkeypatch.setattr(bench, "measure_cpu", lambda: small)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert bench.main(["--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["provenance"]["kernels"] == "torch"
    assert told["provenance"]["torch"] == torch.__version__
    decode, paging, prefill = told["measured"]
    # keys and values, fp32: 2 x 40 tokens of 2 heads of 8; half of all pairs of 40 tokens, 4 FLOP each, 4 heads of 8
    assert decode["rate"] * 1e9 * decode["seconds"] == pytest.approx(2 * 4 * 2 * 40 * 2 * 8)
    assert prefill["rate"] * 1e9 * prefill["seconds"] == pytest.approx(4 * 40 * 40 / 2 * 4 * 8)
    assert paging["ratio"] == pytest.approx(decode["seconds"] / paging["seconds"] - 1)
    assert bench.main([]) == 0
    assert "judge nothing here" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        bench.main(["--sweep"])


def test_the_measurement_on_a_gpu_is_rehearsed(triton_call):
    """Every step of it with sizes that the interpreter bears. On a GPU the same sizes really run."""
    from meshwright.kernels.llm.bench_gpu import Decode, Sizes

    sizes = Sizes((Decode(4, 2, 2, 20, 16),), ((2, 2, 1),), tokens=20, blocks=16, product=64, copied_bytes=2**20)
    device = "cuda" if type(triton_call).__name__ == "Device" else "cpu"
    found, _ = triton_call("meshwright.kernels.llm.bench_gpu", "measure_gpu", device, budget_s=0.01, sizes=sizes)
    names = ["paged decode", "paging", "write", "copy of blocks", "matrix product, torch", "matrix product"]
    assert [row.name for row in found] == [*names, "prefill, causal"]
    assert all(row.seconds > 0 for row in found)
    moved = {row.name: row.rate * 1e9 * row.seconds for row in found if row.unit == "GB/s"}
    assert moved["paged decode"] == pytest.approx(2 * 2 * 20 * 2 * 16 * 2)  # k and v, 2 x 20 tokens, 2 heads of 16
    assert moved["write"] == pytest.approx(2 * 2 * 20 * 8 * 128 * 2)  # k and v, read and written
    assert moved["copy of blocks"] == pytest.approx(2 * 2 * 2 * 16 * 8 * 128 * 2)
    assert found[0].target is None  # 10 kB say nothing about bandwidth


def test_targets_are_judged():
    row = Measured("decode", "x", 1e-3, 5, 100.0, "GB/s", 0.79, "of copy bandwidth", 0.8)
    assert row.verdict == "missed"
    text = table([row, Measured("paging", "x", 1e-3, 5, math.nan, "", 0.22, "over contiguous")])
    assert "79.0% of copy bandwidth (target 80%: missed)" in text
    assert "nan" not in text


@given(programs=st.integers(1, 10_000), tokens=st.integers(0, 200_000), processors=st.integers(1, 200))
def test_pieces_are_as_many_as_the_device_wants_and_not_small(programs, tokens, processors):
    splits = splits_for(programs, tokens, processors)
    assert splits == 1 or splits * 256 <= tokens
    assert splits == 1 or (splits - 1) * programs < 4 * processors  # no more than fill it
    if programs >= 4 * processors:
        assert splits == 1


@given(group=st.integers(1, 200), width=st.integers(1, 256), size=st.sampled_from([2, 4]))
def test_decode_tiles(group, width, size):
    tiles = decode_tiles(group, width, size)
    assert 16 <= tiles.m <= 64
    assert tiles.m >= min(group, 64)
    assert tiles.n * next_power_of_2(width) * size <= 16384 or tiles.n == 16


@pytest.mark.parametrize("wrong", [{"m": 8, "n": 16}, {"m": 16, "n": 48}, {"m": 16, "n": 16, "warps": 3}])
def test_tiles_that_are_none_are_refused(wrong):
    with pytest.raises(ValueError, match="Tiles: "):
        Tiles(**wrong)
