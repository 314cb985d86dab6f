"""docs/sharing-workloads.md says what the code does: models, claims, figures."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from meshwright.simulator.sharing import MODELS, WorkloadOptions, workload1
from meshwright.simulator.sharing.workload import themis as module
from meshwright.simulator.sharing.workload.statistics import app_gpu_s

PAGE = (Path(__file__).parents[4] / "docs" / "sharing-workloads.md").read_text("utf-8")


def test_models_are_those_of_the_code() -> None:
    for m in MODELS.values():
        cells = [
            m.name, m.category, f"{m.parameters / 1e6:g}", f"{m.slowdown.rack:.3f}", f"{m.slowdown.cluster:.3f}",
            "measured" if m.measured else "assumed",
        ]  # fmt: skip
        assert f"| {' | '.join(cells)} | {'yes' if m.network_intensive else ''} |" in PAGE


def test_constants_are_those_of_the_code() -> None:
    assert f"{module.TWO_GPU_SHARE:.0%}".replace("%", " %") in PAGE
    assert f"e^±{module.JOB_LOG_SD:g}" in PAGE
    assert f"(a few tens: {module.FEWEST})" in PAGE
    assert WorkloadOptions().burstiness == 2
    assert WorkloadOptions().tasks == (2, 4, 8)


@pytest.mark.slow
def test_the_load_of_unscaled_apps() -> None:
    days = 256 * 14 * 86400
    loads = [app_gpu_s(workload1(WorkloadOptions(seed=s))).sum() / days for s in range(100)]
    said = re.search(r"are ([\d.]+) times what 256 GPUs do \(([\d.]+) to ([\d.]+) in nine of ten draws\)", PAGE)
    assert said is not None
    assert [float(x) for x in said.groups()] == pytest.approx(
        [float(np.mean(loads)), *np.percentile(loads, [5, 95])], abs=0.06
    )
