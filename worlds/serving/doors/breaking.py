"""Running while workers are killed and started again, beside the simulation of the same failures."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, cast

from ....errors import InputError
from ....files import write_bytes, write_text
from ....profiles import ModelProfile
from ....profiles.profile_set import ProfileSet
from ....runtime import RunOptions as Waits
from ....runtime import Session, calibrate
from ....runtime.serving.breaks import breaks_of
from ....runtime.serving.compare.over_time import OverTime, chart, conditions_of, over_time
from ....runtime.serving.controller import Script
from ....runtime.serving.measure.rehearse import rehearse
from ....runtime.serving.measure.service import in_service
from ....simulator import Plan, simulate
from ....simulator.serving.times import times_of
from ....traces.trace import Trace
from ...door import Answer, Asked
from ..case import ServingCase
from ..conditions.failing import breakdowns_of, with_files
from ..options import RunOptions

__all__ = ["broken"]

ROUNDS = 4
"""Rounds of other requests, half as long as the run: as many as tell by how much rounds differ. A guess."""


def broken(asked: Asked, plan: Plan, traffic: Trace, source: str, costs: Mapping[str, ModelProfile]) -> Answer:
    """Serve while the case's failures happen: how it went, and how it was simulated.

    First each group that will fail is ended and started again once, which says how long its weights take to load, and
    other requests of the same kind are served, which says what stages take in service; neither is of the run itself.

    Raises
    ------
    InputError
        On failures that name what is not there, or never happen.
    RunError
        If a worker does not start, or a group is lost that was not to be.
    """
    case, options = cast(ServingCase, asked.case), cast(RunOptions, asked.options)
    case, scripts = with_files(case, asked.folder)
    breakdowns = breakdowns_of(case.failures, case.loading, scripts)
    cluster, placement, name = plan.cluster_spec, plan.placement, next(iter(asked.plans))
    if breakdowns is None or breakdowns.failures is None:
        raise InputError("failures: nothing fails; give failures.script, or failures.mtbf and failures.mttr")
    downtimes = breakdowns.failures.draw(
        placement, cluster.n_devices, cluster.devices_per_node, float(traffic.arrival[-1]), case.seed
    )
    breaks = breaks_of(placement, downtimes)
    if not breaks:
        raise InputError("failures: none happens during the traffic; give an earlier time, or another seed")
    retried = case.failures.in_flight == "retried"
    max_batch = case.serving.max_batch if "max_batch" in case.serving.model_fields_set else None
    waits = Waits(startup_timeout_s=options.startup_timeout)
    with Session(plan, traffic.models, costs, device=options.on, batching=max_batch, options=waits) as session:
        load_s: dict[int, float] = {}
        for group in sorted({one.group for one in breaks}):
            asked.progress(f"starting group {group} again, to learn how long that takes")
            load_s[group] = session.fleet.rehearse_restart(group)
        session.warm_up()
        asked.progress("serving other requests, to learn what they take")
        known: ProfileSet = calibrate(session).profiles
        rounds = [rehearse(session, traffic, known, case.seed + k, seconds=traffic.duration / 2) for k in range(ROUNDS)]
        if any(len(one.heads()) for one in rounds):
            known = in_service(session, rounds, known).profiles
        dispatcher = session.prepare(traffic, profiles=known)
        result = session.execute(
            dispatcher,
            lambda now, done, n: asked.progress(f"{done} of {n} requests, {now:.0f} of {traffic.duration:.0f} s"),
            Script(breaks, retried),
        )
        batching, rules = session.batching, dispatcher.policy
    asked.progress("simulating")
    found = over_time(
        result,
        lambda k: simulate(
            placement, traffic, known, dispatch=dispatcher.dispatch, admission=rules.admission, batching=batching,
            overhead=rules.overhead,
            conditions=conditions_of(
                breaks, load_s, retried, times_of(known.variation, placement, traffic, k)
            ),
        ),
        draws=case.serving.draws,
        window_s=max(traffic.duration / options.windows, 1e-3) * (1 + 1e-9),
    )  # fmt: skip
    written = [path for path in (asked.out, options.timeline, options.png) if path is not None]
    if asked.out is not None:
        write_text(asked.out, result.to_frame().to_csv(index=False))
    if options.timeline is not None:
        result.timeline().to_chrome(options.timeline)
    if options.png is not None:
        out = io.BytesIO()
        chart(found, result).savefig(out, format="png", dpi=150)
        write_bytes(options.png, out.getvalue())
    text = [
        f"{len(traffic)} requests in {traffic.duration:.6g} s ({traffic.rate:.4g}/s): {source}",
        *map(str, result.failures),
        *(f"{back} (rehearsed: {load_s[back.group]:.2f} s)" for back in result.comebacks),
        f"{result.attainment_text}, mean latency {result.mean_latency * 1e3:.1f} ms, {int(result.rejected.sum())} "
        f"rejected ({int(result.failed.sum())} failed with a group)",
        str(found),
    ]
    failed = "; ".join(map(str, result.unplanned))
    return Answer(
        "\n".join(text), _document(name, source, found, load_s), result, written=tuple(written), failed=failed
    )


def _document(name: str, source: str, found: OverTime, load_s: Mapping[int, float]) -> dict[str, Any]:
    low, high = found.interval
    return {
        "plan": name,
        "traffic": source,
        "requests": int(found.arrivals.sum()),
        "attainment": found.attainment,
        "simulated_attainment": float(found.totals.mean()),
        "rehearsed_load_s": {str(group): seconds for group, seconds in load_s.items()},
        "window_s": found.window_s,
        "windows_inside": int(found.inside.sum()),
        "over_time": [
            {"arrivals": int(n), "real": _number(real), "mean": _number(mean), "low": _number(a), "high": _number(b)}
            for n, real, mean, a, b in zip(found.arrivals, found.real, found.draws.mean(axis=0), low, high, strict=True)
        ],
    }


def _number(value: float) -> float | None:
    return None if value != value else float(value)
