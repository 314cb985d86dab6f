"""Reads layers of one model by name: CSV files and meta.yaml, microseconds (the format of LLMServingSim)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ....errors import InputError
from ..decoder import DecoderSpec
from ..named import decoder
from .checks import consistent, read_header, read_table, read_yaml
from .grid import Grid
from .kernels import KernelTables, Layers, Peaks
from .machine import read_machine

__all__ = ["FEED_FORWARD", "ONCE", "TWICE", "check_layers", "load_layers"]

US = 1e-6
ONCE = ("embedding", "final_layernorm", "inputs", "forward_rest")
"""Dense layers that a model has once; all others are in every transformer layer. The last two are our own: the host
builds the tensors of an iteration, and what a forward pass does between the parts that are named."""
TWICE = ("layernorm",)
"""Dense layers that a transformer layer has twice."""
FEED_FORWARD = ("gate_up_proj", "up_proj", "act_fn", "down_proj")
"""Dense layers of the feed-forward block: not in layers with experts."""
NEEDED = ("qkv_proj", "o_proj")
ATTENTION = ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode")


def load_layers(folder: Path, tp: int | None = None) -> KernelTables:
    """Read ``dense.csv``, ``attention.csv`` and ``per_sequence.csv`` of `folder` or its ``tp<N>/``, and ``meta.yaml``.

    Raises
    ------
    InputError
        On anything wrong in a file, or a degree that was not measured.
    """
    meta = read_yaml(folder / "meta.yaml")
    if "model" not in meta:
        raise InputError(f"{folder / 'meta.yaml'}: fields missing: model")
    degrees = sorted(
        int(p.name[2:]) for p in folder.glob("tp*") if p.name[2:].isdigit() and (p / "dense.csv").is_file()
    )
    own = isinstance(meta.get("tp"), int)
    if own and tp is not None and tp != meta["tp"]:
        raise InputError(f"{folder}: measured at tp {meta['tp']}, asked for tp {tp}; measure it with --tp {tp}")
    if own:
        tp = int(meta["tp"])
    if tp is None:
        tp = _run_degree(folder) or (degrees[0] if degrees else 1)
    if degrees and tp not in degrees and not (folder / "dense.csv").is_file():
        raise InputError(f"{folder}: tp {tp} was not measured; there is {', '.join(f'tp{d}' for d in degrees)}")
    at = folder / f"tp{tp}" if tp in degrees else folder
    dense = _series(at / "dense.csv", "tokens", own)
    moe = _moe(at, folder)
    missing = [name for name in (*NEEDED, *(() if moe else ("down_proj",))) if name not in dense]
    if missing:
        raise InputError(f"{at / 'dense.csv'}: layers missing: {', '.join(missing)} (got {', '.join(dense)})")
    per_sequence = _series(at / "per_sequence.csv", "sequences", own)
    if "lm_head" not in per_sequence:
        raise InputError(f"{at / 'per_sequence.csv'}: layers missing: lm_head (got {', '.join(per_sequence)})")
    decode, mixed = _attention(at / "attention.csv", own)
    name = str(meta.get("hardware") or meta.get("gpu") or folder.name)
    engine = meta.get("engine") or f"vLLM {meta.get('vllm_version', '?')}"
    source = f"{meta.get('gpu', name)}, {engine}, {meta.get('profiled_at', 'no date')}"
    further = meta.get("further_chunk_us", 0.0)
    if isinstance(further, bool) or not isinstance(further, int | float) or not 0 <= further < float("inf"):
        raise InputError(f"{folder / 'meta.yaml'}: further_chunk_us: expected microseconds >= 0 (got {further!r})")
    memory, link = read_machine(folder)
    layers = Layers(str(meta["model"]), tp, dense, per_sequence, decode, mixed, further * US, own, moe, link)
    peaks = Peaks(name, 1.0, 1.0, 1.0, memory, source="none: layers are measured")
    return KernelTables(name, peaks, None, layers, source)


def check_layers(tables: KernelTables, model: DecoderSpec, tp: int) -> Peaks:
    """Whether the layers are those of `model` at degree `tp`; the rates that the best of them reach.

    Raises
    ------
    InputError
        On another model or degree, or times that no device has (another unit).
    """
    layers = tables.layers
    assert layers is not None
    ours, theirs = (x.rpartition("/")[2].lower().removeprefix("meta-") for x in (model.name, layers.model))
    if ours != theirs and not (ours.startswith(theirs) or theirs.startswith(ours) or _same(layers.model, model)):
        raise InputError(f"kernel tables: measured for {layers.model}, asked for {model.name}; measure its layers")
    if tp != layers.tp:
        raise InputError(f"kernel tables: measured at tp {layers.tp}, asked for tp {tp}; load its tp{tp} tables")
    head = layers.per_sequence["lm_head"]
    bandwidth = 2 * model.vocab * model.hidden / tp / float(head.seconds.min())
    wide = (model.heads + 2 * model.kv_heads) * model.head_dim
    qkv = layers.dense["qkv_proj"]
    flops = float((2 * qkv.axes[0] * model.hidden * wide / tp / qkv.seconds).max())
    if not layers.own and not 2e9 < bandwidth < 5e13:
        raise InputError(
            f"kernel tables: lm_head of {layers.model} at tp {tp} would read {bandwidth:.3g} bytes/s; "
            "expected time_us in microseconds, of this model and degree"
        )
    if model.moe_layers and not layers.moe:
        raise InputError(f"kernel tables: {model.name} has experts, and there is no moe.csv; measure its experts too")
    memory = tables.peaks.memory_bytes
    return Peaks(tables.name, flops, flops, bandwidth, memory, source="the best rates that its tables reach")


def _same(name: str, model: DecoderSpec) -> bool:
    """Whether a model's name is another one of the same shape."""
    try:
        return replace(decoder(name), name=model.name, max_positions=model.max_positions) == model
    except InputError:
        return False


def _run_degree(folder: Path) -> int | None:
    """The tensor-parallel degree of the run that the tables belong to, if its meta.json lies beside them."""
    path = folder.parent / "meta.json"
    if not path.is_file():
        return None
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        return int(said["engine_kwargs"]["tensor_parallel_size"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _moe(at: Path, folder: Path) -> dict[int, Grid]:
    """``moe.csv`` of the degree, or of ``tp1/``, where it is kept alone: experts are split by their own degree.

    Without the column `ep` all experts were on the rank. A call's work grows with the experts that it reads and, at
    some 250 FLOP a byte, with its tokens; that law fills what cannot be (few tokens, many experts) and goes beyond.
    """
    path = next((p for p in (at / "moe.csv", folder / "tp1" / "moe.csv") if p.is_file()), None)
    if path is None:
        return {}
    frame = read_table(path, ("tokens", "activated_experts"), (), "time_us", optional=("ep",))
    if "ep" not in frame.columns:
        frame["ep"] = 1

    def ideal(tokens: Any, experts: Any) -> Any:
        # An expert's bf16 weights take as long to read as some 250 tokens take to compute (250 FLOP a byte); a token
        # goes to about eight experts: 250 / 8 ≈ 32.
        return experts + tokens / 32

    columns = ("tokens", "activated_experts")
    return {
        int(ep): Grid.build(columns, [rows[c].to_numpy(dtype=float) for c in columns], rows["time_us"] * US, ideal)
        for ep, rows in frame.groupby("ep")
    }


def _linear(*work: Any) -> Any:
    """Roofline of a layer of fixed shape: in proportion to every coordinate."""
    product: Any = 1.0
    for part in work:
        product = product * part
    return product


def _series(path: Path, over: str, own: bool) -> dict[str, Grid]:
    """Layers by name. Our own measurements are read back as they are: few sizes, repeated, with their noise beside."""
    frame = read_table(path, (over,), ("layer",), "time_us")
    found: dict[str, Grid] = {}
    for layer, rows in frame.groupby("layer", sort=False):
        columns, seconds = (rows[over].to_numpy(dtype=float),), rows["time_us"] * US
        found[str(layer)] = Grid.build((over,), columns, seconds, _linear, believe=own)
        consistent(f"{path}: {layer}", found[str(layer)])
    return found


def _attention(path: Path, own: bool) -> tuple[Grid, Grid]:
    """Both forms of the file: `kv_prefill`, or since October 2026 `prefill_key`, the mean over a chunk's queries of the
    keys that they see: the context before it and half the chunk. Further columns: the kernel, queries per decode."""
    optional = ("layer", "decode_q_len")
    newer = "prefill_key" in read_header(path)
    names = tuple("prefill_key" if newer and name == "kv_prefill" else name for name in ATTENTION)
    frame = read_table(path, names, (), "time_us", zero=names, optional=optional)
    if newer:
        frame["kv_prefill"] = (frame["prefill_key"] - frame["prefill_chunk"] / 2).clip(lower=0)
    if "layer" in frame.columns and (frame["layer"] == "attention").any():
        frame = frame[frame["layer"] == "attention"]
    if "decode_q_len" in frame.columns and (frame["decode_q_len"] == 1).any():
        frame = frame[frame["decode_q_len"] == 1]  # more: verification of drafts
    chunk, before, decodes, context = (frame[name].to_numpy(dtype=float) for name in ATTENTION)
    seconds = frame["time_us"].to_numpy(dtype=float) * US
    alone = (chunk == 0) & (decodes > 0)
    if not alone.any() or not (chunk > 0).any():
        raise InputError(f"{path}: expected rows of decodes alone (prefill_chunk 0) and rows with prefill chunks")
    decode = Grid.build(("decodes", "context"), (decodes[alone], context[alone]), seconds[alone], _linear, believe=own)
    return decode, _lattice(path, chunk, before, decodes, context, seconds, own)


def _lattice(path: Path, chunk: Any, before: Any, decodes: Any, context: Any, seconds: Any, own: bool) -> Grid:
    """The complete lattice of calls with a prefill chunk; refinements between its points are left out.

    It is grown from the smallest call: the values that were measured when only one coordinate differs from it; then
    the value whose calls were measured least goes, until every call of the lattice was.
    Without decodes there is no context of theirs: the row stands at every context.
    """
    inside = chunk > 0
    columns = (chunk, before, decodes, context)
    paired = np.unique(np.stack(columns, axis=1)[inside & (decodes > 0)], axis=0)
    if not len(paired):
        raise InputError(f"{path}: expected rows of prefill chunks beside decodes")
    # the smallest call: by chunk first, then by the context before it, and so on
    base = paired[np.lexsort(paired.T[::-1])[0]]
    axes: list[Any] = []
    for i in range(4):
        others = [j for j in range(4) if j != i]
        axes.append(np.unique(paired[(paired[:, others] == base[others]).all(axis=1), i]))
    while True:
        held = paired[np.all([np.isin(paired[:, i], axis) for i, axis in enumerate(axes)], axis=0)]
        cells = np.prod([len(axis) for axis in axes])
        if len(held) >= cells:
            break
        shares = [np.array([(held[:, i] == v).sum() for v in axis]) * len(axis) / cells for i, axis in enumerate(axes)]
        worst = min((float(share.min()), i) for i, share in enumerate(shares) if len(share) > 1)[1]
        axes[worst] = np.delete(axes[worst], int(np.argmin(shares[worst])))
    keep = inside & (decodes > 0)
    for column, axis in zip(columns, axes, strict=True):
        keep &= np.isin(column, axis)
    rows = [np.stack([c[keep] for c in (*columns, seconds)])]
    alone = inside & (decodes == 0) & np.isin(chunk, axes[0]) & np.isin(before, axes[1])
    if not keep.any() or not alone.any():
        raise InputError(f"{path}: no grid of prefill chunks with and without decodes")
    rows += [
        np.stack([c[alone] for c in (chunk, before, decodes)] + [np.full(alone.sum(), at), seconds[alone]])
        for at in axes[3]
    ]
    table = np.concatenate(rows, axis=1)

    def ideal(new: Any, past: Any, batch: Any, each: Any) -> Any:
        return new * (past + new / 2) + batch * each

    names = ("new", "before", "decodes", "context")
    return Grid.build(names, tuple(table[:4]), table[4], ideal, believe=own, efficient=False)
