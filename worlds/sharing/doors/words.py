"""What is said of a shared cluster: the world in a line, a row for each policy, a row for each app."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...words import plain_json, table

if TYPE_CHECKING:
    import pandas as pd

    from ....simulator.forecast import Forecast
    from ....simulator.sharing import SharingResult
    from .shared import Shared

__all__ = ["COLUMNS", "apps_text", "document", "forecasts_text", "frame", "results_text", "say_world", "write"]

COLUMNS: dict[str, tuple[str, float]] = {
    "max_rho": ("max rho", 1.0), "fair_share": ("rho<=1", 1.0), "jain": ("Jain", 1.0), "gpu_hours": ("GPU h", 1.0),
    "mean_completion_s": ("JCT h", 3600.0), "p95_completion_s": ("p95 JCT h", 3600.0),
    "makespan_s": ("makespan h", 3600.0), "utilisation": ("util", 1.0), "placement": ("placed", 1.0),
    "failed": ("failed", 1.0),
}  # fmt: skip
"""Metric -> its column, and what it is divided by."""

FORECAST = ("max_rho", "fair_share", "mean_completion_s", "gpu_hours", "makespan_s")
"""Metrics whose intervals are shown."""


def say_world(loaded: Shared, policies: Sequence[str]) -> str:
    """The world in a line; of a job log, one more: what is in it, and what was left out."""
    from ....planners.themis import Themis

    world = loaded.world
    jobs = sum(len(app.jobs) for app in world.apps)
    failures = len(world.machine_failures) + len(world.app_failures)
    together = " (all end together)" if world.lease_ends == "together" else ""
    said = [
        f"{loaded.name}: {world.cluster}", f"{len(world.apps)} apps of {jobs} jobs",
        f"lease {world.lease_s:g} s{together}", f"changes cost {world.checkpoint_s:g} + {world.container_s:g} s",
    ]  # fmt: skip
    if failures:
        said.append(f"{failures} failures")
    made = {name: loaded.policy(name) for name in policies}
    fairness = sorted({policy.fairness for policy in made.values() if isinstance(policy, Themis)})
    if fairness:
        said.append(f"f = {' and '.join(f'{f:g}' for f in fairness)}")
    placed = {n: loaded.planners[n].options.get("placement") for n, p in made.items() if not isinstance(p, Themis)}
    blind = [name for name, how in placed.items() if how == "blind"]
    if blind:
        said.append("GPUs by lot" if len(blind) == len(placed) else f"GPUs of {', '.join(blind)} by lot")
    line = ", ".join(said)
    return line if loaded.log is None else f"{line}\n{loaded.log}"


def results_text(title: str, results: Mapping[str, SharingResult]) -> str:
    """A row for each result, under a title for what they are called by."""
    import pandas as pd

    from ..measures import measures

    rows: list[dict[str, Any]] = []
    for name, result in results.items():
        found = measures(result)
        rows.append({title: name} | {column: found[key] / unit for key, (column, unit) in COLUMNS.items()})
    rows_of = pd.DataFrame(rows)
    rows_of["failed"] = rows_of["failed"].astype(int)
    if all(result.completed.all() for result in results.values()):
        rows_of = rows_of.drop(columns="failed")
    return table(rows_of)


def forecasts_text(forecasts: Mapping[str, Forecast]) -> str:
    """A row for each policy: the mean over draws and the interval of the main figures."""
    import pandas as pd

    rows: list[dict[str, str]] = []
    for name, told in forecasts.items():
        row = {"policy": name}
        for metric in FORECAST:
            column, unit = COLUMNS[metric]
            if metric in told.runs:
                low, high = told.interval(metric)
                row[column] = f"{told.expected(metric) / unit:.4g} ({low / unit:.4g} to {high / unit:.4g})"
        rows.append(row)
    one = next(iter(forecasts.values()))
    about = f"means over {one.draws} draws of times, and where {one.coverage:.0%} of runs lie"
    return f"{about}\n{table(pd.DataFrame(rows).fillna('-'))}"


def frame(policy: str, result: SharingResult) -> pd.DataFrame:
    """A row for each app; seconds, GPU seconds."""
    import pandas as pd

    apps = result.world.apps
    return pd.DataFrame(
        {
            "policy": policy, "app": [a.name for a in apps], "model": [a.model for a in apps],
            "jobs": [len(a.jobs) for a in apps], "max_gpus": [a.max_gpus for a in apps],
            "arrival_s": [a.arrival_s for a in apps], "start_s": result.start, "finish_s": result.finish,
            "completed": result.completed, "jct_s": result.completion_s, "rho": result.rho,
            "gpu_s": result.gpu_seconds, "mean_apps": result.contention,
        }
    )  # fmt: skip


def apps_text(policy: str, rows: pd.DataFrame) -> str:
    """A row for each app, for a person."""
    return f"\n{policy}\n{table(rows.drop(columns=['policy', 'completed']))}"


def document(loaded: Shared, results: Mapping[str, SharingResult]) -> dict[str, Any]:
    """Everything, for machines; what is not known is null."""
    from ..measures import measures

    world = loaded.world
    return {
        "world": loaded.name,
        "gpus": world.cluster.n_gpus,
        "apps": len(world.apps),
        "lease_s": world.lease_s,
        "lease_ends": world.lease_ends,
        "seed": loaded.case.seed,
        "log": None if loaded.log is None else str(loaded.log),
        "policies": [
            {
                "policy": name,
                "options": dict(loaded.planners[name].options),
                **measures(result),
                "per_app": frame(name, result).drop(columns="policy").to_dict("records"),
            }
            for name, result in results.items()
        ],
    }


def write(out: Path, loaded: Shared, results: Mapping[str, SharingResult]) -> None:
    """All as JSON, or a row for each policy and app as CSV."""
    import pandas as pd

    from ....files import write_text

    if out.suffix == ".json":
        write_text(out, json.dumps(plain_json(document(loaded, results)), indent=2, allow_nan=False) + "\n")
    else:
        rows = pd.concat([frame(name, result) for name, result in results.items()])
        write_text(out, rows.to_csv(index=False))
