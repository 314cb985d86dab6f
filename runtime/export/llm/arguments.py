"""The arguments of ``vllm serve`` that make a server of vLLM what an engine of a plan is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ....errors import InputError
from ....simulator.llm.plan.drafts import MTP, DraftEntry
from ....simulator.llm.plan.entries import Deployment
from ....simulator.llm.plan.file import LLMPlan
from ....simulator.llm.plan.served import LORA_RANK
from ....simulator.llm.policy.vllm_v1.state import V1Config

__all__ = ["VLLM_VERSION", "Server", "arguments", "servers"]

VLLM_VERSION = "0.33.0"
"""The release whose arguments these are."""

DTYPES = {"bf16": "bfloat16", "bfloat16": "bfloat16", "fp16": "float16", "float16": "float16", "fp32": "float32"}
QUANTIZED = {"fp8": "fp8"}
"""Precision of the products -> ``--quantization``: weights of 16 bits are quantised when they are loaded."""
CHECKPOINTS = ("fp8_block", "nvfp4", "int8_wo", "int4_wo")
"""Precisions that a checkpoint must have already: vLLM reads them from it."""
CACHES = {"bf16": "auto", "bfloat16": "auto", "fp16": "auto", "float16": "auto", "fp8": "fp8"}


@dataclass(frozen=True, slots=True)
class Server:
    """One ``vllm serve``: an engine of a plan at its place.

    Parameters
    ----------
    deployment : Deployment
        What it is an engine of.
    number : int
        Which one.
    devices : tuple of int
        Its devices, numbered through the cluster.
    nodes : dict of int to tuple of int
        Node -> devices of the engine on it, numbered on the node.
    port : int
        Where it listens.
    """

    deployment: Deployment
    number: int
    devices: tuple[int, ...]
    nodes: Mapping[int, tuple[int, ...]]
    port: int

    @property
    def node(self) -> int:
        """Node of its first device, where its server listens."""
        return next(iter(self.nodes))

    @property
    def name(self) -> str:
        """What files call it."""
        return f"{self.deployment.name}-{self.number}"


def servers(plan: LLMPlan, port: int) -> tuple[Server, ...]:
    """All engines of a plan, each with a port of its own from `port` on."""
    mixed = plan.mixed
    found: list[Server] = []
    for deployment in plan.deployments:
        for number, row in enumerate(deployment.devices):
            nodes: dict[int, tuple[int, ...]] = {}
            for node, device in map(mixed.on_node, row):
                nodes[node] = (*nodes.get(node, ()), device)
            found.append(Server(deployment, number, tuple(row), nodes, port + len(found)))
    return tuple(found)


def arguments(
    plan: LLMPlan, server: Server, source: str, *, host: str = "0.0.0.0", port: int | None = None
) -> list[str]:
    """What follows ``vllm serve``. Everything that decides a schedule is said, so that no default of vLLM's matters.

    Parameters
    ----------
    plan : LLMPlan
        The plan.
    server : Server
        One of its engines.
    source : str
        Hugging Face name or folder of the weights.
    host : str
        Address to listen at.
    port : int, optional
        Where it listens, if not at the server's own port.

    Raises
    ------
    InputError
        If vLLM has no such scheduler or precision.
    """
    d = server.deployment
    options: Any = d.options
    if not isinstance(options, V1Config):
        raise InputError(
            f"export: deployment {d.name!r}: vLLM {VLLM_VERSION} has no scheduler like {d.policy!r}; plan with policy "
            "'vllm-v1'"
        )
    blocks = options.num_blocks // d.dp  # those of one of its ranks
    room = blocks // options.groups * d.block_size * d.cp
    if room < options.max_model_len:
        raise InputError(
            f"export: deployment {d.name!r}: {blocks} KV blocks hold {room} tokens, and vLLM does not start with "
            f"fewer than its max_model_len {options.max_model_len}; raise num_blocks or lower max_model_len"
        )
    if d.precision not in {**DTYPES, **QUANTIZED} and d.precision not in CHECKPOINTS:
        raise InputError(f"export: deployment {d.name!r}: precision {d.precision!r} is none of vLLM's")
    if d.kv_precision not in CACHES:
        raise InputError(f"export: deployment {d.name!r}: KV precision {d.kv_precision!r} is none of vLLM's")
    listed = [
        f"--model={source}",
        f"--served-model-name={d.model}",
        f"--host={host}",
        f"--port={server.port if port is None else port}",
        f"--tensor-parallel-size={d.tp}",
        f"--pipeline-parallel-size={d.pp}",
        f"--data-parallel-size={d.dp}",
        f"--decode-context-parallel-size={d.cp}",
        *(["--enable-expert-parallel"] if d.ep else []),
        *(["--enable-eplb"] if d.eplb else []),
        *([f"--all2all-backend={d.all2all}"] if d.ep and d.dp > 1 else []),
        f"--dtype={DTYPES.get(d.precision, 'bfloat16' if d.precision in QUANTIZED else 'auto')}",
        *([f"--quantization={QUANTIZED[d.precision]}"] if d.precision in QUANTIZED else []),
        f"--kv-cache-dtype={CACHES[d.kv_precision]}",
        f"--max-model-len={options.max_model_len}",
        f"--block-size={options.block_size}",
        f"--gpu-memory-utilization={d.gpu_memory_utilization:g}",
        f"--num-gpu-blocks-override={blocks}",
        f"--max-num-seqs={options.max_num_seqs}",
        f"--max-num-batched-tokens={options.max_num_batched_tokens}",
        _switch("enable-chunked-prefill", options.enable_chunked_prefill),
        _switch("enable-prefix-caching", options.enable_prefix_caching),
        f"--scheduling-policy={options.policy}",
        f"--watermark={options.watermark:g}",
        f"--long-prefill-token-threshold={options.long_prefill_token_threshold}",
        _switch("scheduler-reserve-full-isl", options.scheduler_reserve_full_isl),
        _switch("async-scheduling", options.async_scheduling),
        *_rarer(options),
    ]
    if d.speculative is not None:
        listed.append("--speculative-config=" + json.dumps(_drafts(d.speculative)))
    if d.devices_per_engine > 1:
        listed.append("--distributed-executor-backend=mp")
    if d.role != "both":
        listed.append("--kv-transfer-config=" + json.dumps({"kv_connector": "NixlConnector", "kv_role": "kv_both"}))
    return listed


def _drafts(said: DraftEntry) -> dict[str, Any]:
    """vLLM's own fields; a plan without a draft model has prompts' n-grams for it."""
    if said.draft == MTP:
        return {"method": MTP, "num_speculative_tokens": said.tokens}
    if said.draft:
        return {"model": said.draft, "num_speculative_tokens": said.tokens}
    return {"method": "ngram", "num_speculative_tokens": said.tokens, "prompt_lookup_max": said.tokens}


def spread(server: Server, address: str, port: int) -> list[list[str]]:
    """For an engine over several nodes, what each node's ``vllm serve`` says besides; one empty list on one node.

    Parameters
    ----------
    server : Server
        The engine.
    address : str
        Of its first node.
    port : int
        Where its processes find each other.
    """
    if len(server.nodes) == 1:
        return [[]]
    together = [f"--nnodes={len(server.nodes)}", f"--master-addr={address}", f"--master-port={port}"]
    return [[*together, f"--node-rank={rank}", *(["--headless"] if rank else [])] for rank in range(len(server.nodes))]


def _rarer(options: V1Config) -> list[str]:
    """Arguments that are left out where they say nothing."""
    listed: list[str] = []
    if options.max_num_active_seqs is not None:
        listed.append(f"--max-num-active-seqs={options.max_num_active_seqs}")
    if options.max_loras:
        host = options.max_loras if options.max_cpu_loras is None else options.max_cpu_loras
        listed += [
            "--enable-lora",
            f"--max-loras={options.max_loras}",
            f"--max-cpu-loras={host}",
            f"--max-lora-rank={LORA_RANK}",
        ]
    if options.window_groups and options.enable_prefix_caching:
        every = options.prefix_cache_retention_interval
        listed.append(f"--prefix-cache-retention-interval={'None' if every is None else every}")
    return listed


def _switch(name: str, on: bool) -> str:
    return f"--{name}" if on else f"--no-{name}"
