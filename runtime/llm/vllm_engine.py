"""The engine that a recorded run had: degrees, precisions, the options of its scheduler, and how much KV memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...errors import InfeasibleError, InputError
from ...profiles.llm import CapacityOptions, KernelTables, KVCapacity, kv_capacity
from ...profiles.llm.decoder import DecoderSpec
from .defaults import asynchronous, budgets, device_memory, prefix_caching, trial_bytes
from .measure.precisions import WEIGHTS, kv_named, named, precision_named
from .vllm_files import VLLMRun

__all__ = ["Degrees", "RunEngine", "degrees", "engine_of"]


@dataclass(frozen=True, slots=True)
class Degrees:
    """Degrees of parallelism of a run.

    Parameters
    ----------
    tp, pp, dp : int
        Tensor, pipeline and data parallelism.
    ep : int
        Degree that experts are split by; 1 without expert parallelism.
    together : bool
        Whether data-parallel ranks step together: they meet at the experts. Those of a dense model do not.
    """

    tp: int
    pp: int
    dp: int
    ep: int
    together: bool

    @property
    def met(self) -> int:
        """Ranks that step together."""
        return self.dp if self.together else 1


@dataclass(frozen=True, slots=True)
class RunEngine:
    """What is simulated for a run.

    Parameters
    ----------
    degrees : Degrees
        Degrees of parallelism.
    precision, kv : str
        Precision of the GEMMs and of the KV cache, by the cost model's names.
    config : dict
        Options of one rank's scheduler.
    simulated : dict
        Options of each simulated engine: of one batch in flight of a pipeline, or of all ranks that step together.
    engines : int
        Simulated engines.
    notes : tuple of str
        What was assumed.
    """

    degrees: Degrees
    precision: str
    kv: str
    config: dict[str, Any]
    simulated: dict[str, Any]
    engines: int
    notes: tuple[str, ...]


def degrees(run: VLLMRun, model: DecoderSpec) -> Degrees:
    """Degrees of parallelism that a run's arguments say.

    Raises
    ------
    InputError
        On a value that is no degree, or decode context parallelism, which tables by layer do not tell of.
    """
    tp, pp = run.count("tensor_parallel_size", 1), run.count("pipeline_parallel_size", 1)
    dp = run.count("data_parallel_size", 1)
    if run.count("decode_context_parallel_size", 1) > 1:
        raise InputError(
            f"{run.folder / 'meta.json'}: decode_context_parallel_size: tables by layer hold no shards of sequences"
        )
    experts = bool(run.arguments.get("enable_expert_parallel")) and bool(model.moe_layers)
    together = dp > 1 and bool(model.moe_layers)
    return Degrees(tp, pp, dp, tp * dp if experts else 1, together)


def engine_of(run: VLLMRun, model: DecoderSpec, tables: KernelTables) -> RunEngine:
    """The engine of a run: what it says, and vLLM's defaults for the rest.

    Raises
    ------
    InputError
        On an argument of the wrong kind, or weights that leave no KV memory.
    """
    where = degrees(run, model)
    precision, kv, notes = _precisions(run)
    memory = tables.peaks.memory_bytes or device_memory(f"{tables.source} {tables.name}")
    # Of unknown memory vLLM's budgets for the smallest devices.
    batched, seqs = budgets(memory, tables.name) if memory else (2048, 256)
    batched, seqs = run.count("max_num_batched_tokens", batched), run.count("max_num_seqs", seqs)
    longest = int((run.prompt_tokens + run.output_tokens).max())
    block = run.count("block_size", 16)  # vLLM's default on GPUs, as 0.9 of the memory is below
    said = run.arguments.get("async_scheduling")
    ahead = said if isinstance(said, bool) else asynchronous(run.version, where.pp)
    why = "as the run says" if isinstance(said, bool) else f"the default of vLLM {run.version or '(version unknown)'}"
    notes.append(f"{'asynchronous' if ahead else 'synchronous'} scheduling: {why} (on by default since 0.14)")
    cached = run.arguments.get("enable_prefix_caching")
    caching = cached if isinstance(cached, bool) else prefix_caching(run.version)
    why = "as the run says" if isinstance(cached, bool) else f"the default of vLLM {run.version or '(version unknown)'}"
    notes.append(_caching_note(run, caching, why))

    def capacity() -> KVCapacity:
        other = trial_bytes(model, where.tp, batched, seqs, bf16_ends=precision != "bf16")
        return kv_capacity(
            model, memory, tp=where.tp, pp=where.pp, utilization=run.share("gpu_memory_utilization", 0.9),
            block_size=block, weights=WEIGHTS[precision], kv="fp8" if kv == "fp8" else "bfloat16",
            options=CapacityOptions(dp=where.met, ep=where.ep, other_bytes=other),
        )  # fmt: skip

    blocks, note = _blocks(run, tables, memory, block, capacity)
    notes.append(note)
    chunked = run.arguments.get("enable_chunked_prefill")
    name = "long_prefill_token_threshold"
    threshold = run.count(name, 0) if run.arguments.get(name) else 0
    config: dict[str, Any] = {
        "num_blocks": blocks,
        "block_size": block,
        "max_model_len": max(run.count("max_model_len", model.max_positions), longest),
        "max_num_batched_tokens": batched,
        "max_num_seqs": seqs,
        "enable_prefix_caching": caching,
        "enable_chunked_prefill": chunked if isinstance(chunked, bool) else True,
        "long_prefill_token_threshold": threshold,
        "async_scheduling": ahead,
    }
    if run.arguments.get("max_model_len") is not None and run.count("max_model_len", 1) < longest:
        config["max_model_len"] = run.count("max_model_len", 1)
    simulated, engines, more = _simulated(config, where)
    return RunEngine(where, precision, kv, config, simulated, engines, (*notes, *more))


def _caching_note(run: VLLMRun, caching: bool, why: str) -> str:
    """Whether blocks are found again, why, and by whom."""
    if not caching:
        return f"prefix caching off: {why}"
    if run.prompts is not None:
        return f"prefix caching on: {why}; prompts share what their tokens in requests.jsonl share"
    return (
        f"prefix caching on: {why}; who was preempted finds its own blocks again, but the run does not say the "
        "prompts' tokens: none is taken to begin like another"
    )


def _precisions(run: VLLMRun) -> tuple[str, str, list[str]]:
    """Precision of GEMMs and of the KV cache, and what was assumed of them."""
    notes: list[str] = []
    word = run.arguments.get("quantization")
    try:
        precision = precision_named(str(word)) if word else named(run.model)
    except InputError:
        precision = named(run.model)
        notes.append(f"quantization {word!r} is not known; by the model's name taken as {precision}")
    try:
        kv = kv_named(str(run.arguments.get("kv_cache_dtype") or ""))
    except InputError as error:
        kv = "bf16"
        notes.append(f"{error}; taken as bf16")
    return precision, kv, notes


def _blocks(
    run: VLLMRun, tables: KernelTables, memory: int, block: int, capacity: Callable[[], KVCapacity]
) -> tuple[int, str]:
    """KV blocks of one rank, and where the number comes from: the run, or what `capacity` finds room for."""
    if run.arguments.get("num_gpu_blocks_override") is not None:
        blocks = run.count("num_gpu_blocks_override", 1)
        return blocks, f"KV memory: {blocks} blocks, as the run says"
    if not memory:
        blocks = 1 + int((-(-(run.prompt_tokens + run.output_tokens) // block)).sum())
        return blocks, (
            f"KV memory: memory of {tables.name} unknown; taken as enough for all requests ({blocks} blocks)"
        )
    try:
        found = capacity()
    except InfeasibleError as error:
        raise InputError(f"{run.folder}: {error}") from None
    if run.arguments.get("kv_cache_memory_bytes") is not None:
        blocks = max(1, run.count("kv_cache_memory_bytes", 1) // found.block_bytes)
        return blocks, f"KV memory: {blocks} blocks of {found.block_bytes} bytes in what kv_cache_memory_bytes says"
    return found.num_blocks, f"KV memory: {found.explain()}; other: CUDA's libraries and the trial step's peak"


def _simulated(config: dict[str, Any], where: Degrees) -> tuple[dict[str, Any], int, list[str]]:
    """Options and number of the simulated engines."""
    found, notes, engines = dict(config), list[str](), where.pp
    if where.together:
        # One scheduler hands out all ranks' budgets; none gives a request more than one rank's.
        found |= {name: where.dp * config[name] for name in ("num_blocks", "max_num_batched_tokens", "max_num_seqs")}
        most = config["long_prefill_token_threshold"] or config["max_num_batched_tokens"]
        found["long_prefill_token_threshold"] = min(most, config["max_num_batched_tokens"])
        found["limit_alone"] = True
        notes.append(
            f"{where.dp} ranks step together, since they meet at the experts: simulated as one engine with their "
            "budgets, in which the fullest rank is waited for"
        )
    else:
        engines = where.dp * where.pp
    if where.pp > 1:  # each batch in flight has its share of the requests and of KV memory
        found |= {name: max(1, found[name] // where.pp) for name in ("num_blocks", "max_num_seqs")}
        notes.append(f"{where.pp} batches are in flight, each with its share of the requests and of KV memory")
    return found, engines, notes
