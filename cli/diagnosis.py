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
from ..worlds.need import Need
from ..worlds.registry import names, world

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
        ``ok``: whether all that a world cannot do without works, such as planning and simulating.
    """
    needs = _needs()
    works = {need.name: _try(need.works) for need in needs}
    return {
        "meshwright": {"version": __version__, "python": platform.python_version(), "folder": str(_root())},
        "libraries": {name: _version(name) for name in LIBRARIES},
        "machine": _machine(),
        "data": _data(),
        "works": works,
        "ok": all(works[need.name].startswith("yes") for need in needs if need.must),
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


def _check_figures() -> str:
    import matplotlib

    return f"backend {matplotlib.get_backend()}"


def _check_parquet() -> str:
    import pyarrow

    return f"pyarrow {pyarrow.__version__}"


def _needs() -> list[Need]:
    """What the worlds need, and what is drawn and read with."""
    own = [Need("figures", _check_figures), Need("Parquet files", _check_parquet)]
    return [*(need for name in names() for need in getattr(world(name), "needs", tuple)()), *own]
