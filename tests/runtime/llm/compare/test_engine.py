"""`measure llm` and `compare llm` on a tiny model that really runs: structure and generous bounds only."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from meshwright.cli import run
from meshwright.errors import InputError
from meshwright.profiles.llm import DecoderSpec, Iteration, KernelTables
from meshwright.profiles.llm.measured import measured_cost, measured_times, read_measurement, write_measurement

pytest.importorskip("torch", reason="the engine needs torch")

from meshwright.runtime.llm.compare.cell import SHOWN
from meshwright.runtime.llm.compare.chart import save_engine_png
from meshwright.runtime.llm.compare.engine import compare_engine
from meshwright.runtime.llm.compare.settings import Lengths, Traffic, draw_requests
from meshwright.runtime.llm.measure.engine import MeasureOptions, measure_layers, plan_measurement
from meshwright.simulator.llm.workload.clients import Clients

LLAMA = DecoderSpec("llama-test", 2, 64, 4, 128, 256, 2, 16, max_positions=256)
OPT = DecoderSpec(
    "opt-test",
    2,
    64,
    4,
    256,
    256,
    4,
    16,
    gated=False,
    tied=True,
    biases=True,
    learned_positions=True,
    max_positions=256,
)
SMALL = MeasureOptions(fast=True, max_tokens=32, max_seqs=4, max_context=64)


@pytest.fixture(scope="module")
def measured():
    return measure_layers(LLAMA, SMALL)


@pytest.fixture(scope="module")
def compared():
    return compare_engine(
        [OPT],
        Traffic([0.5], lengths=Lengths(prompt=12, output=6, longest_prompt=40, longest_output=12), duration_s=0.4),
        settings=["vllm-v1", "vllm-0.2"],
        measure=MeasureOptions(clock="core", fast=True),
        draws=20,
    )


def test_every_operator_of_the_engine_is_in_the_tables(measured):
    operators = {"embedding", "layernorm", "qkv_proj", "rotary_emb", "o_proj", "gate_up_proj", "act_fn", "down_proj"}
    assert operators | {"layer_rest", "forward_rest", "inputs"} == set(measured.dense)
    assert set(measured.per_sequence) == {"final_layernorm_rows", "lm_head", "sampler"}
    assert {tuple(calls) for calls in measured.dense.values()} == {(1, 4, 16, 32)}
    assert all(0 < s < 10 for calls in measured.dense.values() for s in calls.values())
    assert set(measured.overheads) == {"vllm-v1", "vllm-0.2"}
    assert all(not one.cuda_graphs and one.launch_s == 0 for one in measured.overheads.values())


def test_what_was_measured_says_on_what_and_when(measured):
    said = measured.provenance
    assert said.device
    assert said.date.startswith("20")
    assert {"meshwright", "python", "torch"} <= set(said.versions)
    assert measured.noise.repeats >= 1
    assert 0 <= measured.noise.taken <= 1


def test_the_folder_is_the_public_format_and_gives_the_same_back(measured, tmp_path: Path):
    folder = write_measurement(measured, tmp_path / "here")
    assert {path.name for path in folder.iterdir()} == {"dense.csv", "attention.csv", "per_sequence.csv", "meta.yaml"}
    layers = KernelTables.load(folder).layers
    assert layers is not None
    assert (layers.model, layers.tp, layers.own) == ("llama-test", 1, True)
    back = read_measurement(folder)
    assert back.model == LLAMA
    assert back.overheads == dict(measured.overheads)
    assert back.provenance == measured.provenance
    assert back.noise == measured.noise
    assert not measured.times.constant
    assert back.times == measured.times == measured_times(folder)
    assert (back.times.steps.mean, back.times.of_prompts.mean) == pytest.approx((1, 1))
    assert back.times.steps.level_sd > 0
    meta = folder / "meta.yaml"
    meta.write_text(meta.read_text().replace("prompts:\n  - ", "prompts:\n  - -"))
    with pytest.raises(InputError, match=r"meta\.yaml: times: .*positive finite factors"):
        read_measurement(folder)
    for name, calls in measured.dense.items():
        assert back.dense[name] == pytest.approx(calls, rel=1e-6)
    assert [row[:4] for row in back.attention] == [row[:4] for row in measured.attention]


def test_the_cost_of_a_measured_batch_is_the_sum_of_its_parts(measured, tmp_path: Path):
    """A prompt of 16 tokens, by hand: every layer's parts, attention, head, and the host's times."""
    cost = measured_cost(write_measurement(measured, tmp_path / "here"))
    dense = measured.dense
    once = ("embedding", "forward_rest", "inputs")
    parts = sum(
        calls[16] * (1 if name in once else 2 * LLAMA.layers if name == "layernorm" else LLAMA.layers)
        for name, calls in dense.items()
    )
    # Chunks of 1, 8, 32 were measured: 16 lies a third of the way from 8 to 32.
    alone = {row[0]: row[4] for row in measured.attention if row[0] and row[1] == row[2] == 0}
    attention = LLAMA.layers * (alone[8] + (alone[32] - alone[8]) / 3)
    head = sum(calls[1] for calls in measured.per_sequence.values())
    over = measured.overheads["vllm-v1"]
    told = cost.seconds(Iteration(((16, 0),), outputs=1))
    host = over.scheduler_s + over.per_sequence_s + over.per_request_s
    assert told == pytest.approx(parts + attention + head + host, rel=1e-6)


def test_a_rank_of_two_measures_its_share_and_the_all_reduce():
    from meshwright.profiles.measure.pool import usable_cores

    if len(usable_cores()) < 2:
        pytest.skip("needs two cores for two devices")
    found = measure_layers(LLAMA, replace(SMALL, tp=2))
    assert found.tp == 2
    assert "all_reduce" in found.dense


def test_both_worlds_serve_every_request_and_agree_within_a_factor_of_two(compared):
    """Two schedulers, one load: nothing is lost, lengths are as asked, and no figure is off by more than that.

    Times are processor time here, because other tests run beside this one.
    """
    assert [cell.setting for cell in compared.cells] == ["vllm-v1", "vllm-0.2"]
    for cell in compared.cells:
        for result in (cell.simulated, cell.real):
            assert result.finished.all()
            assert result.generated.tolist() == result.trace.output_tokens.tolist()
        assert cell.real.made_by == "engine"
        assert cell.iterations
        assert 0.5 < 1 + cell.differences["throughput"] < 2


def test_the_report_holds_every_figure_with_its_sign_and_verdict(compared, tmp_path: Path):
    frame = compared.to_frame()
    assert list(frame["figure"]) == [*SHOWN] * 2
    some = frame[(frame["real"] > 0) & frame["judged"]]
    assert some["difference"].to_numpy() == pytest.approx((some["simulated"] / some["real"] - 1).to_numpy())
    said = compared.to_dict()
    judged = frame[frame["judged"]]
    off = (judged["real"] < judged["low"]) | (judged["real"] > judged["high"])
    assert said["inside"] == [int((~off).sum()), len(judged)]
    assert [name for c in said["cells"] for name in c["outside"]] == list(judged["figure"][off])
    assert said["within"] == (off.sum() <= said["by_chance"])
    assert said["mean"] == pytest.approx(judged["difference"].abs().mean())
    for cell in said["cells"]:
        assert cell["foretold"]["draws"] == 20
        assert cell["shift"] > 0
        for name, one in cell["foretold"]["figures"].items():
            assert one["low"] <= one["expected"] * (1 + 1e-9), name
    text = str(compared)
    assert "vllm-0.2" in text
    assert "core ours" in text
    assert "of 20 draws" in text
    assert "the judged stretches' steps took" in text
    assert all(cell.rows.any() and not cell.rows.all() for cell in compared.cells)
    assert "figures inside their intervals" in text
    assert save_engine_png(compared, tmp_path / "gaps.png").read_bytes().startswith(b"\x89PNG")


def test_drawn_requests_are_the_same_for_every_rate_and_seed_alike():
    prompt, output, gaps = draw_requests(Lengths(), 500, 3)
    again = draw_requests(Lengths(), 500, 3)
    assert (prompt == again[0]).all()
    assert (gaps == again[2]).all()
    assert 1 <= prompt.min() <= prompt.max() <= 192
    assert 2 <= output.min() <= output.max() <= 96
    # A log-normal's median is the one asked for; 500 draws leave 1.25 sigma / sqrt(n) = 3 % on it.
    assert math.log(sorted(prompt)[250] / 64) == pytest.approx(0, abs=4 * 1.25 * 0.6 / math.sqrt(500))
    assert gaps.mean() == pytest.approx(1, abs=4 / math.sqrt(500))


def test_requests_come_as_clients_send_them():
    """At the rate of the cell, with the same lengths: in equal gaps, in bursts, or by Poisson."""
    plan = plan_measurement(LLAMA, MeasureOptions())
    by = {
        how: Traffic(rate=50.0, duration_s=10.0, clients=clients).requests(50.0, plan, 1.0)[2]
        for how, clients in (
            ("as ever", None), ("constant", Clients("constant")), ("bursts", Clients("gamma", 4.0)),
        )
    }  # fmt: skip
    assert np.diff(by["constant"].arrival) == pytest.approx(0.02)
    spread = {how: np.diff(t.arrival).std() / np.diff(t.arrival).mean() for how, t in by.items()}
    assert spread["constant"] < 0.9 < spread["as ever"] < 1.1 < 3 < spread["bursts"]
    assert all((t.output_tokens == by["as ever"].output_tokens).all() for t in by.values())
    with pytest.raises(InputError, match="at_once has no rate"):
        Traffic(rate=50.0, clients=Clients("at_once"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"device": "tpu"}, "device must be 'cpu' or 'cuda'"),
        ({"dtype": "int3"}, "--dtype: expected"),
        ({"tp": 3}, "--tp: 3 does not divide the 4 heads"),
        ({"tp": 0}, "--tp: expected an integer >= 1"),
        ({"block_size": 0}, "--block-size: expected"),
        ({"max_context": 200}, "--max-context: 200 is above half of the 256 positions"),
        ({"max_tokens": 3}, "max_tokens: expected an integer >= 16"),
        ({"max_seqs": 1}, "max_sequences: expected an integer >= 2"),
    ],
)
def test_wrong_wishes_are_refused_before_anything_runs(options, said):
    with pytest.raises(InputError, match=said.replace("(", r"\(")):
        plan_measurement(LLAMA, MeasureOptions(**options))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"settings": ["orca"]}, "unknown setting 'orca'; expected one of vllm-v1"),
        ({"settings": []}, "expected settings, each once"),
        ({"measure": MeasureOptions(clock="sun")}, "clock: expected wall"),
        ({"draws": 0}, "draws: expected an integer >= 2"),
        ({}, "requests of 288 tokens are above the positions of llama-test"),
    ],
)
def test_wrong_comparisons_are_refused_before_anything_runs(options, said):
    with pytest.raises(InputError, match=said):
        compare_engine([LLAMA], **options)


@pytest.mark.parametrize("options", [{"loads": [0.0]}, {"loads": [float("nan")]}, {"loads": []}, {"duration_s": 0.0}])
def test_wrong_traffic_is_refused(options):
    with pytest.raises(InputError, match="expected loads, rates and seconds above 0"):
        Traffic(**options)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("measure llm --model nothing-like-it", "unknown model 'nothing-like-it'"),
        ("measure llm --model opt-125m,opt-125m", "expected each model once"),
        ("measure llm --model opt-125m --pp 2", "No such option: --pp"),
        ("measure llm --model opt-125m --rate 2", "No such option: --rate"),
        ("profile measure --tp 2", "No such option: --tp"),
        ("measure llm --model opt-125m --on cuda --tensor-parallel-size 64", "tp"),
        ("compare llm --model opt-125m --warmup 2", "No such option: --warmup"),
        ("compare llm --model opt-125m --front-end separate", "workload.clients.front_end: the real engine takes"),
        ("compare llm --model opt-125m,opt-125m", "expected each model once"),
        ("compare llm --model opt-125m --loads x", "loads[0]: "),
        ("compare llm --model opt-125m --settings orca", "unknown setting"),
        ("compare llm --model opt-125m --clock sun", "clock: "),
        ("compare llm --model opt-125m --draws 0", "draws: "),
    ],
)
def test_the_command_line_says_what_is_wrong_in_a_line(words, said, capsys):
    assert run(words.split()) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") <= 2


def test_the_verb_measures_writes_and_prints(tmp_path: Path, capsys):
    config = {
        "model_type": "llama", "num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2,
        "intermediate_size": 64, "vocab_size": 64, "max_position_embeddings": 128,
    }  # fmt: skip
    home = tmp_path / "one-layer"
    home.mkdir()
    (home / "config.json").write_text(json.dumps(config))
    words = f"measure llm --model {home / 'config.json'} --fast --max-tokens 16 --max-seqs 2 --max-context 64 --json"
    assert run([*words.split(), "--out", str(tmp_path / "tables")]) == 0
    (said,) = json.loads(capsys.readouterr().out)["measured"]
    assert (said["model"], said["tp"], said["dtype"]) == ("one-layer", 1, "float32")
    assert said["folder"] == str(tmp_path / "tables")
    assert measured_cost(tmp_path / "tables", "vllm-0.2").seconds(Iteration((), 1, 8, 1)) > 0
