"""`Served`: the simulation of one model's deployments: one alone, each with its share, or prompts and decodes apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from typing import Any

from ....profiles.llm.iteration import IterationCost
from ..memory.adapters import AdapterCost
from ..options import SimulateOptions
from ..policy.deal import dealt
from ..result.columns import LLMResult
from ..result.merged import Part, merged
from ..simulate import simulate_llm
from ..times import StepDraws
from ..workload.requests import LLMTrace
from .conditions import Conditions
from .costs import Tables, drafts_of, flight_options, kv_bytes_per_token, swap_cost, transfer_link
from .entries import Deployment
from .file import LLMPlan

__all__ = ["LORA_RANK", "Costs", "Served", "Times"]

Costs = Callable[[Deployment], IterationCost]
Times = Callable[[Deployment, LLMTrace], StepDraws]
LORA_RANK = 16
"""Rank of the adapters that plans are simulated with: vLLM's default of ``--max-lora-rank``."""


class Served:
    """What the simulations of all models of a plan have in common.

    Parameters
    ----------
    plan : LLMPlan
        The plan.
    costs : callable
        Deployment -> its iteration cost.
    too_long, until, seed, engine
        See `simulate_llm`.
    conditions : Conditions, optional
        What befalls the engines; deployments draw failures of their own.
    """

    def __init__(
        self, plan: LLMPlan, costs: Costs, too_long: str, until: float | None, seed: int, engine: str,
        conditions: Conditions | None = None,
    ) -> None:  # fmt: skip
        self.plan, self.costs, self.seed, self.engine, self.conditions = plan, costs, seed, engine, conditions
        self.plain = SimulateOptions(too_long=too_long, until=until)
        self.tables: Tables | None = None

    def met(self, *mine: Deployment) -> SimulateOptions:
        """Options of one simulation, with what befalls its engines."""
        return self.plain if self.conditions is None else self.conditions.options(self.plain, self.plan, mine)

    def same(self, first: Deployment) -> dict[str, Any]:
        """Router, seed and engine of one simulation."""
        seed = self.seed if self.conditions is None else self.conditions.seed(self.plan, first, self.seed)
        return {"router": self.plan.router, "seed": seed, "engine": self.engine}

    def served(self, mine: tuple[Deployment, ...], trace: LLMTrace) -> LLMResult:
        """A model's deployments: one alone, each with its share, or prompts and decodes apart."""
        if len(mine) == 1:
            return self.alone(mine[0], trace)
        return self.dealt(mine, trace) if mine[0].share is not None else self.disaggregated(mine, trace)

    def alone(self, d: Deployment, trace: LLMTrace, times: Times | None = None) -> LLMResult:
        """One deployment on devices of its own."""
        options = self.met(d) if times is None else replace(self.plain, times=times(d, trace))
        if d.speculative is not None:
            options = replace(options, speculative=drafts_of(self.plan, d, self.tables))
        if trace.lora is not None:
            options = replace(options, adapters=AdapterCost.of(self.plan.model(d.model).spec, LORA_RANK, tp=d.tp))
        if getattr(d.options, "preemption_mode", None) == "swap":
            options = replace(options, swap=swap_cost(self.plan, d))
        return simulate_llm(
            trace, policy=d.policy, config=flight_options(d), cost=self.costs(d), engines=d.replicas * d.schedulers,
            options=options, **self.same(d),
        )  # fmt: skip

    def dealt(self, mine: tuple[Deployment, ...], trace: LLMTrace) -> LLMResult:
        """Deployments that are not alike, each with its share of the requests."""
        rows = dealt(trace, [d.share or 0.0 for d in mine])
        *firsts, engines = accumulate((d.replicas * d.schedulers for d in mine), initial=0)
        parts = [
            Part(r, self.alone(d, trace.select(r)), first)
            for d, r, first in zip(mine, rows, firsts, strict=True)
            if len(r)
        ]
        return merged(trace, parts, engines)

    def disaggregated(self, mine: tuple[Deployment, ...], trace: LLMTrace) -> LLMResult:
        """One deployment for prompts and one for decodes."""
        from ..fleet.pools import Pools  # what few plans need is loaded by these

        prefill, decode = sorted(mine, key=lambda d: d.role == "decode")
        pools = Pools(
            prefill.replicas * prefill.pp,
            decode.replicas * decode.pp,
            transfer_link(self.plan, prefill, decode),
            kv_bytes_per_token=kv_bytes_per_token(self.plan, prefill),
            decode_config=flight_options(decode),
            decode_cost=self.costs(decode),
        )
        return simulate_llm(
            trace, policy=prefill.policy, config=flight_options(prefill), cost=self.costs(prefill),
            options=replace(self.met(prefill, decode), pools=pools), **self.same(prefill),
        )  # fmt: skip
