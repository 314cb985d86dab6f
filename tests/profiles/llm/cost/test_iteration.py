"""An iteration's cost: parts that add up, laws that hold, Python and numba alike, and measured rows where they lie."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from meshwright.errors import InputError
from meshwright.profiles import DEVICES, LinkSpec, device
from meshwright.profiles.llm import (
    DECODERS,
    NO_OVERHEADS,
    DecoderSpec,
    Iteration,
    KernelTables,
    Overheads,
    TableCost,
    compiled,
    decoder,
    iteration_cost,
    load_fits,
)
from sample_data import measured

MODEL = DecoderSpec("toy", 4, 2048, 16, 8192, 32768, 8, 128)
EVERYTHING = Iteration(((512, 0), (100, 700)), 8, 4000, 9)


def numba_seconds(cost: TableCost, it: Iteration) -> float:
    new, before = (np.array([c[i] for c in it.prefill], dtype=np.int64) for i in (0, 1))
    return compiled()(cost.grid(), it.decodes, it.context, new, before, it.outputs)


def draw(rng: np.random.Generator) -> Iteration:
    chunks = tuple((int(rng.integers(1, 3000)), int(rng.integers(0, 9000))) for _ in range(rng.integers(0, 4)))
    decodes = int(rng.integers(0 if chunks else 1, 400))
    return Iteration(chunks, decodes, int(decodes * rng.integers(1, 20000)), decodes + len(chunks))


@pytest.fixture
def system(tmp_path: Path, write_tables: Callable[..., Path]) -> KernelTables:
    return KernelTables.load(write_tables(tmp_path))


@pytest.fixture
def layers(tmp_path: Path, write_layer_tables: Callable[..., Path]) -> KernelTables:
    return KernelTables.load(write_layer_tables(tmp_path))


def test_parts_add_up_and_numba_agrees(system: KernelTables, layers: KernelTables) -> None:
    rng = np.random.default_rng(4)
    costs = [
        iteration_cost(MODEL, system),
        iteration_cost(MODEL, system, tp=4, pp=2, precision="fp8", kv="fp8"),
        iteration_cost(decoder("Llama-3.2-1B"), layers, overheads=Overheads(overlapped=True)),
        iteration_cost(MODEL, device("cpu-core"), tp=2, overheads=Overheads(cuda_graphs=False)),
    ]
    for cost in costs:
        for it in (EVERYTHING, Iteration((), 3, 900, 3), *(draw(rng) for _ in range(20))):
            seconds = cost.seconds(it)
            assert numba_seconds(cost, it) == pytest.approx(seconds, rel=1e-9)
            assert sum(part.seconds for part in cost.explain(it)) == pytest.approx(seconds, rel=1e-9)
    assert costs[0].seconds(Iteration()) == 0.0
    assert costs[0].explain(Iteration()) == ()


def test_every_model_on_every_device_by_the_roofline_and_it_says_so() -> None:
    for model in DECODERS.values():
        for spec in DEVICES.values():
            cost = iteration_cost(model, spec, max_tokens=64, max_outputs=8)
            assert cost.source.startswith(f"roofline of {spec.name}, nothing measured")
            one, more = (
                cost.seconds(Iteration((), 1, 10, 1)),
                cost.seconds(Iteration((), 8, 8 * min(10_000, model.longest), 8)),
            )
            assert 0 < one < more < 1e4
    parts = iteration_cost(MODEL, device("h100-80gb")).explain(EVERYTHING)
    assert {part.basis for part in parts} == {"extrapolated by roofline", "overhead"}


def test_a_report_says_parts_overheads_and_source(system: KernelTables) -> None:
    cost = iteration_cost(MODEL, system)
    said = cost.report(EVERYTHING).splitlines()
    assert len(said) == len(cost.explain(EVERYTHING)) + 3
    assert said[-3].partition(",")[0].split() == [f"{1e3 * cost.seconds(EVERYTHING):.3f}", "ms", "together"]
    assert said[-2].startswith("overheads: scheduler_s=0.0006")
    assert said[-1] == f"kernels: {system.source}"


def test_what_was_measured_is_said(system: KernelTables) -> None:
    cost = iteration_cost(MODEL, system)
    basis = {p.name: p.basis for p in cost.explain(Iteration((), 256, 256 * 1024, 256))}
    assert basis["QKV projection"] == "interpolated"
    assert basis["attention of decodes"] == "extrapolated by roofline"  # 256 sequences: past the grid's 64
    near = {p.name: p.basis for p in cost.explain(Iteration((), 4, 4 * 1024, 4))}
    assert near["attention of decodes"] == "interpolated"  # 16 heads lie between 8 and 64
    wide = {p.name: p.basis for p in iteration_cost(replace(MODEL, vocab=10**6), system).explain(EVERYTHING)}
    assert wide["output head"] == "extrapolated by roofline"


def test_dense_kernels_are_the_tables_own(system: KernelTables) -> None:
    parts = {p.name: p.seconds for p in iteration_cost(MODEL, system).explain(Iteration((), 16, 16000, 16))}
    assert system.operators is not None
    gemm = system.operators.gemm["bfloat16"]
    assert parts["QKV projection"] == pytest.approx(4 * float(gemm.at(16, 4096, 2048)[0]))
    assert parts["gate and up projection"] == pytest.approx(4 * float(gemm.at(16, 16384, 2048)[0]))
    assert parts["output head"] == pytest.approx(float(gemm.at(16, 32768, 2048)[0]))
    assert "all-reduces" not in parts
    split = {p.name: p.seconds for p in iteration_cost(MODEL, system, tp=2).explain(Iteration((), 16, 16000, 16))}
    reduce = system.operators.all_reduce["graph", 2]
    assert split["all-reduces"] == pytest.approx(9 * float(reduce.at(16 * 2048 * 2)[0]))  # two a layer, one embedding


def test_fused_quantisation_is_not_paid_twice(system: KernelTables) -> None:
    it = Iteration((), 16, 16000, 16)
    fused, plain = (
        {p.name: p.seconds for p in iteration_cost(MODEL, system, precision="fp8", overheads=o).explain(it)}
        for o in (Overheads(), Overheads(fused=False))
    )
    assert system.operators is not None
    launch, each = system.operators.quantise["fp8"]
    assert plain["QKV projection"] - fused["QKV projection"] == pytest.approx(4 * (launch + each * 16 * 2048))
    assert "quantisation of attention's output" in fused
    assert "quantisation of attention's output" not in plain


def test_equal_prompts_are_the_tables_batch_and_chunks_go_by_area(system: KernelTables) -> None:
    cost = iteration_cost(replace(MODEL, heads=8), system, overheads=NO_OVERHEADS)
    assert system.operators is not None
    table = system.operators.prefill["bfloat16", 8, 128]

    def attention(*chunks: tuple[int, int]) -> float:
        return {p.name: p.seconds for p in cost.explain(Iteration(chunks))}["attention of prefill"]

    assert attention((1024, 0)) == pytest.approx(4 * float(table.at(8, 1, 1024)[0]))
    assert attention(*[(1024, 0)] * 4) == pytest.approx(4 * float(table.at(8, 4, 1024)[0]))
    whole, late = 8192 * 8193 / 2, 8192 * 8193 / 2 - 4096 * 4097 / 2
    assert attention((4096, 4096)) == pytest.approx(4 * float(table.at(8, 1, 8192)[0]) * late / whole)
    assert attention((1, 8191)) >= {p.name: p.seconds for p in cost.explain(Iteration((), 1, 8192))}[
        "attention of decodes"
    ] * (1 - 1e-12)


def test_kv_heads_without_a_table_become_sequences(system: KernelTables) -> None:
    def attention(kv_heads: int, heads: int, batch: int) -> float:
        cost = iteration_cost(replace(MODEL, kv_heads=kv_heads, heads=heads), system)
        return {p.name: p.seconds for p in cost.explain(Iteration((), batch, batch * 1024))}["attention of decodes"]

    assert attention(16, 16, 8) == pytest.approx(attention(8, 8, 16))


def test_the_fastest_arrangement_of_the_same_work_counts(system: KernelTables) -> None:
    """16 pairs of a sequence and a KV head are the same work as 2 x 8 or 16 x 1, if as many heads go to each."""
    assert system.operators is not None
    tables = dict(system.operators.decode)
    one = tables["bfloat16", 1, 128]
    tables["bfloat16", 1, 128] = replace(one, seconds=one.seconds * 3)
    slow = replace(system, operators=replace(system.operators, decode=tables))
    model, it = replace(MODEL, heads=64), Iteration((), 16, 16 * 1024, 16)  # at tp 8: 8 heads on 1 KV head

    def attention(tables: KernelTables) -> float:
        return {p.name: p.seconds for p in iteration_cost(model, tables, tp=8).explain(it)}["attention of decodes"]

    # The slow table is read between its points at 4 and 64 sequences, the fast one at 1 and 4: the same affine law.
    assert attention(slow) == pytest.approx(attention(system))


def test_large_all_reduces_are_nccls(system: KernelTables) -> None:
    assert system.operators is not None
    small, ways = system.operators.all_reduce["graph", 2], dict(system.operators.all_reduce)
    ways["nccl", 2] = replace(small, seconds=small.seconds * 2)
    cost = iteration_cost(MODEL, replace(system, operators=replace(system.operators, all_reduce=ways)), tp=2)
    for tokens, factor in ((2047, 1), (2048, 2)):  # 4 KiB a token: 8 MiB from 2048 on
        found = {p.name: p.seconds for p in cost.explain(Iteration(((tokens, 0),)))}["all-reduces"]
        assert found == pytest.approx(9 * factor * float(small.at(tokens * 4096)[0]))


def test_stages_add_sends_and_shorten_the_interval(system: KernelTables) -> None:
    it = Iteration((), 16, 16000, 16)
    one, two = (iteration_cost(MODEL, system, pp=pp, overheads=NO_OVERHEADS) for pp in (1, 2))
    sends = {p.name: p.seconds for p in two.explain(it)}["sends between stages"]
    assert two.seconds(it) == pytest.approx(one.seconds(it) + sends)
    assert one.interval(it) == one.seconds(it)
    assert one.seconds(it) / 2 < two.interval(it) < one.seconds(it)


def test_overheads_mean_what_they_say(system: KernelTables) -> None:
    it = Iteration((), 16, 16000, 16)
    bare = iteration_cost(MODEL, system, overheads=NO_OVERHEADS).seconds(it)
    host = Overheads(1e-3, 1e-5, 0.0, 0.0)
    assert iteration_cost(MODEL, system, overheads=host).seconds(it) == pytest.approx(bare + 1e-3 + 16e-5)
    hidden = replace(host, overlapped=True)
    assert iteration_cost(MODEL, system, overheads=hidden).seconds(it) == pytest.approx(max(bare, 1.16e-3))
    eager = replace(host, launch_s=1e-3, cuda_graphs=False)
    cost = iteration_cost(MODEL, system, overheads=eager)
    assert cost.seconds(it) == pytest.approx(1e-3 * cost.kernels.launches + 1e-3 + 16e-5)
    graph = replace(host, launch_s=1e-3)
    assert iteration_cost(MODEL, system, overheads=graph).seconds(it) == pytest.approx(bare + 1e-3 + 16e-5)
    assert [Overheads().padded(n) for n in (0, 1, 3, 5, 200, 257, 512, 513)] == [0, 1, 4, 8, 200, 272, 512, 513]
    for one in (Overheads(), Overheads(graph_tokens=100), Overheads(cuda_graphs=False)):
        assert one.padded_each(np.arange(600)).tolist() == [one.padded(n) for n in range(600)]
    assert "scheduler_s=0.001" in host.explain()


def test_layers_add_up_by_hand(layers: KernelTables) -> None:
    model = decoder("Llama-3.2-1B")
    cost = iteration_cost(model, layers, overheads=NO_OVERHEADS)
    dense = 2.16 + 16 * (2 * 3.16 + sum(2.16 + i for i in range(2, 8)))
    seconds = 1e-6 * (dense + 526.0 + 7 + 21.0 + 7 + 16 * (5 + 8 * 128 / 1e2))
    # lm_head and sampler at 8 sequences, dense layers at 16 tokens: 8 decodes beside a chunk of 8 would be 16
    assert cost.seconds(Iteration((), 8, 8 * 128, 8)) == pytest.approx(seconds - 1e-6 * 0.08 * (1 + 16 * 8), rel=1e-9)
    one, two = ((64, 16),), ((64, 16), (64, 16))
    parts = [{p.name: p.seconds for p in cost.explain(Iteration(c, 8, 1024, 9))} for c in (one, two)]
    name = "attention of prefill and decodes"
    least = 16e-6 * (5 + 1.6 + 10.24)
    assert parts[1][name] - parts[0][name] == pytest.approx(parts[0][name] - least)


def test_layers_are_of_one_model_degree_and_unit(layers: KernelTables, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"measured for meta-llama/Llama-3\.2-1B, asked for opt-13b"):
        iteration_cost(decoder("opt-13b"), layers)
    with pytest.raises(InputError, match="measured at tp 1, asked for tp 2"):
        iteration_cost(decoder("Llama-3.2-1B"), layers, tp=2)
    frame = pd.read_csv(tmp_path / "kernels" / "per_sequence.csv")
    frame.assign(time_us=frame["time_us"] / 1e6).to_csv(tmp_path / "kernels" / "per_sequence.csv", index=False)
    with pytest.raises(InputError, match="expected time_us in microseconds"):
        iteration_cost(decoder("Llama-3.2-1B"), KernelTables.load(tmp_path / "kernels"))


def test_communication_of_layers_is_the_links(tmp_path: Path, write_layer_tables: Callable[..., Path]) -> None:
    tables = KernelTables.load(write_layer_tables(tmp_path), tp=2)
    cost = iteration_cost(decoder("Llama-3.2-1B"), tables, tp=2, link=LinkSpec(1e10, 1e-5))
    found = {p.name: p.seconds for p in cost.explain(Iteration((), 1, 16, 1))}
    assert found["all-reduces"] == pytest.approx(33 * (1e-5 + 2048 * 2 / 1e10))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tp": 3}, "3 does not divide the 16 heads"),
        ({"tp": 0}, "tp: expected an integer >= 1"),
        ({"tp": "2"}, "tp: expected an integer >= 1"),
        ({"pp": 5}, "5 stages are more than the 4 layers"),
        ({"precision": "int3"}, "precision: expected one of"),
        ({"kv": "fp8_block"}, "kv: expected bf16 or fp8"),
    ],
)
def test_bad_options_are_said(options: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        iteration_cost(MODEL, device("h100-80gb"), **options)  # type: ignore[arg-type]


def test_bad_overheads_are_said() -> None:
    with pytest.raises(InputError, match="scheduler_s: expected seconds >= 0"):
        Overheads(scheduler_s=float("nan"))


FIT = {
    "facebook/opt-13b": {
        "1": {
            "decoding_large_small_bs_threshold": 95,
            "prefill": [20.0, 0.1, 1e-5],
            "decoding_smallbs": [10.0, 1e-3, 0.5],
            "decoding_largebs": [5.0, 2e-3, 0.25],
        }
    }
}


def test_fits_are_lines(tmp_path: Path) -> None:
    path = tmp_path / "fits.json"
    path.write_text(json.dumps(FIT))
    cost = load_fits(path, "opt-13b")
    assert cost.seconds(Iteration(((100, 0), (200, 0)))) == pytest.approx(1e-3 * (20 + 30 + 1e-5 * 50000))
    assert cost.seconds(Iteration((), 94, 1000)) == pytest.approx(1e-3 * (10 + 1 + 47))
    assert cost.seconds(Iteration((), 95, 1000)) == pytest.approx(1e-3 * (5 + 2 + 23.75))
    assert cost.seconds(Iteration(((100, 0),), 2, 10)) == pytest.approx(1e-3 * (10 + 0.01 + 1 + 10 + 0.1))
    assert cost.seconds(Iteration()) == 0.0


def test_bad_fits_are_said(tmp_path: Path) -> None:
    path = tmp_path / "fits.json"
    path.write_text(json.dumps(FIT))
    with pytest.raises(InputError, match="no fit of 'opt-66b'"):
        load_fits(path, "opt-66b")
    with pytest.raises(InputError, match="not fitted at tp 2"):
        load_fits(path, "opt-13b", tp=2)
    spoiled = json.loads(json.dumps(FIT))
    spoiled["facebook/opt-13b"]["1"]["prefill"] = [1.0, None, 2.0]
    path.write_text(json.dumps(spoiled))
    with pytest.raises(InputError, match="prefill: expected three numbers"):
        load_fits(path, "opt-13b")
    path.write_text("{")
    with pytest.raises(InputError, match="cannot be read"):
        load_fits(path, "opt-13b")


@measured
def test_decode_steps_of_measured_rows(data: Path) -> None:
    """At low concurrency a token's time is nearly a decode step: within 10 % in the median, whatever the degree."""
    rows = pd.read_csv(next(data.glob("silicon_*.csv")))
    rows = rows[rows["concurrency"] <= 8]
    tables, model = KernelTables.load(data / "kernels" / "h100_sxm"), decoder("Llama-3.1-70B")
    costs = {tp: iteration_cost(model, tables, tp=tp, precision="fp8") for tp in (2, 4, 8)}
    errors = []
    for row in rows.itertuples():
        batch = int(row.concurrency)
        step = costs[int(row.tp_size)].seconds(Iteration((), batch, int(batch * (row.isl + row.osl / 2)), batch))
        errors.append(1e3 * step / row.silicon_tpot_ms - 1)
        print(
            f"tp{row.tp_size:.0f} {row.isl}/{row.osl} x{batch}: {1e3 * step:.2f}, measured {row.silicon_tpot_ms:.2f} ms"
        )
    assert len(errors) >= 12
    assert np.median(np.abs(errors)) <= 0.10


@measured
def test_public_fits_and_tables_agree_on_opt_13b(data: Path) -> None:
    """The fits are of vLLM's first engine, a slower host: never faster than its kernels, nor twice as slow."""
    fit = load_fits(data / "opt_a100_iteration_fits_vllm.json", "opt-13b")
    table = iteration_cost(decoder("opt-13b"), KernelTables.load(data / "kernels" / "a100_sxm"), overheads=NO_OVERHEADS)
    for it in (Iteration((), 16, 16 * 512, 16), Iteration(((1024, 0),), 0, 0, 1)):
        assert 0.5 < table.seconds(it) / fit.seconds(it) < 1.0
