"""A recorded run of vLLM replayed: the real arrivals through the simulator, with that engine's arguments and kernels.

What is compared, on both sides alike: TTFT from the moment the engine takes a request from its queue (``queued_ts``; it
looks there between steps, so the simulated moment is the first step that begins after the arrival) to the first token;
TPOT from the first token to the last over the tokens after the first; end to end from that same moment to the last
token; the makespan from the first request queued to the last token. Tokenising and HTTP are in neither.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ....profiles.hardware import LinkSpec
from ....profiles.llm import CostOptions, Iteration, KernelTables, Overheads, TableCost, decoder, iteration_cost
from ....profiles.llm.cost.host import host_times
from ....profiles.llm.cost.links import link_between
from ....profiles.llm.parallel.engine_reduce import priced
from ..vllm_engine import RunEngine, degrees, engine_of
from ..vllm_files import VLLMRun, read_vllm_run
from .run_report import RunComparison

if TYPE_CHECKING:
    from ....simulator.llm import LLMResult

__all__ = ["RunComparison", "compare_vllm_run"]

Column = npt.NDArray[np.float64]


def compare_vllm_run(
    run: str | Path | VLLMRun,
    kernels: str | Path | None = None,
    *,
    overheads: Overheads | None = None,
    link: LinkSpec | None = None,
) -> RunComparison:
    """Replay a recorded run of vLLM in the simulator.

    Parameters
    ----------
    run : path or VLLMRun
        Folder with requests.jsonl, meta.json and, if there, timeseries.csv.
    kernels : path, optional
        Kernel tables of that device; by default the run's own folder ``kernels``.
    overheads : Overheads, optional
        Host times of a step; by default those of the run's version and mode (`host_times`), which tables of layers do
        not list.
    link : LinkSpec, optional
        Link between the run's devices; by default that of ``hardware.yaml`` beside the tables. If there is neither, and
        devices communicate, a link is assumed; the report then says so first.

    Raises
    ------
    InputError
        If a file is missing or wrong, the model is unknown, or a request cannot run.
    """
    from ....simulator.llm import LLMTrace, simulate_llm

    begun = time.perf_counter()
    run = run if isinstance(run, VLLMRun) else read_vllm_run(run)
    folder = Path(kernels) if kernels is not None else run.folder / "kernels"
    try:
        model = decoder(run.model)
    except InputError as error:
        raise InputError(f"{run.folder / 'meta.json'}: {error}") from None
    where = degrees(run, model)
    tables = KernelTables.load(folder, tp=where.tp)
    engine = engine_of(run, model, tables)
    host, host_notes = _host(run, engine, overheads)
    cost = iteration_cost(
        model, tables, tp=where.tp, pp=where.pp, precision=engine.precision, kv=engine.kv,
        overheads=host, link=link, options=CostOptions(dp=where.met, ep=where.ep),
    )  # fmt: skip
    result = simulate_llm(
        LLMTrace(run.arrival, run.prompt_tokens, run.output_tokens, prefix_ids=run.prompts, prefix_block=1),
        config=engine.simulated,
        cost=cost,
        engines=engine.engines,
        router="least_outstanding",
    )
    further = run.output_tokens - 1
    some = further > 0
    real = {
        "ttft": run.first_token - run.queued,
        "tpot": (run.last_token - run.first_token)[some] / further[some],
        "e2e": run.last_token - run.queued,
    }
    taken = _taken(result)
    simulated = {
        "ttft": result.first_token - taken,
        "tpot": (result.finish - result.first_token)[some] / further[some],
        "e2e": result.finish - taken,
    }
    makespan = float(run.last_token.max() - run.queued.min()), float(result.finish.max() - taken.min())
    over_time, notes = _over_time(run, result), _notes(run, tables, engine, link)
    further_notes = cost.kernels.fallbacks()
    if further_notes and further_notes[0].startswith("ASSUMED"):
        notes.insert(0, _with_share(further_notes.pop(0), cost, result))
    notes.append(f"a step of the mean batch: {cost.band(_mean_step(result)).explain()}")
    if over_time and not any(row["kv_real_pct"] for row in over_time):
        notes.append("KV use: the run's own column is 0 throughout and cannot check the number of blocks")
    return RunComparison(
        real,
        simulated,
        further[some].astype(float),
        makespan,
        over_time,
        {**engine.config, "tp": where.tp, "pp": where.pp, "dp": where.dp, "ep": where.ep, "engines": engine.engines},
        cost.overheads,
        (*notes, *host_notes, *further_notes, f"kernels: {tables.source}"),
        time.perf_counter() - begun,
    )


def _host(run: VLLMRun, engine: RunEngine, given: Overheads | None) -> tuple[Overheads, list[str]]:
    """What the caller gave; else what the run's version and mode are known to take, and a line about it."""
    if given is not None:
        return given, []
    eager = run.arguments.get("enforce_eager") is True
    found = host_times(run.version, bool(engine.config["async_scheduling"]))
    return found.overheads(eager), [found.explain(eager)]


SENT = ("all-reduces", "sends between stages", "dispatch to experts", "combine experts")
"""Parts of an iteration that rest on the link."""


def _with_share(note: str, cost: TableCost, result: LLMResult) -> str:
    """How much of a step of the run's mean batch rests on an assumption about the link."""
    step = _mean_step(result)
    decodes, parts = step.decodes, cost.explain(step)
    sent, whole = sum(p.seconds for p in parts if p.name in SENT), sum(p.seconds for p in parts)
    return f"{note}: {sent / whole:.0%} of a step of {decodes} decodes, and of TPOT, rest on it; give --link"


def _mean_step(result: LLMResult) -> Iteration:
    """A step that decodes the run's mean batch, half way through its outputs."""
    decodes = max(1, round(float(result.mean_batch)))
    length = float((result.trace.prompt_tokens + result.trace.output_tokens / 2).mean())
    return Iteration((), decodes, round(decodes * length), decodes)


def _notes(run: VLLMRun, tables: KernelTables, engine: RunEngine, given: LinkSpec | None) -> list[str]:
    where = engine.degrees
    notes = [
        f"clocks: arrival_time + {run.offset_s:.6f} s = the engine's clock (smallest queued_ts - arrival_time)",
        "TTFT = first_token_ts - queued_ts; the engine takes what has arrived when it begins a step",
        *engine.notes,
    ]
    if given is not None and where.tp * where.pp * (where.dp if where.together else 1) == 1:
        notes.append("link: given, and no figure rests on it: each engine of this run is one device")
    if run.left_out:
        notes.append(f"{run.left_out} requests without all of their times are left out on both sides")
    many = where.tp > 1 or where.together
    if many and tables.layers is not None and not any("all_reduce" in name for name in tables.layers.dense):
        link, what = given or tables.layers.link, "as given" if given else "hardware.yaml beside the tables"
        if link is not None and priced(link_between(given, tables.layers.link, "", max(2, where.tp)).spec):
            notes.append(f"all-reduces: vLLM's own over NVLink, 4.5 us and more + bytes ({what})")
        elif link is not None:
            rate = f"bytes / {link.bandwidth_bytes_per_s / 1e9:.1f} GB/s"
            notes.append(f"collectives: {1e6 * link.latency_s:.0f} us + {rate} ({what})")
    return notes


def _taken(result: LLMResult) -> Column:
    """When the engine took each request from its queue: the first step that began from its arrival on."""
    found = result.arrival.copy()
    steps = result.iterations
    for engine in range(steps.engines):
        mine, begins = result.engine == engine, steps.start[steps.engine == engine]
        if mine.any():
            found[mine] = begins[np.minimum(np.searchsorted(begins, found[mine]), len(begins) - 1)]
    return np.maximum(found, result.arrival)


def _over_time(run: VLLMRun, result: LLMResult) -> list[dict[str, float]]:
    if run.series is None or run.series.empty:
        return []
    series: Any = run.series
    times: Column = np.asarray(series["t"], dtype=np.float64)
    tick = float(np.median(np.diff(times))) if len(times) > 1 else 1.0
    frame: Any = result.over_time(tick if tick > 0 else 1.0)
    at: Column = np.asarray(frame.index, dtype=np.float64)
    columns = {name: np.asarray(frame[name], dtype=np.float64) for name in ("running", "waiting", "kv_use")}
    rows: list[dict[str, float]] = []
    ticks: list[list[float]] = series.to_numpy(dtype=float).tolist()
    for t, running, waiting, kv in ticks:
        i = int(np.searchsorted(at, t + 1e-9, side="right")) - 1  # a tick's own window, though 3 x 0.1 is above 0.3
        there = 0 <= i < len(at) and t < at[-1] + tick
        rows.append(
            {
                "t": t,
                "running_real": running,
                "running_simulated": float(columns["running"][i]) if there else 0.0,
                "waiting_real": waiting,
                "waiting_simulated": float(columns["waiting"][i]) if there else 0.0,
                "kv_real_pct": kv,
                "kv_simulated_pct": 100 * float(columns["kv_use"][i]) if there else 0.0,
            }
        )
    return rows
