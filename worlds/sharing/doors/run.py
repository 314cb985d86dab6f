"""Running: apps that share a cluster, for real, on slots of this machine's cores."""

from __future__ import annotations

import json
import time
from typing import cast

import numpy as np
import pandas as pd

from ....errors import InputError
from ....files import write_text
from ....runtime.sharing import RealSharing, run_sharing
from ....runtime.sharing import RunOptions as RuntimeOptions
from ....runtime.sharing.options import check_slots
from ....simulator.sharing import SharingResult, simulate
from ...before import one_plan
from ...door import Answer, Asked
from ...words import plain_json, table
from ..build import in_file_words
from ..measures import measures
from ..options import RunOptions
from .shared import shared_of
from .words import results_text, say_world

__all__ = ["ran"]

FORMATS = (".json", ".csv")


def ran(asked: Asked) -> Answer:
    """Run, and simulate with what was measured.

    Raises
    ------
    InputError
        On what is wrong with the case or the options, or with more GPUs than this machine stands in for.
    RunError
        If the run fails.
    """
    options = cast(RunOptions, asked.options)
    one_plan(asked)
    if asked.out is not None and asked.out.suffix not in FORMATS:
        raise InputError(f"--out: expected a name that ends in .json or .csv (got {asked.out})")
    shared = shared_of(asked)
    (name,) = shared.planners
    world, policy = shared.world, shared.policy(name)
    simulated: SharingResult | None = None
    runtime = RuntimeOptions(
        time_scale=options.time_scale, slot_steps=options.slot_steps, slots_per_core=options.slots_per_core,
        seed=shared.case.seed,
    )  # fmt: skip
    try:
        check_slots(world, runtime)  # before anything takes time; and nothing may divide by a time scale of 0
        makespan_s = simulate(world, policy, engine="simpy").makespan_s
        asked.progress(f"{len(world.apps)} apps under {name}, about {makespan_s / options.time_scale:.0f} s")
        began = time.perf_counter()
        real = run_sharing(world, policy, options=runtime)
        seconds = time.perf_counter() - began
        if options.compare:
            asked.progress("simulating it with what was measured")
            simulated = simulate(real.measured_world(), policy, engine="simpy")
    except InputError as error:
        raise in_file_words(error) from None
    rows = _frame(real, simulated)
    results: dict[str, SharingResult] = {"real": real} | ({} if simulated is None else {"simulated": simulated})
    m = real.measured
    document = {
        "world": shared.name, "policy": real.policy, "seconds": seconds, "time_scale": options.time_scale,
        **{what: measures(result) for what, result in results.items()},
        "steps": m.steps, "rounds": m.rounds, "behind_s": m.behind_s,
        "container_s": m.pause_s(resumed=False), "resume_s": m.pause_s(resumed=True),
        "lost": [str(lost) for lost in real.lost], "per_app": rows.to_dict("records"),
    }  # fmt: skip
    if asked.out is not None:
        csv = asked.out.suffix == ".csv"
        text = rows.to_csv(index=False) if csv else json.dumps(plain_json(document), indent=2, allow_nan=False) + "\n"
        write_text(asked.out, text)
    said = [
        say_world(shared, (name,)),
        f"{real.policy}, {options.time_scale:g} s of the world in a real one: {seconds:.0f} s, {m.steps} steps\n",
        table(rows.drop(columns="completed") if bool(real.completed.all()) else rows),
        "",
        results_text("", results),
    ]
    if simulated is not None:
        off = np.abs(rows["off"])
        near = f"{int((off <= 0.1).sum())} of {len(rows)} apps, the farthest {off.max():.1%} off"
        said.append(f"\nin the cluster for as long as simulated to within 10 %: {near}")
    said += [f"lost: {lost}" for lost in real.lost]
    failed = ""
    if real.lost:
        failed = f"run: {len(real.lost)} of {len(world.apps)} agents were lost; the first: {real.lost[0]}"
    written = () if asked.out is None else (asked.out,)
    return Answer("\n".join(said), document, real, written=written, failed=failed)


def _frame(real: RealSharing, simulated: SharingResult | None) -> pd.DataFrame:
    """A row for each app; seconds of the world. `off`: real over simulated time from arrival to end, less one."""
    table = pd.DataFrame(
        {
            "app": [app.name for app in real.world.apps], "arrival_s": [app.arrival_s for app in real.world.apps],
            "completed": real.completed, "finish_s": real.finish, "rho": real.rho, "gpu_s": real.gpu_seconds,
        }
    )  # fmt: skip
    if simulated is not None:
        both = real.completed & simulated.completed
        table["simulated_finish_s"], table["simulated_rho"] = simulated.finish, simulated.rho
        table["off"] = np.where(both, real.completion_s / simulated.completion_s - 1.0, np.nan)
    return table
