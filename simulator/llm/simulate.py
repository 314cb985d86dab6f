"""`simulate_llm`: the door of token-by-token LLM serving."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from ...errors import InputError
from ...profiles.llm.decoder import DecoderSpec
from ...profiles.llm.iteration import IterationCost
from ...seeds import generator
from ...traces.trace import Trace
from .decoding.genealogy import Genealogy, Survivors
from .decoding.speculative import Speculative, SpeculativeCost, speculative_policy
from .fleet.faults import Faults
from .fleet.options import fleet_of
from .fleet.pools import Pools
from .fleet.run import run_fleet
from .fleet.scaling import Autoscaling
from .memory.swapping import SwapCost
from .policy.catalogue import Policy, policy_config, policy_named
from .policy.request import LLMRequest
from .policy.router import router_named
from .policy.vllm_v1_state import V1Config
from .reference import run_reference
from .result.columns import LLMResult
from .workload.requests import LLMTrace
from .world import World

__all__ = ["dropped_rows", "simulate_llm"]

ENGINES = ("auto", "fast", "compiled", "simpy")
WORTH_TOKENS = 100_000
"""Output tokens from which ``engine="auto"`` compiles: for fewer, loading compiled code takes longer than SimPy."""


def simulate_llm(
    requests: LLMTrace | Trace | Iterable[LLMRequest],
    *,
    policy: str = "vllm-v1",
    config: Any,
    cost: IterationCost,
    swap: SwapCost | None = None,
    engines: int = 1,
    router: str = "round_robin",
    concurrency: int | None = None,
    until: float | None = None,
    too_long: str = "error",
    padded: bool = False,
    survivors: Survivors | None = None,
    seed: int = 0,
    engine: str = "auto",
    pools: Pools | None = None,
    faults: Faults | None = None,
    scaling: Autoscaling | Sequence[Autoscaling] | None = None,
    speculative: Speculative | None = None,
) -> LLMResult:
    """Serve requests to a language model, token by token.

    At the end of every iteration the policy decides the next one with the requests that have arrived by then; `cost`
    says how long it takes; the tokens that it generates appear when it ends.

    Parameters
    ----------
    requests : LLMTrace, Trace or iterable of LLMRequest
        What arrives; a `Trace` needs token columns.
    policy : str
        A scheduler of `POLICIES`: ``"vllm-v1"``, today's, or ``"vllm-0.2"``, the paper's, …
    config : mapping or dataclass
        The policy's options, by vLLM's own names.
    cost : IterationCost
        Seconds of an iteration.
    swap : SwapCost, optional
        What moving blocks to the host and back costs; needed where a policy may swap.
    engines : int
        Engines that serve the same model, each with memory and a scheduler of its own.
    router : str
        Who gets a request: a name of `ROUTERS`.
    concurrency : int, optional
        Closed loop: so many requests (or conversations) at a time, the next one when one finishes; arrivals are not
        looked at.
    until : float, optional
        Stop at this time, seconds; what is under way stays unfinished.
    too_long : {"error", "ignore"}
        What becomes of requests that cannot run to their end: an error before anything runs, or what the engine does:
        prompts that do not fit are ignored, outputs end at ``max_model_len``.
    padded : bool
        Whether the padding of a prompt batch counts as computed (vLLM 0.2 pads prompts).
    survivors : Survivors, optional
        Whose children the beams of a beam search are, under policies that share blocks (``"vllm-0.2"``); without it
        `Genealogy` of this seed draws them, the same whatever the policy and the rate.
    seed : int
        Seed of the router's and the beams' streams.
    engine : {"auto", "fast", "compiled", "simpy"}
        Who computes it, with the same answers: the compiled engine where it can and a simulation is long enough to be
        worth loading it, else the reference; the same for one of many simulations, however short; the compiled one or
        an error that says why not; the reference in SimPy. The result says who did: `LLMResult.made_by`.
    pools : Pools, optional
        Prompts on some engines, decodes on others, with transfers between them; `engines` is then left at 1.
    faults : Faults, optional
        Engines that die; their requests are tried again elsewhere.
    scaling : Autoscaling or sequence of them, optional
        Engines that are added and taken away; of pools one for each role.
    speculative : Speculative, optional
        Drafts that the model verifies (policy ``"vllm-v1"``); `seed` draws which of them it keeps.

    Returns
    -------
    LLMResult

    Raises
    ------
    InputError
        On an unknown policy, router, engine or option, a value out of its range, no request, one that cannot run or is
        longer than a window of the cost's model, or what the compiled engine, asked for, cannot do.
    """
    trace = LLMTrace.of(requests)
    found = policy_named(policy)
    options = policy_config(found.config, config)
    _at_least_one("engines", engines)
    if concurrency is not None:
        _at_least_one("concurrency", concurrency)
    _check_kinds(until, padded, swap, survivors, speculative)
    if until is not None and not (math.isfinite(until) and until > 0):
        raise InputError(f"until: expected finite seconds > 0 (got {until})")
    if too_long not in ("error", "ignore"):
        raise InputError(f"too_long: expected 'error' or 'ignore' (got {too_long!r})")
    if not callable(getattr(cost, "seconds", None)):
        raise InputError(
            f"cost: expected an IterationCost with a method seconds(iteration) (got {type(cost).__name__})"
        )
    if engine not in ENGINES:
        raise InputError(f"engine: unknown engine {engine!r}; expected one of {', '.join(ENGINES)}")
    _check_window(cost, trace, options, strict=too_long == "error")
    if speculative is not None:
        if policy != "vllm-v1" or options.async_scheduling:
            raise InputError("speculative: goes with policy='vllm-v1' and async_scheduling=False")
        if pools is not None or engine == "compiled":
            raise InputError("speculative: neither compiled nor for pools; pass engine='auto' and no pools")
        found, cost = speculative_policy(found, speculative, seed), SpeculativeCost(cost, speculative)
        engine = "simpy"
    # What is wrong with the pool is said here. Today's vLLM refuses only pools that are too small; large ones take long
    # to make, longer than a short simulation.
    small = replace(options, num_blocks=min(options.num_blocks, 2)) if isinstance(options, V1Config) else options
    found.scheduler(small)
    fleet, found = fleet_of(
        trace, found, options, cost, engines,
        name=policy, pools=pools, faults=faults, scaling=scaling, router=router, seed=seed,
    )  # fmt: skip
    dropped = dropped_rows(trace, found, options, strict=too_long == "error")
    several = trace.best_of is not None and bool((trace.best_of > 1).any())
    swaps = several or getattr(options, "preemption_mode", None) == "swap"
    if swaps and getattr(options, "num_cpu_blocks", 0) and swap is None:
        raise InputError("swap: what is preempted is swapped to num_cpu_blocks; give a SwapCost")
    world = World(
        trace, found, options, cost, swap, engines, router_named(router, generator(seed, "llm", "router")),
        concurrency, padded, dropped, Genealogy(seed) if survivors is None else survivors, fleet,
    )  # fmt: skip
    (records, iterations, runs, report), made_by = _run(world, router, until, engine)
    return LLMResult(
        trace=trace,
        arrival=records.arrival,
        scheduled=records.scheduled,
        first_token=records.first_token,
        finish=records.finish,
        generated=records.generated,
        preemptions=records.preemptions,
        cached_tokens=records.cached_tokens,
        engine=records.engine,
        ignored=records.ignored,
        iterations=iterations,
        runs=runs,
        policy=policy,
        made_by=made_by,
        fleet=report,
    )


def _check_window(cost: Any, trace: LLMTrace, options: Any, *, strict: bool) -> None:
    """See that no request outgrows the window of the model that the cost is of; some end at ``max_model_len``."""
    model: Any = getattr(cost, "model", None)
    if isinstance(model, DecoderSpec) and model.window:
        longest = int((trace.prompt_tokens + trace.output_tokens).max())
        model.check_length(longest if strict else min(longest, getattr(options, "max_model_len", longest)), "requests")


def _run(world: World, router: str, until: float | None, engine: str) -> tuple[Any, str]:
    """What an engine says, and which one said it."""
    worth = engine in ("compiled", "fast") or int(world.trace.output_tokens.sum()) >= WORTH_TOKENS
    if world.fleet is not None:
        if engine == "compiled":
            raise InputError("engine: compiled: pools, faults and autoscaling are not compiled; pass engine='auto'")
        return run_fleet(world, world.fleet, until), "reference"
    if engine != "simpy" and worth:
        from .compiled.engine import NotCompiled, run_compiled, why_not_compiled

        why = why_not_compiled(world, router)
        if why is None:
            try:
                return (*run_compiled(world, until), None), "compiled"
            except NotCompiled as stopped:
                why = str(stopped)
        if engine == "compiled":
            raise InputError(f"engine: compiled: {why}; pass engine='auto' or 'simpy'")
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


def _check_kinds(until: Any, padded: Any, swap: Any, survivors: Any, speculative: Any) -> None:
    """Refuse what is of another kind than an option takes."""
    if not isinstance(padded, bool):
        raise InputError(f"padded: expected True or False (got {padded!r})")
    if until is not None and (isinstance(until, bool) or not isinstance(until, Real)):
        raise InputError(f"until: expected finite seconds > 0 (got {until!r})")
    for name, value, method, kind in (
        ("swap", swap, "seconds", "SwapCost"),
        ("survivors", survivors, "parents", "Survivors"),
    ):
        if value is not None and not callable(getattr(value, method, None)):
            raise InputError(f"{name}: expected {kind} with a method {method} (got {value!r})")
    if speculative is not None and not isinstance(speculative, Speculative):
        raise InputError(f"speculative: expected Speculative (got {speculative!r})")


def _at_least_one(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{name}: expected an integer >= 1 (got {value!r})")
