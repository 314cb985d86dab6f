"""Comparing: placements really run, beside what the simulator says of them (AlpaServe Table 2, on this machine)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from .... import runtime
from ....errors import InputError
from ....files import write_text
from ....runtime.serving.compare.chart import save_png
from ....simulator import Plan
from ...before import check_real_time
from ...door import Answer, Asked
from ..case import ServingCase
from ..options import CompareOptions
from .requests import requests_for, single_device

__all__ = ["compared"]


def compared(asked: Asked) -> Answer:
    """Run every plan for real, calibrate and simulate it.

    Raises
    ------
    InputError
        On what is wrong with the case or the plans.
    RunError
        If a worker does not start.
    """
    options, case = cast(CompareOptions, asked.options), cast(ServingCase, asked.case)
    plans = cast("Mapping[str, Plan]", asked.plans)
    first, *others = plans
    names = {m.name for m in plans[first].models}
    for path in others:
        if {m.name for m in plans[path].models} != names:
            raise InputError(f"{path}: serves other models than {first}; compare plans for the same models")
    traffic, source = requests_for(case, plans[first], first, asked.folder)
    check_real_time(traffic.arrival)
    base = single_device(plans[first], case.profile if "profile" in case.model_fields_set else None, asked.folder)
    served = plans[first].serving
    found = runtime.compare(
        dict(plans), traffic, base, list(options.slo_scales), device=options.on, dispatch=served.dispatch,
        admission=served.admission, progress=asked.progress,
        options=runtime.CompareOptions(
            case.serving.max_batch, options.calibrate, options.retries, rehearsal_s=options.rehearsal,
            draws=case.serving.draws, seed=case.seed,
        ),
    )  # fmt: skip
    if options.csv is not None:
        write_text(options.csv, found.to_frame().to_csv(index=False))
    if options.png is not None:
        save_png(found, options.png)
    document = {
        "traffic": source,
        "requests": len(traffic),
        "cells": found.to_frame().to_dict("records"),
        "worst_points": 100 * found.worst,
        "mean_points": 100 * found.mean_difference,
        "inside": len(found.cells) - len(found.outside),
        "explained": found.explained,
        "measured": {name: one.explain() for name, one in found.measured.items()},
    }
    text = f"{len(traffic)} requests in {traffic.duration:.6g} s ({traffic.rate:.4g}/s): {source}\n\n{found}"
    written = tuple(path for path in (options.csv, options.png) if path is not None)
    failed = (
        ""
        if found.within
        else (
            f"compare: {len(found.outside)} of {len(found.cells)} real runs lie outside their interval (at most "
            f"{found.allowed} may)"
        )
    )
    return Answer(text, document, found, written=written, failed=failed)
