"""`meshwright run` of a world file: apps that share a cluster, run for real on slots of this machine's cores."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import typer

from ..errors import InputError, RunError
from .status import status
from .trace_io import plain_json, print_frame, print_json

if TYPE_CHECKING:
    import pandas as pd

    from ..runtime.sharing import RealSharing
    from ..simulator.sharing import SharingResult
    from ..worlds.sharing.file import LoadedWorld

__all__ = ["SharingRun", "is_world", "no_world", "run_world"]

FORMATS = (".json", ".csv")
OPTIONS = {"slots_per_core": "--slots-per-core", "slot_steps": "--slot-steps", "time_scale": "--time-scale"}
"""Names of what `run_sharing` takes, as they are here."""


@dataclass(frozen=True, slots=True)
class SharingRun:
    """What the command line says of the run of a world.

    Parameters
    ----------
    path : Path
        World file.
    policy : str, optional
        By default the file's first.
    time_scale, slot_steps : float
    slots_per_core, seed : int
        See `runtime.sharing.run_sharing`.
    compare : bool
        Simulate the world too, with the standstills that were measured.
    out : Path, optional
        Where rows by app go, .json or .csv.
    as_json : bool
        Print for machines.
    """

    path: Path
    policy: str | None
    time_scale: float
    slot_steps: float
    slots_per_core: int
    seed: int
    compare: bool
    out: Path | None
    as_json: bool


def is_world(path: Path | None) -> bool:
    """Whether a file is a world file, which people write, and not a plan, which is JSON."""
    return path is not None and path.suffix in (".yaml", ".yml")


def no_world(path: Path) -> None:
    """Refuse a world file where a plan is asked for.

    Raises
    ------
    InputError
        If it is one.
    """
    if is_world(path):
        raise InputError(f"{path}: expected a plan, which is JSON; world files go to meshwright share, or run")


def run_world(asked: SharingRun) -> None:
    """Run, compare, print.

    Raises
    ------
    InputError
        On what is wrong on the command line or in the file, or with more GPUs than this machine stands in for.
    RunError
        If the run fails, or an agent was lost.
    """
    from ..files import check_target
    from ..runtime.sharing import RunOptions, run_sharing
    from ..runtime.sharing.options import check_slots
    from ..simulator.sharing import simulate

    if asked.seed < 0:
        raise InputError(f"--seed: expected an integer >= 0 (got {asked.seed})")
    if asked.out is not None:
        if asked.out.suffix not in FORMATS:
            raise InputError(f"--out: expected a name that ends in .json or .csv (got {asked.out})")
        check_target(asked.out)
    loaded, name = _loaded(asked)
    world, policy = loaded.world, loaded.policy(name)
    simulated: SharingResult | None = None
    with status("sharing") as say:
        try:
            # Before anything takes time; and nothing may divide by a time scale of 0.
            check_slots(world, RunOptions(asked.time_scale, asked.slot_steps, asked.slots_per_core))
            makespan_s = simulate(world, policy, engine="simpy").makespan_s
            say(f"{len(world.apps)} apps under {name}, about {makespan_s / asked.time_scale:.0f} s")
            began = time.perf_counter()
            real = run_sharing(
                world, policy, time_scale=asked.time_scale, slot_steps=asked.slot_steps,
                slots_per_core=asked.slots_per_core, seed=asked.seed,
            )  # fmt: skip
            seconds = time.perf_counter() - began
            if asked.compare:
                say("simulating it with what was measured")
                simulated = simulate(real.measured_world(), policy, engine="simpy")
        except InputError as error:
            text = _renamed(str(error))
            raise InputError(text if text.startswith("--") else f"{asked.path}: {text}") from None
    table = _frame(real, simulated)
    _say(asked, loaded, real, simulated, table, seconds)
    if real.lost:
        raise RunError(f"run: {len(real.lost)} of {len(world.apps)} agents were lost; the first: {real.lost[0]}")


def _loaded(asked: SharingRun) -> tuple[LoadedWorld, str]:
    """The world, and which policy is run."""
    from ..worlds.sharing.bids import is_bids
    from ..worlds.sharing.file import load_world

    if is_bids(asked.path):
        raise InputError(f"{asked.path}: holds bids, of which nothing runs; see meshwright share")
    loaded = load_world(asked.path)
    name = asked.policy or next(iter(loaded.planners))
    try:
        loaded.planner(name)
    except InputError as error:
        raise InputError(f"--policy: {error}") from None
    return loaded, name


def _renamed(text: str) -> str:
    """What `run_sharing` says, with the options of the command line."""
    text = text.removeprefix("run_sharing: ").replace("raise max_s", "raise max_time")
    for name, option in OPTIONS.items():
        text = text.replace(name, option)
    return text


def _frame(real: RealSharing, simulated: SharingResult | None) -> pd.DataFrame:
    """A row for each app; seconds of the world. `off`: real over simulated time from arrival to end, less one."""
    import pandas as pd

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


def _say(
    asked: SharingRun, loaded: LoadedWorld, real: RealSharing, simulated: SharingResult | None, table: pd.DataFrame,
    seconds: float,
) -> None:  # fmt: skip
    """Print and write what came out."""
    from ..files import write_text
    from ..worlds.sharing.measures import measures
    from .share_words import print_results, say_world

    results: dict[str, SharingResult] = {"real": real} | ({} if simulated is None else {"simulated": simulated})
    m = real.measured
    document = {
        "world": loaded.name, "policy": real.policy, "seconds": seconds, "time_scale": asked.time_scale,
        **{what: measures(result) for what, result in results.items()},
        "steps": m.steps, "rounds": m.rounds, "behind_s": m.behind_s,
        "container_s": m.pause_s(resumed=False), "resume_s": m.pause_s(resumed=True),
        "lost": [str(lost) for lost in real.lost], "per_app": table.to_dict("records"),
    }  # fmt: skip
    if asked.out is not None:
        csv = asked.out.suffix == ".csv"
        text = table.to_csv(index=False) if csv else json.dumps(plain_json(document), indent=2, allow_nan=False) + "\n"
        write_text(asked.out, text)
    if asked.as_json:
        print_json(document)
        return
    typer.echo(f"{say_world(loaded, (real.policy,))}")
    typer.echo(f"{real.policy}, {asked.time_scale:g} s of the world in a real one: {seconds:.0f} s, {m.steps} steps\n")
    print_frame(table.drop(columns="completed") if bool(real.completed.all()) else table)
    typer.echo("")
    print_results("", results)
    if simulated is not None:
        off = np.abs(table["off"])
        near = f"{int((off <= 0.1).sum())} of {len(table)} apps, the farthest {off.max():.1%} off"
        typer.echo(f"\nin the cluster for as long as simulated to within 10 %: {near}")
    for lost in real.lost:
        typer.echo(f"lost: {lost}", err=True)
    if asked.out is not None:
        typer.echo(f"written: {asked.out}")
