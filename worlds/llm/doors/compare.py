"""Comparing: language models served by the real engine and by the simulator; or the simulator and measurements."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from ....errors import InputError
from ....files import write_text
from ....runtime.llm.compare.chart import save_engine_png
from ....runtime.llm.compare.engine import compare_engine
from ....runtime.llm.compare.settings import SETTINGS, Traffic
from ....runtime.llm.measure.engine import MeasureOptions
from ....simulator.llm.workload.clients import Clients
from ...door import Answer, Asked
from ..case import LLMCase
from ..data import decoder_of, one_trace
from ..demands import squeezed
from ..options import CompareOptions
from .drawn import senders
from .measured import against_measurements

__all__ = ["compared"]

CELL_S = 20.0
"""Seconds of traffic of each cell, where nobody says how long."""


def compared(asked: Asked) -> Answer:
    """Serve models for real and in simulation.

    Raises
    ------
    InputError
        On what is wrong with the case or the options, before anything runs.
    """
    if asked.plans:
        raise InputError("compare: the engine is compared model by model: meshwright compare llm --model NAME")
    case, options = cast(LLMCase, asked.case), cast(CompareOptions, asked.options)
    if options.silicon is not None or options.vllm_run is not None or options.link is not None:
        if isinstance(case.kernels, Mapping):
            raise InputError("kernels: measurements name their systems themselves; expected one folder")
        return against_measurements(asked, options, case.kernels)
    if len(set(case.models)) < len(case.models):
        raise InputError(f"model: expected each model once (got {', '.join(case.models)})")
    w, clients = case.workload, senders(case)
    if clients is not None and clients.rateless:
        raise InputError(
            f"workload.clients.arrivals: {clients.arrivals} has no rate, and cells are rates; meshwright run sends so"
        )
    if clients is None and w.cv * w.cv_scale != 1:
        clients = Clients("gamma", w.cv * w.cv_scale)
    trace = None if w.trace is None else squeezed(one_trace(asked.folder / w.trace), w.rate_scale)
    found = compare_engine(
        [decoder_of(name, asked.folder) for name in case.models],
        Traffic(
            options.loads,
            None if w.rate is None else w.rate * w.rate_scale,
            trace,
            duration_s=w.duration or CELL_S,
            clients=clients,
        ),
        settings=list(options.settings or SETTINGS),
        measure=MeasureOptions(options.on, options.dtype, seed=case.seed, fast=options.fast, clock=options.clock),
        profile=None if options.profile is None else Path(options.profile),
        calibrate=options.calibrate,
        retries=options.retries,
        draws=options.draws,
        progress=asked.progress,
    )
    if options.csv is not None:
        write_text(options.csv, found.to_frame().to_csv(index=False))
    if options.png is not None:
        save_engine_png(found, options.png)
    written = tuple(path for path in (options.csv, options.png) if path is not None)
    failed = (
        ""
        if found.within
        else (
            f"compare: {found.inside[0]} of {found.inside[1]} figures are where they were expected "
            f"({found.by_chance} may be elsewhere by chance); where the core was not ours or passes took longer than "
            "measured, run it on a quiet machine, or with --retries N"
        )
    )
    return Answer(str(found), found.to_dict(), found, written=written, failed=failed)
