"""Running with checkpoints: ranks are killed by a script, training goes on, and the simulation is held against it."""

from __future__ import annotations

import io
import math
from dataclasses import replace
from typing import Any, cast

import numpy as np

from ....errors import InputError
from ....files import write_bytes, write_text
from ....profiles.graph import Graph
from ....runtime.training import RunOptions as RuntimeOptions
from ....runtime.training.recovery.beside import drawing, rows
from ....runtime.training.recovery.forecast import Costs, Forecast, forecast, measure_costs
from ....runtime.training.recovery.result import RecoveredRun
from ....runtime.training.recovery.run import run_with_failures
from ....simulator.training import TrainingPlan
from ....simulator.training.goodput import Strike
from ....simulator.training.plan.words import seconds_text, table
from ...door import Answer, Asked
from ..case import TrainingCase
from ..options import RunOptions

__all__ = ["recovered", "strikes_of"]


def strikes_of(words: tuple[str, ...], ranks: int) -> tuple[Strike, ...]:
    """The script: ``SECONDS@RANK`` each.

    Raises
    ------
    InputError
        On what is none, or a rank that the plan has not.
    """
    found: list[Strike] = []
    for word in words:
        at, _, rank = word.partition("@")
        try:
            one = Strike(float(at), int(rank))
        except ValueError:
            raise InputError(f"kills: expected SECONDS@RANK, such as 5@1 (got {word!r})") from None
        if one.node >= ranks:
            raise InputError(
                f"kills: there is no rank {one.node}; those of the plan are 0 to {ranks - 1} (got {word!r})"
            )
        found.append(one)
    return tuple(sorted(found))


def recovered(asked: Asked, plan: TrainingPlan, graph: Graph) -> Answer:
    """Measure what a checkpoint and a restart cost, run, run once more undisturbed, and simulate by what was measured.

    Raises
    ------
    InputError
        On what is wrong with the options.
    RunError
        If a process fails that nobody killed.
    """
    options, seed = cast(RunOptions, asked.options), cast(TrainingCase, asked.case).seed
    every, iterations = int(options.checkpoint_every or 0), options.iterations
    ranks = sum(m.hosts * m.devices for m in plan.meshes)
    if every > iterations:
        raise InputError(f"checkpoint_every: {every} is more than the {iterations} iterations; give more --iterations")
    strikes = strikes_of(options.kills, ranks)
    how = RuntimeOptions(timeout_s=options.startup_timeout)
    said: dict[str, Any] = {"every": every, "seed": seed, "dtype": options.dtype, "options": how}
    asked.progress("what a checkpoint and a restart cost is measured")
    costs = measure_costs(plan, graph, **said, progress=asked.progress)
    asked.progress(f"{ranks} processes, killed {len(strikes)} times")
    run = run_with_failures(plan, graph, strikes=strikes, iterations=iterations, **said, progress=asked.progress)
    calm = None
    if options.compare and run.struck:
        asked.progress("the same, undisturbed")
        calm = run_with_failures(plan, graph, iterations=iterations, **said)
        costs = costs.and_of(calm)
    told = forecast(costs, strikes, ranks=ranks, every=every, iterations=iterations, seed=seed)
    written = _write(asked, options, run, told)
    failed = ""
    if calm is not None and calm.losses != run.losses:
        first = next(k for k, (a, b) in enumerate(zip(calm.losses, run.losses, strict=True)) if a != b)
        failed = f"run: the loss of iteration {first + 1} is not that of an undisturbed run: training was not resumed"
    return Answer(
        "\n".join(_words(plan, run, told, calm)), _document(run, told, calm), run, written=written, failed=failed
    )


def _words(plan: TrainingPlan, run: RecoveredRun, told: Forecast, calm: RecoveredRun | None) -> list[str]:
    costs, (low, high) = told.costs, told.interval()
    inside = "inside" if low <= run.wall_s <= high else "OUTSIDE"
    said = [
        f"{plan.model.name}: {run.iterations} iterations on {run.ranks} processes, a checkpoint every {run.every}",
        f"measured before{' and after' if calm is not None else ''}: {costs!s}",
    ]
    if calm is not None:
        same = "equal, bit for bit" if calm.losses == run.losses else "NOT equal"
        said.append(f"losses of all iterations against an undisturbed run: {same}")
    cells = [
        {
            "what": str(row["what"]),
            "real": seconds_text(float(row["real_s"])),
            "simulated": _text(row["simulated_s"]),
            "lost": _text(row["lost_s"]),
            "lost, simulated": _text(row["simulated_lost_s"]),
        }
        for row in rows(run, told)
    ]
    said += ["", *table(cells), ""]
    said.append(
        f"took {run.wall_s:.3f} s; simulated {told.record.wall_s:.3f} s, {told.record.wall_s / run.wall_s - 1:+.1%}; "
        f"95 % in {low:.3f} to {high:.3f} s: {inside}"
    )
    again = own_costs(run, told)
    said.append(
        f"simulated by the costs that it had itself ({again.costs!s}): {again.record.wall_s:.3f} s, "
        f"{again.record.wall_s / run.wall_s - 1:+.1%}"
    )
    work = float(costs.iteration_s.mean()) * run.iterations
    said.append(f"goodput {work / run.wall_s:.1%}; simulated {work / told.record.wall_s:.1%}")
    return said


def own_costs(run: RecoveredRun, told: Forecast) -> Forecast:
    """The simulation at the costs of the run itself: what is left is the model's error, not the machine's drift."""
    # Of all iterations alike; what the first of an attempt took longer counts as starting.
    usual = float((run.iterations_s.sum() - run.starts_s.sum()) / len(run.iterations_s))
    own = replace(Costs.of(run), iteration_s=np.array([usual]))
    if len(own.restart_s) < 1:
        own = replace(own, restart_s=told.costs.restart_s)
    strikes = [Strike(at - run.begun_s, rank) for at, rank in run.struck]
    return forecast(own, strikes, ranks=run.ranks, every=run.every, iterations=run.iterations)


def _text(value: float | str) -> str:
    number = float(value)
    return "-" if math.isnan(number) else seconds_text(number)


def _document(run: RecoveredRun, told: Forecast, calm: RecoveredRun | None) -> dict[str, Any]:
    low, high = told.interval()
    costs = {
        name: [float(x) for x in getattr(told.costs, name)] for name in ("iteration_s", "checkpoint_s", "restart_s")
    }
    return {
        "processes": run.ranks,
        "iterations": run.iterations,
        "checkpoint_every": run.every,
        "losses": list(run.losses),
        "equal_to_undisturbed": None if calm is None else calm.losses == run.losses,
        "measured": costs,
        "wall_s": run.wall_s,
        "simulated_s": told.record.wall_s,
        "by_its_own_costs_s": own_costs(run, told).record.wall_s,
        "low_s": low,
        "high_s": high,
        "inside": bool(low <= run.wall_s <= high),
        "checkpoint_s": float(np.median(run.checkpoints_s)),
        "restarts_s": [float(x) for x in run.restarts_s],
        "events": [{name: None if value != value else value for name, value in row.items()} for row in rows(run, told)],
    }


def _write(asked: Asked, options: RunOptions, run: RecoveredRun, told: Forecast) -> tuple[Any, ...]:
    written: list[Any] = []
    if asked.out is not None:
        write_text(asked.out, run.to_frame().to_csv(index=False, lineterminator="\n"))
        written.append(asked.out)
    if options.png is not None:
        out = io.BytesIO()
        drawing(run, told).savefig(out, format="png", dpi=150)
        write_bytes(options.png, out.getvalue())
        written.append(options.png)
    return tuple(written)
