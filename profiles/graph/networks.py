"""Graphs of inference of networks that are ready to run (`kernels.networks`): shipped, or traced where sizes differ.

``python -m meshwright.profiles.graph.networks`` traces the shipped ones anew, which takes torch and some minutes.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import ParamSpec, TypeVar

from ...errors import InputError
from ...kernels.networks import NETWORKS, Network, network, network_spec, skeleton
from .document import from_json
from .graph import Graph

__all__ = ["INFERENCE", "is_network", "network_graph", "network_of"]

P = ParamSpec("P")
T = TypeVar("T")

DATA = Path(__file__).parent / "data"

INFERENCE: tuple[str, ...] = tuple(NETWORKS)
"""Names of the networks whose graphs of inference are known; sizes may stand behind them: ``bert-base-layers2``."""


def is_network(name: str) -> bool:
    """Whether a name is a network's, or begins as one; what stands behind may still be no size of it."""
    return any(name == known or str(name).startswith(f"{known}-") for known in INFERENCE)


def network_of(name: str, seed: int = 0) -> Network:
    """A network ready to run, with random weights: its module, and inputs for any batch.

    Raises
    ------
    InputError
        If there is no such network or size, or torch is not installed; the message names the nearest, or the extra.
    """
    return _said(network, name, seed)


# Eight at a time, as the zoo's.
@lru_cache(maxsize=8)
def network_graph(name: str) -> Graph:
    """The graph of inference of a network at batch 1: read from the package, or traced where sizes are given.

    Raises
    ------
    InputError
        If there is no such network or size; if it must be traced and torch is not installed.
    """
    if name in INFERENCE:
        path = DATA / f"{name}.json.gz"
        return from_json(gzip.decompress(path.read_bytes()).decode(), path.name)
    return traced_network(name)


def traced_network(name: str) -> Graph:
    """The same, traced in any case."""
    from .trace.module import from_torch

    sizes, made = _said(network_spec, name).sizes, _said(skeleton, name)
    items = "tokens" if "seq" in sizes else "clips" if "frames" in sizes else "images"
    graph = from_torch(
        made.module, made.inputs(1), name=name, inference=True, items_per_sample=float(sizes.get("seq", 1)), items=items
    )
    return replace(graph, source=f"{made.description}; {graph.source}")


def _said(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call it; what `kernels`, which knows none of our errors, raises becomes one of them."""
    try:
        return function(*args, **kwargs)
    except (ValueError, ModuleNotFoundError) as error:
        raise InputError(str(error)) from None


def _write() -> None:
    for name in INFERENCE:
        graph = traced_network(name)
        packed = gzip.compress(graph.to_json().encode(), mtime=0)
        (DATA / f"{name}.json.gz").write_bytes(packed)
        size = f"{graph.params / 1e6:7.3f} M parameters {graph.forward_flops / 1e9:8.3f} forward GFLOP"
        print(f"{name:14} {len(graph.operators):5} operators {size} {len(packed) / 1024:5.1f} KiB; {graph.source}")


if __name__ == "__main__":
    _write()
