"""What is wrong between a case and what was loaded for it."""

from __future__ import annotations

from ....errors import InputError
from ....profiles.llm.decoder_names import check_precision_said
from ..case import LLMCase
from .kept import LLMData

__all__ = ["check_classes", "check_models", "check_precision"]


def check_precision(case: LLMCase, model: str) -> None:
    """A model whose name tells of quantised weights is not served in 16 bits unless the case says so."""
    engine = case.engine
    said = engine.precision if "precision" in engine.model_fields_set else case.planner.options.get("precision")
    how = "planner.options.precision={}" if case.planner.name == "vllm" else "engine.precision {}"
    check_precision_said(model, said, how)


def check_models(case: LLMCase, data: LLMData) -> None:
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


def check_classes(case: LLMCase, data: LLMData) -> None:
    """What is promised to a class is promised to one that the trace holds."""
    held = data.traces[case.workload.trace or ""].values()
    known = sorted({name for trace in held for name in trace.classes})
    for each in case.workload.promises.objectives:
        if each.kind and each.kind not in known:
            has = f"it has {', '.join(known)}" if known else "it tells of none (a column class would)"
            raise InputError(f"no request of {case.workload.trace} is of class {each.kind!r}; {has}")
