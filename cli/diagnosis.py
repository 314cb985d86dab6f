"""The findings of `meshwright doctor`, as plain data."""

from __future__ import annotations

import importlib.util
import os
import platform
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .. import __version__

__all__ = ["diagnose"]

LIBRARIES = (
    *("numpy", "scipy", "pandas", "numba", "simpy", "ortools", "pydantic", "matplotlib", "typer"),
    *("torch", "triton", "fastapi", "uvicorn", "pyarrow", "dask", "ray", "kubernetes", "tritonclient"),
)

Findings = dict[str, Any]


def diagnose() -> Findings:
    """Look at the installation and try its parts, a second or two.

    Returns
    -------
    dict
        Sections ``meshwright``, ``libraries``, ``machine``, ``data`` and ``works`` (part -> "yes, …" or "no: why"), and
        ``ok``: whether planning and simulating work.
    """
    works = {name: _try(check) for name, check in _CHECKS.items()}
    return {
        "meshwright": {"version": __version__, "python": platform.python_version(), "folder": str(_root())},
        "libraries": {name: _version(name) for name in LIBRARIES},
        "machine": _machine(),
        "data": _data(),
        "works": works,
        "ok": all(works[name].startswith("yes") for name in ("plans", "simulation")),
    }


def _root() -> Path:
    return Path(__file__).resolve().parents[1]


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None


def _machine() -> Findings:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": f"{usable} usable of {os.cpu_count()}",
        "memory": _memory(),
        "gpus": _gpus(),
    }


def _memory() -> str:
    if "SC_PHYS_PAGES" not in os.sysconf_names:
        return "unknown"
    return f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.1f} GiB"


def _gpus() -> list[str]:
    if importlib.util.find_spec("torch") is None:
        return []
    import torch

    if not torch.cuda.is_available():
        return []
    found = [torch.cuda.get_device_properties(k) for k in range(torch.cuda.device_count())]
    return [f"{gpu.name}, {gpu.total_memory / 2**30:.0f} GiB" for gpu in found]


def _data() -> Findings:
    """Profile sets that ship, and where compiled engines are cached."""
    folder = _root() / "profiles" / "data"
    sets = sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []
    cache = os.environ.get("NUMBA_CACHE_DIR") or "__pycache__ beside the engines"
    return {"profile files": sets, "engine cache": cache}


def _try(check: Callable[[], str]) -> str:
    """A check's outcome. Whatever goes wrong in it is the finding, so every exception is caught here and told."""
    started = time.perf_counter()
    try:
        what = check()
    except Exception as error:
        return f"no: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}"
    return f"yes{f', {what}' if what else ''} ({time.perf_counter() - started:.2f} s)"


def _plan() -> Any:
    from ..profiles.config import ParallelConfig
    from ..profiles.profile import ModelProfile
    from ..simulator.cluster import Cluster
    from ..simulator.placement import Group, Placement
    from ..simulator.serving.plan.file import Plan, PlannerEntry

    one = ParallelConfig(1, 1)
    profiles = {"m": ModelProfile.from_stages("m", {one: {1: [0.5]}}, weight_bytes={one: [1e9]})}
    return Plan.of(Cluster(1, 1), Placement([Group(one, ["m"])]), profiles, planner=PlannerEntry(name="doctor"))


def _check_plans() -> str:
    from ..simulator.serving.plan.file import Plan

    plan = _plan()
    if Plan.from_json(plan.to_json()) != plan:
        raise ValueError("a plan does not read back as it was written")
    return "written and read back"


def _check_simulation() -> str:
    from ..simulator import simulate
    from ..traces.trace import Trace

    plan = _plan()
    trace = Trace(arrival=[0.0, 0.1], model=[0, 0], models=("m",), slo=2.0)
    finishes = [
        simulate(plan.placement, trace, plan.planned_profiles(), engine=engine).finish.tolist()
        for engine in ("compiled", "simpy")
    ]
    if finishes != [[0.5, 1.0]] * 2:
        raise ValueError(f"expected finishes [0.5, 1.0] from both engines (got {finishes})")
    return "both engines agree"


def _check_running() -> str:
    import torch

    backends = [name for name in ("gloo", "nccl") if getattr(torch.distributed, f"is_{name}_available")()]
    if not backends:
        raise RuntimeError("torch has no distributed backend")
    return f"torch.distributed with {', '.join(backends)}"


def _check_llm_simulation() -> str:
    from ..profiles.llm import LinearCost
    from ..simulator.llm import LLMTrace, simulate_llm

    cost = LinearCost(base_s=0.5, token_s=0.0, context_s=0.0)
    config = {"num_blocks": 8, "max_model_len": 64}
    finishes = [
        simulate_llm(LLMTrace([0.0], [4], [3]), config=config, cost=cost, engine=engine).finish.tolist()
        for engine in ("compiled", "simpy")
    ]
    if finishes != [[1.5]] * 2:
        raise ValueError(f"expected finishes [1.5] from both engines (got {finishes})")
    return "both engines agree"


def _check_llm_engine() -> str:
    from ..runtime.llm.engine import LLMEngine, serve_trace
    from ..simulator.llm import LLMTrace

    with LLMEngine("tiny-llama", "vllm-v1", {"num_blocks": 8, "max_model_len": 64}) as engine:
        result = serve_trace(engine, LLMTrace([0.0], [4], [3]))
    if result.generated.tolist() != [3]:
        raise ValueError(f"expected 3 tokens (got {result.generated.tolist()})")
    return "tiny-llama said 3 tokens"


def _check_llm_endpoint() -> str:
    from ..runtime.llm.engine.endpoint.server import check_installed

    check_installed()
    return "meshwright run llm --model MODEL --serve"


def _check_triton() -> str:
    import torch
    import triton

    return f"Triton {triton.__version__}, {'on the GPU' if torch.cuda.is_available() else 'no GPU: torch kernels run'}"


def _check_figures() -> str:
    import matplotlib

    return f"backend {matplotlib.get_backend()}"


def _check_parquet() -> str:
    import pyarrow

    return f"pyarrow {pyarrow.__version__}"


_CHECKS: dict[str, Callable[[], str]] = {
    "plans": _check_plans,
    "simulation": _check_simulation,
    "measuring and running for real": _check_running,
    "LLM simulation": _check_llm_simulation,
    "LLM engine": _check_llm_engine,
    "LLM endpoint": _check_llm_endpoint,
    "LLM kernels in Triton": _check_triton,
    "figures": _check_figures,
    "Parquet files": _check_parquet,
}
