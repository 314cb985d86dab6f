"""Reads kernel tables by operator: Parquet files per system, milliseconds (the format of aiconfigurator)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ....errors import InputError
from ..parallel.engine_reduce import SLOW, SWITCHED, engine_all_reduce
from .checks import consistent, read_table, read_yaml, units
from .grid import Grid
from .kernels import KernelTables, Operators, Peaks
from .tiles import tiles_of

__all__ = ["GEMM_BYTES", "area", "datasheet", "gemm_ideal", "load_operators"]

GEMM_BYTES = {
    "bfloat16": 2.0,
    "float16": 2.0,
    "fp8": 1.0,
    "fp8_block": 1.0,
    "int8_wo": 1.0,
    "int4_wo": 0.5,
    "nvfp4": 0.5,
}
"""Bytes of one weight in a GEMM of this name; outputs are bf16 in all of them. Others are taken as fp8."""
WEIGHT_ONLY = "_wo"
"""How names of GEMMs end whose activations stay bf16."""

KV_BYTES = {"bfloat16": 2, "fp8": 1}
MS = 1e-3


def area(length: Any) -> Any:
    """Pairs that causal attention looks at: n (n + 1) / 2."""
    return length * (length + 1) / 2


def gemm_ideal(peaks: Peaks, dtype: str, computed: float = 1.0, read: float = 1.0) -> Callable[..., Any]:
    """Roofline of a GEMM: the slower of its products and its bytes, each at a share of its peak."""
    size = GEMM_BYTES.get(dtype, 1.0)
    plain = size == 2 or dtype.endswith(WEIGHT_ONLY)
    flops = peaks.flops if plain else peaks.fp8_flops / size

    def ideal(m: Any, n: Any, k: Any) -> Any:
        moved = size * k * n + (2 if plain else size) * m * k + 2 * m * n
        return np.maximum(2 * m * n * k / (computed * flops), moved / (read * peaks.bandwidth_bytes_per_s))

    return ideal


def prefill_ideal(peaks: Peaks, head: int) -> Callable[..., Any]:
    """Roofline of causal prefill attention: two products per pair of tokens and head."""

    def ideal(heads: Any, batch: Any, length: Any) -> Any:
        return 4 * heads * head * batch * area(length) / peaks.flops

    return ideal


def decode_ideal(peaks: Peaks, kv_heads: int, head: int, size: int) -> Callable[..., Any]:
    """Roofline of decode attention: keys and values are read once, heads that share them ride along."""

    def ideal(heads: Any, batch: Any, context: Any) -> Any:
        return 2 * kv_heads * head * size * batch * context / peaks.bandwidth_bytes_per_s + 0 * heads

    return ideal


def load_operators(folder: Path) -> KernelTables:
    """Read ``<folder>/*.parquet`` and ``<folder name>.yaml`` beside it.

    Raises
    ------
    InputError
        On anything wrong in a file; `gemm`, `context_attention` and `generation_attention` must be there.
    """
    peaks = datasheet(folder)
    gemm_file = _file(folder, "gemm")
    frame = read_table(gemm_file, ("m", "n", "k"), ("gemm_dtype",), "latency")
    gemm: dict[str, Grid] = {}
    for dtype, rows in frame.groupby("gemm_dtype"):
        ideal = gemm_ideal(peaks, str(dtype))
        m, n, k, seconds = (rows[c].to_numpy(dtype=float) for c in ("m", "n", "k", "latency"))
        grid = Grid.build(("m", "n", "k"), (m, n, k), seconds * MS, ideal)
        units(f"{gemm_file}: latency in ms: {dtype}", grid.best_share, 0.02)
        consistent(f"{gemm_file}: {dtype}", grid)
        device, framework = (str(rows[c].iloc[0]) if c in rows.columns else "" for c in ("device", "framework"))
        gemm[str(dtype)] = replace(grid, tiles=tiles_of(device, framework, str(dtype)))
    source = ", ".join(str(frame[c].iloc[0]) for c in ("device", "framework", "version") if c in frame.columns)
    return KernelTables(
        folder.name,
        peaks,
        Operators(
            gemm,
            _attention(_file(folder, "context_attention"), peaks, decode=False),
            _attention(_file(folder, "generation_attention"), peaks, decode=True),
            _all_reduce(folder, peaks),
            _quantise(gemm),
            _moe(folder, peaks),
        ),
        source=f"{source} ({folder.name})",
    )


def _file(folder: Path, name: str) -> Path:
    """``<name>.parquet``, or ``<name>_perf.parquet`` as the project itself calls it."""
    given = folder / f"{name}_perf.parquet"
    return given if given.is_file() and not (folder / f"{name}.parquet").is_file() else folder / f"{name}.parquet"


def _moe(folder: Path, peaks: Peaks) -> dict[tuple[str, int, int, int, int, int, int], Grid]:
    """``moe.parquet``, if it is there: routing and experts of one rank, by the tokens of all ranks.

    Gates were made to choose alike or by power laws; the steepest of the latter that is below 1.1 counts where there
    are several (trained gates have favourites), else what there is.
    """
    path = _file(folder, "moe")
    if not path.is_file():
        return {}
    shape = ("hidden_size", "inter_size", "num_experts", "topk", "moe_tp_size", "moe_ep_size")
    optional = ("distribution", "kernel_source")
    frame = read_table(path, ("num_tokens", *shape), ("moe_dtype",), "latency", optional=optional)
    if "distribution" in frame.columns:
        order = {name: _steepness(str(name)) for name in frame["distribution"].unique()}
        frame["steep"] = frame["distribution"].map(order)
        frame = frame[frame["steep"] == frame.groupby(["moe_dtype", *shape])["steep"].transform("max")]
    found: dict[tuple[str, int, int, int, int, int, int], Grid] = {}
    for key, rows in frame.groupby(["moe_dtype", *shape]):
        dtype, hidden, inner, experts, k, wide, ep = key
        size = GEMM_BYTES.get(str(dtype), 1.0)
        weights, flops = 3 * hidden * inner / wide, peaks.flops if size == 2 else peaks.fp8_flops / size

        def ideal(tokens: Any, weights: float = weights, k: int = k, e: int = experts, ep: int = ep, size: float = size,
                  flops: float = flops) -> Any:  # fmt: skip
            read = weights * size * np.minimum(e, tokens * k) / ep / peaks.bandwidth_bytes_per_s
            return np.maximum(read, 2 * weights * tokens * k / ep / flops)

        tokens, seconds = rows["num_tokens"].to_numpy(dtype=float), rows["latency"].to_numpy(dtype=float) * MS
        whole = (str(dtype), int(hidden), int(inner), int(experts), int(k), int(wide), int(ep))
        found[whole] = Grid.build(("tokens",), (tokens,), seconds, ideal)
    return found


def _steepness(distribution: str) -> float:
    """Of names like ``power_law_1.01``; 0 for gates that choose alike, less for power laws that are too steep."""
    number = distribution.rpartition("_")[2]
    try:
        exponent = float(number)
    except ValueError:
        return 0.0
    return exponent if exponent < 1.1 else -exponent


def datasheet(folder: Path) -> Peaks:
    """Peaks of a system from ``<folder name>.yaml`` beside or in its folder.

    Raises
    ------
    InputError
        If it is missing, or a field is.
    """
    path = next((p for p in (folder.with_suffix(".yaml"), folder / f"{folder.name}.yaml") if p.is_file()), None)
    if path is None:
        raise InputError(f"{folder}: {folder.name}.yaml (the system's datasheet) is missing beside the folder")
    said = read_yaml(path)
    gpu, node = said.get("gpu"), said.get("node")
    wanted = {"gpu": ("mem_bw", "bfloat16_tc_flops"), "node": ("intra_node_bw", "inter_node_bw")}
    missing = [
        f"{part}.{name}" for part, names in wanted.items() for name in names if not (said.get(part) or {}).get(name)
    ]
    if missing or not isinstance(gpu, dict) or not isinstance(node, dict):
        raise InputError(f"{path}: fields missing: {', '.join(missing)}")
    try:
        flops = float(gpu["bfloat16_tc_flops"])
        return Peaks(
            folder.name,
            flops,
            float(gpu.get("fp8_tc_flops") or flops),
            float(gpu["mem_bw"]),
            int(gpu.get("mem_capacity") or 0),
            float(node["intra_node_bw"]),
            float(node.get("p2p_latency") or 10e-6),
            float(node["inter_node_bw"]),
            int(node.get("num_gpus_per_node") or 8),
            float(gpu.get("mem_bw_empirical_scaling_factor") or 0.8),
            float(gpu.get("mem_empirical_constant_latency") or 3e-6),
            str(path.name),
        )
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}: expected numbers: {error}") from None


def _attention(path: Path, peaks: Peaks, *, decode: bool) -> dict[tuple[str, int, int], Grid]:
    """Context = isl + step where one token is decoded (isl 1); prefill tables have step 0."""
    numbers = ("batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "step")
    words = ("attn_dtype", "kv_cache_dtype")
    frame = read_table(path, numbers, words, "latency", zero=("step",), optional=("beam_width", "window_size"))
    if "window_size" in frame.columns:
        frame = frame[~(frame["window_size"] > 0)]  # sliding windows are another kernel
    if "bfloat16" in set(frame["attn_dtype"]):
        frame = frame[frame["attn_dtype"] == "bfloat16"]
    frame = frame if decode else frame[frame["step"] == 0]
    if frame.empty:
        raise InputError(f"{path}: no rows of full attention{'' if decode else ' with step 0'}")
    found: dict[tuple[str, int, int], Grid] = {}
    best = 0.0
    for (kv, groups, head), rows in frame.groupby(["kv_cache_dtype", "num_key_value_heads", "head_dim"]):
        size = KV_BYTES.get(str(kv), 2)
        ideal = decode_ideal(peaks, int(groups), int(head), size) if decode else prefill_ideal(peaks, int(head))
        length = (rows["isl"] + rows["step"]).to_numpy(dtype=float)
        columns = (rows["num_heads"].to_numpy(dtype=float), rows["batch_size"].to_numpy(dtype=float), length)
        seconds = rows["latency"].to_numpy(dtype=float) * MS
        best = max(best, float(np.quantile(ideal(*columns) / seconds, 0.99)))
        key = (str(kv), int(groups), int(head))
        # Decodes whose heads share no KV heads run another kernel, slower on some devices than with more heads.
        names, kinds = ("heads", "batch", "context" if decode else "length"), ("heads",) if decode else ()
        found[key] = Grid.build(names, columns, seconds, ideal, kinds=kinds)
        consistent(f"{path}: {kv}, {groups} KV heads of {head}", found[key])
    units(f"{path}: latency in ms", best, 0.02, 2.0)
    return found


def _all_reduce(folder: Path, peaks: Peaks) -> dict[tuple[str, int], Grid]:
    """Sizes are elements of two bytes in both files: at 2**29 of them H100s move 1 GiB at 330 GB/s of their 450."""
    found: dict[tuple[str, int], Grid] = {}
    custom, nccl = _file(folder, "custom_allreduce"), _file(folder, "nccl")
    if custom.is_file():
        words, ways = ("allreduce_dtype",), ("backend", "kernel_source")
        frame = read_table(custom, ("num_gpus", "message_size"), words, "latency", optional=ways)
        if "backend" not in frame.columns:
            frame["backend"] = "graph"
        for (way, devices), rows in frame.groupby(["backend", "num_gpus"]):
            name = str(way).rpartition("_")[2]
            found[name, int(devices)] = _reduce_grid(custom, rows, peaks, int(devices), own=name == "graph")
    if nccl.is_file():
        words = ("op_name", "nccl_dtype")
        frame = read_table(nccl, ("num_gpus", "message_size"), words, "latency")
        frame = frame[(frame["op_name"] == "all_reduce") & (frame["nccl_dtype"] == "half")]
        for devices, rows in frame.groupby("num_gpus"):
            found["nccl", int(devices)] = _reduce_grid(nccl, rows, peaks, int(devices))
    return found


def _reduce_grid(path: Path, rows: Any, peaks: Peaks, devices: int, *, own: bool = False) -> Grid:
    """The engine's own kernels over NVLink are held against their law: those of other systems keep to it."""
    moved = 2 * rows["message_size"].to_numpy(dtype=float)
    seconds = rows["latency"].to_numpy(dtype=float) * MS
    own = own and peaks.link_bytes_per_s >= SWITCHED and devices <= peaks.devices_per_node

    def ideal(size: Any) -> Any:
        if own:
            return engine_all_reduce(size, devices, peaks.link_bytes_per_s)
        return 2 * (devices - 1) / devices * size / peaks.link_bytes_per_s

    grid = Grid.build(("bytes",), (moved,), seconds, ideal, slow=SLOW if own else np.inf)
    units(f"{path}: latency in ms, message_size in elements: {devices} devices", grid.best_share, 0.02)
    return grid


def _quantise(gemm: dict[str, Grid]) -> dict[str, tuple[float, float]]:
    """What quantising the activations takes in the GEMMs of each quantised precision: (seconds, seconds per element).

    These tables time whole layers whose quantisation runs as a chain of plain kernels. Its launches are what the
    smallest quantised GEMM takes more than the smallest bf16 one; its rate what the narrowest GEMM of the most rows
    and widest input takes more than the bf16 one (there the product itself is nothing).
    """
    plain = gemm.get("bfloat16")
    found: dict[str, tuple[float, float]] = {}
    for dtype, grid in gemm.items():
        if plain is None or GEMM_BYTES.get(dtype, 1.0) == 2 or dtype.endswith(WEIGHT_ONLY):
            continue
        launch = max(0.0, float(grid.seconds[grid.measured].min() - plain.seconds[plain.measured].min()))
        at = (min(grid.axes[0][-1], plain.axes[0][-1]), max(grid.axes[1][0], plain.axes[1][0]), 16384.0)
        more = float(grid.at(*at)[0] - plain.at(*at)[0])
        found[dtype] = (launch, max(0.0, (more - launch) / (at[0] * at[2])))
    return found
