"""`simulate_llm`: the door of token-by-token LLM serving."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from ...errors import InputError
from ...profiles.llm.decoder import DecoderSpec
from ...profiles.llm.iteration import IterationCost
from ...seeds import generator
from ...traces.trace import Trace
from .decoding.genealogy import Genealogy
from .decoding.speculative import SpeculativeCost, speculative_policy
from .fleet.options import Fleet, fleet_of
from .options import SimulateOptions, at_least_one
from .policy.catalogue import Policy, adapters_cannot, policy_config, policy_named
from .policy.request import LLMRequest
from .policy.router import router_named
from .policy.vllm_v1.state import V1Config
from .result.columns import LLMResult
from .times import times_of
from .workload.requests import LLMTrace
from .world import World

__all__ = ["dropped_rows", "simulate_llm"]

ENGINES = ("auto", "fast", "compiled", "simpy")
WORTH_TOKENS = 100_000
"""Output tokens from which ``engine="auto"`` compiles. SimPy computes fewer of them in less time than loading the
compiled code takes; a rough figure, which changes seconds and no answers."""


def simulate_llm(
    requests: LLMTrace | Trace | Iterable[LLMRequest],
    *,
    policy: str = "vllm-v1",
    config: Any,
    cost: IterationCost,
    engines: int = 1,
    router: str = "round_robin",
    seed: int = 0,
    engine: str = "auto",
    options: SimulateOptions | None = None,
) -> LLMResult:
    """Simulate how engines serve requests to a language model, token by token.

    At the end of every iteration the policy decides the next one, knowing the requests that have arrived by then.
    `cost` says how long the iteration takes; the tokens that it generates appear when it ends.

    Parameters
    ----------
    requests : LLMTrace, Trace or iterable of LLMRequest
        The requests; a `Trace` needs token columns.
    policy : str
        A policy of `POLICIES`: ``"vllm-v1"`` (today's vLLM), ``"vllm-paper"`` (its paper's), ``"sarathi"``, …
    config : mapping or dataclass
        The policy's options, by vLLM's own names.
    cost : IterationCost
        Seconds of an iteration.
    engines : int
        Number of engines that serve the model, each with a KV memory and a scheduler of its own.
    router : str
        How an engine is chosen for a request: a name of `ROUTERS`.
    seed : int
        Seed of the random streams of router, beams, faults and draft tokens.
    engine : {"auto", "fast", "compiled", "simpy"}
        Which simulation engine computes the result; all give the same. ``"compiled"``: the compiled one, or an error
        that says why it cannot. ``"simpy"``: the readable reference. ``"fast"``: the compiled one where it can, else
        the reference; for one of many simulations. ``"auto"``: the same, but short simulations use the reference, since
        the compiled engine takes a while to load. `LLMResult.made_by` says which one it was.
    options : SimulateOptions, optional
        Rarer options: swapping, closed loop, early end, long requests, beams, pools, faults, autoscaling, drafts,
        times that vary.

    Returns
    -------
    LLMResult

    Raises
    ------
    InputError
        On an unknown policy, router, engine or option, a value out of its range, no request, one that cannot run or is
        longer than a window of the cost's model, or what the compiled engine, asked for, cannot do.
    """
    asked = SimulateOptions() if options is None else options
    if not isinstance(asked, SimulateOptions):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"options: expected SimulateOptions (got {type(asked).__name__})")
    trace = LLMTrace.of(requests)
    found = policy_named(policy)
    rules = policy_config(found.config, config)
    at_least_one("engines", engines)
    if not callable(getattr(cost, "seconds", None)):
        raise InputError(
            f"cost: expected an IterationCost with a method seconds(iteration) (got {type(cost).__name__})"
        )
    if engine not in ENGINES:
        raise InputError(f"engine: unknown engine {engine!r}; expected one of {', '.join(ENGINES)}")
    _check_window(cost, trace, rules, strict=asked.too_long == "error")
    if trace.lora is not None and bool((trace.lora >= 0).any()):
        if (why := adapters_cannot(policy, rules)) is not None:
            raise InputError(f"requests: {why}")
        if asked.pools is not None:
            raise InputError("requests: lora: adapters are not modelled with pools of engines")
    if getattr(rules, "window_groups", 0) and (asked.speculative is not None or asked.pools is not None):
        raise InputError("sliding_window: not modelled with speculative decoding or pools of engines")
    if getattr(rules, "pipeline_parallel_size", 1) > 1 and (asked.speculative is not None or asked.pools is not None):
        raise InputError(
            "pipeline_parallel_size: not modelled with speculative decoding or pools of engines; leave it 1"
        )
    if asked.speculative is not None:
        if policy != "vllm-v1" or rules.async_scheduling:
            raise InputError("speculative: goes with policy='vllm-v1' and async_scheduling=False")
        if asked.pools is not None:
            raise InputError("speculative: not modelled with pools of engines")
        found, cost = speculative_policy(found, asked.speculative, seed), SpeculativeCost(cost, asked.speculative)
    # What is wrong with the pool is said here. Today's vLLM refuses only pools that are too small; large ones take long
    # to make, longer than a short simulation.
    small = replace(rules, num_blocks=min(rules.num_blocks, 2)) if isinstance(rules, V1Config) else rules
    found.scheduler(small)
    fleet, found = fleet_of(trace, found, rules, cost, engines, name=policy, asked=asked, router=router, seed=seed)
    dropped = dropped_rows(trace, found, rules, strict=asked.too_long == "error")
    several = trace.best_of is not None and bool((trace.best_of > 1).any())
    swaps = several or getattr(rules, "preemption_mode", None) == "swap"
    if swaps and getattr(rules, "num_cpu_blocks", 0) and asked.swap is None:
        raise InputError("swap: what is preempted is swapped to num_cpu_blocks; give a SwapCost")
    world = World(
        trace, found, rules, cost, asked.swap, engines, router_named(router, generator(seed, "llm", "router")),
        asked.concurrency, asked.padded, dropped, Genealogy(seed) if asked.survivors is None else asked.survivors,
        fleet, times_of(asked.times, trace, _most_engines(engines, fleet), seed), asked.adapters,
    )  # fmt: skip
    (records, iterations, runs, report), made_by = _run(world, router, asked.until, engine)
    return LLMResult(
        trace=trace,
        arrival=records.arrival,
        **records.columns(),
        iterations=iterations,
        runs=runs,
        policy=policy,
        made_by=made_by,
        fleet=report,
    )


def _most_engines(engines: int, fleet: Fleet | None) -> int:
    """Engines that may be there at once."""
    if fleet is None:
        return engines
    there = {"both": engines} if fleet.pools is None else {"prefill": fleet.pools.prefill, "decode": fleet.pools.decode}
    return sum((there | {rule.role: rule.max_engines for rule in fleet.scaling}).values())


def _check_window(cost: Any, trace: LLMTrace, options: Any, *, strict: bool) -> None:
    """See that no request outgrows the window of the cost's model unless the scheduler knows it.

    Some end at ``max_model_len``.
    """
    model: Any = getattr(cost, "model", None)
    if isinstance(model, DecoderSpec) and model.window and getattr(options, "sliding_window", 0) != model.window:
        longest = int((trace.prompt_tokens + trace.output_tokens).max())
        model.check_length(longest if strict else min(longest, getattr(options, "max_model_len", longest)), "requests")


def _run(world: World, router: str, until: float | None, engine: str) -> tuple[Any, str]:
    """Run the engine that was asked for, or that pays off; returns its outcome and its name."""
    worth = engine in ("compiled", "fast") or int(world.trace.output_tokens.sum()) >= WORTH_TOKENS
    if engine != "simpy" and worth:
        from .compiled.engine import NotCompiled, run_compiled, why_not_compiled

        why = why_not_compiled(world, router)
        if why is None:
            try:
                return run_compiled(world, until), "compiled"
            except NotCompiled as stopped:
                why = str(stopped)
        if engine == "compiled":
            raise InputError(f"engine: compiled: {why}; pass engine='auto' or 'simpy'")
    # Here and not above: the reference comes with SimPy, which most simulations do without.
    if world.fleet is not None:
        from .fleet.run import run_fleet

        return run_fleet(world, world.fleet, until), "reference"
    from .reference import run_reference

    return (*run_reference(world, until), None), "reference"


def dropped_rows(trace: LLMTrace, policy: Policy, options: Any, *, strict: bool) -> frozenset[int]:
    """Rows that the policy could not go on with; every row that cannot run to its end is an error under `strict`."""
    dropped: list[int] = []
    verdicts: dict[tuple[int, int, int, int], bool] = {}
    best_of = trace.best_of
    prefix = trace.shared_prefix
    if prefix is None and all((policy.cannot(options, r) or policy.fatal(options, r)) is None for r in _largest(trace)):
        return frozenset()
    for row, (prompt, output) in enumerate(
        zip(trace.prompt_tokens.tolist(), trace.output_tokens.tolist(), strict=True)
    ):
        shape = (
            prompt, output, 1 if best_of is None else int(best_of[row]), -1 if prefix is None else int(prefix[row])
        )  # fmt: skip
        if shape not in verdicts:
            request = LLMRequest(row, *shape[:2], best_of=shape[2], shared_prefix=None if shape[3] < 0 else shape[3])
            why = policy.cannot(options, request) or policy.fatal(options, request) if strict else None
            if why is not None:
                raise InputError(f"request {row}: {why}; or pass too_long='ignore'")
            verdicts[shape] = not strict and policy.fatal(options, request) is not None
        if verdicts[shape]:
            dropped.append(row)
    return frozenset(dropped)


def _largest(trace: LLMTrace) -> list[LLMRequest]:
    """Requests such that for every one of the trace there is one that is nowhere smaller: if these fit, all fit."""
    most = 1 if trace.best_of is None else int(trace.best_of.max())
    prompt, output = trace.prompt_tokens, trace.output_tokens
    order = np.lexsort((output, prompt))[::-1]  # longest prompts first
    rows = order[np.diff(np.maximum.accumulate(output[order]), prepend=0) > 0]
    return [LLMRequest(row, int(prompt[row]), int(output[row]), best_of=most) for row in rows.tolist()]
