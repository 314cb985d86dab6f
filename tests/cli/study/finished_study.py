"""What every study leaves when it is finished, whatever its world: checked file by file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
from meshwright import studies

__all__ = ["check_finished"]

LEFT = {"store.sqlite", "points.csv", "points.parquet", "summary.csv", "report.html", "figures", "run.json"}


def check_finished(study: studies.Study, out: Path, printed: str) -> pd.DataFrame:
    """Hold the outputs of a study that ran well against each other and against the study; gives the summary.

    Every value of every axis stands beside every planner in one row, over all replications, with an interval for each
    metric; points and summary have the same means; the page and the printed table show them.
    """
    assert {path.name for path in out.iterdir()} == LEFT
    points, summary = pd.read_csv(out / "points.csv"), pd.read_csv(out / "summary.csv")
    assert len(pd.read_parquet(out / "points.parquet")) == len(points) >= len(study)
    assert not points["error"].notna().any(), points["error"].dropna().tolist()
    n = study.replications
    design = points[: len(study)]  # the questions' points stand after them
    assert len(summary) >= len(study) // n
    assert set(summary["replications"]) == {n}, "a row is the mean over all replications"
    metrics = [name for name in study.world.metrics if name in points]
    assert metrics, "no metric at all"
    known = set(study.world.metrics)
    axes = [axis.path for axis in study.axes]
    for name in metrics:
        means = design.groupby([*axes, "planner"], sort=False, dropna=False)[name].mean().to_numpy()
        assert np.allclose(summary[name][: len(means)], means, equal_nan=True), name
        assert f"{name}_half_width" in summary
        if n > 1 and design.groupby([*axes, "planner"])[name].std().max() > 0:
            assert (summary[f"{name}_half_width"] > 0).any(), f"no interval of {name}"
    extra = (
        {str(c) for c in points} - known - {"point", "planner", "replication", "status", "notes", "decision", "error"}
    )
    assert set(axes) <= extra
    page = (out / "report.html").read_text(encoding="utf-8")
    assert page.count("<tr") > len(study) // n, "the page's table has a row for each combination"
    for planner in study.planners:
        assert planner in page
        assert planner in printed
    assert page.count("</html>") == 1
    assert json.loads((out / "run.json").read_text())["runs"][-1]["failed"] == 0
    assert "report.html" in printed
    assert "Traceback" not in printed
    return summary
