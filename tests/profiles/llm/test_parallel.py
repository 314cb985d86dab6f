"""Parallelism of the decode step: volumes of rings, splits of sequences, what a GPU reads, and Figure 4.1."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.profiles import CommModel, LinkSpec, device
from meshwright.profiles.llm import DecoderSpec, decoder
from meshwright.profiles.llm.parallel import thesis
from meshwright.profiles.llm.parallel.collectives import (
    all_gather,
    all_reduce,
    all_to_all,
    allreduce_lines,
    reduce_scatter,
)
from meshwright.profiles.llm.parallel.layer import EXCHANGES, Parallel, Split, Widths, collectives, decode_layer
from meshwright.profiles.llm.parallel.split import owners, table_entries, tokens_per_shard
from meshwright.reproduce.cache_parallel import fig01

LLAMA = decoder("Llama-2-7b")
GROUPED = decoder("Llama-3.1-70B")
ONE = Widths.uniform()


def sent(layout: Parallel, model: DecoderSpec = LLAMA, batch: float = 32, widths: Widths = ONE) -> float:
    return sum(c.sent_bytes for c in collectives(model, batch, layout, widths))


# --- volumes ---


def ring_all_reduce(n: int, size: int) -> list[int]:
    """Numbers that each GPU sends when a ring sums a buffer, by moving the pieces."""
    values = np.arange(n)[:, None] * 10.0 + np.arange(n)  # GPU r holds value r, c in piece c
    total, moved = values.sum(axis=0), [0] * n
    for phase in (0, 1):
        for step in range(n - 1):
            pieces = [(r - step + phase) % n for r in range(n)]
            old = values.copy()
            for r, c in enumerate(pieces):
                to = (r + 1) % n
                values[to, c] = old[r, c] + (0 if phase else old[to, c])
                moved[r] += size // n
    np.testing.assert_allclose(values, np.tile(total, (n, 1)))
    return moved


@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_ring_terms_are_what_a_ring_sends(n):
    assert set(ring_all_reduce(n, 24 * n)) == {all_reduce("x", 24 * n, n).sent_bytes}
    both = all_gather("x", 24 * n, n), reduce_scatter("x", 24 * n, n)
    assert sum(c.sent_bytes for c in both) == all_reduce("x", 24 * n, n).sent_bytes
    assert sum(c.steps for c in both) == all_reduce("x", 24 * n, n).steps
    assert all_to_all("x", 24 * n, n).steps == 1
    assert all_to_all("x", 24 * n, n, pairwise=True).steps == n - 1


def test_a_group_of_one_sends_nothing():
    link = LinkSpec(1e9, 1e-3)
    for collective in (all_gather, reduce_scatter, all_reduce, all_to_all):
        alone = collective("x", 100.0, 1)
        assert (alone.sent_bytes, alone.steps, alone.seconds(link)) == (0, 0, 0)


def test_lines_of_the_communication_model_say_the_same():
    link = LinkSpec(2e11, 2e-6)
    model = CommModel(link, allreduce_lines(link, (2, 8)))
    assert model.allreduce[8].time(4096.0) == pytest.approx(all_reduce("x", 4096, 8).seconds(link))
    with pytest.raises(InputError, match="sizes >= 2"):
        allreduce_lines(link, (1,))


@pytest.mark.parametrize(
    ("n", "printed", "mixed"), [(2, 0.502, 1.00), (4, 0.314, 1.26), (8, 0.221, 1.77), (16, 0.174, 2.78)]
)
def test_thesis_formulas_as_printed_and_in_ring_terms(n, printed, mixed):
    e, h, b = 4096, 32, 32
    assert thesis.thesis_cp(n, b, e, h) / thesis.thesis_tp(n, b, e) == pytest.approx(printed, abs=5e-4)
    assert thesis.ring_cp(n, b, e, h) / thesis.ring_tp(n, b, e) == pytest.approx((4 * e + 2 * h) / (4 * e))
    assert thesis.thesis_cp(n, b, e, h) / thesis.ring_tp(n, b, e) == pytest.approx(mixed, abs=5e-3)
    factors = {d.term: d.factor for d in thesis.thesis_differences(n, b, e, h)}
    assert factors["all-gather"] == 1
    assert factors["all-to-all"] == pytest.approx(n / 2)
    assert factors["all-reduces"] == factors["TP"] == pytest.approx(n)
    # the general model says the same of a model with multi-head attention
    assert sent(Parallel(cp=n)) == pytest.approx(thesis.ring_cp(n, b, e, h))
    assert sent(Parallel(tp=n)) == pytest.approx(thesis.ring_tp(n, b, e))


def test_only_queries_gathered_and_wider_partials():
    assert sent(Parallel(cp=4, exchange="q")) / sent(Parallel(tp=4)) == pytest.approx(0.629, abs=1e-3)
    assert sent(Parallel(cp=8, exchange="q")) / sent(Parallel(tp=8)) == pytest.approx(0.566, abs=1e-3)
    wide = Widths(partial=4, statistic=4)
    ratio = sent(Parallel(cp=4), widths=wide) / sent(Parallel(tp=4), widths=wide)
    assert ratio == pytest.approx(1.258, abs=1e-3)


def test_grouped_queries_send_fewer_keys_and_values():
    b, e, h, n = 32, 8192, 64, 8
    kv = 8 * 128
    assert sent(Parallel(cp=n), GROUPED) == pytest.approx((n - 1) / n * b * (2 * e + 2 * kv + 2 * h))
    assert sent(Parallel(cp=n, exchange="q"), GROUPED) == pytest.approx((n - 1) / n * b * (2 * e + 2 * kv / n + 2 * h))


def test_shards_inside_the_tensor_parallel_group():
    b, e, h, t, d = 32, 8192, 64, 16, 2
    tensor = sent(Parallel(tp=t), GROUPED)
    rings = Parallel(tp=t, cp=d, exchange="ag_rs")
    assert (rings.devices, rings.head_groups) == (16, 8)
    assert sent(rings, GROUPED) - tensor == pytest.approx((d - 1) * b * (2 * e + d * h) / t)
    packed = Parallel(tp=t, cp=d, exchange="a2a")
    assert sent(packed, GROUPED) - tensor == pytest.approx((d - 1) * b * (2 * e + h) / t)
    assert (Parallel(tp=t).kv_copies(GROUPED), rings.kv_copies(GROUPED)) == (2, 1)
    with pytest.raises(InputError, match="at most tp / KV heads = 2"):
        collectives(GROUPED, b, Parallel(tp=t, cp=4, exchange="ag_rs"))


def test_cache_and_tensor_parallelism_together():
    b, e, h, t, n = 32, 4096, 32, 2, 4
    mixed = sent(Parallel(tp=t, cp=n))
    assert mixed == pytest.approx(3 / 4 * b * (4 * e + 2 * h) / t + 4 * (t - 1) / t * b / n * e)
    helix = sent(Parallel(tp=t, cp=n, exchange="helix"))
    assert helix == pytest.approx(3 / 4 * b * (e + h) / t + 4 * 7 / 8 * b * e)
    assert Parallel(tp=t, cp=n).devices == 8


def test_times_of_the_latency_bandwidth_model():
    link = LinkSpec(400e9, 2e-6)
    seconds = {
        (name, batch): sum(c.seconds(link) for c in collectives(LLAMA, batch, layout))
        for name, layout in (("cp", Parallel(cp=8)), ("tp", Parallel(tp=8)))
        for batch in (32, 512)
    }
    for (name, batch), us in {("cp", 32): 18, ("tp", 32): 58, ("cp", 512): 53, ("tp", 512): 93}.items():
        assert 1e6 * seconds[name, batch] == pytest.approx(us, abs=0.6), (name, batch)


# --- what a GPU reads ---


@pytest.mark.parametrize("model", [LLAMA, GROUPED, decoder("opt-13b")])
def test_weights_are_whole_or_shared(model):
    context = [100] * 8
    whole = decode_layer(model, Parallel(), context, widths=ONE)
    assert whole.weight_bytes == model.layer_weights
    for layout in (Parallel(cp=4), Parallel(cp=4, exchange="q"), Parallel(dp=4), Parallel(pp=4)):
        assert decode_layer(model, layout, context, widths=ONE).weight_bytes == model.layer_weights
    assert decode_layer(model, Parallel(tp=4), context, widths=ONE).weight_bytes == pytest.approx(
        model.layer_weights / 4
    )


def test_keys_and_values_are_repeated_beyond_the_kv_heads():
    context = [1600] * 4
    read = {n: decode_layer(GROUPED, Parallel(tp=n), context).kv_bytes for n in (1, 8, 16, 32)}
    assert read[1] == 8 * read[8]
    assert read[8] == read[16] == read[32]
    assert decode_layer(GROUPED, Parallel(tp=32), context).kv_copies == 4
    shared = decode_layer(GROUPED, Parallel(tp=16, cp=2, exchange="ag_rs"), context)
    assert (shared.kv_bytes, shared.kv_copies) == (read[16] / 2, 1)
    # the same arithmetic in all: 16 GPUs with 4 heads each and all tokens, or 8 heads each and half of them
    assert shared.attention_flops == decode_layer(GROUPED, Parallel(tp=16), context).attention_flops


def test_the_straggler_of_data_parallelism():
    context = [8000, 100, 100, 100]
    apart, cut = decode_layer(LLAMA, Parallel(dp=4), context), decode_layer(LLAMA, Parallel(cp=4), context)
    assert apart.imbalance == pytest.approx(8000 / (8300 / 4))
    assert cut.imbalance == 1.0
    assert apart.sent_bytes == 0
    assert cut.sent_bytes > 0
    assert (apart.table_entries, cut.table_entries) == (500, 125 + 3 * 2)
    assert decode_layer(LLAMA, Parallel(tp=4), context).table_entries == 500 + 3 * 7


def test_times_are_parts_of_a_roofline():
    gpu = device("a100-80gb")
    layer = decode_layer(LLAMA, Parallel(tp=2, pp=2), [4096] * 16)
    time = layer.time(gpu, efficiency=0.5)
    assert time.matrices_s == pytest.approx(LLAMA.layer_weights / 2 * 2 / (gpu.memory_bandwidth_bytes_per_s / 2))
    assert time.attention_s == pytest.approx(16 * 4096 * 2 * 4096 / 2 * 2 / (gpu.memory_bandwidth_bytes_per_s / 2))
    assert time.communication_s == layer.communication_s(gpu.intra_node)
    assert time.total_s == time.matrices_s + time.attention_s + time.communication_s
    assert layer.stage_send is not None
    assert layer.stage_send.sent_bytes == 16 * 4096 * 2 / 2
    assert layer.host_s(1e-8) == layer.table_entries * 1e-8 == 16 * 256e-8


@given(
    lengths=st.lists(st.integers(0, 200), min_size=1, max_size=5),
    shards=st.integers(1, 9),
    interleave=st.integers(1, 17),
    reserved=st.one_of(st.none(), st.integers(1, 300)),
    kind=st.sampled_from(["interleaved", "contiguous"]),
)
@settings(max_examples=60, deadline=None)
def test_every_token_is_on_one_shard(lengths, shards, interleave, reserved, kind):
    split = Split(kind, interleave, reserved)
    held = tokens_per_shard(lengths, shards, split)
    assert held.sum(axis=0).tolist() == lengths
    for i, length in enumerate(lengths):
        assert np.bincount(owners(length, shards, split), minlength=shards).tolist() == held[:, i].tolist()
    if kind == "interleaved":
        assert (held.max(axis=0) - held.min(axis=0) <= interleave).all()
    assert table_entries(lengths, 16, shards) <= table_entries(lengths, 16)


def test_growth_is_balanced_where_tokens_are_interleaved():
    prompt, now = 1000, 3000
    assert tokens_per_shard([now], 4).ravel().tolist() == [750] * 4
    tail = tokens_per_shard([now], 4, Split("contiguous", reserved=prompt)).ravel()
    assert tail.tolist() == [250, 250, 250, 2250]
    early = tokens_per_shard([now], 4, Split("contiguous", reserved=8192)).ravel()
    assert early.tolist() == [2048, 952, 0, 0]
    layer = decode_layer(LLAMA, Parallel(cp=4), [now], split=Split("contiguous", reserved=prompt))
    assert layer.imbalance == 3.0


def test_what_does_not_fit_is_refused():
    for wrong, message in (
        ({"tp": 0}, "tp: expected an integer"),
        ({"exchange": "ring"}, "exchange: expected one of"),
        ({"tp": 4, "cp": 3, "exchange": "a2a"}, "must divide it"),
    ):
        with pytest.raises(InputError, match=message):
            Parallel(**wrong)
    for layout, message in ((Parallel(tp=3), "do not divide"), (Parallel(pp=33), "more than the 32 layers")):
        with pytest.raises(InputError, match=message):
            decode_layer(LLAMA, layout, [10])
    with pytest.raises(InputError, match="do not divide the 32 heads"):
        decode_layer(LLAMA, Parallel(tp=2, cp=3, exchange="helix"), [10])
    with pytest.raises(InputError, match="at least one request"):
        decode_layer(LLAMA, Parallel(), [])
    with pytest.raises(InputError, match="kind: expected"):
        Split("striped")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="devices"):
        thesis.thesis_differences(1, 1, 4096, 32)


# --- the figure ---


def test_fig01_has_honest_verdicts(tmp_path):
    report = fig01.run(True, tmp_path, 0)
    verdict = {e.text: name for name, e in fig01.EXPECTED.items()}
    found = {verdict[c.text]: c.verdict for c in report.claims}
    holds = {name for name, v in found.items() if v == "holds"}
    assert holds == {"printed lower", "printed grows", "all-gather", "tables"}
    assert all(c.why for c in report.claims if c.verdict != "holds")
    table = report.tables["cache_parallel/fig01"]
    assert len(table) == 20
    assert table.ratio_ring.to_numpy() == pytest.approx(1.00390625)
    assert {p.suffix for p in report.files} == {".csv", ".png", ".json"}


def test_the_page_runs_and_names_every_exchange(capsys):
    page = (Path(__file__).parents[3] / "docs" / "llm-parallel.md").read_text("utf-8")
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(block, {})
    printed = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    assert capsys.readouterr().out == "".join(printed)
    assert all(f"`{name}`" in page for name in EXCHANGES)


@pytest.mark.parametrize(
    ("model", "layout"),
    [
        *((model, layout) for model in (LLAMA, GROUPED) for layout in (Parallel(), Parallel(tp=4), Parallel(cp=4))),
        (GROUPED, Parallel(tp=16)), (GROUPED, Parallel(tp=16, cp=2, exchange="ag_rs")),
    ],
)  # fmt: skip
def test_all_gpus_together_read_every_key_and_value(model: DecoderSpec, layout: Parallel):
    """A key and a value of each KV head, head_dim numbers each, for every token; 2 bytes a number, and the width that
    is asked for. Two products of a multiply-add each with every head's query."""
    context = [800] * 4
    for width, widths in ((2, None), (1, ONE)):
        layer = decode_layer(model, layout, context, widths=widths)
        stored = sum(context) * 2 * model.kv_heads * model.head_dim * width
        assert layer.kv_bytes_mean * layout.devices == pytest.approx(stored * layer.kv_copies)
    flops = 2 * 2 * sum(context) * model.heads * model.head_dim
    assert layer.attention_flops * layout.devices == pytest.approx(flops)


def test_projections_of_repeated_kv_heads_are_repeated_too():
    """Of 8 KV heads each of 32 GPUs has one whole: its projections of keys and of values; all else is split."""
    m = GROUPED
    layer = decode_layer(m, Parallel(tp=32), [100] * 4, widths=ONE)
    kv = 2 * m.head_dim * m.hidden
    split = 2 * m.heads * m.head_dim * m.hidden + 3 * m.hidden * m.ffn
    assert layer.weight_bytes == pytest.approx(kv + split / 32)
