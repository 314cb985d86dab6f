"""No option changes nothing: each one, changed alone, changes a figure of some scenario."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from flat_options import llm_asked
from kernel_tables import silicon_rows, write_system
from meshwright.errors import RunError
from meshwright.profiles import LinkSpec, device
from meshwright.profiles.llm import (
    COMPILED_LAUNCH_S,
    EAGER_LAUNCH_S,
    CapacityOptions,
    CostOptions,
    DecoderSpec,
    Iteration,
    KernelTables,
    LinearCost,
    Overheads,
    Tower,
    decoder,
    iteration_cost,
    kv_capacity,
)
from meshwright.profiles.spread import Spread
from meshwright.runtime.llm import Benchmark, compare_silicon
from meshwright.simulator.llm import LLMTrace, simulate_llm
from meshwright.simulator.llm.decoding.speculative import Speculative
from meshwright.simulator.llm.fleet.faults import Fault, Faults
from meshwright.simulator.llm.fleet.pools import Pools
from meshwright.simulator.llm.fleet.scaling import Autoscaling
from meshwright.simulator.llm.memory.adapters import AdapterCost
from meshwright.simulator.llm.memory.contiguous import ContiguousConfig
from meshwright.simulator.llm.memory.swapping import SwapCost
from meshwright.simulator.llm.options import SimulateOptions
from meshwright.simulator.llm.policy.request import LLMRequest
from meshwright.simulator.llm.policy.sarathi import SarathiConfig
from meshwright.simulator.llm.policy.vllm02_state import Vllm02Config
from meshwright.simulator.llm.policy.vllm06 import Vllm06Config
from meshwright.simulator.llm.policy.vllm_paper import VllmPaperConfig
from meshwright.simulator.llm.policy.vllm_v1.state import V1Config

DENSE = DecoderSpec("toy", 4, 2048, 16, 8192, 32768, 8, 128)
EXPERTS = decoder("Qwen3-30B-A3B")
WINDOWS = replace(DENSE, window=1024, full_layers=1)
FURTHER = replace(DENSE, mtp_layers=1)
SEEING = replace(DENSE, tower=Tower(24, 1024, 16, 4096, 14, side=336))
STEPS = (
    Iteration((), 3, 900, 3),
    Iteration(((300, 0),), 7, 4000, 8),
    Iteration(((700, 0), (100, 700)), 0, 0, 2),
    Iteration((), 1500, 1500 * 300, 1500),
)


def seconds(model: DecoderSpec, system: object, **options: object) -> list[float]:
    cost = iteration_cost(model, system, **{"max_tokens": 1024, "max_outputs": 512, **options})
    return [cost.seconds(step) for step in STEPS] + [cost.interval(STEPS[1])]


def options_of(door: Callable[..., object], rarer: type) -> set[str]:
    """What a door takes: its parameters, and the fields of its options."""
    return set(inspect.signature(door).parameters) - {"options", "fields"} | {f.name for f in fields(rarer)}


OVERHEADS = {
    "scheduler_s": 1e-3, "per_sequence_s": 1e-4, "per_request_s": 1e-3, "launch_s": 1e-3, "graph_launch_s": 1.0,
    "cuda_graphs": False, "graph_tokens": 2, "overlapped": True, "fused": False,
}  # fmt: skip


@pytest.mark.parametrize("name", [f.name for f in fields(Overheads)])
def test_overheads(name: str, write_tables: Callable[[Path], Path], tmp_path: Path) -> None:
    """``cuda_graphs=False`` changed no figure: 364 launches of 5 us hide behind any step."""
    system = KernelTables.load(write_tables(tmp_path))
    changed = Overheads(**{name: OVERHEADS[name]})
    assert replace(Overheads(), **{name: OVERHEADS[name]}) == changed
    for model, where, precision in ((DENSE, system, "fp8"), (decoder("Llama-3.1-8B"), device("h100-80gb"), "bf16")):
        found = (seconds(model, where, precision=precision, overheads=o) for o in (Overheads(), changed))
        if next(found) != next(found):
            return
    pytest.fail(f"Overheads({name}=…) changes no figure")


def test_an_eager_engine_takes_at_least_its_launches() -> None:
    gpu, model = device("h100-80gb"), decoder("Llama-3.1-8B")
    step = Iteration((), 1, 300, 1)
    graphs, eager = (iteration_cost(model, gpu, overheads=Overheads(cuda_graphs=c)) for c in (True, False))
    host = Overheads().scheduler_s + Overheads().per_sequence_s
    assert eager.seconds(step) == pytest.approx(eager.kernels.launches * EAGER_LAUNCH_S + host)
    assert eager.seconds(step) > 1.15 * graphs.seconds(step)
    assert sum(part.seconds for part in eager.explain(step)) == pytest.approx(eager.seconds(step))
    assert Overheads().kernel_launch_s == COMPILED_LAUNCH_S
    assert f"launch_s={EAGER_LAUNCH_S:g}" in eager.overheads.explain()
    large = Iteration((), 256, 256 * 500, 256)  # the device is slower than the launches: they cost nothing
    assert eager.seconds(large) == pytest.approx(graphs.seconds(large), rel=0.01)


COSTS = {
    # option: (what else, values)
    "tp": ({}, 2), "pp": ({}, 2), "cp": ({"tp": 2, "exchange": "qkv"}, 2), "dp": ({"model": EXPERTS, "tp": 2}, 2),
    "ep": ({"model": EXPERTS, "tp": 2}, 2), "exchange": ({"cp": 2, "tp": 2, "exchange": "qkv"}, "helix"),
    "skew": ({"model": EXPERTS}, 0.0), "precision": ({}, "fp8"), "kv": ({}, "fp8"),
    "overheads": ({}, Overheads(1e-3)), "link": ({"tp": 2}, LinkSpec(1e9, 1e-3)), "max_tokens": ({}, 256),
    "max_outputs": ({}, 16),
    "balanced": ({"model": EXPERTS, "dp": 2, "ep": 2}, True),
    "all2all": ({"model": EXPERTS, "dp": 8, "ep": 8}, "deepep_high_throughput"),
    "images": ({"model": SEEING}, ((336, 336),)),
}  # fmt: skip


def test_costs_have_no_other_options() -> None:
    assert options_of(iteration_cost, CostOptions) == {"model", "system", *COSTS}


@pytest.mark.parametrize("name", COSTS)
def test_costs(name: str) -> None:
    """`link` was read with tables by layer alone, and dropped otherwise."""
    base, value = COSTS[name]
    base = {"model": DENSE, "system": device("h100-80gb"), **base}
    assert seconds(**base) != seconds(**{**base, name: value})


CAPACITY = {
    "tp": 2, "pp": 2, "cp": 2, "dp": 2, "ep": 2, "exchange": "helix", "utilization": 0.8, "block_size": 32,
    "weights": "fp8", "kv": "fp8", "other_bytes": 2**30, "windows": False,
    "mtp": True,
}  # fmt: skip


@pytest.mark.parametrize("name", CAPACITY)
def test_capacity(name: str) -> None:
    assert options_of(kv_capacity, CapacityOptions) == {"model", "memory_bytes", *CAPACITY}
    for model in (FURTHER,) if name == "mtp" else (DENSE, EXPERTS, WINDOWS):
        base = {"exchange": {"cp": 2, "exchange": "qkv"}, "cp": {"exchange": "qkv"}, "ep": {"tp": 2}}.get(name, {})
        if name in ("ep", "dp") and not model.experts:
            continue
        if name == "ep":  # whose experts are where: the number of bytes is the same, so is the rank's memory
            assert kv_capacity(model, 80 * 2**30, **base) == kv_capacity(model, 80 * 2**30, **base, ep=2)
            return
        one, other = (kv_capacity(model, 80 * 2**30, **{**base, **more}) for more in ({}, {name: CAPACITY[name]}))
        if (one.engine_blocks, one.block_bytes) != (other.engine_blocks, other.block_bytes):
            return
    pytest.fail(f"kv_capacity({name}=…) changes no figure")


def crowd(n: int = 40, seed: int = 1, **columns: object) -> LLMTrace:
    rng = np.random.default_rng(seed)
    return LLMTrace(np.sort(rng.uniform(0, 2, n)), rng.integers(4, 90, n), rng.integers(2, 60, n), **columns)


def alike(n: int = 30) -> LLMTrace:
    """Prompts that begin alike, with priorities against their order."""
    rng = np.random.default_rng(2)
    ids = [[7] * 2 + rng.integers(100, 999, 4).tolist() for _ in range(n)]
    return LLMTrace(
        np.sort(rng.uniform(0, 1, n)), np.full(n, 6 * 16), rng.integers(2, 40, n),
        prefix_ids=ids, prefix_block=16, priority=rng.integers(0, 9, n),
    )  # fmt: skip


COST = LinearCost(5e-3, 1e-4, 1e-6, 1e-6)
SWAP = SwapCost(4, 4096)
ADAPTERS = AdapterCost(1e-3, 1e-3)
WORK = {"plain": crowd, "alike": alike, "several": lambda: crowd(best_of=np.full(40, 2)),
        "adapted": lambda: crowd(lora=np.arange(40) % 6 - 1),
        "marked": lambda: crowd(shared_prefix=np.where(np.arange(40) % 2, 0, -1))}  # fmt: skip
SMALL = {"block_size": 16, "max_model_len": 256}
POLICIES = {
    # policy: (options, base options to try, values of each option to try)
    "vllm-v1": (V1Config, [
        {"num_blocks": 40, **SMALL, "max_num_batched_tokens": 128, "max_num_seqs": 64},
        {"num_blocks": 40, **SMALL, "max_num_batched_tokens": 512, "max_num_seqs": 64, "long_prefill_token_threshold": 16},
        {"num_blocks": 60, **SMALL, "enable_prefix_caching": False, "sliding_window": 32, "window_groups": 1},
        {"num_blocks": 60, **SMALL, "sliding_window": 32, "window_groups": 1},
        {"num_blocks": 60, **SMALL, "max_loras": 2, "max_cpu_loras": 3},
    ], {
        "num_blocks": [30], "block_size": [8], "max_model_len": [100], "max_num_batched_tokens": [96],
        "max_num_seqs": [4], "enable_prefix_caching": [False], "enable_chunked_prefill": [False],
        "policy": ["priority"], "scheduler_reserve_full_isl": [False], "long_prefill_token_threshold": [32],
        "watermark": [0.2], "async_scheduling": [True], "limit_alone": [True],
        "sliding_window": [64], "full_groups": [2], "window_groups": [2], "max_num_active_seqs": [3],
        "max_loras": [1], "max_cpu_loras": [2], "prefix_cache_retention_interval": [None], "pipeline_parallel_size": [2],
    }),
    "vllm-0.6": (Vllm06Config, [
        {"num_gpu_blocks": 40, "max_num_batched_tokens": 256, **SMALL, "max_num_seqs": 64},
        {"num_gpu_blocks": 30, "num_cpu_blocks": 90, "max_num_batched_tokens": 256, **SMALL, "max_num_seqs": 64, "preemption_mode": "swap"},
        {"num_gpu_blocks": 60, **SMALL, "max_num_seqs": 64, "max_loras": 2},
    ], {
        "num_gpu_blocks": [20], "num_cpu_blocks": [1], "block_size": [8], "max_model_len": [100],
        "max_num_batched_tokens": [300], "max_num_seqs": [4], "enable_prefix_caching": [True],
        "enable_chunked_prefill": [True], "policy": ["priority"], "preemption_mode": [None], "delay_factor": [2.0],
        "num_lookahead_slots": [8], "watermark": [0.2], "max_loras": [1],
    }),
    "vllm-paper": (VllmPaperConfig, [
        {"num_gpu_blocks": 40, "num_cpu_blocks": 40, **SMALL}, {"num_gpu_blocks": 60, "num_cpu_blocks": 40, **SMALL},
    ], {
        "num_gpu_blocks": [30], "num_cpu_blocks": [4], "block_size": [8], "max_model_len": [100],
        "max_num_batched_tokens": [128], "max_num_seqs": [4], "watermark": [0.2], "preemption_mode": ["swap"],
        "prefixes": [(4,)],
    }),
    "vllm-0.2": (Vllm02Config, [
        {"num_gpu_blocks": 40, "num_cpu_blocks": 40, **SMALL}, {"num_gpu_blocks": 60, "num_cpu_blocks": 40, **SMALL},
    ], {
        "num_gpu_blocks": [30], "num_cpu_blocks": [4], "block_size": [8], "max_model_len": [100],
        "max_num_batched_tokens": [128], "max_num_seqs": [4], "max_paddings": [0], "watermark": [0.2],
        "preemption_mode": ["swap"], "prefixes": [(4,)],
    }),
    "sarathi": (SarathiConfig, [{"num_gpu_blocks": 40, **SMALL}], {
        "num_gpu_blocks": [30], "block_size": [8], "chunk_size": [32], "max_model_len": [100], "max_num_seqs": [4],
        "watermark": [0.2],
    }),
    "orca-max": (ContiguousConfig, [{"num_slots": 2048, "max_model_len": 256}], {
        "num_slots": [1024], "max_model_len": [100], "max_num_seqs": [2],
    }),
}  # fmt: skip
# ruff: noqa: E501
OPTIONS = [(policy, name) for policy, (_, _, values) in POLICIES.items() for name in values]


def figures(trace: LLMTrace, policy: str, config: dict[str, object], **more: object) -> list[float]:
    found = simulate_llm(
        trace,
        policy=policy,
        config=config,
        **llm_asked(
            **{"cost": COST, "swap": SWAP, "adapters": ADAPTERS, "too_long": "ignore", "engine": "simpy", **more}
        ),
    )
    columns = (found.finish, found.first_token, found.preemptions, found.cached_tokens, found.engine)
    return np.nan_to_num(np.concatenate([np.asarray(c, dtype=float) for c in columns]), nan=-1.0).tolist()


def outcome(trace: LLMTrace, **said: object) -> object:
    """Figures, or the error: refusing is a difference too."""
    try:
        return figures(trace, **said)
    except (ValueError, RunError) as error:
        return str(error)


@pytest.mark.parametrize("policy", POLICIES)
def test_policies_have_no_other_options(policy: str) -> None:
    kind, _, values = POLICIES[policy]
    assert {f.name for f in fields(kind)} == set(values)
    assert all(f.default is not MISSING or f.name in POLICIES[policy][1][0] for f in fields(kind))


@pytest.mark.parametrize(("policy", "name"), OPTIONS)
def test_options_of_policies(policy: str, name: str) -> None:
    _, bases, values = POLICIES[policy]
    for base, value, (kind, work) in product(bases, values[name], WORK.items()):
        if kind in ("several", "marked") and policy not in ("vllm-paper", "vllm-0.2"):
            continue
        if kind == "adapted" and "max_loras" not in base:
            continue
        if kind == "marked":
            if name == "prefixes":
                one, other = ({**base, "prefixes": p} for p in ((3,), value))
            else:
                one, other = {**base, "prefixes": (3,)}, {**base, "prefixes": (3,), name: value}
        else:
            one, other = base, {**base, name: value}
        if outcome(work(), policy=policy, config=one) != outcome(work(), policy=policy, config=other):
            return
    pytest.fail(f"{policy}: {name} changes no figure")


V1 = {"num_blocks": 60, **SMALL}
TWO = {"engines": 2}
ARGUMENTS: dict[str, tuple[dict[str, object], object]] = {
    "policy": ({"config": ContiguousConfig(2048, 256), "policy": "orca-max"}, "orca-oracle"),
    "config": ({}, {**V1, "num_blocks": 30}),
    "cost": ({}, LinearCost(6e-3)),
    "swap": ({"policy": "vllm-0.2", "config": {"num_gpu_blocks": 40, "num_cpu_blocks": 40, **SMALL, "preemption_mode": "swap"}}, SwapCost(4, 4096, 1e-2)),
    "engines": ({}, 2),
    "router": (TWO, "least_outstanding"),
    "concurrency": ({}, 3),
    "until": ({}, 1.0),
    "too_long": ({"config": {**V1, "max_model_len": 60}}, "error"),
    "padded": ({"policy": "vllm-0.2", "config": {"num_gpu_blocks": 60, **SMALL}}, True),
    "seed": ({**TWO, "router": "random"}, 5),
    "pools": ({}, Pools(1, 1, LinkSpec(1e9, 1e-3), kv_bytes_per_token=1000)),
    "faults": ({**TWO, "router": "least_outstanding"}, Faults((Fault(0, 0.5, 1.0),))),
    "scaling": ({}, Autoscaling(1, 3, 2.0, interval_s=0.1, start_s=0.1)),
    "times": ({}, Spread(visits=(0.8, 1.3))),
    "speculative": ({}, Speculative(3, 0.7)),
}  # fmt: skip
ANOTHER_WAY = {"requests", "engine"}
"""`engine` says who computes the same figures (tests/simulator/llm/compiled/test_engine.py holds them against each other)."""


class First:
    """Every child is the first beam's."""

    def parents(self, request: LLMRequest, step: int) -> list[int]:
        """The first one, as often as there are beams."""
        return [0] * request.best_of


def test_simulate_llm_has_no_other_arguments() -> None:
    own = set(inspect.signature(simulate_llm).parameters) - {"options"}
    assert own | {f.name for f in fields(SimulateOptions)} == {*ARGUMENTS, "survivors", "adapters"} | ANOTHER_WAY


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_of_simulate_llm(name: str) -> None:
    base, value = ARGUMENTS[name]
    options: dict[str, object] = {"policy": "vllm-v1", "config": V1, **base}
    assert outcome(crowd(), **options) != outcome(crowd(), **{**options, name: value})


def test_adapters() -> None:
    work, config = crowd(lora=np.arange(40) % 6 - 1), {**V1, "max_loras": 2}
    known, free = (figures(work, "vllm-v1", config, adapters=cost) for cost in (ADAPTERS, None))
    assert known != free


def test_survivors() -> None:
    beams = crowd(best_of=np.full(40, 3), beam=np.ones(40, dtype=bool))
    config = {"num_gpu_blocks": 100, "num_cpu_blocks": 100, **SMALL}
    drawn, first = (figures(beams, "vllm-0.2", config, survivors=who) for who in (None, First()))
    assert drawn != first


@cache
def latencies(folder: Path, benchmark: Benchmark) -> tuple[float, float]:
    row = compare_silicon(folder / "rows.csv", folder, benchmark=benchmark).rows[0]
    return row.ttft_ms, row.tpot_ms


@pytest.fixture(scope="module")
def silicon(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of kernel tables with one measured row."""
    folder = tmp_path_factory.mktemp("silicon")
    write_system(folder)
    silicon_rows(folder, {"isl": 2048, "osl": 64, "concurrency": 16, "batch_size": 16}).rename(folder / "rows.csv")
    return folder


BENCHMARK = {"rounds": 30, "simulated_rounds": 3, "spread": 0.3, "front_s": 1.0, "stream_s": 1e-2, "utilization": 0.24}


@pytest.mark.parametrize("name", [f.name for f in fields(Benchmark)])
def test_what_a_benchmark_did(name: str, silicon: Path) -> None:
    assert latencies(silicon, Benchmark()) != latencies(silicon, Benchmark(**{name: BENCHMARK[name]}))
