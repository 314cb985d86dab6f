"""`assemble`: puts whole gradients and weights together from the shards that ranks saved."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import RunError

__all__ = ["assemble"]

Arrays = dict[str, np.ndarray[Any, Any]]

AGREE = 1e-6
"""Largest difference between replicas of a shard, relative to the shard's largest element. Replicas add up the same
terms; only the order within a collective's ring may differ, which is some roundings of float32 (1.2e-7 each)."""


def assemble(paths: Sequence[str]) -> tuple[Arrays, Arrays]:
    """Put gradients and weights together; each by name, each as a whole array.

    Parameters
    ----------
    paths : sequence of str
        Files of the ranks, as `job.run_job` saves them.

    Raises
    ------
    RunError
        If ranks that hold the same part disagree, or a part is missing.
    """
    wholes: dict[str, Arrays] = {"gradient": {}, "weight": {}}
    filled: dict[tuple[str, str], np.ndarray[Any, Any]] = {}
    shards: list[tuple[str, str, tuple[slice, ...], np.ndarray[Any, Any]]] = []
    sizes: dict[tuple[str, str], tuple[int, ...]] = {}
    for path in paths:
        with np.load(path, allow_pickle=False) as file:
            for entry in json.loads(str(file["index"])):
                key = entry["what"], entry["name"]
                part = tuple(slice(a, b) for a, b in entry["part"])
                shards.append((*key, part, file[entry["key"]]))
                ends = tuple(b for _, b in entry["part"])
                sizes[key] = tuple(map(max, sizes.get(key, ends), ends))
    for what, name, part, x in shards:
        key = what, name
        if name not in wholes[what]:
            wholes[what][name] = np.zeros(sizes[key], dtype=x.dtype)
            filled[key] = np.zeros(sizes[key], dtype=bool)
        whole, known = wholes[what][name], filled[key]
        if known[part].any():
            scale = float(np.abs(x).max(initial=0.0)) or 1.0
            apart = float(np.abs(np.where(known[part], whole[part] - x, 0.0)).max(initial=0.0))
            if apart > AGREE * scale:
                raise RunError(f"run: ranks disagree on the {what} of {name!r} by {apart / scale:.1e} of its size")
        whole[part] = x
        known[part] = True
    for (what, name), known in filled.items():
        if not known.all():
            raise RunError(f"run: no rank holds some part of the {what} of {name!r}")
    return wholes["gradient"], wholes["weight"]
