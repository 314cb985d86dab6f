"""`compare_engine`: the same traces through the simulator, with measured costs, and through the real engine.

Both run the same scheduler objects. The tables are measured right before, in the worker process that then serves, so
that both meet the same core, memory and clock. See docs/llm-measure.md.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ....errors import InputError
from ....profiles.llm.cost.in_service import InService
from ....profiles.llm.cost.iteration import TableCost
from ....profiles.llm.decoder import DecoderSpec
from ....profiles.llm.iteration import Iteration
from ....profiles.llm.measure_sizes import Call, spread
from ....profiles.llm.measured import LayerMeasurement, measured_cost, read_measurement, write_measurement
from ....profiles.measure.device import DeviceFacts, device_facts
from ....profiles.measure.pool import WorkerPool
from ....simulator.llm import LLMTrace, simulate_llm
from ....simulator.llm.forecast import check_draws
from ..measure.engine import FITS, MeasureOptions, Plan, measure_in, plan_measurement
from ..measure.job import whole_job
from ..steps import level_of, undisturbed
from .cell import Cell, by_kind
from .cells import EngineComparison
from .expectation import Ran, foretold
from .job import CLOCKS, Served, serve_job
from .settings import SETTINGS, Traffic, scheduler_options, settings_named

__all__ = ["compare_engine"]

UNDISTURBED = 0.99
"""Share of its steps' time in which the engine must have had its core for a run to count. A guess: a fifth of the goal
(`cells.WITHIN`)."""
SAME_PACE = 0.02
"""Most that passes right before a run may differ from the tables (or those after it from those before) for it to count:
clocks drift. A guess, as above."""
PACE_ROUNDS = 5
"""Passes of which the pace is a median: few, because they come before each cell."""
STRETCH_S, FEWEST = 0.5, 4
"""Seconds of a stretch: every other one tells what iterations take, so that a device whose speed drifts is at one level
in both kinds (docs/llm-measure.md says how much that is worth); and fewest stretches of a run, a guess."""
FIRST, FIRST_LOAD, OTHERS = 0.25, 0.6, 1_000_003
"""Seconds in which other requests tell what can be sustained, as a share of a cell's; their load; what their seed
differs by, so that no cell draws the same ones. Guesses."""


def compare_engine(
    specs: Sequence[DecoderSpec],
    traffic: Traffic | None = None,
    *,
    settings: Sequence[str] = tuple(SETTINGS),
    measure: MeasureOptions | None = None,
    profile: Path | None = None,
    retries: int = 0,
    calibrate: bool = True,
    draws: int = 200,
    progress: Callable[[str], None] | None = None,
) -> EngineComparison:
    """Measure, simulate and really serve.

    Parameters
    ----------
    specs : sequence of DecoderSpec
        The models.
    traffic : Traffic, optional
        What is served, at which loads.
    settings : sequence of str
        Names of `SETTINGS`.
    measure : MeasureOptions, optional
        Device, type, clock and seed (of requests, weights and prompts) of both, and whether the measurement is a fast
        one. Its sizes are those that the requests need. On a CPU the clock ``"core"`` is the processor time of the
        engine's thread, where waiting for a request takes no time and other processes cannot slow it down.
    profile : Path, optional
        Folder that ``meshwright measure llm`` wrote, of the one model; measured here and now without it.
    retries : int
        How often to run a cell again if others took the engine's core meanwhile (less than 99 % was its own), or
        passes right before were not as fast as in the tables (2 %; with `calibrate`: right after not as fast as right
        before). The least disturbed attempt counts, whatever it gave.
    calibrate : bool
        Let iterations of a kind take what they take in every other stretch of the run (`InService`), vary as they vary
        there, and give the figures of the requests in the stretches between with a prediction interval; else the tables
        alone count.
    draws : int
        Draws of the times of steps, for the interval.
    progress : callable, optional
        Called with a line that says what is being done.

    Raises
    ------
    InputError
        On an unknown setting, a clock that the device has not, fewer than two draws, or requests that do not fit.
    RunError
        If the worker process dies.
    """
    tell, traffic, measure = progress or _silent, traffic or Traffic(), measure or MeasureOptions()
    check_draws(draws)
    device, clock = measure.device, measure.clock
    chosen = settings_named(settings, device)
    if clock not in CLOCKS or (clock == "core" and device != "cpu"):
        raise InputError(f"compare: clock: expected wall, or core on a cpu (got {clock!r} on {device})")
    if not specs or (profile is not None and len(specs) > 1):
        raise InputError(f"compare: expected one model or more, and one with a profile (got {len(specs)})")
    longest = traffic.longest(device)
    for spec in specs:
        if longest > spec.max_positions:
            raise InputError(f"compare: requests of {longest} tokens are above the positions of {spec.name}")
    budget = max(setting.budget for setting in chosen.values())
    plans = [
        plan_measurement(spec, replace(
            measure, tp=1, max_tokens=max(budget, longest), max_seqs=max(setting.seqs for setting in chosen.values()),
            max_context=min(max(longest, 64), spec.max_positions // 2),
        ))
        for spec in specs
    ]  # fmt: skip
    cells: list[Cell] = []
    measured: dict[str, LayerMeasurement] = {}
    configs: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="meshwright-compare-") as folder:
        for plan in plans:
            spec = plan.spec
            done: list[tuple[Cell, Ran]] = []
            with WorkerPool(1, device) as pool:
                facts: DeviceFacts = pool.call(device_facts)[0]
                kv = 2 * spec.layers * spec.kv_heads * spec.head_dim * plan.number_bytes
                room = (FITS * facts.free_bytes - spec.weights * plan.number_bytes) / kv
                at = profile or Path(folder) / spec.name
                if profile is None:
                    found = measure_in(pool, plan, lambda share, what, name=spec.name: tell(f"{name}: {what}"))
                    write_measurement(found, at)
                measured[spec.name] = _of_model(read_measurement(at), plan, at)
                for name, setting in chosen.items():
                    options = scheduler_options(setting, longest, room)
                    configs[name] = ", ".join(f"{key} {value}" for key, value in options.items())
                    cost = measured_cost(at, setting.policy, max_tokens=4 * plan.sizes.tokens[-1], max_outputs=256)
                    runner = _Runner(pool, plan, cost, setting.policy, options, retries, calibrate, tell)
                    sustained = runner.sustained(traffic)
                    for level in traffic.levels:
                        done.append(runner.cell(name, *traffic.requests(level, plan, sustained)))
                cells += foretold(done, draws, plan.seed, tell) if calibrate else [cell for cell, _ in done]
    return EngineComparison(tuple(cells), measured, configs)


@dataclass(frozen=True, slots=True)
class _Runner:
    """Serves cells of one model and setting."""

    pool: WorkerPool
    plan: Plan
    cost: TableCost
    policy: str
    options: dict[str, Any]
    retries: int
    calibrate: bool
    tell: Callable[[str], None]

    def sustained(self, traffic: Traffic) -> float:
        """Requests per second that can be sustained; what iterations take in service counts, if that is looked at."""
        if traffic.trace is not None or traffic.rate is not None:
            return float("nan")  # nobody asks
        most = traffic.most(self.plan, self.policy, self.options, self.cost)
        if not self.calibrate:
            return most
        self.tell(f"{self.plan.spec.name}, {self.policy}: serving other requests, to see what can be sustained")
        some = replace(traffic, duration_s=FIRST * traffic.duration_s)
        requests = some.requests(FIRST_LOAD, replace(self.plan, seed=self.plan.seed + OTHERS), most)[2]
        steps = self.serve(requests).steps
        cost = InService.of(self.cost, undisturbed(steps))
        return traffic.most(self.plan, self.policy, self.options, cost) / level_of(steps, cost)

    def cell(self, setting: str, level: str, rate: float, requests: LLMTrace) -> tuple[Cell, Ran]:
        """Simulate and serve."""
        name = self.plan.spec.name
        first = simulate_llm(requests, policy=self.policy, config=self.options, cost=self.cost, engine="fast")
        stretch_s = min(STRETCH_S, float(np.nanmax(first.finish)) / FEWEST)
        rows = (requests.arrival / stretch_s).astype(np.int64) % 2 == 1
        attempts: list[tuple[Served, float, Ran]] = []
        while not attempts or (len(attempts) <= self.retries and _disturbance(*attempts[-1][:2]) > 0):
            again = f", attempt {len(attempts) + 1}" if attempts else ""
            self.tell(f"{name}, {setting}, {level}: serving {len(requests)} requests{again}")
            pace, served = self.pace(), self.serve(requests)
            ran = Ran(self.policy, self.options, self.cost, served.steps, stretch_s)
            if self.calibrate:
                pace = self.pace() / pace
                cost = InService.of(self.cost, undisturbed([step for one in ran.told for step in one]))
                ran = replace(ran, cost=cost)
            attempts.append((served, pace, ran))
        served, pace, ran = min(attempts, key=lambda one: _disturbance(*one[:2]))
        simulated = simulate_llm(requests, policy=self.policy, config=self.options, cost=ran.cost, engine="fast")
        return Cell(
            name, setting, level, rate, simulated, served.result, served.share, pace, len(attempts),
            by_kind(undisturbed(ran.judged if self.calibrate else served.steps), ran.cost),
            str(ran.cost) if self.calibrate else "", rows=rows if self.calibrate and rows.any() else None,
        ), ran  # fmt: skip

    def serve(self, requests: LLMTrace) -> Served:
        """Serve with the real engine."""
        plan = self.plan
        return self.pool.call(
            serve_job, timeout_s=3600.0, spec=plan.spec, policy=self.policy, config=self.options,
            options={"device": plan.device, "dtype": plan.dtype, "seed": plan.seed}, trace=requests, clock=plan.clock,
        )[0]  # fmt: skip

    def pace(self) -> float:
        """Time of some passes now, over their time in the tables: median; NaN on a GPU."""
        if self.plan.device != "cpu":
            return float("nan")
        sizes = self.plan.sizes
        context = sizes.contexts[len(sizes.contexts) // 2]
        some = sorted({1, min(4, sizes.decodes[-1]), sizes.decodes[-1]})
        calls = [Call((), spread(n, context), (0, 0, n, context)) for n in some]
        prompt = min(64, sizes.tokens[-1])
        calls += [
            Call(((prompt, 0),), (), (prompt, 0, 0, 0)),
            Call(((prompt, 0),), spread(some[-1], context), (0, 0, 0, 0)),
        ]
        taken: list[float] = self.pool.call(whole_job, plan=self.plan, calls=calls, rounds=PACE_ROUNDS)[0]
        over = self.cost.overheads
        told = [
            self.cost.seconds(Iteration(c.prefill, len(c.contexts), sum(c.contexts), c.sequences))
            - over.scheduler_s
            - over.per_sequence_s * c.sequences
            for c in calls
        ]
        return float(np.median(np.array(taken) / np.array(told)))


def _disturbance(served: Served, pace: float) -> float:
    """How far a run was from undisturbed; 0 if it was."""
    lost = max(0.0, UNDISTURBED - served.share)
    return lost + (0.0 if pace != pace else max(0.0, abs(pace - 1) - SAME_PACE))


def _of_model(found: LayerMeasurement, plan: Plan, at: Path) -> LayerMeasurement:
    """See that tables are of the model and type that is served."""
    if found.model != plan.spec or found.dtype != plan.dtype or found.tp != 1:
        raise InputError(
            f"{at}: measured for {found.model.name} in {found.dtype} at tp {found.tp}, asked for {plan.spec.name} in "
            f"{plan.dtype}; measure that, or leave the profile out"
        )
    return found


def _silent(line: str) -> None:
    """No progress wanted."""
