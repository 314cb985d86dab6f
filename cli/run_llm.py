"""`meshwright run --llm`: a language model on this machine, through a workload or behind an HTTP endpoint."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import InputError
from .run_llm_report import report
from .run_llm_workload import llm_workload
from .status import status

if TYPE_CHECKING:
    from ..profiles.llm.decoder import DecoderSpec
    from ..runtime.listening import Listening
    from ..runtime.llm.engine import LLMEngine

__all__ = ["LLMRun", "is_llm", "only_llm", "run_llm"]


@dataclass(frozen=True, slots=True)
class LLMRun:
    """What the command line said; None where it said nothing.

    Parameters
    ----------
    model : str, optional
        Name of a decoder, or its config.json.
    plan : Path, optional
        An LLM plan instead.
    deployment : str, optional
        Which of the plan's deployments.
    policy, options : str, tuple of str
        The scheduler, and its options as NAME=VALUE.
    device, dtype, tp, cp, threads
        Of the engine; see `EngineConfig`.
    num_blocks, block_size : int, optional
        KV memory.
    trace, rate, cv, requests, lengths, scale, concurrency, seed
        The workload.
    serve, host, port
        The endpoint instead.
    out, timeline : Path, optional
        Files to write.
    as_json : bool
        Print JSON.
    token_file, tls_cert, tls_key : Path, optional
        Who may ask the endpoint, and how it is encrypted; see `runtime.listening.Listening`.
    grace : float, optional
        What its requests get to finish when it is told to end, seconds.
    """

    model: str | None = None
    plan: Path | None = None
    deployment: str | None = None
    policy: str | None = None
    options: tuple[str, ...] = ()
    device: str = "auto"
    dtype: str | None = None
    tp: int | None = None
    cp: int | None = None
    threads: int = 1
    num_blocks: int | None = None
    block_size: int | None = None
    trace: Path | None = None
    rate: float | None = None
    cv: float | None = None
    requests: int | None = None
    lengths: str | None = None
    scale: float | None = None
    concurrency: int | None = None
    seed: int = 0
    serve: bool = False
    host: str = "127.0.0.1"
    port: int = 8000
    out: Path | None = None
    timeline: Path | None = None
    as_json: bool = False
    token_file: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    grace: float | None = None


def is_llm(plan: Path | None, model: str | None) -> bool:
    """Whether a command is about language models.

    Raises
    ------
    InputError
        If it names both a plan and a model.
    """
    if model is not None and plan is not None:
        raise InputError(f"--llm: goes without a plan (got {plan}); give one of them")
    if model is not None:
        return True
    if plan is None:
        return False
    from ..simulator.llm.plan.file import LLMPlan

    return LLMPlan.is_one(plan)


def only_llm(**given: object) -> None:
    """Refuse options that are for language models alone.

    Raises
    ------
    InputError
        Naming the first.
    """
    for name, value in given.items():
        if value is not None:
            raise InputError(f"--{name.replace('_', '-')}: goes with --llm MODEL or a plan of language models")


def run_llm(asked: LLMRun) -> None:
    """Serve for real, and print what came of it.

    Raises
    ------
    InputError
        On a wrong option, before anything is built.
    """
    from ..files import check_target
    from ..runtime.listening import Listening, token_of

    for target in (asked.out, asked.timeline):
        if target is not None:
            check_target(target)
    if asked.serve:
        from ..runtime.llm.engine.endpoint.server import check_installed

        check_installed()
        given = [n for n in ("trace", "rate", "cv", "requests", "lengths", "concurrency", "out", "timeline")
                 if getattr(asked, n) is not None]  # fmt: skip
        if given:
            raise InputError(f"--serve: takes its requests over HTTP; leave --{given[0]} out")
        where = Listening(asked.host, asked.port, token_of(asked.token_file), asked.tls_cert, asked.tls_key)
    else:
        for name in ("token_file", "tls_cert", "tls_key", "grace"):
            if getattr(asked, name) is not None:
                raise InputError(f"--{name.replace('_', '-')}: goes with --serve")
        where = None
    spec, policy, config, engine_fields = _engine_of(asked)
    trace, source = (None, "") if asked.serve else llm_workload(asked, int(config["max_model_len"]))
    from ..runtime.llm.engine import LLMEngine, StepLog

    with status("running") as say:
        say(f"drawing the weights of {spec.name}")
        with LLMEngine(spec, policy, config, **engine_fields) as engine:
            if trace is None or where is not None:
                _serve(engine, where or Listening(), asked.grace)
                return
            log = StepLog()
            from ..runtime.llm.engine import serve_trace

            result = serve_trace(
                engine, trace, concurrency=asked.concurrency, log=log,
                progress=lambda now, done, n: say(f"{done} of {n} requests"),
            )  # fmt: skip
    report(asked, engine, trace, source, result, log)


def _engine_of(asked: LLMRun) -> tuple[DecoderSpec, str, dict[str, Any], dict[str, Any]]:
    """The model, its scheduler with all options, and the engine's fields."""
    from ..profiles.llm.decoder import decoder
    from ..runtime.llm.engine import EngineConfig
    from ..runtime.llm.engine.sizing import blocks_that_fit
    from ..simulator.llm.plan.entries import MEMORY_OPTION
    from ..simulator.llm.policy.catalogue import policy_config, policy_named

    planned: dict[str, Any] = {}
    if asked.plan is not None:
        spec, policy, planned, tp, cp = _planned(asked)
    else:
        spec, policy, tp, cp = decoder(asked.model or ""), asked.policy or "vllm-v1", asked.tp or 1, asked.cp or 1
    kind: Any = policy_named(policy).config
    device = asked.device
    if device == "auto":
        import torch

        device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = asked.dtype or ("bfloat16" if device.startswith("cuda") else "float32")
    engine = EngineConfig(device=device, dtype=dtype, seed=asked.seed, tp=tp, cp=cp, threads=asked.threads)
    engine.check_device()
    config = planned | _options(asked.options, kind)
    if asked.block_size is not None:
        config["block_size"] = asked.block_size
    default: int = kind.__dataclass_fields__["max_model_len"].default if "max_model_len" in _names(kind) else 0
    config.setdefault("max_model_len", min(default or spec.longest, spec.longest))
    memory = MEMORY_OPTION.get(policy)
    if memory is None:
        raise InputError(
            f"--policy: the engine runs {', '.join(MEMORY_OPTION)}, which page their memory (got {policy!r})"
        )
    if asked.num_blocks is not None:
        config[memory] = asked.num_blocks
    if memory not in config:
        size = config.get("block_size", kind.__dataclass_fields__["block_size"].default)
        policy_config(kind, {memory: 2, **config})  # what is wrong with the others is said first
        config[memory] = blocks_that_fit(spec, engine, int(size), int(config["max_model_len"]))
    policy_config(kind, config)
    return spec, policy, config, {"options": engine}


def _planned(asked: LLMRun) -> tuple[DecoderSpec, str, dict[str, Any], int, int]:
    """One engine of a plan: its model, policy, options, tp and cp."""
    from ..simulator.llm.plan.entries import MEMORY_OPTION
    from ..simulator.llm.plan.file import LLMPlan

    if asked.model or asked.policy or asked.tp or asked.cp:
        raise InputError("run: an LLM plan says model, policy, tp and cp; leave --llm, --policy, --tp and --cp out")
    plan = LLMPlan.load(asked.plan or "")
    known = {d.name: d for d in plan.deployments}
    if asked.deployment is None and len(known) > 1:
        raise InputError(f"--deployment: the plan has {len(known)} deployments; name one of {', '.join(known)}")
    name = asked.deployment or next(iter(known))
    if name not in known:
        raise InputError(f"--deployment: unknown deployment {name!r}; the plan has {', '.join(known)}")
    chosen = known[name]
    for degree in ("pp", "dp"):
        if getattr(chosen, degree) > 1:
            raise InputError(
                f"--deployment: {name} has {degree} {getattr(chosen, degree)}; the engine runs tp and cp only"
            )
    if chosen.role != "both":
        raise InputError(f"--deployment: {name} is for {chosen.role} only; the engine runs whole requests")
    if chosen.replicas > 1:
        typer.echo(f"{name}: one of its {chosen.replicas} engines runs; give it its share of the traffic", err=True)
    # A plan counts cp among the tp ranks, as vLLM does; the engine's shards have tp ranks each.
    config = {MEMORY_OPTION.get(chosen.policy, "num_slots"): chosen.num_blocks, **chosen.config}
    return plan.model(chosen.model).spec, chosen.policy, config, chosen.tp // chosen.cp, chosen.cp


def _names(kind: Any) -> list[str]:
    return [f.name for f in fields(kind)]


def _options(given: tuple[str, ...], kind: Any) -> dict[str, Any]:
    """``NAME=VALUE``, of the kind that the option has."""
    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name:
            raise InputError(f"--option: expected NAME=VALUE (got {text!r})")
        if value.lower() in ("true", "false"):
            found[name] = value.lower() == "true"
            continue
        try:
            found[name] = int(value)
        except ValueError:
            try:
                found[name] = float(value)
            except ValueError:
                found[name] = value
    return found


def _serve(engine: LLMEngine, where: Listening, grace: float | None) -> None:
    from ..runtime.llm.engine.endpoint.server import serve_http
    from ..runtime.web import Limits

    def ready(url: str) -> None:
        typer.echo(f"{engine.spec.name} at {url}/v1 ({engine.name}, {engine.memory.blocks} KV blocks); Ctrl-C ends it")

    limits = Limits() if grace is None else Limits(grace_s=grace)
    serve_http(engine, where=where, limits=limits, ready=ready)
