"""Measured layers as a folder and as a cost, sizes of the grids, and rounds of timing: no model, no clock."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from meshwright.cli import run
from meshwright.errors import InputError
from meshwright.profiles.llm import DecoderSpec, Iteration, KernelTables, Overheads
from meshwright.profiles.llm.cost.grid import compiled, iteration_seconds
from meshwright.profiles.llm.measure_rounds import Ledger, run_rounds
from meshwright.profiles.llm.measure_sizes import Call, Sizes, spread
from meshwright.profiles.llm.measured import (
    LayerMeasurement,
    Noise,
    measured_cost,
    read_measurement,
    write_measurement,
)
from meshwright.profiles.profile import Provenance

SPEC = DecoderSpec("toy", 3, 64, 4, 128, 256, 2, 16, max_positions=512)
SIZES = Sizes.upto(64, 8, 64)
HOST = Overheads(100e-6, 10e-6, 0.0, 0.0, cuda_graphs=False, graph_tokens=0, per_request_s=30e-6)
FURTHER = 7e-6


def attention_of(new, before, decodes, context):
    """A law that is affine in every coordinate but a chunk's own size."""
    chunk = 20e-6 + 1e-6 * new + 10e-9 * new * before if new else 0.0
    return chunk + (30e-6 + 2e-6 * decodes + 50e-9 * decodes * context if decodes else 0.0)


def a_measurement(**changes):
    dense = {"qkv_proj": 2e-6, "o_proj": 1e-6, "down_proj": 3e-6, "layernorm": 1e-7, "inputs": 4e-7}
    head = {"lm_head": 5e-6, "sampler": 1e-6}
    found = LayerMeasurement(
        model=SPEC,
        tp=1,
        dtype="float32",
        dense={name: {t: 10e-6 + each * t for t in SIZES.tokens} for name, each in dense.items()},
        attention=[(*call.at, attention_of(*call.at)) for call in SIZES.attention()],
        per_sequence={name: {n: 3e-6 + each * n for n in SIZES.sequences} for name, each in head.items()},
        further_chunk_s=FURTHER,
        overheads={"vllm-v1": HOST, "vllm-0.2": replace(HOST, scheduler_s=200e-6)},
        provenance=Provenance("by hand", "a toy", "2026-01-02", {"torch": "2.13"}, "made up"),
        noise=Noise(0.01, 0.02, 0.03, 5),
    )
    return replace(found, **changes)


def by_hand(prefill, decodes, context, outputs, host=HOST):
    tokens, layers = decodes + sum(new for new, _ in prefill), SPEC.layers
    per_layer = (
        (10e-6 + 2e-6 * tokens) + (10e-6 + 1e-6 * tokens) + (10e-6 + 3e-6 * tokens) + 2 * (10e-6 + 1e-7 * tokens)
    )
    dense = layers * per_layer + 10e-6 + 4e-7 * tokens
    head = (3e-6 + 5e-6 * outputs) + (3e-6 + 1e-6 * outputs)
    mean = context / decodes if decodes else 0
    alone = attention_of(0, 0, decodes, mean)
    chunks = sum(attention_of(new, before, 0, 0) for new, before in prefill)
    # Chunks after the first share the call: they add what they add to the smallest chunk, and a fixed time.
    shared = (len(prefill) - 1) * (FURTHER - attention_of(1, 0, 0, 0)) if prefill else 0.0
    attention = layers * (alone + chunks + shared)
    new = sum(before == 0 for _, before in prefill)  # requests come in with their first chunk
    return dense + head + attention + host.scheduler_s + 10e-6 * (decodes + len(prefill)) + 30e-6 * new


@pytest.mark.parametrize(
    ("prefill", "decodes", "context", "outputs"),
    [
        ((), 4, 4 * 32, 4),
        ((), 1, 16, 1),
        (((32, 0),), 0, 0, 1),
        (((16, 16),), 4, 4 * 64, 5),
        (((32, 0), (16, 0), (8, 16)), 0, 0, 3),
        (((16, 0), (16, 0)), 6, 6 * 16, 8),
    ],
)
def test_a_measured_law_comes_back_as_the_cost(tmp_path: Path, prefill, decodes, context, outputs):
    folder = write_measurement(a_measurement(), tmp_path / "toy")
    cost = measured_cost(folder, max_tokens=256, max_outputs=32)
    iteration = Iteration(prefill, decodes, context, outputs)
    expected = by_hand(prefill, decodes, context, outputs)
    assert cost.seconds(iteration) == pytest.approx(expected, rel=1e-6)
    assert sum(part.seconds for part in cost.explain(iteration)) == pytest.approx(expected, rel=1e-6)
    other = measured_cost(folder, "vllm-0.2", max_tokens=256, max_outputs=32)
    assert other.seconds(iteration) == pytest.approx(expected + 100e-6, rel=1e-6)


def test_compiled_code_gives_the_same_seconds_with_further_chunks(tmp_path: Path):
    grid = measured_cost(write_measurement(a_measurement(), tmp_path / "toy"), max_tokens=256, max_outputs=32).grid()
    assert grid.chunk_s == pytest.approx(SPEC.layers * FURTHER)
    new, before = np.array([32, 8, 16]), np.array([0, 16, 0])
    assert compiled()(grid, 4, 200, new, before, 7) == pytest.approx(
        iteration_seconds(grid, 4, 200, new, before, 7), rel=1e-12
    )


def test_the_folder_gives_everything_back(tmp_path: Path):
    found = a_measurement()
    back = read_measurement(write_measurement(found, tmp_path / "toy"))
    assert (back.model, back.tp, back.dtype) == (SPEC, 1, "float32")
    assert (back.provenance, back.noise, back.overheads) == (found.provenance, found.noise, dict(found.overheads))
    assert back.further_chunk_s == pytest.approx(FURTHER)
    assert np.array(back.attention) == pytest.approx(np.array(found.attention), rel=1e-8)
    assert back.per_sequence["sampler"] == pytest.approx(found.per_sequence["sampler"])


def test_measured_all_reduces_stand_for_the_ring_that_public_tables_need(tmp_path: Path):
    dense = {**a_measurement().dense, "all_reduce": dict.fromkeys(SIZES.tokens, 5e-05)}
    folder = write_measurement(a_measurement(tp=2, dense=dense), tmp_path / "toy")
    names = [part.name for part in measured_cost(folder, max_tokens=64).explain(Iteration(((16, 0),), outputs=1))]
    assert "all_reduce" in names
    assert "all-reduces" not in names
    with pytest.raises(InputError, match="measured at tp 2, asked for tp 4; measure it with --tp 4"):
        KernelTables.load(folder, tp=4)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "other"}, "kind: expected meshwright/llm-layers"),
        ({"version": 9}, "version: expected 1"),
        ({"overheads": {}}, "overheads: expected those of a policy"),
        ({"overheads": {"vllm-v1": {"speed": 1}}}, "vllm-v1: unknown fields \\['speed'\\]"),
        ({"decoder": None}, "decoder: expected its fields"),
        ({"decoder": {"name": "x"}}, "decoder: unknown fields \\[\\], missing fields \\['ffn', 'head_dim'"),
        ({"noise": {"taken": -1, "spread": 0, "drift": 0, "repeats": 1}}, "noise: noise: taken: expected"),
        ({"provenance": {"source": "", "device": "d", "date": "d"}}, "provenance: expected source, device and date"),
        ({"further_chunk_us": float("nan")}, "further_chunk_us: expected microseconds >= 0"),
        ({"dtype": 3}, "dtype: expected a word"),
        ({"model": None}, None),
    ],
)
def test_a_spoilt_folder_says_what_is_wrong(tmp_path: Path, change, said):
    folder = write_measurement(a_measurement(), tmp_path / "toy")
    path = folder / "meta.yaml"
    meta = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump(meta | change))
    if said is None:  # a name that tables do not need once the decoder is there
        assert read_measurement(folder).model == SPEC
        return
    with pytest.raises(InputError, match=said):
        read_measurement(folder)


def test_tables_that_are_missing_or_of_another_policy_are_refused(tmp_path: Path):
    with pytest.raises(InputError, match="expected a folder that meshwright measure llm wrote"):
        read_measurement(tmp_path / "nowhere")
    folder = write_measurement(a_measurement(), tmp_path / "toy")
    with pytest.raises(InputError, match=r"policy 'orca-max' were not measured; there are those of vllm-v1, vllm-0\.2"):
        measured_cost(folder, "orca-max")
    (folder / "attention.csv").unlink()
    with pytest.raises(InputError, match=r"attention\.csv: cannot be read"):
        read_measurement(folder)
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="expected a folder"):
        write_measurement(a_measurement(), tmp_path / "file")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"provenance": Provenance("")}, "provenance"),
        ({"further_chunk_s": -1.0}, "further_chunk_s"),
        ({"tp": 0}, "tp"),
    ],
)
def test_a_measurement_without_a_source_is_none(changes, said):
    with pytest.raises(InputError, match=said):
        a_measurement(**changes)


def test_sizes_reach_both_ends_and_grow_by_the_factor():
    for fast, fine in ((False, 1.5), (True, 4.0)):
        sizes = Sizes.upto(256, 16, 512, fast=fast)
        assert sizes.tokens[0] == 1
        assert (sizes.tokens[-1], sizes.sequences[-1], sizes.contexts[-1], sizes.before[0]) == (256, 16, 512, 0)
        assert all(b <= max(a + 1, fine * a) for a, b in zip(sizes.tokens, sizes.tokens[1:], strict=False))
    assert {call.tokens for call in sizes.dense()} == set(sizes.tokens)
    assert Call(((20, 5),), (17, 1), (0, 0, 0, 0)).blocks(16) == 2 + 2 + 1
    with pytest.raises(InputError, match="max_context: expected an integer >= 64"):
        Sizes.upto(256, 16, 3)
    with pytest.raises(InputError, match="chunk: expected two or more rising sizes"):
        replace(sizes, chunk=(8, 4))


@pytest.mark.parametrize(("n", "mean"), [(1, 40), (2, 16), (7, 33), (16, 512), (5, 1)])
def test_contexts_spread_around_their_mean_and_keep_it(n, mean):
    found = spread(n, mean)
    assert (len(found), sum(found)) == (n, n * mean)
    assert min(found) >= 1
    assert list(found[:-1]) == sorted(found[:-1])
    assert max(found) <= 1.5 * mean + n


def test_rounds_leave_out_what_others_disturbed_and_say_how_much_that_was():
    """Passes take 1 s of the core; in every third round another process holds the core for 3 s more."""
    now = {"wall": 0.0, "core": 0.0, "passes": 0}

    def once(call):
        now["passes"] += 1
        stolen = 3.0 if now["passes"] % 6 in (5, 0) else 0.0
        now["wall"] += 1.0 + stolen
        now["core"] += 1.0
        return {"part": 1.0 + stolen}

    found = run_rounds(["a", "b"], once, rounds=6, clock=lambda: now["wall"], core_clock=lambda: now["core"])
    assert [samples.median("part") for samples in found.samples.values()] == [1.0, 1.0]
    assert found.taken == pytest.approx(1 - 12 / 24)
    assert found.repeats == 4
    assert found.spread == 0.0


def test_calls_without_enough_quiet_passes_are_run_again_and_then_read_by_core_time():
    now = {"wall": 0.0, "core": 0.0}
    seen = []

    def once(call):
        seen.append(call)
        quiet = call == "quiet" or seen.count("busy") > 4
        now["wall"] += 1.0 if quiet else 2.0
        now["core"] += 1.0
        return {"part": 1.0 if quiet else 2.0}

    clocks = {"clock": lambda: now["wall"], "core_clock": lambda: now["core"]}
    found = run_rounds(["quiet", "busy"], once, rounds=3, extra=9, **clocks)
    assert (seen.count("quiet"), seen.count("busy")) == (3, 7)  # until three passes were quiet
    assert found.samples["busy"].median("part") == 1.0
    seen.clear()
    found = run_rounds(["busy"], once, rounds=3, **clocks)
    assert found.samples["busy"].median("part") == pytest.approx(1.0)  # 2 s of which half were its own
    assert found.taken == pytest.approx(0.5)


def test_a_machine_that_slows_down_shows_as_drift():
    now = {"wall": 0.0, "core": 0.0, "passes": 0}

    def once(call):
        now["passes"] += 1
        took = 1.0 if now["passes"] <= 10 else 1.2  # the second round of ten calls
        now["wall"], now["core"] = now["wall"] + took, now["core"] + took
        return {"part": took}

    found = run_rounds(range(10), once, rounds=2, clock=lambda: now["wall"], core_clock=lambda: now["core"])
    assert found.drift == pytest.approx(0.2)


def test_a_ledger_books_every_moment_between_start_and_stop():
    ledger = Ledger()
    double = ledger.around("double", lambda x: 2 * x)
    assert double(3) == 6  # outside a pass nothing is booked
    ledger.start()
    assert double(double(3)) == 12
    ledger.stamp("end")
    first, last = ledger.stamps[0][1], ledger.stamps[-1][1]
    laps = ledger.stop()
    assert {name: len(found) for name, found in laps.items()} == {"<double": 2, "double": 2, "end": 1}
    assert sum(map(sum, laps.values())) == pytest.approx(last - first, rel=1e-9)


def test_nothing_to_time_is_an_error():
    with pytest.raises(InputError, match="expected calls to time"):
        run_rounds([], lambda call: {}, rounds=1)


def test_the_verb_says_it_when_others_were_about(monkeypatch, tmp_path: Path, capsys):
    pytest.importorskip("torch", reason="the verb's module needs torch's side of the package")
    noisy = a_measurement(noise=Noise(0.4, 0.02, 0.03, 5))
    monkeypatch.setattr("meshwright.runtime.llm.measure.engine.measure_layers", lambda spec, how, progress: noisy)
    assert run(["measure", "llm", "--model", "opt-125m", "--out", str(tmp_path / "toy")]) == 0
    said = capsys.readouterr().out
    assert "others took 40.0% of the core" in said
    assert "doubtful: the device was not quiet" in said
    assert f"written: {tmp_path / 'toy'}" in said
    assert read_measurement(tmp_path / "toy").noise.taken == 0.4


def test_the_page_reads_a_measurement(tmp_path: Path, monkeypatch, capsys):
    """docs/llm-measure.md: its example takes a measured folder, and prints every part of the iteration."""
    page = (Path(__file__).parents[3] / "docs" / "llm-measure.md").read_text("utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    write_measurement(a_measurement(), tmp_path / "here")
    monkeypatch.chdir(tmp_path)
    said = {}
    exec(block, said)
    printed = capsys.readouterr().out
    for part in said["cost"].explain(Iteration(((64, 0),), 8, 8 * 128, 9)):
        assert part.name in printed
