"""`meshwright simulate` of LLM plans: several on the same requests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import InputError
from .llm_traffic import tables_of, traffic_of
from .trace_io import print_frame, print_json

if TYPE_CHECKING:
    from ..simulator.llm import LLMPlan, LLMPlanResult

__all__ = ["llm_plans", "simulate_llm_plans"]

ENGINES = {"compiled": "fast", "simpy": "simpy"}
"""What `--engine` says -> what `simulate_plan` is asked for: compiled, where that can be."""


def llm_plans(plans: list[Path]) -> bool:
    """Whether the files are LLM plans.

    Raises
    ------
    InputError
        If only some are.
    """
    from ..simulator.llm import LLMPlan

    found = [LLMPlan.is_one(path) for path in plans]
    if any(found) and not all(found):
        raise InputError(
            f"{plans[found.index(False)]}: is no LLM plan, {plans[found.index(True)]} is one; compare plans of one kind"
        )
    return any(found)


def simulate_llm_plans(
    plans: list[Path],
    *,
    trace: Path | None,
    lengths: str | None,
    rate: float | None,
    cv: float | None,
    duration: float | None,
    split: str | None,
    seed: int,
    slo_ttft: float | None,
    slo_tpot: float | None,
    kernels: Path | None,
    engine: str,
    per_model: bool,
    per_group: bool,
    as_json: bool,
) -> None:
    """Simulate and print.

    Raises
    ------
    InputError
        On what is wrong on the command line or in the files.
    """
    from ..simulator.llm import LLMPlan, simulate_plan

    if engine not in ENGINES:
        raise InputError(f"--engine: expected compiled or simpy (got {engine!r})")
    loaded = {str(path): LLMPlan.load(path) for path in plans}
    first = next(iter(loaded.values()))
    names = [m.name for m in first.models]
    for path, plan in loaded.items():
        if {m.name for m in plan.models} != set(names):
            raise InputError(f"{path}: serves other models than {plans[0]}; compare plans for the same models")
    traffic = traffic_of(
        names, trace=trace, lengths=lengths, rate=rate, cv=cv, duration=duration, split=split,
        rates=first.workload.rate_per_s if first.workload is not None else None,
    )  # fmt: skip
    requests = {name: each.trace(seed) for name, each in traffic.items()}
    tables = tables_of(kernels)
    results = {
        path: simulate_plan(_with_limits(plan, slo_ttft, slo_tpot), requests, tables=tables, seed=seed,
                            engine=ENGINES[engine])
        for path, plan in loaded.items()
    }  # fmt: skip
    count = sum(map(len, requests.values()))
    last = max(float(t.arrival[-1]) for t in requests.values())
    source = "; ".join(dict.fromkeys(each.source for each in traffic.values()))
    if as_json:
        print_json({"traffic": source, "requests": count, "plans": [_document(p, r) for p, r in results.items()]})
        return
    per_second = f" ({count / last:.4g}/s)" if last > 0 else ""
    typer.echo(f"{count} requests in {last:.6g} s{per_second}: {source}")
    _print(results)
    for path, result in results.items():
        for wanted, frame in ((per_group, result.per_deployment), (per_model, result.per_model)):
            if wanted:
                typer.echo(f"\n{path}")
                print_frame(frame().reset_index())


def _with_limits(plan: LLMPlan, ttft: float | None, tpot: float | None) -> LLMPlan:
    limits = {"slo_ttft_s": ttft, "slo_tpot_s": tpot}
    said = {name: value for name, value in limits.items() if value is not None}
    for name, value in said.items():
        if not value > 0:
            raise InputError(f"--{name[:-2].replace('_', '-')}: expected seconds > 0 (got {value})")
    return plan.model_copy(update={"models": tuple(m.model_copy(update=said) for m in plan.models)})


def _document(path: str, result: LLMPlanResult) -> dict[str, Any]:
    return {
        "plan": path,
        "engine": result.made_by,
        **result.summary(),
        **({} if result.has_limits else {"attainment": None}),
        "per_model": result.per_model().reset_index().to_dict("records"),
        "per_deployment": result.per_deployment().reset_index().to_dict("records"),
    }


def _print(results: dict[str, LLMPlanResult]) -> None:
    width = max(len("plan"), *(len(path) for path in results)) + 2
    typer.echo(
        f"{'plan':<{width}}{'devices':>8}{'attainment':>12}{'goodput/s':>11}{'TTFT p50':>10}{'p90 ms':>9}"
        f"{'TPOT p50':>10}{'p90 ms':>9}{'preempted':>11}"
    )
    for path, result in results.items():
        ttft, tpot = result.percentiles("ttft", (50, 90)), result.percentiles("tpot", (50, 90))
        cells = "".join(f"{x * 1e3:>10.1f}{y * 1e3:>9.1f}" for x, y in (ttft, tpot))
        preempted = sum(int(r.preemptions.sum()) for r in result.results.values())
        attained = f"{result.attainment:>12.2%}" if result.has_limits else f"{'no SLO':>12}"
        typer.echo(
            f"{path:<{width}}{len(result.plan.used_devices):>8}{attained}{result.goodput:>11.4g}{cells}{preempted:>11}"
        )
