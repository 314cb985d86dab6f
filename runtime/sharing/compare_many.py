"""`compare_many`: real runs beside their simulations, one for each policy and seed, and what they come to together."""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError, MeshwrightError
from ...files import check_target, write_text
from ...simulator.sharing.world import SharingWorld
from .arguments import add_run_arguments, add_world_arguments, choice_of, whole, world_of
from .choice import PolicyChoice
from .compare import SharingComparison, compare_sharing, within, worst
from .options import RunOptions

__all__ = ["Compared", "compare_many", "main", "summary"]


@dataclass(frozen=True)
class Compared:
    """One run and its simulation.

    Parameters
    ----------
    policy : str
        Name of the policy.
    seed : int
        Seed of the world, of weights and data, and of lots.
    comparison : SharingComparison
        The comparison of run and simulation.
    """

    policy: str
    seed: int
    comparison: SharingComparison


def compare_many(
    cases: Iterable[tuple[PolicyChoice, int, SharingWorld]], options: RunOptions | None = None, **more: Any
) -> Iterator[Compared]:  # fmt: skip
    """Run cases one after the other; each is handed out when it is over.

    Parameters
    ----------
    cases : iterable of (PolicyChoice, int, SharingWorld)
        Policy, seed and world.
    options : RunOptions, optional
        How each is run; the seed is the case's.
    **more
        See `run_sharing`.

    Raises
    ------
    InputError, RunError
        See `run_sharing`.
    """
    for choice, seed, world in cases:
        seeded = replace(options or RunOptions(), seed=seed)
        yield Compared(choice.name, seed, compare_sharing(world, choice, seeded, **more))


def summary(done: Sequence[Compared]) -> str:
    """A line for each run, and for each seed whether the policies stand in the same order as in simulation."""
    lines = [
        f"{'policy':<14}{'seed':>5}{'within 10 %':>13}{'worst':>8}{'from arrival':>14}{'max rho':>9}{'simulated':>11}"
        f"{'alike':>8}"
    ]
    for one in done:
        c = one.comparison
        off, waited = c.finish_error, c.completion_error
        lines.append(
            f"{one.policy:<14}{one.seed:>5}{f'{within(off)} of {len(off)}':>13}{worst(off):>8.1%}{worst(waited):>14.1%}"
            f"{_max(c.real.rho):>9.2f}{_max(c.simulated.rho):>11.2f}{f'{c.same_grants}/{len(c.simulated.grants)}':>8}"
        )
    good = sum(within(one.comparison.finish_error) for one in done)
    total = sum(len(one.comparison.finish_error) for one in done)
    lines.append(f"finish times within 10 %: {good} of {total} in {len(done)} runs")
    for seed in dict.fromkeys(one.seed for one in done):
        of = [one for one in done if one.seed == seed]
        if len(of) > 1:
            real = sorted(of, key=lambda one: _max(one.comparison.real.rho))
            simulated = sorted(of, key=lambda one: _max(one.comparison.simulated.rho))
            names = " < ".join(one.policy for one in real)
            same = "as simulated" if real == simulated else "simulated: " + " < ".join(o.policy for o in simulated)
            lines.append(f"seed {seed}, by max rho: {names} ({same})")
    return "\n".join(lines)


def _max(rho: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    return float(np.nanmax(rho)) if np.isfinite(rho).any() else math.nan


def _write(path: Path, done: Sequence[Compared]) -> None:
    rows = [{"seed": one.seed} | row for one in done for row in one.comparison.rows()]
    if path.suffix == ".csv":
        text = io.StringIO()
        writer = csv.DictWriter(text, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_text(path, text.getvalue())
        return
    for row in rows:
        row.update({k: None for k, v in row.items() if isinstance(v, float) and not math.isfinite(v)})
    write_text(path, json.dumps(rows, indent=1) + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="meshwright.runtime.sharing.compare", description="Real runs beside their simulations, by policy and seed."
    )
    parser.add_argument("--policy", default="themis", help="themis (default), baselines, module:factory; with commas")
    parser.add_argument("--seed", default="0", help="of apps, weights, lots: one, or some with commas (default 0)")
    parser.add_argument("--arbiter", choices=("thread", "process"), default="thread", help="where it lives (thread)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write a row for each app: .csv, else JSON")
    add_world_arguments(parser)
    add_run_arguments(parser)
    return parser


def compare(arguments: Sequence[str] | None = None) -> None:
    """Do as the command line says.

    Raises
    ------
    InputError, RunError
        See `run_sharing`; or on wrong arguments.
    """
    given = _parser().parse_args(arguments)
    names = [name for name in given.policy.replace(",", " ").split() if name]
    if not names or len(set(names)) < len(names):
        raise InputError(f"--policy: expected names of policies, each once (got {given.policy!r})")
    seeds = whole("--seed", given.seed)
    if given.out is not None:
        check_target(given.out)
    cases: list[tuple[PolicyChoice, int, SharingWorld]] = []
    for seed in seeds:
        world = world_of(given, seed)
        for name in names:
            choice = choice_of(name, given.option, world.lease_s, seed)
            choice.make()  # what is wrong with any is said before the first runs
            cases.append((choice, seed, world))
    done: list[Compared] = []
    options = RunOptions(
        time_scale=given.time_scale, slot_steps=given.slot_steps, slots_per_core=given.slots_per_core,
        patience=given.patience, answer_s=given.answer_s,
    )  # fmt: skip
    for one in compare_many(cases, options, arbiter=given.arbiter):
        if len(cases) > 1:
            print(f"{'' if not done else chr(10)}{one.policy}, seed {one.seed}")
        print(one.comparison, flush=True)
        done.append(one)
        if given.out is not None:
            _write(given.out, done)  # after each: what is measured is kept if a later one fails
    if len(cases) > 1:
        print(f"\n{summary(done)}")


def main(arguments: Sequence[str] | None = None) -> int:
    """`compare`, with errors as one line. Exit code 2 on wrong input, 1 if something failed while it ran."""
    try:
        compare(arguments)
    except MeshwrightError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0
