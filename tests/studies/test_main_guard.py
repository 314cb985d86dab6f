"""Scripts without a main guard, and what has no script at all: one clear error soon, or it works; nothing hangs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

STUDY = """
from meshwright.studies import Study
said = {
    "study": 1, "cluster": {"devices": 4}, "models": {"bert-1.3b": 2}, "planners": ["round-robin"],
    "workload": {"rate": 5, "duration": 5, "slo_scale": 5}, "axes": {"rate": [2, 3, 4, 5]},
}
print("points", len(Study.from_dict(said).run(workers=2)))
"""
LLM = """
import numpy as np
from meshwright.planners.vllm import DrawnTraffic, LengthPairs, LLMDemand, SearchSpace, plan
from meshwright.profiles.llm import decoder
from meshwright.simulator import Cluster
lengths = LengthPairs("short", np.full(4, 8), np.full(4, 4))
demand = LLMDemand(decoder("llama-3.1-8b"), DrawnTraffic(lengths, 2.0, 20), ttft_s=1.0)
plan(Cluster.of(1, "h100-80gb"), [demand], workers=2, space=SearchSpace(tp=(1,), pp=(1,), batched_tokens=(1024,)))
print("planned")
"""
MEASURE = """
from meshwright.profiles.measure.pool import WorkerPool
with WorkerPool(1) as pool:
    print("measured")
"""


def started(*words: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], input=given, capture_output=True, text=True, timeout=120, check=False
    )  # fmt: skip


@pytest.mark.parametrize("script", [STUDY, LLM, MEASURE], ids=["study", "llm plan", "measure"])
def test_a_script_without_a_guard_is_told_so_once(script: str, tmp_path: Path) -> None:
    if script is MEASURE:
        pytest.importorskip("torch")
    path = tmp_path / "script.py"
    path.write_text(script)
    done = started(str(path))
    assert done.returncode == 1
    told = [line for line in done.stderr.splitlines() if line.startswith("meshwright.errors.InputError: ")]
    assert len(told) == 1, done.stderr
    assert 'put what the script does under: if __name__ == "__main__":' in told[0]
    assert done.stderr.count("Traceback") == 1, done.stderr
    assert "points" not in done.stdout


def test_with_a_guard_it_runs(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text("if __name__ == '__main__':\n" + "".join(f"    {line}\n" for line in STUDY.splitlines()))
    done = started(str(path))
    assert done.stdout == "points 4\n", done.stderr


@pytest.mark.parametrize("how", ["-c", "stdin"])
def test_without_a_script_it_runs(how: str) -> None:
    done = started("-c", STUDY) if how == "-c" else started("-", given=STUDY)
    assert done.stdout == "points 4\n", done.stderr


def test_a_script_that_cannot_be_run_anew_is_told_so(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(
        f"import multiprocessing as m\nif m.current_process().name != 'MainProcess':\n    raise SystemExit(7)\n{STUDY}"
    )
    done = started(str(path))
    assert done.returncode == 1
    assert "processes cannot be started: one that does nothing ended with exit code 7" in done.stderr
