"""Reads ``hardware.yaml``: what a machine was measured to be, beside tables of layers (LLMServingSim's format)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np

from ....errors import InputError
from ...hardware import LinkSpec
from .checks import read_yaml

__all__ = ["read_machine"]

GIB = 2**30
ABOVE = 4
"""The file is kept once for all models: ``<hardware>/<owner>/<model>/<variant>/`` are the tables' folders."""


def read_machine(folder: Path) -> tuple[int, LinkSpec | None]:
    """Memory in bytes (0 if unknown) and the link between two devices, from the nearest ``hardware.yaml``.

    The link is the line through the measured all-reduces of two devices, in which a device sends as many bytes as the
    message has; least squares of relative errors.

    Raises
    ------
    InputError
        If the file is no mapping, or a sample is no number.
    """
    places = (folder, *list(folder.resolve().parents)[:ABOVE])
    path = next((p / "hardware.yaml" for p in places if (p / "hardware.yaml").is_file()), None)
    if path is None:
        return 0, None
    said = read_yaml(path)
    memory, samples = _inside(said, "spec", "memory_total_gib"), _inside(said, "measured", "interconnect", "samples")
    try:
        size = int(float(memory) * GIB) if memory else 0
        rows: list[tuple[float, float]] = [
            (float(row["bytes"]), 1e-6 * float(row["us"]))
            for row in (samples if isinstance(samples, list) else [])
            if row["collective"] == "all_reduce"
        ]
    except (TypeError, ValueError, KeyError) as error:
        raise InputError(f"{path}: expected numbers of memory and samples: {error}") from None
    if len({n for n, _ in rows}) < 2:
        return size, None
    n_bytes, seconds = np.array(rows).T
    if not (np.isfinite(seconds).all() and (seconds > 0).all()):
        raise InputError(f"{path}: measured.interconnect.samples: expected times > 0 in microseconds")
    design = np.stack([1 / seconds, n_bytes / seconds], axis=1)
    latency, each = np.linalg.lstsq(design, np.ones(len(rows)), rcond=None)[0]
    if not each > 0:
        return size, None
    return size, LinkSpec(float(1 / each), max(0.0, float(latency)))


def _inside(said: Any, *names: str) -> Any:
    for name in names:
        if not isinstance(said, dict):
            return None
        said = cast("dict[str, Any]", said).get(name)
    return said
