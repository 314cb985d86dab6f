"""`compare llm --silicon` and `--vllm-run`: small cases by hand, real measurements where they are, errors."""

import json

import numpy as np
import pytest
from meshwright.cli import run
from meshwright.errors import InputError
from meshwright.profiles.llm import Overheads, decoder, host_times
from meshwright.runtime.llm import Benchmark, compare_silicon, compare_vllm_run, read_silicon, read_vllm_run
from meshwright.runtime.llm.defaults import asynchronous, budgets, device_memory, other_bytes
from sample_data import measured


def test_rows_are_read(tmp_path, rows_file):
    path = rows_file(tmp_path, {}, {"precision": "fp8"}, {"precision": "fp8", "gemm_quant_mode": "fp8_block"})
    rows = read_silicon(path)
    assert [row.precision for row in rows] == ["bf16", "fp8", "fp8_block"]
    assert (rows[0].isl, rows[0].osl, rows[0].concurrency, rows[0].tp, rows[0].pp) == (512, 32, 4, 1, 1)
    assert (rows[0].ttft_ms, rows[0].tpot_ms, rows[0].line) == (20.0, 5.0, 2)


def test_a_single_client_is_worked_out(tmp_path, write_tables, rows_file):
    """One client: every prompt is computed alone, and every token is a decode of one sequence."""
    from meshwright.profiles.llm import Iteration, KernelTables, iteration_cost

    write_tables(tmp_path)
    path = rows_file(tmp_path, {"concurrency": 1, "osl": 40})
    quiet = Benchmark(spread=0.0, front_s=0.003, stream_s=0.0005)
    (found,) = compare_silicon(path, tmp_path, benchmark=quiet).rows
    cost = iteration_cost(decoder("Llama-3.1-8B"), KernelTables.load(tmp_path / "toy"), overheads=Overheads())
    prefill = cost.seconds(Iteration(((512, 0),), 0, 0, 1))
    decodes = [cost.seconds(Iteration((), 1, 512 + k, 1)) for k in range(1, 40)]
    assert found.ttft_ms == pytest.approx(1e3 * (prefill + 0.0035))
    assert found.tpot_ms == pytest.approx(1e3 * np.mean(decodes))
    assert found.row.tpot_ms * (1 + found.tpot_error) == pytest.approx(found.tpot_ms)


def test_the_first_round_counts_as_often_as_it_occurs(tmp_path, write_tables, rows_file):
    """Everybody at once: in a long run the burst weighs less."""
    write_tables(tmp_path)
    path = rows_file(tmp_path, {"concurrency": 32, "osl": 200})
    short, long = (compare_silicon(path, tmp_path, benchmark=Benchmark(rounds=rounds)).rows[0] for rounds in (4, 40))
    assert short.first_ttft_ms == long.first_ttft_ms > short.later_ttft_ms
    assert short.ttft_ms > long.ttft_ms > long.later_ttft_ms


def test_medians_are_of_absolute_errors(tmp_path, write_tables, rows_file):
    write_tables(tmp_path)
    first = compare_silicon(rows_file(tmp_path, {}), tmp_path).rows[0]
    scaled = [{"silicon_tpot_ms": first.tpot_ms / (1 + e), "silicon_ttft_ms": first.ttft_ms} for e in (-0.3, 0.1, 0.2)]
    found = compare_silicon(rows_file(tmp_path, *scaled), tmp_path)
    assert found.tpot_median_ape == pytest.approx(0.2)
    assert found.ttft_median_ape == pytest.approx(0.0, abs=1e-9)


def test_a_pipeline_has_several_batches_in_flight(tmp_path, write_tables, rows_file):
    """Twice the clients on two stages: each batch is as before, and its tokens pass through two stages."""
    from meshwright.profiles.llm import Iteration, KernelTables, iteration_cost

    write_tables(tmp_path)
    path = rows_file(tmp_path, {"concurrency": 2, "pp_size": 2, "osl": 40})
    (found,) = compare_silicon(path, tmp_path, benchmark=Benchmark(spread=0.0)).rows
    host = host_times(asynchronous=False).overheads()  # as pipelines are
    cost = iteration_cost(decoder("Llama-3.1-8B"), KernelTables.load(tmp_path / "toy"), pp=2, overheads=host)
    decodes = [cost.seconds(Iteration((), 1, 512 + k, 1)) for k in range(1, 40)]
    assert found.tpot_ms == pytest.approx(1e3 * np.mean(decodes))


def test_rows_of_one_token_have_no_tpot(tmp_path, write_tables, rows_file):
    write_tables(tmp_path)
    found = compare_silicon(rows_file(tmp_path, {"osl": 1}, {}), tmp_path)
    assert np.isnan(found.rows[0].tpot_ms)
    assert found.tpot_median_ape == abs(found.rows[1].tpot_error)


def test_silicon_on_the_command_line(tmp_path, write_tables, capsys, rows_file):
    write_tables(tmp_path)
    path = rows_file(tmp_path, {}, {"precision": "fp8", "concurrency": 8, "tp_size": 2})
    call = ["compare", "llm", "--silicon", str(path), "--kernels", str(tmp_path)]
    assert run(call) == 0
    shown = capsys.readouterr().out
    for said in ("median absolute error TPOT", "overheads: scheduler_s", "asynchronous scheduling", "rounds=10"):
        assert said in shown
    assert run([*call, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert set(told) >= {"tpot_median_ape", "ttft_median_ape", "rows"}
    assert len(told["rows"]) == 2
    assert told["rows"][1]["precision"] == "fp8"
    assert told["rows"][1]["tpot_error"] == pytest.approx(
        told["rows"][1]["tpot_ms"] / told["rows"][1]["silicon_tpot_ms"] - 1
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model_path": "meta-llama/Llama-9-1T"}, "unknown model"),
        ({"system": "moon"}, "no folder"),
        ({"silicon_tpot_ms": "soon"}, "silicon_tpot_ms: expected a finite number"),
        ({"silicon_ttft_ms": float("nan")}, "silicon_ttft_ms"),
        ({"isl": 0}, "isl: expected a finite number > 0"),
        ({"concurrency": 2.5}, "whole number"),
        ({"precision": "int3"}, "unknown precision"),
        ({"tp_size": 3}, "does not divide"),
    ],
)
def test_wrong_rows_are_one_error(tmp_path, write_tables, capsys, change, said, rows_file):
    write_tables(tmp_path)
    assert run(["compare", "llm", "--silicon", str(rows_file(tmp_path, change)), "--kernels", str(tmp_path)]) == 2
    shown = capsys.readouterr().err.strip()
    assert said in shown
    assert "rows.csv: line 2" in shown
    assert len(shown.splitlines()) == 1


def test_wrong_files_are_one_error(tmp_path, rows_file, silicon_columns):
    empty = tmp_path / "empty.csv"
    empty.write_text("")
    with pytest.raises(InputError, match="cannot be read as CSV"):
        read_silicon(empty)
    with pytest.raises(InputError, match="no such file"):
        read_silicon(tmp_path / "none.csv")
    with pytest.raises(InputError, match="columns missing: isl"):
        read_silicon(rows_file(tmp_path, {}, columns=[c for c in silicon_columns if c != "isl"]))
    with pytest.raises(InputError, match="no rows"):
        read_silicon(rows_file(tmp_path))
    with pytest.raises(InputError, match="there is none"):
        compare_silicon(rows_file(tmp_path, {}), tmp_path / "nowhere")


def test_a_run_is_read_and_its_clocks_agree(tmp_path, write_run):
    found = read_vllm_run(write_run(tmp_path))
    assert found.offset_s == pytest.approx(100.0 - 5000.0)
    assert found.arrival == pytest.approx([0, 1, 2, 3])
    assert found.queued == pytest.approx([0, 1.002, 2.002, 3.002])
    assert (found.first_token - found.queued) == pytest.approx(0.05)


def test_a_run_is_replayed(tmp_path, write_layer_tables, write_run):
    """Requests that never meet: each is a prefill and ten decodes, and the errors follow."""
    from meshwright.profiles.llm import Iteration, KernelTables, iteration_cost

    folder = write_run(tmp_path)
    tables = write_layer_tables(folder)
    found = compare_vllm_run(folder)
    cost = iteration_cost(decoder("Llama-3.2-1B"), KernelTables.load(tables, tp=1))
    prefill = cost.seconds(Iteration(((64, 0),), 0, 0, 1))
    decode = np.mean([cost.seconds(Iteration((), 1, 64 + k, 1)) for k in range(1, 11)])
    assert found.simulated["ttft"] == pytest.approx(prefill)
    assert found.simulated["tpot"] == pytest.approx(decode)
    assert found.error("ttft") == pytest.approx(prefill / 0.05 - 1)
    assert found.error("tpot") == pytest.approx(decode / 0.02 - 1)
    assert found.error("e2e", "median") == pytest.approx((prefill + 10 * decode) / 0.25 - 1)
    assert len(found.over_time) == 3
    assert found.over_time[0]["kv_real_pct"] == 3.0
    assert found.config["async_scheduling"] is True


def test_engine_arguments_are_taken(tmp_path, write_layer_tables, write_run):
    folder = write_run(tmp_path, num_gpu_blocks_override=77, async_scheduling=False, max_model_len=300, block_size=32)
    write_layer_tables(folder)
    config = compare_vllm_run(folder).config
    wanted = {"num_blocks": 77, "async_scheduling": False, "max_model_len": 300, "block_size": 32, "max_num_seqs": 8}
    assert {name: config[name] for name in wanted} == wanted


def test_a_run_on_the_command_line(tmp_path, write_layer_tables, capsys, write_run):
    folder, other = write_run(tmp_path), tmp_path / "other"
    other.mkdir()
    tables = write_layer_tables(other)
    call = ["compare", "llm", "--vllm-run", str(folder), "--kernels", str(tables)]
    assert run(call) == 0
    shown = capsys.readouterr().out
    assert "makespan" in shown
    assert "asynchronous" in shown
    assert "TTFT = first_token_ts - queued_ts" in shown
    assert run([*call, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {"ttft_mean_error", "tpot_mean_error", "e2e_mean_error", "makespan_error", "over_time"} <= set(told)


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("requests.jsonl", "", "no requests"),
        ("requests.jsonl", '{"input_toks": 3}', "fields missing: output_toks"),
        ("requests.jsonl", "{", "no JSON"),
        ("meta.json", "[]", "expected an object"),
        ("meta.json", "{}", "engine_kwargs"),
        ("meta.json", '{"model": "x/unknown", "engine_kwargs": {}}', "unknown model"),
        ("meta.json", '{"model": "Llama-3.2-1B", "engine_kwargs": {"max_num_seqs": "many"}}', "max_num_seqs"),
        ("timeseries.csv", "t,running\n1,2\n", "columns missing: waiting"),
    ],
)
def test_wrong_runs_are_one_error(tmp_path, write_layer_tables, file, text, said, write_run):
    folder = write_run(tmp_path)
    write_layer_tables(folder)
    (folder / file).write_text(text)
    with pytest.raises(InputError, match=said):
        compare_vllm_run(folder)


def test_a_run_without_files_is_one_error(tmp_path, write_run):
    with pytest.raises(InputError, match="there is none"):
        compare_vllm_run(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"meta\.json: no such file"):
        compare_vllm_run(tmp_path)
    folder = write_run(tmp_path)
    with pytest.raises(InputError, match="expected a folder of kernel tables"):
        compare_vllm_run(folder)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--silicon", "x"], "silicon: needs kernels"),
        (["--silicon", "x", "--kernels", "y", "--link", "1,2"], "link: goes with vllm_run"),
        (["--silicon", "x", "--vllm-run", "y"], "silicon, vllm_run: are two comparisons"),
        (["--link", "1,2"], "link: goes with vllm_run"),
        (["--vllm-run", "no"], "no: "),
    ],
)
def test_options_that_do_not_go_together(words, said, capsys):
    assert run(["compare", "llm", *words]) == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert shown.count("\n") == 1


def test_a_comparison_names_plans_or_a_world(capsys):
    assert run(["compare"]) == 2
    assert "Worlds:" in capsys.readouterr().err


def test_defaults_of_the_engine():
    assert asynchronous("0.19.0")
    assert not asynchronous("0.13.2")
    assert asynchronous("")
    assert not asynchronous("0.19", pp=2)
    assert asynchronous("NVIDIA H100 80GB HBM3, VLLM, 0.14.0 (h100_sxm)")
    gib = 2**30
    assert budgets(80 * gib, "h100_sxm") == (8192, 1024)
    assert budgets(80 * gib, "a100_sxm") == (2048, 256)
    assert budgets(180 * gib, "b200_sxm") == (16384, 1024)
    assert budgets(24 * gib, "l4") == (2048, 256)
    assert device_memory("NVIDIA H200 141GB") > device_memory("NVIDIA H100 80GB HBM3") > 79 * gib
    assert device_memory("NVIDIA RTX PRO 6000 Blackwell Server Edition") == int(94.97 * gib)
    assert device_memory("Abacus") == 0
    model = decoder("Llama-3.1-70B")
    layer = 8192 * (4 * 8192 + 3 * 14336 * 2)
    assert other_bytes(model, 2, 8192, 256, bf16_ends=False) == 551 * 2**20 + layer


@measured
def test_measured_rows_of_llama_70b(data):
    """Rows of each degree at a moderate load: within what the tables promise."""
    rows = [r for r in read_silicon(next(data.glob("silicon_*.csv"))) if r.osl == 1024 and r.concurrency == 8]
    found = compare_silicon(rows, data / "kernels")
    assert found.tpot_median_ape < 0.10
    assert found.ttft_median_ape < 0.20


@measured
def test_a_recorded_run_of_llama_8b(data):
    found = compare_vllm_run(data / "vllm_runs" / "rtxpro6000_llama-3.1-8b")
    assert abs(found.error("ttft")) < 0.10
    assert abs(found.error("tpot")) < 0.03
    assert abs(found.error("e2e")) < 0.03
    assert abs(found.makespan[1] / found.makespan[0] - 1) < 0.03
