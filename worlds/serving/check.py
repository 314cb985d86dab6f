"""What can be wrong with a serving case although each field of it is right: checked before any point is planned."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence

from ...errors import InputError, OutOfProfileError
from ...profiles.hardware import device as device_by_name
from ...traces.columns import unknown_model
from ...traces.generate import MAX_CV, MAX_REQUESTS
from ...traces.splits import shares
from ..words import under
from .case import ServingCase
from .conditions.failing import breakdowns_of
from .data import ServingData, cluster_of, profile_name
from .solve import check_fit
from .traffic import span_s

__all__ = ["check_alike", "check_case", "check_plan", "check_repeatable"]


def check_case(case: ServingCase, data: ServingData, complete: bool = True) -> Iterator[str]:
    """Problems of a case, each beginning with its field; of one whose files are not all there, what is seen without."""
    case = data.told(case) if complete else case
    for field, check in _CHECKS if complete else _OF_PROFILE:
        try:
            check(case, data)
        except (InputError, OutOfProfileError) as error:
            yield from under(field, str(error))
            if field in _FIRST:
                return


def _device(case: ServingCase, data: ServingData) -> None:
    device, profiles = case.cluster.device, data.profiles[profile_name(case)]
    device_by_name(device)
    cluster_of(case)
    if profiles.device and profiles.device != device and device not in case.speed:
        raise InputError(
            f"profile {profiles.name!r} holds for {profiles.device!r} (got {device!r}); name a profile of that device "
            f"under profile, or say what you assume under speed: {{{device}: FACTOR}}"
        )


def _speed(case: ServingCase, data: ServingData) -> None:
    for device in case.speed:
        device_by_name(device)


def _profile_devices(case: ServingCase, data: ServingData) -> None:
    for device in () if isinstance(case.profile, str) else case.profile:
        device_by_name(device)


def _models(case: ServingCase, data: ServingData) -> None:
    data.profiles_for(case)


def _slo(case: ServingCase, data: ServingData) -> None:
    if case.workload.slo_device is not None and isinstance(case.profile, str):
        raise InputError("says which of several profiles counts, but profile names one; leave it out")
    if case.workload.slo is None:
        data.latencies_for(case)


def _trace_models(case: ServingCase, data: ServingData) -> None:
    if case.workload.trace is None:
        return
    served = tuple(data.profiles_for(case))
    for name in data.traces[case.workload.trace].models:
        if name not in served:
            raise InputError(
                f"{case.workload.trace}: {unknown_model(name, served)}; keep only requests of the study's models with "
                "`meshwright trace convert --models … --ignore-unknown`, or leave models out"
            )


def _fitted(case: ServingCase, data: ServingData) -> None:
    w = case.workload
    if w.trace is None or not (w.resample or case.planner.plan_on == "history"):
        return
    try:
        windows = data.windows_of(case)
    except InputError as error:
        what = str(error).removeprefix("fit_gamma: ").partition("; say which one")[0]
        raise InputError(f"{w.trace}: {what}; for drawn traffic give workload.slo or workload.slo_scale") from None
    largest = float(windows.cv.max()) * w.cv_scale
    if largest > MAX_CV:
        raise InputError(f"{w.trace}: scaled by {w.cv_scale:g}, a CV is {largest:.4g}; expected at most {MAX_CV:g}")


def _split(case: ServingCase, data: ServingData) -> None:
    if case.workload.trace is None:
        shares(case.workload.split, list(data.profiles_for(case)))


def _rate(case: ServingCase, data: ServingData) -> None:
    w = case.workload
    if w.rate is None:
        return
    expected = w.rate * w.rate_scale * w.duration
    if not 1 <= expected <= MAX_REQUESTS:
        raise InputError(
            f"{w.rate * w.rate_scale:g} requests/s for {w.duration:g} s are {expected:.3g} requests; expected 1 … "
            f"{MAX_REQUESTS:.0e}"
        )


def _cv(case: ServingCase, data: ServingData) -> None:
    w = case.workload
    if w.trace is None and w.cv * w.cv_scale > MAX_CV:
        raise InputError(f"expected at most {MAX_CV:g} after scaling (got {w.cv * w.cv_scale:g})")


def _batch(case: ServingCase, data: ServingData) -> None:
    batch = case.serving.max_batch
    for name, profile in data.profiles_for(case).items():
        if not any(batch in stage.latency for stage in profile.stages.values()):
            have = sorted({b for stage in profile.stages.values() for b in stage.latency})
            raise InputError(
                f"{name!r} was not profiled at batch {batch}; profiled batches: {', '.join(map(str, have))}"
            )
    if batch > 1 and case.planner.options.get("carry"):
        raise InputError("a schedule with carry cannot be served in batches; set planner.options.carry: false")


def _warmup(case: ServingCase, data: ServingData) -> None:
    span = span_s(case, data)
    if case.warmup > 0 and 2 * case.warmup >= span:
        raise InputError(f"{case.warmup:g} s at each end leave nothing of traffic that lasts {span:.6g} s")


def _script(case: ServingCase, data: ServingData) -> None:
    found = breakdowns_of(case.failures, case.loading, data.scripts)
    if found is not None and found.failures is not None:
        cluster = cluster_of(case)
        try:
            found.failures.check(cluster.n_devices, cluster.devices_per_node)
        except InputError as error:
            raise InputError(str(error).removeprefix("failures: script: ")) from None


def _schedule(case: ServingCase, data: ServingData) -> None:
    """Refuse, before anything is planned, what a plan that changes its placement cannot be scored with."""
    if case.planner.plan is not None or not data.planners[case.planner.name].schedules:
        return
    met = {
        "scaling is of the": case.scaling.least is not None, "failures name": case.failures.said,
        "loading.cold is of": case.loading.cold,
    }  # fmt: skip
    what = next((words for words, said in met.items() if said), None)
    if what is not None:
        raise InputError(
            f"{case.planner.name} changes its placement over time, and {what} groups of one placement; "
            "take another planner"
        )
    kept = next((word for word in ("loading", "carry") if case.planner.options.get(word)), None)
    if case.serving.times == "drawn" and kept is not None:
        raise InputError(
            f"{case.planner.name} with {kept} keeps devices busy when it changes its placement, which drawn times do "
            f"not know; leave {kept} or serving.times out"
        )


def _options(case: ServingCase, data: ServingData) -> None:
    options = case.planner.options
    if case.planner.plan is not None:
        if options:
            raise InputError(f"a plan that exists has none (got {', '.join(options)})")
        return
    data.planners[case.planner.name].check_options(options, "options")


_CHECKS: tuple[tuple[str, Callable[[ServingCase, ServingData], None]], ...] = (
    ("profile", _profile_devices),
    ("speed", _speed),
    ("cluster.device", _device),
    ("models", _models),
    ("workload.slo_device", _slo),
    ("workload.trace", _trace_models),
    ("workload.trace", _fitted),
    ("workload.split", _split),
    ("workload.rate", _rate),
    ("workload.cv", _cv),
    ("serving.max_batch", _batch),
    ("warmup", _warmup),
    ("failures.script", _script),
    ("planner.name", _schedule),
    ("planner.options", _options),
)
_OF_PROFILE = _CHECKS[:4]
_FIRST = ("profile", "cluster.device", "models", "workload.slo_device")
"""Nothing after these can be checked while they are wrong."""


def check_repeatable(case: ServingCase) -> None:
    """Refuse a planner whose plan depends on how long it may think: a study's point is the same on every machine.

    Raises
    ------
    InputError
        Naming the option that counts what is tried instead.
    """
    if case.planner.plan is None and case.planner.options.get("local_search_seconds"):
        raise InputError(
            "local_search_seconds makes the plan depend on how fast this machine is, and points are to come out alike "
            "on all of them; give local_search_iterations"
        )


def check_alike(cases: Sequence[ServingCase]) -> None:
    """Refuse replications that are all alike: they would make an interval of width 0 of a single sample.

    Where some cases resample the trace, as those of a headroom question do, they are what the replications are for.

    Raises
    ------
    InputError
        If cases that differ in the seed alone replay the same trace.
    """
    drawn = {case.workload.trace for case in cases if case.workload.resample}
    seeds: dict[str, int] = {}
    for case in cases:
        w, p = case.workload, case.planner
        if w.trace is None or w.trace in drawn or (p.plan_on == "history" and p.plan is None):
            continue
        said = json.dumps(case.model_dump(mode="json", exclude={"seed"}))
        if seeds.setdefault(said, case.seed) != case.seed:
            raise InputError(
                f"{w.trace} is the same in every replication; set workload.resample: true to draw new traffic from "
                "it, or replications: 1"
            )


def check_plan(case: ServingCase, data: ServingData) -> None:
    """Check that the case's plan file serves its models on its cluster.

    Raises
    ------
    InputError
        If it was made for another device type, for other models, or is placed as the profile does not know.
    InfeasibleError
        If it needs more devices or memory.
    """
    plan = data.plans[str(case.planner.plan)]
    profiles = data.profiles_for(case)
    served = tuple(m.name for m in plan.models)
    asked = profiles if case.workload.trace is None else data.traces[case.workload.trace].models
    for name in asked:
        if name not in served:
            raise InputError(
                f"{unknown_model(name, served)}; the traffic asks for it: name the plan's models under models, "
                "or plan again"
            )
    costs = data.costs_of(case, plan.placement.models)
    for group in plan.groups:
        for name in group.models:
            costs[name].latency(group.config, case.serving.max_batch)
    check_fit(plan, cluster_of(case), costs)
