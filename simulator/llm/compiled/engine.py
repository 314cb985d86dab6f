"""The compiled engine of LLM serving: what it can do, and its results in the terms of the reference."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import numpy.typing as npt

from ..fleet.report import FleetReport
from ..policy.sarathi import SarathiScheduler
from ..policy.vllm02 import PagedConfig, Vllm02Config, Vllm02Scheduler
from ..policy.vllm06 import Vllm06Scheduler
from ..policy.vllm_paper import VllmPaperScheduler
from ..policy.vllm_v1 import V1Config, V1Scheduler
from ..result.iterations import Iterations, TokenRuns
from ..world import Records, World
from .contents import unlike
from .fleet.drafts import drafts_of
from .fleet.routing import router_name
from .fleet.run import reserve_of, run_fleet
from .groups.run import needs_groups, serve_groups, why_not_groups
from .known import unknown
from .log import STATE, Log, narrowest
from .prices import price_of, why_no_price

__all__ = ["NotCompiled", "run_compiled", "why_not_compiled"]

STATIC_ROUTERS = ("round_robin", "random")
"""Routers that look at no engine: in an open loop each engine can then be simulated by itself."""


class NotCompiled(Exception):
    """The compiled engine met something that only the reference can simulate; the message says what."""


def why_not_compiled(world: World, router: str) -> str | None:
    """Why this world needs the reference; None where the compiled engine gives the same answers.

    Parameters
    ----------
    world : World
        What is to be simulated.
    router : str
        Name of its router.
    """
    trace, options = world.trace, world.config
    if world.policy.scheduler is Vllm06Scheduler:
        return "policy 'vllm-0.6' is not compiled"
    if (why := why_no_price(world.cost)) is not None:
        return why
    if (name := unknown(options) or unknown(trace)) is not None:
        return f"{name} is not compiled"
    drafted = drafts_of(world.policy) is not None
    if drafted and not _draws():
        return "this version of NumPy draws other numbers than the compiled engine"
    if world.fleet is not None:
        from .dynamic.able import why_not_dynamic

        return why_not_dynamic(world, world.fleet)
    known = drafted or world.policy.scheduler in (V1Scheduler, SarathiScheduler)
    if known or reserve_of(world.policy) is not None:
        if world.engines > 1 and router_name(world.router) is None:
            return f"router {router!r} over several engines is not compiled"
        hashes = world.engines > 1 and router == "prefix_affinity"
        return unlike(trace) if hashes or getattr(options, "enable_prefix_caching", False) else None
    if world.policy.scheduler not in (VllmPaperScheduler, Vllm02Scheduler):
        return "a scheduler of your own is not compiled"
    if trace.after is not None:
        return "conversations are not compiled under vllm-paper and vllm-0.2"
    if world.engines > 1 and router not in STATIC_ROUTERS:
        return f"router {router!r} over several engines is not compiled under vllm-paper and vllm-0.2"
    if world.concurrency is not None and (world.engines > 1 or world.dropped):
        return (
            "a closed loop over several engines, or with requests that no engine takes, is not compiled under "
            "vllm-paper and vllm-0.2"
        )
    return why_not_groups(world) if needs_groups(world) else None


def _draws() -> bool:
    """Whether random streams can be drawn from here; loading what says so takes a while."""
    from .streams import agree

    return agree()


def _alone(world: World) -> bool:
    """Whether each engine can be simulated by itself, by the simplest rules."""
    trace, options = world.trace, world.config
    if drafts_of(world.policy) is not None:
        return False
    if isinstance(options, V1Config):
        if options.policy != "fcfs" or options.async_scheduling or trace.after is not None or options.groups > 1:
            return False
        if options.window_groups or (options.enable_prefix_caching and trace.prefix_ids is not None):
            return False
    elif not isinstance(options, PagedConfig):
        return False
    if world.engines > 1:
        return world.concurrency is None and router_name(world.router) in STATIC_ROUTERS
    return world.concurrency is None or not world.dropped


def run_compiled(world: World, until: float | None = None) -> tuple[Records, Iterations, TokenRuns, FleetReport | None]:
    """Serve the requests, to the end or until some time (seconds), as `run_reference` and `fleet.run.run_fleet` do.

    Raises
    ------
    NotCompiled
        Where the reference must take over, to report it: a policy that stands still, a cost that is no time. Ask
        `why_not_compiled` first for what is known beforehand.
    """
    if world.fleet is not None:
        from .dynamic.run import run_dynamic

        changed = run_dynamic(world, world.fleet, until)
        if changed is None:
            raise NotCompiled("a step that takes no time")
        return changed
    found = _run_alone(world, until) if _alone(world) else None
    if found is None and not isinstance(world.config, PagedConfig):
        found = run_fleet(world, price_of(world.cost, world.times), until)
    if found is None:
        raise NotCompiled("a step that takes no time")
    return (*found, None)


def _run_alone(world: World, until: float | None) -> tuple[Records, Iterations, TokenRuns] | None:
    """One engine after the other; None where something happens that needs other rules or the reference."""
    trace, n = world.trace, len(world.trace)
    price, horizon = price_of(world.cost, world.times), float("inf") if until is None else float(until)
    taken = np.setdiff1d(np.arange(n), np.fromiter(world.dropped, dtype=np.int64), assume_unique=True)
    engine = np.zeros(len(taken), dtype=np.int64)
    if world.engines > 1 and router_name(world.router) == "round_robin":
        engine = np.arange(len(taken)) % world.engines
    elif world.engines > 1:
        router: Any = copy.deepcopy(world.router)  # if the reference takes over, it begins anew
        engine[:] = [router(None, range(world.engines)) for _ in taken]
    records = Records(n)
    arrived = trace.arrival < horizon
    dropped = np.array(sorted(world.dropped), dtype=np.int64)
    dropped = dropped[arrived[dropped]]
    records.arrival[dropped], records.ignored[dropped] = trace.arrival[dropped], True
    log, parts = _log(world, taken), [np.zeros((3, 0), dtype=np.int64)]
    for number in range(world.engines):
        mine = taken[engine == number]
        if not len(mine):
            log.end(log.rows)
            continue
        arrival = trace.arrival[mine]
        if world.concurrency is not None:
            arrival = np.full(len(mine), np.nan)
            arrival[: world.concurrency] = 0.0
        own = price._replace(top=price.top._replace(first=number * price.top.ranks))
        served = _serve(world, until, own, mine, arrival, log)
        if served is None:
            return None
        times, counts, runs = served
        sent = arrival < horizon
        mine, times, counts = mine[sent], times[:, sent], counts[:, sent]
        records.arrival[mine], records.engine[mine] = arrival[sent], number
        records.scheduled[mine], records.first_token[mine], records.finish[mine] = times
        records.preemptions[mine], records.ignored[mine], records.cached_tokens[mine] = counts
        parts.append(np.stack((mine[runs[0]], runs[1], runs[2])))
    c = world.config
    pool = c.num_gpu_blocks if isinstance(c, PagedConfig) else c.num_blocks - 1
    iterations = Iterations(
        **log.columns(),
        capacity_tokens=0 if np.isnan(records.scheduled).all() else pool * c.block_size,
        engines=world.engines,
    )
    together = np.concatenate(parts, axis=1)
    # Stable: a request's runs stay in order of time, as `TokenRuns` asks.
    request, first, last = together[:, np.argsort(together[0], kind="stable")]
    records.generated += np.bincount(request, weights=last - first + 1, minlength=n).astype(np.int64)
    return records, iterations, TokenRuns(request, first, last)


def _log(world: World, rows: npt.NDArray[np.int64]) -> Log:
    """The log of what engines make of some rows."""
    c, trace = world.config, world.trace
    if isinstance(c, PagedConfig) and needs_groups(world):
        return Log(0, len(STATE), np.int64)
    prompt, output = trace.prompt_tokens[rows], trace.output_tokens[rows]
    # No more than these wait, hold tokens, and have tokens computed at once.
    longest = int((prompt + output).max(initial=0)) + c.block_size
    most = max(len(rows), min(len(rows), c.max_num_seqs) * longest)
    return Log(int(output.sum()) // 4, 7, narrowest(most))  # a guess: four tokens an iteration; as `desk.Desk.state`


def _serve(
    world: World, until: float | None, price: Any, mine: Any, arrival: Any, log: Log
) -> tuple[Any, Any, Any] | None:
    """What one engine makes of its requests: times, counts, runs by rows of the log, to which its iterations go.

    None where something happens that needs other rules or the reference.
    """
    if isinstance(world.config, PagedConfig) and needs_groups(world):
        served = serve_groups(world, until, price, mine, arrival)
        if served is None:
            return None
        runs = served.runs + np.array([[0], [log.rows], [log.rows]])
        log.add(served.clock, served.state)
        return served.times, served.counts, runs
    from .desk import serve

    rules, longest = _rules(world, until)
    prompt, output = world.trace.prompt_tokens[mine], world.trace.output_tokens[mine]
    status, desk, n_runs = serve(rules, price, arrival, prompt, np.minimum(prompt + output, longest), log)
    if status:
        return None
    counts = np.concatenate((desk.counts, np.zeros((1, len(mine)), dtype=np.int64)))
    return desk.times, counts, desk.runs[:, :n_runs]


def _rules(world: World, until: float | None) -> tuple[Any, int]:
    """The options in numbers, and the length at which a sequence ends in any case."""
    from .rules import Rules

    c, rest = world.config, (world.concurrency or 0, float("inf") if until is None else float(until))
    if isinstance(c, Vllm02Config):
        limit, water = min(c.max_model_len, c.token_budget), int(c.watermark * c.num_gpu_blocks)
        rules = Rules(
            True, c.num_gpu_blocks, c.block_size, c.token_budget, c.max_num_seqs, c.max_model_len, limit,
            c.max_paddings, water, 0, False, False, True, world.padded, False, *rest,
        )  # fmt: skip
        return rules, c.max_model_len + 1
    rules = Rules(
        False, c.num_blocks - 1, c.block_size, c.max_num_batched_tokens, c.max_num_seqs, c.max_model_len, 0,
        0, int(c.watermark * c.num_blocks), c.long_prefill_token_threshold, c.limit_alone,
        c.enable_chunked_prefill, c.scheduler_reserve_full_isl, False, c.enable_prefix_caching, *rest,
    )  # fmt: skip
    return rules, c.max_model_len
