"""Running: a trace served for real by the workers of a placement, on this machine."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, cast

from .... import runtime
from ....errors import InputError
from ....files import write_text
from ....runtime.serving.compare.attribution import own_level, stage_ratios
from ....simulator import Plan
from ...before import check_real_time, one_plan
from ...door import Answer, Asked
from ...words import table
from ..case import ServingCase
from ..options import RunOptions
from .costs import costs_of
from .requests import requests_for

__all__ = ["ran"]

DRIFT = 0.05
"""Mean deviation of stage times from the profile that is told of. A guess: rounds of 15 s on a virtual machine differ
by 2 to 5 %."""


def ran(asked: Asked) -> Answer:
    """Serve, and say how it went.

    Raises
    ------
    InputError
        On what is wrong with the case, or a plan that does not fit this machine.
    RunError
        If a worker does not start.
    """
    options, case, plan = cast(RunOptions, asked.options), cast(ServingCase, asked.case), cast(Plan, one_plan(asked))
    name = next(iter(asked.plans))
    traffic, source = requests_for(case, plan, name, asked.folder)
    check_real_time(traffic.arrival)
    costs = costs_of(plan, name, case, asked.folder)
    if case.failures.said:
        from .breaking import broken

        return broken(asked, plan, traffic, source, costs)
    for one in ("png", "windows"):
        if one in options.model_fields_set:
            raise InputError(f"{one}: goes with failures alone: attainment over time beside its simulation")
    asked.progress("starting the workers")
    said = case.serving.model_fields_set
    result = runtime.run(
        plan, traffic, profiles=costs, device=options.on,
        batching=case.serving.max_batch if "max_batch" in said else None,
        options=runtime.RunOptions(startup_timeout_s=options.startup_timeout),
        progress=lambda now, done, n: asked.progress(
            f"{done} of {n} requests, {now:.0f} of {traffic.duration:.0f} s"
        ),
    )  # fmt: skip
    if asked.out is not None:
        write_text(asked.out, result.to_frame().to_csv(index=False))
    if options.timeline is not None:
        result.timeline().to_chrome(options.timeline)
    figures: dict[str, Any] = {
        "attainment": result.attainment if result.has_slo else None,
        "goodput_per_s": result.goodput,
        "mean_latency_s": result.mean_latency,
        "p99_latency_s": result.latency(99),
        "rejected": int(result.rejected.sum()),
        "failed": int(result.failed.sum()),
    }
    ratios = stage_ratios(result)
    level = own_level(result, costs)
    document = {
        "plan": name,
        "traffic": source,
        "requests": len(traffic),
        **figures,
        "failures": [str(failure) for failure in result.failures],
        "per_model": result.per_model().reset_index().to_dict("records"),
        "stage_time_over_profile": ratios.to_dict("records"),
        "level": level,
        "cores": asdict(result.cores),
    }
    text = [
        f"{len(traffic)} requests in {traffic.duration:.6g} s ({traffic.rate:.4g}/s): {source}",
        f"{result.attainment_text}, goodput {result.goodput:.4g}/s, mean latency {result.mean_latency * 1e3:.1f} ms, "
        f"p99 {result.latency(99) * 1e3:.1f} ms, {figures['rejected']} rejected ({figures['failed']} failed)",
        "\nstage times over the profile's, and the share of them in which the worker had its core",
        table(ratios),
        f"cores: ours {result.cores.ours:.1%}, others {result.cores.others:.1%}, host {result.cores.stolen:.1%}",
    ]
    if abs(level - 1) > DRIFT:
        text.append(
            f"stages took {level - 1:+.0%} of what the profile says: it was not measured in service (meshwright "
            f"measure {name}), or the machine has drifted since"
        )
    if options.per_model:
        text += ["", table(result.per_model().reset_index())]
    written = tuple(path for path in (asked.out, options.timeline) if path is not None)
    failed = "; ".join(str(failure) for failure in result.failures)
    return Answer("\n".join(text), document, result, written=written, failed=failed)
