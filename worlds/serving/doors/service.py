"""Measuring a placement in service: other requests of the same kind through the very processes that will run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from ....errors import InputError, RunError
from ....profiles import ModelProfile, ProfileSet, save
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
    found = replace(found, profiles=_whole(found.profiles, costs, plan))
    if asked.out is not None:
        save(found.profiles, asked.out)
    written = () if asked.out is None else (asked.out,)
    text = f"{name}: {source}\nalone: {alone.explain()}\nin service: {found.explain()}"
    return Answer(text, _document(found, source), found.profiles, written=written)


def _whole(profiles: ProfileSet, costs: Mapping[str, ModelProfile], plan: Plan) -> ProfileSet:
    """A set that plans can be made with: by architecture, and with the device, which a plan's own costs do not say.

    Configurations that the plan does not have take the level that was found for those that it has: a planner would
    otherwise hold what was measured in service against what was not.
    """
    held = [(name, group.config) for group in plan.groups for name in group.models]
    now, before = (sum(sum(known[name].latency(c)) for name, c in held) for known in (profiles, costs))
    level = now / before
    models: dict[str, ModelProfile] = {}
    for name, profile in profiles.items():
        other = profile.scaled(level)
        stages = {
            c: stage if (name, c) in held else replace(other.stage(c), source=f"not measured: {level:.3f} x as given")
            for c, stage in profile.stages.items()
        }
        models[name] = replace(profile, stages=stages)
    device = plan.cluster.device.name
    source = replace(profiles.provenance, device=device, source=f"meshwright measure: {profiles.provenance.source}")
    return replace(
        profiles, name="measured-in-service", device=device, provenance=source, models=_by_architecture(models)
    )


def _by_architecture(models: Mapping[str, ModelProfile]) -> dict[str, ModelProfile]:
    """Instances of one architecture that cost the same under its name; the others under their own."""
    found: dict[str, list[ModelProfile]] = {}
    for name, profile in models.items():
        found.setdefault(re.sub(r"-\d+$", "", name), []).append(profile)
    out: dict[str, ModelProfile] = {}
    for base, mine in found.items():
        alike = all(one.renamed(base) == mine[0].renamed(base) for one in mine)
        out |= {base: mine[0].renamed(base)} if alike else {one.name: one for one in mine}
    return out


def _document(found: InService, source: str) -> dict[str, object]:
    variation = found.profiles.variation
    return {
        "traffic": source,
        "visits": found.visits,
        "levels": found.levels.factor.tolist(),
        "turnaround_s": found.turnaround_s,
        "overhead_s": found.profiles.overhead_s,
        "quantiles": {str(p): variation.stages.quantile(p) for p in (0.05, 0.5, 0.95, 0.99)},
        "level_sd": variation.stages.level_sd,
        "profiles_digest": found.profiles.digest(),
    }
