"""What LLM cases share: decoders, kernel tables and files of traffic, loaded and checked before the first point."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar, cast

from ...errors import InputError
from ...files import readable
from ...planners.vllm import Effort, LengthPairs, SearchSpace
from ...planners.vllm.demand import LengthSource
from ...profiles import DeviceSpec, device
from ...profiles.devices import DEVICES
from ...profiles.llm import DecoderSpec, KernelTables, decoder
from ...profiles.llm.decoder_names import check_precision_said
from ...simulator.failures import ScriptedFailure, read_script
from ...simulator.llm import POLICIES, LLMTrace, read_lengths, read_requests
from ...simulator.llm.policy.router import ROUTERS
from ...traces.lengths import LENGTHS, length_profile
from ...wording import nearest
from ..words import under
from .case import LLMCase
from .fleet import fleet_of, names_of
from .kinds import unfit
from .scheduler import check_scheduler

__all__ = ["LLMData", "decoder_of", "load_data", "one_trace", "planner_options"]

T = TypeVar("T")

ONE_VALUED = ("precision", "kv_precision", "disaggregate")
"""Fields of a search space that are not tried but given."""


@dataclass(frozen=True, slots=True)
class LLMData:
    """What was loaded; each by the name that cases give it.

    Parameters
    ----------
    models : mapping of str to DecoderSpec
    tables : mapping of str to KernelTables
    lengths : mapping of str to LengthSource
    traces : mapping of str to mapping of str to LLMTrace
        By the model that the file names; of a file that names none, under the empty name.
    devices : mapping of str to DeviceSpec
    scripts : mapping of str to tuple of ScriptedFailure
    digests : mapping of str to str
        Name of a file or folder -> SHA-256 of its content.
    """

    models: dict[str, DecoderSpec] = field(default_factory=dict[str, DecoderSpec])
    tables: dict[str, KernelTables] = field(default_factory=dict[str, KernelTables])
    lengths: dict[str, LengthSource] = field(default_factory=dict[str, LengthSource])
    traces: dict[str, dict[str, LLMTrace]] = field(default_factory=dict[str, dict[str, LLMTrace]])
    devices: dict[str, DeviceSpec] = field(default_factory=dict[str, DeviceSpec])
    scripts: dict[str, tuple[ScriptedFailure, ...]] = field(default_factory=dict[str, tuple[ScriptedFailure, ...]])
    digests: dict[str, str] = field(default_factory=dict[str, str])

    def digests_of(self, case: LLMCase) -> dict[str, str]:
        """Of the files that a case reads."""
        devices = [name for _, name in names_of(case)]
        script = case.failures.script if isinstance(case.failures.script, str) else None
        named = (*case.models, *devices, *case.tables.values(), case.workload.lengths, case.workload.trace, script)
        return {name: self.digests[name] for name in named if name is not None and name in self.digests}


def planner_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of planner `vllm`: those of its search space, and those of its effort.

    Raises
    ------
    InputError
        On an unknown one.
    """
    space, effort = ({f.name for f in fields(kind)} for kind in (SearchSpace, Effort))
    for name in options:
        if name not in space | effort:
            raise InputError(f"unknown option {name!r}; known: {', '.join(sorted(space | effort | {'share'}))}")
    return (
        {name: _tried(name, value) for name, value in options.items() if name in space},
        {name: value for name, value in options.items() if name in effort},
    )


def _tried(name: str, value: Any) -> Any:
    """What a search space tries of an option: of one value that one alone."""
    if isinstance(value, list | tuple):
        return tuple(cast("Sequence[Any]", value))
    return value if name in ONE_VALUED else (value,)


def decoder_of(name: str, folder: Path) -> DecoderSpec:
    """A model by name, or of a config.json in a folder that the case is of.

    Raises
    ------
    InputError
        If there is none, naming the nearest.
    """
    return decoder(str(folder / name) if Path(name).suffix == ".json" else name)


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
            once("model", model, data.models, lambda name: _decoder(name, folder, data))
            tried("model", lambda c=case, m=model: _precision_said(c, m))
            for path, why in unfit(case, data.models[model]) if model in data.models else ():
                tried(path, lambda w=why: _refuse(w))
        for type_name, tables in case.tables.items():
            once("kernels", tables, data.tables, lambda name: _tables(name, folder, data))
            if isinstance(case.kernels, Mapping):
                once("kernels", type_name, data.devices, lambda name: _device(name, folder, data))
        if w.trace is None and w.rate is None and not w.clients.rateless:
            tried("workload.rate", lambda: _refuse("is missing; give rate (generated traffic) or trace (a file)"))
        if w.trace is None:
            once("workload.lengths", w.lengths, data.lengths, lambda name: _lengths(name, folder, data))
        once("workload.trace", w.trace, data.traces, lambda name: _trace(name, folder, data))
        if w.trace in data.traces:
            tried("workload.trace", lambda c=case: _same_models(c, data))
            tried("workload.slo", lambda c=case: _known_classes(c, data))
        for path, device_name in names_of(case):
            once(path, device_name, data.devices, lambda name: _device(name, folder, data))
        if all(name in data.devices for _, name in names_of(case)):
            tried("cluster.pools", lambda c=case: fleet_of(c, data))
        for path, name, known in (("engine.policy", e.policy, POLICIES), ("engine.router", e.router, ROUTERS)):
            if name not in known:
                tried(path, lambda n=name, k=known: _unknown(n, list(k)))
        if isinstance(script := case.failures.script, str):
            once("failures.script", script, data.scripts, lambda name: _script(name, folder, data))
        if e.scheduler and e.policy in POLICIES:
            tried("engine.scheduler", lambda e=e: check_scheduler(e))
        if case.planner.name == "vllm":
            tried("planner.options", lambda c=case: _options(c))
        elif case.planner.options:
            tried(
                "planner.options", lambda: _refuse("planner 'fixed' has no options; say what the engine is in engine")
            )
    if wrong:
        raise InputError("\n".join(wrong))
    return data


def _options(case: LLMCase) -> bool:
    said = dict(case.planner.options)
    if "share" in said and len(case.models) > 1:
        said.pop("share")  # whether several models share devices: the door that plans takes it
    elif "share" in said:
        raise InputError("share: is for several models (got one)")
    space, effort = planner_options(said)
    try:
        SearchSpace(**space)
        Effort(**effort)
    except TypeError as error:
        raise InputError(str(error)) from None
    return True


def _unknown(name: str, known: Sequence[str]) -> None:
    raise InputError(f"unknown name {name!r}; expected one of {', '.join(known)}")


def _refuse(why: str) -> None:
    raise InputError(why)


def _precision_said(case: LLMCase, model: str) -> None:
    """A model whose name tells of quantised weights is not served in 16 bits unless the case says so."""
    engine = case.engine
    said = engine.precision if "precision" in engine.model_fields_set else case.planner.options.get("precision")
    how = "planner.options.precision={}" if case.planner.name == "vllm" else "engine.precision {}"
    check_precision_said(model, said, how)


def _same_models(case: LLMCase, data: LLMData) -> None:
    """A trace that names models names those of the case."""
    held = data.traces[case.workload.trace or ""]
    names = [data.models[m].name for m in case.models if m in data.models]
    if len(names) == 1 and len(held) == 1:
        return
    if "" in held:
        raise InputError(f"{case.workload.trace}: does not say which model a request is for (got {', '.join(names)})")
    other = [name for name in held if name not in names]
    if other:
        raise InputError(f"{case.workload.trace}: holds requests for {other[0]!r}; the models are {', '.join(names)}")
    missing = [name for name in names if name not in held]
    if missing:
        raise InputError(f"{case.workload.trace}: holds no request for {missing[0]!r}")


def _known_classes(case: LLMCase, data: LLMData) -> None:
    """What is promised to a class is promised to one that the trace holds."""
    held = data.traces[case.workload.trace or ""].values()
    known = sorted({name for trace in held for name in trace.classes})
    for each in case.workload.promises.objectives:
        if each.kind and each.kind not in known:
            has = f"it has {', '.join(known)}" if known else "it tells of none (a column class would)"
            raise InputError(f"no request of {case.workload.trace} is of class {each.kind!r}; {has}")


def _decoder(name: str, folder: Path, data: LLMData) -> DecoderSpec:
    path = folder / name
    if path.suffix == ".json":
        data.digests[name] = _digest(path)
        try:
            return DecoderSpec.from_config(json.loads(readable(path).read_text(encoding="utf-8")), path.stem)
        except ValueError as error:
            raise InputError(f"{path}: {error}") from None
    return decoder(name)


def _device(name: str, folder: Path, data: LLMData) -> DeviceSpec:
    if name in DEVICES or not Path(name).suffix:
        return device(name)
    found = device(str(folder / name))
    data.digests[name] = _digest(folder / name)
    return found


def _tables(name: str, folder: Path, data: LLMData) -> KernelTables:
    found = KernelTables.load(folder / name)
    data.digests[name] = _digest(folder / name)
    return found


def _script(name: str, folder: Path, data: LLMData) -> tuple[ScriptedFailure, ...]:
    found = read_script(folder / name)
    data.digests[name] = _digest(folder / name)
    return found


def _lengths(name: str, folder: Path, data: LLMData) -> LengthSource:
    if name in LENGTHS:
        return length_profile(name)
    near = nearest(name, LENGTHS)
    if near and not Path(name).suffix and not (folder / name).exists():
        raise InputError(f"{name}: no such file, and no shipped lengths; did you mean {near!r}?")
    prompts, outputs = read_lengths(folder / name)
    data.digests[name] = _digest(folder / name)
    return LengthPairs(name, prompts, outputs)


def _trace(name: str, folder: Path, data: LLMData) -> dict[str, LLMTrace]:
    """Requests by model; of a published log under the empty name."""
    found = read_requests(folder / name)
    data.digests[name] = _digest(folder / name)
    return found


def one_trace(path: Path) -> LLMTrace:
    """The requests of a file for one model.

    Raises
    ------
    InputError
        On a file that cannot be read, or that holds requests for several.
    """
    found = read_requests(path)
    if len(found) > 1:
        raise InputError(f"{path}: holds requests for {', '.join(found)}; expected those of one model")
    return next(iter(found.values()))


def _digest(path: Path) -> str:
    """SHA-256 of a file, or of the names and contents of a folder's files."""
    try:
        if path.is_file():
            return hashlib.sha256(path.read_bytes()).hexdigest()
        together = hashlib.sha256()
        for each in sorted(p for p in path.rglob("*") if p.is_file()):
            together.update(
                each.relative_to(path).as_posix().encode() + b"\0" + hashlib.sha256(each.read_bytes()).digest()
            )
        return together.hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
