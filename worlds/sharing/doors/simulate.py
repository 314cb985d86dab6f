"""Simulating: many apps on one cluster, under each of several policies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, cast

import pandas as pd

from ....errors import InputError
from ....files import write_text
from ....simulator.forecast import Forecast
from ....simulator.metrics import Estimate, mean_interval
from ....simulator.sharing import SharingResult, simulate
from ...door import Answer, Asked
from ...words import interval, plain_json, table
from ..build import in_file_words
from ..measures import measures
from ..options import SimulateOptions
from ..varying import drawn_world, forecast
from .auction import auctioned
from .shared import Shared, shared_of
from .timeline import check_timeline, write_timeline
from .words import COLUMNS, apps_text, document, forecasts_text, frame, results_text, say_world, write

__all__ = ["simulated"]

FORMATS = (".json", ".csv")
Figures = dict[str, dict[str, Estimate]]


def simulated(asked: Asked) -> Answer:
    """Simulate every policy on the same apps; or under several seeds, with intervals; or hold one auction.

    Raises
    ------
    InputError
        On what is wrong with the case or the options, or an app that never ends.
    """
    options = cast(SimulateOptions, asked.options)
    if options.bids is not None:
        return auctioned(options, asked.out)
    engine: Any = options.engine
    if asked.out is not None and asked.out.suffix not in FORMATS:
        raise InputError(f"--out: expected a name that ends in .json or .csv (got {asked.out})")
    if options.timeline is not None:
        engine = check_timeline(options.timeline, options.engine)
    shared = shared_of(asked)
    chosen = tuple(shared.planners)
    if options.dry_run:
        said = say_world(shared, chosen)
        return Answer(f"{said}\ndry run: everything was checked, nothing was simulated", {"world": said})
    if options.seeds is not None:
        return _drawn(asked, options, shared, engine)
    if shared.case.times == "drawn":
        return _varying(asked, options, shared, engine)
    results: dict[str, SharingResult] = {}
    for number, name in enumerate(chosen, 1):
        asked.progress(f"{name}, {number} of {len(chosen)}")
        try:
            results[name] = simulate(shared.world, shared.policy(name), engine=engine)
        except InputError as error:  # of an app that never ends
            raise in_file_words(error) from None
    if asked.out is not None:
        write(asked.out, shared, results)
    if options.timeline is not None:
        write_timeline(options.timeline, results)
    text = [say_world(shared, chosen), results_text("policy", results)]
    if options.per_app:
        text += [apps_text(name, frame(name, result)) for name, result in results.items()]
    written = tuple(path for path in (asked.out, options.timeline) if path is not None)
    value = next(iter(results.values())) if len(results) == 1 else results
    return Answer("\n".join(text), document(shared, results), value, written=written)


def _varying(asked: Asked, options: SimulateOptions, shared: Shared, engine: Any) -> Answer:
    """Policies over draws of the times of one workload: what a run is expected to be, and where it will lie."""
    _of_one_draw(options, "times: drawn takes many")
    forecasts: dict[str, Forecast] = {}
    for name in shared.planners:
        try:
            forecasts[name] = forecast(
                shared.case, shared.world, shared.policy(name), engine=engine,
                progress=lambda run, name=name: asked.progress(f"{name}, draw {run + 1} of {shared.case.draws}"),
            )  # fmt: skip
        except InputError as error:
            raise in_file_words(error) from None
    document = {"world": shared.name, "policies": {name: told.to_dict() for name, told in forecasts.items()}}
    if asked.out is not None and asked.out.suffix == ".csv":
        rows = [pd.DataFrame({"policy": name, **told.runs}).rename_axis("draw") for name, told in forecasts.items()]
        write_text(asked.out, pd.concat(rows).to_csv())
    elif asked.out is not None:
        write_text(asked.out, json.dumps(plain_json(document), indent=2, allow_nan=False) + "\n")
    text = f"{say_world(shared, tuple(shared.planners))}; {forecasts_text(forecasts)}"
    value = next(iter(forecasts.values())) if len(forecasts) == 1 else forecasts
    return Answer(text, document, value, written=() if asked.out is None else (asked.out,))


def _of_one_draw(options: SimulateOptions, instead: str) -> None:
    """Refuse what is of a single simulation."""
    for name in ("timeline", "per_app"):
        if getattr(options, name):
            raise InputError(f"{name}: is of one draw, and {instead}; leave one of the two out")


def _drawn(asked: Asked, options: SimulateOptions, shared: Shared, engine: Any) -> Answer:
    """Policies over several draws of the workload, since one draw says little; times that vary are drawn with each."""
    _of_one_draw(options, f"seeds takes {options.seeds}")
    if asked.out is not None:
        raise InputError(f"out: is of one draw, and seeds takes {options.seeds}; leave one of the two out")
    if shared.case.workload is None:
        raise InputError("seeds: the apps are listed, and the same under every seed; give a workload")
    seeds = options.seeds or 0
    found: dict[str, list[dict[str, float]]] = {name: [] for name in shared.planners}
    for r in range(seeds):
        drawn = shared_of(asked, shared.case.seed + r)
        for name in shared.planners:
            asked.progress(f"draw {r + 1} of {seeds}, {name}")
            world = drawn_world(drawn.case, drawn.world)
            found[name].append(measures(simulate(world, drawn.policy(name), engine=engine)))
    figures: Figures = {
        name: {
            metric: mean_interval([row[metric] for row in rows])
            for metric in rows[0]
            if all(row[metric] == row[metric] for row in rows)  # what a draw does not know (NaN) has no mean
        }
        for name, rows in found.items()
    }
    about = f"{say_world(shared, tuple(shared.planners))}; means over {seeds} draws, ± half the 95 % interval"
    policies = {n: {m: asdict(e) for m, e in f.items()} for n, f in figures.items()}
    return Answer(f"{about}\n{_means(figures)}", {"seeds": seeds, "policies": policies}, figures)


def _means(figures: Mapping[str, Mapping[str, Estimate]]) -> str:
    """A row for each policy: means with half their intervals."""
    rows: list[dict[str, str]] = []
    for name, found in figures.items():
        row = {"policy": name}
        for metric, (column, unit) in COLUMNS.items():
            e = found.get(metric)
            row[column] = "-" if e is None else interval(e.mean / unit, e.half_width / unit)
        rows.append(row)
    shown = pd.DataFrame(rows)
    if all("failed" in f and f["failed"].mean == 0 for f in figures.values()):
        shown = shown.drop(columns="failed")
    return table(shown)
