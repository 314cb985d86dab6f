"""Measuring a placement in service: other requests of the same kind through the very processes that will run."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from ....errors import InputError, RunError
from ....profiles import ProfileSet, save
from ....runtime import Session, calibrate
from ....runtime.serving.measure.rehearse import rehearse
from ....runtime.serving.measure.service import InService, in_service
from ....runtime.serving.result import RunResult
from ....simulator import Plan
from ...before import check_real_time, one_plan
from ...door import Answer, Asked
from ..case import ServingCase
from ..options import MeasureOptions
from .costs import costs_of
from .requests import requests_for

__all__ = ["measured_in_service"]

ROUNDS = 4
"""Rounds where nobody says how many: the least whose levels tell a drift from chance. A guess."""


def measured_in_service(asked: Asked) -> Answer:
    """Start a plan's workers, serve rounds of requests, and write a profile set of what they took.

    Raises
    ------
    InputError
        On what is wrong with the case, or a plan that does not fit this machine.
    RunError
        If a worker does not start, or no request was ever served.
    """
    case, options, plan = (
        cast(ServingCase, asked.case),
        cast(MeasureOptions, asked.options),
        cast(Plan, one_plan(asked)),
    )
    unused = [name for name in ("batches", "op", "pp") if name in options.model_fields_set]
    if unused:
        raise InputError(f"{unused[0]}: a plan says what is measured of it; leave it out")
    name = next(iter(asked.plans))
    traffic, source = requests_for(case, plan, name, asked.folder)
    check_real_time(traffic.arrival)
    costs = costs_of(plan, name, case, asked.folder)
    serving = {"dispatch": plan.serving.dispatch, "admission": plan.serving.admission}
    asked.progress("starting the workers")
    with Session(plan, traffic.models, costs, device=options.on) as session:
        alone = calibrate(session)
        rounds: list[RunResult] = []
        n = options.rounds or (2 if options.fast else ROUNDS)
        for k in range(n):
            asked.progress(f"serving requests, round {k + 1} of {n}")
            rounds.append(rehearse(session, traffic, alone.profiles, case.seed + k, seconds=options.seconds, **serving))
        if not any(len(result.heads()) for result in rounds):
            raise RunError("measure: no request was served: every one was rejected; give a longer SLO (--slo-scale)")
        found = in_service(session, rounds, alone.profiles)
    found = replace(found, profiles=_named(found.profiles, plan))
    if asked.out is not None:
        save(found.profiles, asked.out)
    written = () if asked.out is None else (asked.out,)
    text = f"{name}: {source}\nalone: {alone.explain()}\nin service: {found.explain()}"
    return Answer(text, _document(found, source), found.profiles, written=written)


def _named(profiles: ProfileSet, plan: Plan) -> ProfileSet:
    """With the device that the plan is for: what a plan carries of its costs does not say it."""
    device = plan.cluster.device.name
    source = replace(profiles.provenance, device=device, source=f"meshwright measure: {profiles.provenance.source}")
    return replace(profiles, name="measured-in-service", device=device, provenance=source)


def _document(found: InService, source: str) -> dict[str, object]:
    variation = found.profiles.variation
    return {
        "traffic": source,
        "visits": found.visits,
        "levels": found.levels.tolist(),
        "turnaround_s": found.turnaround_s,
        "overhead_s": found.profiles.overhead_s,
        "quantiles": {str(p): variation.stages.quantile(p) for p in (0.05, 0.5, 0.95, 0.99)},
        "level_sd": variation.stages.level_sd,
        "profiles_digest": found.profiles.digest(),
    }
