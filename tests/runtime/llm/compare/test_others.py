"""Comparisons with other people's rows and runs: names, precisions, degrees, experts, what cannot be predicted."""

import json

import pandas as pd
import pytest
from meshwright.cli import run
from meshwright.profiles.llm import decoder
from meshwright.runtime.llm import compare_silicon, compare_vllm_run, read_silicon
from meshwright.runtime.llm.defaults import trial_bytes


def test_rows_that_cannot_be_predicted_are_listed(tmp_path, write_tables, capsys, rows_file):
    """The medians are of the others; the exit code and the JSON say so."""
    write_tables(tmp_path)
    good = [{}, {"concurrency": 2}]
    bad = [
        {"model_path": "meta-llama/Llama-9-1T"}, {"system": "moon"}, {"tp_size": 3}, {"precision": "int3"},
        {"silicon_tpot_ms": ""}, {"model_path": "Qwen/Qwen2.5-72B"},
    ]  # fmt: skip
    whole = compare_silicon(rows_file(tmp_path, *good, *bad), tmp_path)
    alone = compare_silicon(rows_file(tmp_path, *good), tmp_path)
    assert (whole.tpot_median_ape, whole.ttft_median_ape) == (alone.tpot_median_ape, alone.ttft_median_ape)
    assert [row.line for row in whole.skipped] == [4, 5, 6, 7, 8, 9]
    reasons = [row.reason for row in whole.skipped]
    for said, reason in zip(
        ("unknown model", "no folder", "does not divide", "unknown precision", "silicon_tpot_ms", "no room"), reasons,
        strict=True,
    ):  # fmt: skip
        assert said in reason
    call = ["compare", "llm", "--silicon", str(rows_file(tmp_path, *good, *bad)), "--kernels", str(tmp_path), "--json"]
    assert run(call) == 1
    shown = capsys.readouterr()
    assert len(json.loads(shown.out)["skipped"]) == 6
    assert "6 rows could not be predicted" in shown.err


def test_other_names_precisions_and_models(tmp_path, write_tables, rows_file, silicon_columns):
    """Columns of other exports; precisions without tables fall back and say so; experts and their ranks."""
    write_tables(tmp_path)
    path = rows_file(
        tmp_path,
        {"model_path": "nvidia/Llama-3.1-8B-Instruct-FP8"},
        {"gemm_quant_mode": "int4_wo", "model_path": "meta-llama/Meta-Llama-3.1-8B-Instruct"},
        {"gemm_quant_mode": "nvfp4", "kvcache_quant_mode": "fp8"},
        {"model_path": "Qwen/Qwen3-30B-A3B", "tp_size": 2, "moe_ep_size": 2},
        {"model_path": "Qwen/Qwen3-30B-A3B", "attention_dp_size": 2, "moe_ep_size": 2},
        {"attention_dp_size": 2},
        columns=[*silicon_columns, "kvcache_quant_mode", "attention_dp_size", "moe_ep_size"],
    )
    renamed = pd.read_csv(path, dtype=str).rename(columns={"model_path": "model", "tp_size": "tp"})
    renamed.drop(columns="concurrency").to_csv(path, index=False)
    rows = read_silicon(path)
    assert [row.precision for row in rows] == ["fp8", "int4_wo", "nvfp4", "bf16", "bf16", "bf16"]
    assert [(row.kv, row.dp, row.ep) for row in rows] == [
        ("bf16", 1, 0), ("bf16", 1, 0), ("fp8", 1, 0), ("bf16", 1, 2), ("bf16", 2, 2), ("bf16", 2, 0)
    ]  # fmt: skip
    found = compare_silicon(path, tmp_path)
    assert len(found.rows) == 6
    assert all(p.tpot_ms > 0 for p in found.rows)
    said = "\n".join(found.notes)
    for note in ("no GEMMs in int4_wo", "no GEMMs in nvfp4", "experts of Qwen3-30B-A3B: not measured", "dp ranks"):
        assert note in said
    # Weights of four bits leave more memory for keys and values than those of eight.
    assert found.rows[1].blocks > found.rows[0].blocks
    # Replicas of a dense model share the clients: a step has half of them.
    assert found.rows[5].tpot_ms < compare_silicon(rows_file(tmp_path, {}), tmp_path).rows[0].tpot_ms


def test_a_system_known_by_its_datasheet_alone(tmp_path, write_tables, rows_file):
    system = write_tables(tmp_path)
    (tmp_path / "new.yaml").write_text((tmp_path / f"{system.name}.yaml").read_text())
    found = compare_silicon(rows_file(tmp_path, {"system": "new"}), tmp_path)
    assert any("roofline of new.yaml" in note for note in found.notes)


def test_a_run_of_two_gpus(tmp_path, write_layer_tables, write_run):
    """Tables under tp2/: the all-reduces come on top, from the machine's measured link where there is one."""
    folder = write_run(tmp_path, tensor_parallel_size=2)
    tables = write_layer_tables(folder)
    (tables / "tp2").mkdir()
    for name in ("dense", "attention", "per_sequence"):
        (tables / f"{name}.csv").rename(tables / "tp2" / f"{name}.csv")
    found = compare_vllm_run(folder)
    assert found.config["tp"] == 2
    assert any("NCCL between two GPUs on PCIe" in note for note in found.notes)
    link = [{"collective": "all_reduce", "bytes": n, "us": 5 + n / 100e3} for n in (1024, 2**20)]
    (folder / "hardware.yaml").write_text(json.dumps({"measured": {"interconnect": {"samples": link}}}))
    faster = compare_vllm_run(folder)
    assert faster.simulated["tpot"].mean() < found.simulated["tpot"].mean()


def test_a_run_of_ranks_that_meet_at_the_experts(tmp_path, write_layer_tables, write_experts, write_run):
    """Two ranks, experts over both: one simulated engine with both budgets; no request has more than one rank's."""
    ranks = {"data_parallel_size": 2, "enable_expert_parallel": True, "num_gpu_blocks_override": 50}
    folder = write_run(tmp_path, model="Qwen/Qwen3-30B-A3B", **ranks)
    tables = write_layer_tables(folder, "Qwen/Qwen3-30B-A3B")
    write_experts(tables, ep=True)
    found = compare_vllm_run(folder)
    assert (found.config["dp"], found.config["ep"], found.config["engines"]) == (2, 2, 1)
    assert any("step together" in note for note in found.notes)
    # Requests never meet: each is on one rank alone, and the other waits for it.
    from meshwright.profiles.llm import Iteration, KernelTables, iteration_cost

    cost = iteration_cost(decoder("Qwen3-30B-A3B"), KernelTables.load(tables, tp=1), dp=2, ep=2)
    assert found.simulated["ttft"] == pytest.approx(cost.seconds(Iteration(((64, 0),), 0, 0, 1)))
    older = pd.read_csv(tables / "moe.csv").query("ep == 1").drop(columns="ep")
    older.to_csv(tables / "moe.csv", index=False)
    assert any("not measured; moe.csv of ep 1" in note for note in compare_vllm_run(folder).notes)


def test_what_the_engine_resolved_counts_where_nothing_was_given(tmp_path, write_layer_tables, write_run):
    folder = write_run(tmp_path, kv_cache_dtype="fp8_e4m3", quantization="fp8", max_num_seqs="16")
    write_layer_tables(folder)
    meta = json.loads((folder / "meta.json").read_text())
    meta["kv_cache"] = {"num_gpu_blocks": 123, "block_size": 32}
    meta["resolved_config"] = {"scheduler_config": {"async_scheduling": False, "max_num_seqs": 99}}
    meta["engine_kwargs"]["max-num-batched-tokens"] = meta["engine_kwargs"].pop("max_num_batched_tokens")
    (folder / "meta.json").write_text(json.dumps(meta))
    lines = (folder / "requests.jsonl").read_text().splitlines()
    lost = json.loads(lines[0]) | {"first_token_ts": None, "last_token_ts": None}
    (folder / "requests.jsonl").write_text("\n".join([*lines, json.dumps(lost)]))
    (folder / "timeseries.csv").unlink()
    found = compare_vllm_run(folder)
    wanted = {
        "num_blocks": 123, "block_size": 32, "async_scheduling": False, "max_num_seqs": 16,
        "max_num_batched_tokens": 512,
    }  # fmt: skip
    assert {name: found.config[name] for name in wanted} == wanted
    assert found.over_time == []
    assert any("1 requests without all of their times" in note for note in found.notes)


def test_memory_of_the_trial_step():
    """The sampler's peak that vLLM published: 1.26 GiB for 256 sequences of 128,256 words, whatever the degree."""
    gib = 2**30
    model = decoder("Meta-Llama-3-8B")
    for tp in (1, 2):
        peak = trial_bytes(model, tp, 8192, 256, bf16_ends=False) - 0.16 * gib
        assert peak == pytest.approx(1.26 * gib, rel=0.01)
