"""The case study's gain in other settings, split as §3.7.4 splits it: the shorter warm-up and the larger microbatch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from ..report import Frame, Progress, quiet
from .lead import PAIR, Case
from .points import measure
from .setting import Setting
from .sweeps import AXES
from .systems import plan_of

__all__ = ["VARIANTS", "shared_stages", "split", "variants"]

_ONE = Setting(one_device=True)
_HOST_S, _ROWS = AXES["host_s"].values[1], AXES["half_rows"].values[2]

VARIANTS: Mapping[str, Setting] = MappingProxyType(
    {
        "as the figures": Setting(),
        "one device a stage": _ONE,
        f"host time {_HOST_S * 1e6:g} µs": Setting(host_s=_HOST_S),
        f"half speed at {_ROWS:g} rows": Setting(half_rows=_ROWS),
        f"one device a stage, host time {_HOST_S * 1e6:g} µs": replace(_ONE, host_s=_HOST_S),
        f"one device a stage, half speed at {_ROWS:g} rows": replace(_ONE, half_rows=_ROWS),
        f"one device a stage, half speed at {2 * _ROWS:g} rows": replace(_ONE, half_rows=2 * _ROWS),
    }
)


def split(case: Case, setting: Setting) -> dict[str, Any]:
    """Both pipelines in a setting, and GraphPipe's gain: whole, from the warm-up, and from the microbatch."""
    mine, chain = (measure(case.point(system, setting)) for system in PAIR)
    point = case.point("GraphPipe", setting)
    same = measure(replace(point, microbatch=int(chain["largest_microbatch"])))
    shared, number = shared_stages(case, setting)
    return {
        "graphpipe_depth": mine["depth"],
        "sequential_depth": chain["depth"],
        "shared_stages": shared,
        "stages": number,
        "graphpipe_microbatch": mine["largest_microbatch"],
        "sequential_microbatch": chain["largest_microbatch"],
        "gain": mine["samples_per_s"] / chain["samples_per_s"],
        "from_warm_up": same["samples_per_s"] / chain["samples_per_s"],
        "from_microbatch": mine["samples_per_s"] / same["samples_per_s"],
    }


def shared_stages(case: Case, setting: Setting) -> tuple[int, int]:
    """How many stages of GraphPipe hold the same operators as a stage of the chain, and how many there are."""
    mine, chain = (
        {frozenset(stage.operators) for stage in plan_of(case.point(system, setting)).stages} for system in PAIR
    )
    return len(mine & chain), len(mine)


def variants(case: Case, progress: Progress = quiet) -> Frame:
    """One row for each of `VARIANTS`."""
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for k, (name, setting) in enumerate(VARIANTS.items()):
        progress(k, len(VARIANTS), f"{case.title}: {name}")
        rows.append({"setting": name} | split(case, setting))
    return pd.DataFrame(rows)
