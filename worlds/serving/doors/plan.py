"""Planning: a placement of models on a cluster for a trace; several planners are compared."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from typing import Any, cast

from ....errors import InfeasibleError, InputError
from ....profiles import ModelProfile, ParallelConfig
from ....simulator import Plan
from ...carried import said_by
from ...cases import called
from ...door import Answer, Asked
from ..case import ServingCase
from ..data import ServingData, takes_slo_scale
from ..load import load_data
from ..solve import problem_of
from ..traffic import DEFAULT_SLO_SCALE
from .hopeless import warn_of_hopeless
from .requests import source_of

__all__ = ["decided"]


def decided(asked: Asked) -> Answer:
    """Plan with every planner that is named; the answer's plan is the one that attains most.

    Raises
    ------
    InputError
        On what is wrong with a case.
    InfeasibleError
        If no planner finds a placement.
    """
    cases = cast("tuple[ServingCase, ...]", asked.cases)
    with redirect_stdout(sys.stderr):  # what a planner's module prints is none of our output
        data = load_data(cases, asked.folder, repeatable=False)
    _check_slo(cases, data)
    first = problem_of(cases[0], data)
    within = {name: _within(profile, first.cluster.n_devices) for name, profile in first.profiles.items()}
    warn_of_hopeless(first.trace, first.profiles, within)
    found: dict[str, Any] = {}
    failed: dict[str, InfeasibleError] = {}
    for case in cases:
        name = called(case.planner)
        asked.progress(name)
        try:
            with redirect_stdout(sys.stderr):
                found[name] = data.planners[case.planner.name].plan(
                    problem_of(case, data), asked.progress, "planner.options"
                )
        except InfeasibleError as error:
            if len(cases) == 1:
                raise
            failed[name] = error
    if not found:
        raise InfeasibleError("; ".join(f"{name}: {error}" for name, error in failed.items()))
    plans = {name: p for name, p in found.items() if isinstance(p, Plan)}
    best = max(plans or found, key=lambda name: found[name].predicted["attainment"])
    text = [*_table(found, failed), found[best].explain()]
    return Answer(
        "\n".join(text), _document(found, failed, best), found[best], _sourced(plans.get(best), cases[0], data)
    )


def _check_slo(cases: Sequence[ServingCase], data: ServingData) -> None:
    """Whoever plans for measured requests without any SLO says one: by attainment every placement is as good.

    Studies, which sweep SLO scales, take `DEFAULT_SLO_SCALE` there; one plan is not made for a scale that nobody said.
    """
    for case in cases:
        w = case.workload
        if w.trace is not None and w.slo is None and w.slo_scale is None and not data.traces[w.trace].has_slo:
            raise InputError(
                f"workload.slo: no request of {w.trace} has an SLO, so there is no attainment to plan for; give one: "
                "--slo or --slo-scale"
            )


def _within(profile: ModelProfile, n_devices: int) -> list[ParallelConfig]:
    return [config for config in profile.configs if config.n_devices <= n_devices]


def _sourced(plan: Plan | None, case: ServingCase, data: ServingData) -> Plan | None:
    """A plan that says which case it is for, and where its traffic is from."""
    if plan is None:
        return None
    plan = plan.model_copy(update={"case": said_by(case)})
    if plan.workload is None:
        return plan
    w = case.workload
    scale = w.slo_scale or (DEFAULT_SLO_SCALE if takes_slo_scale(case, data) else None)
    slo = f", SLO {w.slo:g} s" if w.slo is not None else f", SLO scale {scale:g}" if scale is not None else ""
    workload = plan.workload.model_copy(update={"source": source_of(case) + slo})
    return plan.model_copy(update={"workload": workload})


def _document(found: Mapping[str, Any], failed: Mapping[str, InfeasibleError], best: str) -> dict[str, Any]:
    rows = [
        {
            "planner": name, "predicted": dict(p.predicted), "seconds": p.planner.seconds,
            "evaluations": p.planner.evaluations,
        }
        for name, p in found.items()
    ]  # fmt: skip
    return {
        "plans": rows,
        "infeasible": {name: str(error) for name, error in failed.items()},
        "best": best,
        "plan": json.loads(found[best].to_json()) if hasattr(found[best], "to_json") else None,
    }


def _table(found: Mapping[str, Any], failed: Mapping[str, InfeasibleError]) -> Sequence[str]:
    """A row for each of several planners."""
    if len(found) + len(failed) == 1:
        return ()
    rows = [f"{'planner':<24}{'attainment':>12}{'goodput/s':>12}{'mean ms':>10}{'gap':>8}{'seconds':>9}"]
    for name, p in found.items():
        m = p.predicted
        mean = m.get("mean_latency", float("nan")) * 1e3
        gap = f"{m['gap']:.2%}" if "gap" in m else "—"  # no bound is known with batching
        rows.append(
            f"{name:<24}{m['attainment']:>12.2%}{m['goodput']:>12.4g}{mean:>10.1f}{gap:>8}{p.planner.seconds:>9.2f}"
        )
    return [*rows, *(f"{name:<24}{'infeasible':>12}  {error}" for name, error in failed.items()), ""]
