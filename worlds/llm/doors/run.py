"""Running: a language model on this machine, through a workload or behind an HTTP endpoint."""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

from ....errors import InputError
from ....files import write_text
from ....profiles.llm.decoder import DecoderSpec
from ....runtime.listening import Listening, token_of
from ....runtime.llm.engine import EngineConfig, LLMEngine, StepLog, serve_trace
from ....runtime.llm.engine.adapters.table import adapter_of
from ....runtime.llm.engine.sizing import blocks_that_fit
from ....runtime.llm.kills.process import EngineBuild
from ....simulator.llm import LLMPlan
from ....simulator.llm.plan.entries import MEMORY_OPTION
from ....simulator.llm.policy.catalogue import policy_config, policy_named
from ...before import one_plan
from ...door import Answer, Asked
from ..case import LLMCase
from ..data import decoder_of
from ..options import RunOptions
from .drawn import requests_of
from .killed import check_kills, killed
from .origin import case_of
from .report import figures, lines

__all__ = ["ran"]

SERVED = {
    "tensor_parallel_size", "decode_context_parallel_size", "policy", "decode_engines",
    "router", "gpu_memory_utilization", "precision", "kv_precision", "scheduler",
}  # fmt: skip
"""Fields of `engine` that are no options of a scheduler."""
NOT_RUN = (
    "pipeline_parallel_size", "data_parallel_size", "enable_expert_parallel", "enable_eplb", "all2all_backend",
    "speculative_config",
)  # fmt: skip
"""Fields of `engine` that the real engine does not have."""


def ran(asked: Asked) -> Answer:
    """Serve for real, and say what came of it; with `serve`, until it is stopped.

    Raises
    ------
    InputError
        On what is wrong with the case or the options, before anything is built.
    """
    case, options = cast(LLMCase, asked.case), cast(RunOptions, asked.options)
    plan = cast(LLMPlan, one_plan(asked)) if asked.plans else None
    check_kills(case, options)
    where = _listening(case, options, asked)
    spec, policy, config, engine_options = _engine_of(case, options, plan, asked.folder)
    trace, source = None, ""
    if where is None:
        longest = int(config["max_model_len"])
        trace, source = requests_of(case, options, longest, asked.folder, plan=plan)
    if trace is not None and options.kills:
        return killed(asked, case, options, EngineBuild(spec, policy, config, engine_options), trace, source)
    if where is None:  # a server says where it is, once, and nothing else
        asked.progress(f"drawing the weights of {spec.name}")
    with LLMEngine(spec, policy, config, options=engine_options) as engine:
        if trace is None or where is not None:
            _serve(engine, where or Listening(), options.grace)
            return Answer("", {"model": spec.name, "served": True})
        log = StepLog()
        result = serve_trace(
            engine, trace, concurrency=options.concurrency, log=log,
            progress=lambda now, done, n: asked.progress(f"{done} of {n} requests"),
        )  # fmt: skip
    if asked.out is not None:
        write_text(asked.out, result.to_frame().to_csv(index=False))
    if options.timeline is not None:
        result.timeline().to_chrome(options.timeline)
    written = tuple(path for path in (asked.out, options.timeline) if path is not None)
    text = lines(engine, trace, source, result, log)
    return Answer(text, figures(engine, source, result, log), result, written=written)


def _listening(case: LLMCase, options: RunOptions, asked: Asked) -> Listening | None:
    """Where an endpoint listens; None of a run through a workload."""
    if not options.serve:
        for name in ("token_file", "tls_cert", "tls_key", "grace"):
            if getattr(options, name) is not None:
                raise InputError(f"{name}: goes with serve")
        return None
    from ....runtime.llm.engine.endpoint.server import check_installed

    check_installed()
    ours = case_of(asked.plans, {}, "run").get("workload", {}) if asked.plans else {}
    of_case = [
        name
        for name in ("trace", "rate", "cv", "requests", "lengths", *(() if asked.plans else ("clients",)))
        if name in case.workload.model_fields_set and getattr(case.workload, name) != ours.get(name)
    ]
    of_door = [name for name in ("concurrency", "timeline") if getattr(options, name) is not None]
    given = [*of_case, *of_door, *(["out"] if asked.out is not None else [])]
    if given:
        raise InputError(f"serve: takes its requests over HTTP; leave {given[0]} out")
    return Listening(options.host, options.port, token_of(options.token_file), options.tls_cert, options.tls_key)


def _engine_of(
    case: LLMCase, options: RunOptions, plan: LLMPlan | None, folder: Path
) -> tuple[DecoderSpec, str, dict[str, Any], EngineConfig]:
    """The model, its scheduler with all options, and how the engine is built."""
    said = case.engine.model_fields_set
    planned: dict[str, Any] = {}
    if plan is not None:
        if set(case.models) != {model.name for model in plan.models}:
            raise InputError("model: the plan says it; leave it out")
        spec, policy, planned, tp, cp = _planned(plan, options, said)
    else:
        if len(case.models) != 1:
            raise InputError(f"model: one engine serves one model (got {', '.join(case.models)})")
        e = case.engine
        spec, policy = decoder_of(case.models[0], folder), e.policy
        tp, cp = e.tensor_parallel_size, e.decode_context_parallel_size
        other = next((n for n in NOT_RUN if getattr(e, n) != type(e).model_fields[n].default), None)
        if other is not None:
            raise InputError(f"engine.{other}: the engine runs tensor and context parallelism only; leave it out")
    kind: Any = policy_named(policy).config
    device = options.on
    if device == "auto":
        import torch

        device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = options.dtype or ("bfloat16" if device.startswith("cuda") else "float32")
    engine = EngineConfig(device=device, dtype=dtype, seed=case.seed, tp=tp, cp=cp, threads=options.threads)
    engine.check_device()
    config: dict[str, Any] = (
        planned | {n: getattr(case.engine, n) for n in said - SERVED - set(NOT_RUN)} | dict(case.engine.scheduler)
    )
    default: int = kind.__dataclass_fields__["max_model_len"].default if "max_model_len" in _names(kind) else 0
    config.setdefault("max_model_len", min(default or spec.longest, spec.longest))
    try:
        adapter_of(policy_named(policy))
    except InputError as error:  # whose steps the engine cannot run
        raise InputError(f"engine.{error}") from None
    memory = MEMORY_OPTION[policy]
    if options.num_blocks is not None:
        config[memory] = options.num_blocks
    if memory not in config:
        size = config.get("block_size", kind.__dataclass_fields__["block_size"].default)
        policy_config(kind, {memory: 2, **config})  # what is wrong with the others is said first
        config[memory] = blocks_that_fit(spec, engine, int(size), int(config["max_model_len"]))
    policy_config(kind, config)
    return spec, policy, config, engine


def _planned(plan: LLMPlan, options: RunOptions, said: set[str]) -> tuple[DecoderSpec, str, dict[str, Any], int, int]:
    """One engine of a plan: its model, policy, options, tp and cp."""
    decided = said & {"policy", "tensor_parallel_size", "decode_context_parallel_size"}
    if decided:
        raise InputError(f"engine.{min(decided)}: the plan says it; leave it out")
    known = {d.name: d for d in plan.deployments}
    if options.deployment is None and len(known) > 1:
        raise InputError(f"deployment: the plan has {len(known)} deployments; name one of {', '.join(known)}")
    name = options.deployment or next(iter(known))
    if name not in known:
        raise InputError(f"deployment: unknown deployment {name!r}; the plan has {', '.join(known)}")
    chosen = known[name]
    for degree in ("pp", "dp"):
        if getattr(chosen, degree) > 1:
            raise InputError(
                f"deployment: {name} has {degree} {getattr(chosen, degree)}; the engine runs tp and cp only"
            )
    if chosen.speculative is not None:
        raise InputError(f"deployment: {name} decodes with drafts, which the engine does not make")
    if chosen.role != "both":
        raise InputError(f"deployment: {name} is for {chosen.role} only; the engine runs whole requests")
    if chosen.replicas > 1:
        said_now = f"{name}: one of its {chosen.replicas} engines runs; give it its share of the traffic"
        print(said_now, file=sys.stderr, flush=True)
    # A plan counts cp among the tp ranks, as vLLM does; the engine's shards have tp ranks each.
    config = {MEMORY_OPTION.get(chosen.policy, "num_slots"): chosen.num_blocks, **chosen.config}
    return plan.model(chosen.model).spec, chosen.policy, config, chosen.tp // chosen.cp, chosen.cp


def _names(kind: Any) -> list[str]:
    return [f.name for f in fields(kind)]


def _serve(engine: LLMEngine, where: Listening, grace: float | None) -> None:
    from ....runtime.llm.engine.endpoint.server import serve_http
    from ....runtime.web import Limits

    def ready(url: str) -> None:
        line = f"{engine.spec.name} at {url}/v1 ({engine.name}, {engine.memory.blocks} KV blocks); Ctrl-C ends it"
        print(line, flush=True)

    limits = Limits() if grace is None else Limits(grace_s=grace)
    serve_http(engine, where=where, limits=limits, ready=ready)
