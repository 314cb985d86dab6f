"""Decoders, kernel tables and files of traffic, loaded and checked before the first point."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from ....errors import InputError
from ....simulator.llm import POLICIES
from ....simulator.llm.policy.router import ROUTERS
from ...words import under
from ..case import LLMCase
from ..fleet import check_types, names_of
from ..kinds import unfit
from ..links import check_links
from ..scheduler import check_scheduler
from .checks import check_classes, check_models, check_precision
from .files import read_decoder, read_device, read_kernels, read_lengths_of, read_scripted, read_traffic
from .kept import LLMData
from .options import check_options

__all__ = ["load_data"]

T = TypeVar("T")

CHOOSES = "planner vllm chooses how many engines only decode; set planner.options.disaggregate: only, or planner fixed"


def load_data(cases: Sequence[LLMCase], folder: Path) -> LLMData:
    """Load what cases name.

    Raises
    ------
    InputError
        Every problem, one a line, each beginning with the field that it is about.
    """
    data, wrong = LLMData(), list[str]()

    def tried(path: str, load: Callable[[], T]) -> T | None:
        try:
            return load()
        except InputError as error:
            (line,) = under(path, " ".join(str(error).split()))
            if line not in wrong:
                wrong.append(line)
            return None

    def once(path: str, name: str | None, into: dict[str, T], load: Callable[[str], T]) -> None:
        if name is not None and name not in into:
            found = tried(path, lambda: load(name))
            if found is not None:
                into[name] = found

    for case in cases:
        w, e = case.workload, case.engine
        for model in case.models:
            once("model", model, data.models, lambda name: read_decoder(name, folder, data))
            tried("model", lambda c=case, m=model: check_precision(c, m))
            for path, why in unfit(case, data.models[model]) if model in data.models else ():
                tried(path, lambda w=why: _refuse(w))
        for type_name, tables in case.tables.items():
            once("kernels", tables, data.tables, lambda name: read_kernels(name, folder, data))
            if isinstance(case.kernels, Mapping):
                once("kernels", type_name, data.devices, lambda name: read_device(name, folder, data))
        if w.trace is None and w.rate is None and not w.clients.rateless:
            tried("workload.rate", lambda: _refuse("is missing; give rate (generated traffic) or trace (a file)"))
        if w.trace is None:
            once("workload.lengths", w.lengths, data.lengths, lambda name: read_lengths_of(name, folder, data))
        once("workload.trace", w.trace, data.traces, lambda name: read_traffic(name, folder, data))
        if w.trace in data.traces:
            tried("workload.trace", lambda c=case: check_models(c, data))
            tried("workload.slo", lambda c=case: check_classes(c, data))
        for path, device_name in names_of(case):
            once(path, device_name, data.devices, lambda name: read_device(name, folder, data))
        if all(name in data.devices for _, name in names_of(case)):
            tried("cluster.pools", lambda c=case: check_types(c, data))
            if isinstance(case.cluster.link, Mapping):
                for type_name in case.cluster.link:
                    once("cluster.link", type_name, data.devices, lambda name: read_device(name, folder, data))
            tried("cluster.link", lambda c=case: check_links(c, data))
        for path, name, known in (("engine.policy", e.policy, POLICIES), ("engine.router", e.router, ROUTERS)):
            if name not in known:
                tried(path, lambda n=name, k=known: _unknown(n, list(k)))
        if isinstance(script := case.failures.script, str):
            once("failures.script", script, data.scripts, lambda name: read_scripted(name, folder, data))
        if e.scheduler and e.policy in POLICIES:
            tried("engine.scheduler", lambda e=e: check_scheduler(e))
        if case.planner.name == "vllm":
            tried("planner.options", lambda c=case: check_options(c))
            if e.decode_engines:
                tried("engine.decode_engines", lambda: _refuse(CHOOSES))
        elif case.planner.options:
            tried(
                "planner.options", lambda: _refuse("planner 'fixed' has no options; say what the engine is in engine")
            )
    if wrong:
        raise InputError("\n".join(wrong))
    return data


def _unknown(name: str, known: Sequence[str]) -> None:
    raise InputError(f"unknown name {name!r}; expected one of {', '.join(known)}")


def _refuse(why: str) -> None:
    raise InputError(why)
