"""The requests that plans are scored on or really serve: read, or drawn; with SLOs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .... import traces
from ....errors import InputError
from ....profiles import ProfileSet, load, shipped
from ....simulator import Plan
from ....traces.columns import unknown_model
from ....traces.trace import Trace
from ..case import ServingCase

__all__ = ["requests_for", "single_device", "source_of"]


def requests_for(case: ServingCase, plan: Plan, name: str, folder: Path) -> tuple[Trace, str]:
    """The requests, and a line that says where they are from.

    Drawn requests have the SLO that the case says, else the plan's.

    Parameters
    ----------
    case : ServingCase
        Whose `workload` says the requests.
    plan : Plan
        Whose models they are for.
    name : str
        What tables call the plan.
    folder : Path
        A trace is relative to it.

    Raises
    ------
    InputError
        On a trace that cannot be read, or holds requests of other models.
    """
    w = case.workload
    names = tuple(m.name for m in plan.models)
    if w.trace is not None:
        trace, source = traces.read(folder / w.trace), source_of(case)
        if w.resample:
            own = w.slo is not None or w.slo_scale is not None
            windows = traces.fit_gamma(trace, window=w.window, slo=float("inf") if own else None)
            trace = windows.scale(w.rate_scale, w.cv_scale).resample(case.seed)
        elif w.rate_scale != 1:
            trace = Trace(trace.arrival / w.rate_scale, trace.model, trace.models, trace.slo)
    else:
        rate, cv = float(w.rate or 0) * w.rate_scale, w.cv * w.cv_scale
        split: Any = None if w.split == "uniform" else w.split
        trace, source = traces.gamma(rate, cv, w.duration, list(names), split, seed=case.seed), source_of(case)
    check_models(trace, names, source)
    if w.slo is not None:
        return trace.with_slo(w.slo), f"{source}, SLO {w.slo:g} s"
    if w.slo_scale is not None:
        base = single_device(plan, case.profile if "profile" in case.model_fields_set else None, folder)
        return trace.with_slo_scale(w.slo_scale, base), f"{source}, SLO scale {w.slo_scale:g}"
    planned = {m.name: m.slo_s for m in plan.models if m.slo_s is not None}
    if w.trace is None and set(planned) == set(names):
        return trace.with_slo(planned), f"{source}, SLOs of {name}"
    return trace, source


def source_of(case: ServingCase) -> str:
    """Where the requests of a case are from, without their SLOs."""
    w = case.workload
    if w.trace is not None:
        return f"{w.trace}, resampled in windows of {w.window:g} s, seed={case.seed}" if w.resample else w.trace
    split = w.split if isinstance(w.split, str) else "shares"
    rate, cv = float(w.rate or 0) * w.rate_scale, w.cv * w.cv_scale
    return f"gamma rate={rate:g} cv={cv:g} duration={w.duration:g} split={split} seed={case.seed}"


def single_device(plan: Plan, profile: str | Mapping[str, str] | None, folder: Path) -> ProfileSet:
    """The profiles whose single-device latencies SLO scales multiply.

    Raises
    ------
    InputError
        If none is given and the plan was not made with a shipped set.
    """
    name = profile if isinstance(profile, str) else plan.profile.partition("/")[0]
    if profile is None and name not in shipped():
        raise InputError(
            f"profile: SLO scales need the single-device latencies of profile {plan.profile!r}; give its file"
        )
    file = folder / name
    try:
        return load(name if name in shipped() or not file.exists() else file).named(m.name for m in plan.models)
    except InputError as error:
        raise InputError(f"profile: {error}") from None


def check_models(trace: Trace, models: Sequence[str], where: str) -> None:
    """Refuse requests of models that a plan does not serve.

    Raises
    ------
    InputError
        Naming the first such model, and those that the plan serves.
    """
    for name, count in zip(trace.models, trace.counts(), strict=True):
        if count and name not in models:
            raise InputError(
                f"{where}: {unknown_model(name, models)}; keep only theirs with "
                "`meshwright trace convert --models … --ignore-unknown`"
            )
