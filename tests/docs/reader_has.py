"""Files that pages suppose a reader has: small ones in the formats of their sources, for the marks `before`."""

from __future__ import annotations

import json
import runpy
import shutil
from pathlib import Path

from sample_data import SAMPLES

TESTS = Path(__file__).parents[1]


def job_logs(folder: Path) -> None:
    """The same few jobs as Philly, Helios and Alibaba write them down; Philly's log begins 31 days before them."""
    held = runpy.run_path(str(TESTS / "worlds" / "sharing" / "test_logs.py"))
    old = json.dumps(held["_philly"]("old", "u9", "Pass", "00:00:00", "00:00:00", "01:00:00", 1))
    philly = [*json.loads(held["PHILLY"]), json.loads(old.replace("2017-10-07", "2017-09-06"))]
    files = {
        "cluster_job_log": json.dumps(philly), "cluster_log.csv": held["HELIOS"],
        "pai_job_table.csv": held["ALIBABA_JOBS"], "pai_task_table.csv": held["ALIBABA_TASKS"],
        "pai_instance_table.csv": held["ALIBABA_INSTANCES"],
    }  # fmt: skip
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def azure(folder: Path) -> None:
    """An hour of Azure's functions under both names that the page uses."""
    (folder / "folder-with-maf1").mkdir()
    first = SAMPLES / "traces" / "azure_functions_2019_invocations_sample.csv"
    shutil.copy(first, folder / "folder-with-maf1" / "invocations_per_function_md.anon.d01.csv")
    head, *rows = (SAMPLES / "traces" / "azure_functions_2021_sample200.csv").read_text(encoding="utf-8").splitlines()
    later = [row.split(",") for row in rows]
    lines = [",".join([app, name, str(float(end) + 12 * 86400), lasted]) for app, name, end, lasted in later]
    (folder / "AzureFunctions….txt").write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")


def token_logs(folder: Path) -> None:
    """Logs of language-model requests: Azure's, and one of Mooncake's form whose prompts fit a small model."""
    shutil.copy(SAMPLES / "traces" / "AzureLLMInferenceTrace_conv.csv", folder / "azure-llm.csv")
    rows = [
        {"timestamp": 500 * k, "input_length": 1536, "output_length": 40, "hash_ids": [0, 1, 10 + k]} for k in range(80)
    ]
    (folder / "mooncake.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")


def measured_kernels(folder: Path) -> None:
    """Public kernels and measured rows of a benchmark, and a recorded run."""
    shutil.copytree(SAMPLES / "kernels", folder / "kernels")
    shutil.copy(SAMPLES / "silicon_rows.csv", folder / "rows.csv")
    (folder / "runs").mkdir()
    shutil.copytree(SAMPLES / "vllm_runs" / "rtxpro6000_llama-3.1-8b", folder / "runs" / "gpu_model")


def authors_files(folder: Path) -> None:
    """What PipeDream's and Piper's own code reads."""
    held = runpy.run_path(str(TESTS / "cli" / "pipelines" / "test_authors_formats.py"))
    (folder / "graph.txt").write_text(held["graph_text"](), encoding="utf-8")
    (folder / "bert.json").write_text(json.dumps(held["instance"]()), encoding="utf-8")


def opt_fits(folder: Path) -> None:
    """Fitted iteration times in the format of DistServe's simulator: of one model, invented."""
    line = {
        "prefill": [22.0, 0.14, 8e-6],
        "decoding_smallbs": [23.0, 6e-4, 0.06],
        "decoding_largebs": [20.0, 5e-4, 0.12],
    }
    fits = {"facebook/opt-13b": {"1": {**line, "decoding_large_small_bs_threshold": 95}}}
    (folder / "opt-fits.json").write_text(json.dumps(fits), encoding="utf-8")
