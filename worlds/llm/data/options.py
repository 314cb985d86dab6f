"""What planner `vllm` tries: its options, and the fields of the case's engine, which hold for all that it tries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, cast

from ....errors import InputError
from ....planners.vllm import Effort, SearchSpace
from ..case import LLMCase
from ..engine import EngineCase

__all__ = ["check_options", "planner_options", "said_twice"]

ONE_VALUED = ("precision", "kv_precision", "disaggregate", "scheduler")
"""Fields of a search space that are not tried but given."""

ENGINE: Mapping[str, str] = {
    "tensor_parallel_size": "tp", "pipeline_parallel_size": "pp", "decode_context_parallel_size": "cp",
    "data_parallel_size": "dp", "enable_expert_parallel": "expert_parallel", "enable_eplb": "eplb",
    "all2all_backend": "all2all", "speculative_config": "speculative", "policy": "policies",
    "block_size": "block_sizes", "max_num_batched_tokens": "batched_tokens", "max_num_seqs": "seqs",
    "enable_chunked_prefill": "chunked_prefill", "enable_prefix_caching": "prefix_caching",
    "gpu_memory_utilization": "utilizations", "precision": "precision", "kv_precision": "kv_precision",
    "scheduler": "scheduler", "router": "routers",
}  # fmt: skip
"""Field of an engine, as a case says it -> option of planner `vllm` that tries several."""


def planner_options(case: LLMCase) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of planner `vllm`: those of its search space, and those of its effort.

    What the case says of its engine is the only value that is tried of it, where no option of the planner says more.

    Raises
    ------
    InputError
        On an unknown option.
    """
    options = {name: value for name, value in case.planner.options.items() if name != "share"}
    space, effort = ({f.name for f in fields(kind)} for kind in (SearchSpace, Effort))
    for name in options:
        if name not in space | effort:
            raise InputError(f"unknown option {name!r}; known: {', '.join(sorted(space | effort | {'share'}))}")
    tried = _engine_space(case.engine) if case.planner.name == "vllm" else {}
    tried |= {name: _tried(name, value) for name, value in options.items() if name in space}
    return tried, {name: value for name, value in options.items() if name in effort}


def said_twice(case: LLMCase) -> list[str]:
    """Fields of the engine that do not hold for planner `vllm`, as its own options say what it tries: a line each."""
    if case.planner.name != "vllm":
        return []
    found: list[str] = []
    own = _engine_space(case.engine)
    for name, option in ENGINE.items():
        if name in case.engine.model_fields_set and option in case.planner.options:
            said = _tried(option, case.planner.options[option])
            if said != own.get(option):
                found.append(
                    f"engine.{name}: {getattr(case.engine, name)} is not all that is tried: planner.options.{option} "
                    f"says {case.planner.options[option]}"
                )
    return found


def _engine_space(engine: EngineCase) -> dict[str, Any]:
    """What a search space tries that has the said fields of an engine."""
    found: dict[str, Any] = {}
    for name, option in ENGINE.items():
        if name in engine.model_fields_set:
            value: Any = getattr(engine, name)
            if name == "speculative_config" and value is not None:
                value = value.entry()
            found[option] = _tried(option, value)
    return found


def _tried(name: str, value: Any) -> Any:
    """What a search space tries of an option: of one value that one alone."""
    if isinstance(value, list | tuple):
        return tuple(cast("Sequence[Any]", value))
    return value if name in ONE_VALUED else (value,)


def check_options(case: LLMCase) -> None:
    """See that planner `vllm` can be asked what a case says.

    Raises
    ------
    InputError
        On an unknown option, or a value out of its range.
    """
    if "share" in case.planner.options and len(case.models) == 1:
        raise InputError("share: is for several models (got one)")
    space, effort = planner_options(case)
    try:
        SearchSpace(**space)
        Effort(**effort)
    except TypeError as error:
        raise InputError(str(error)) from None
