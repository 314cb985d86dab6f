"""Values that a graph is computed with: parameters and inputs from a seed, results operator by operator."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ....seeds import generator
from ..graph import Graph
from ..operator import Operator
from ..running import started
from .draws import Draws
from .loops import Local
from .operators import compute

if TYPE_CHECKING:
    from numpy.random import Generator
    from torch import Tensor

__all__ = ["evaluate", "index_limit", "make_input", "make_parameter"]

_MOVED = frozenset({"cast", "copy", "detach"})


def make_parameter(graph: Graph, name: str, seed: int, dtype: str) -> Tensor:
    """A parameter's first values: the same on every rank, and whichever ranks hold it.

    What products sum over is normal with variance 1 / (number of terms), so that activations keep their scale; other
    parameters are 1 (first affine parameter of a norm, its running variance) or 0, with noise of 0.1: no gradients may
    agree by symmetry.
    Buffers of integers are indices of what they pick from, those of truth values have both in every row; running
    statistics of batch norms begin as torch's do.
    """
    import numpy as np
    import torch

    if name not in graph.tensors:
        return started(graph.operators, name, dtype)
    entry = graph.tensors[name]
    random = generator(seed, "parameter", name)
    if not entry.dtype.startswith(("float", "bfloat")):
        return _discrete(graph, name, random)
    values = random.standard_normal(entry.shape)
    terms, centre = 0, 0.0
    for i, k in graph.consumers[name]:
        op = graph.operators[i]
        reduced = [loop for group in op.parsed.operands[k] for loop in group if loop in op.parsed.reduced]
        if op.kind in ("contraction", "dispatch", "convolution", "grouped"):
            picked = op.attributes.get("pick")
            terms = max(terms, math.prod(op.sizes[loop] for loop in reduced if loop != picked))
        elif op.kind == "embedding":
            terms = max(terms, entry.shape[-1])
        elif op.kind == "norm" and k in ((2, 3) if op.attributes.get("statistics") == "running" else (1,)):
            centre = 1.0  # scales, and running variances
    # A tenth is large enough that no gradient vanishes by symmetry, and small enough that norms stay well
    # conditioned.
    values = values / math.sqrt(terms) if terms else centre + 0.1 * values
    return torch.from_numpy(np.asarray(values)).to(getattr(torch, dtype))


def make_input(graph: Graph, name: str, seed: int, iteration: int, microbatch: int, dtype: str) -> Tensor:
    """One input of one microbatch: indices below the rows that read them, truth values, or standard normal values."""
    import numpy as np
    import torch

    entry = graph.tensors[name]
    random = generator(seed, "input", name, iteration, microbatch)
    if not entry.dtype.startswith(("float", "bfloat")):
        return _discrete(graph, name, random)
    return torch.from_numpy(np.asarray(random.standard_normal(entry.shape))).to(getattr(torch, dtype))


def evaluate(
    operators: Iterable[Operator], values: dict[str, Tensor], draws: Draws | None = None
) -> dict[str, Tensor]:  # fmt: skip
    """Run operators one after another on whole tensors; results are added to `values`, which is returned.

    Parameters
    ----------
    operators : iterable of Operator
        In topological order.
    values : dict
        What they read.
    draws : Draws, optional
        Needed where an operator draws at random.
    """
    for op in operators:
        local = replace(Local.of(op), draws=draws)
        values[op.name] = compute(local, [values[name] for name in op.inputs])
    return values


def _discrete(graph: Graph, name: str, random: Generator) -> Tensor:
    import torch

    entry = graph.tensors[name]
    if entry.dtype == "bool":
        drawn: Any = torch.from_numpy(random.random(entry.shape) < 0.5)
        if entry.shape and entry.shape[-1] > 1:  # a mask that hides all of a row would leave nothing to compare
            drawn[..., 0], drawn[..., 1] = True, False
        return drawn
    drawn = torch.from_numpy(random.integers(0, _rows(graph, name), entry.shape))
    return drawn if entry.dtype == "int64" else drawn.to(getattr(torch, entry.dtype))


def index_limit(graph: Graph, name: str) -> int | None:
    """How many rows, classes or elements those have that integers pick from; None where they are no such indices.

    Labels that a loss leaves out may have any number: where that is a positive one, there is no limit.
    """
    found: list[int] = []
    for op, limit in _picked(graph, name):
        if limit is not None:
            attributes: Mapping[str, Any] = op.attributes
            if op.kind == "loss" and int(attributes.get("ignore_index", -100)) >= limit:
                return None
            found.append(limit)
    return min(found, default=None)


def _rows(graph: Graph, name: str) -> int:
    """Indices that integers may hold: rows of the tables, classes of the logits, elements that they pick from.

    They are followed through views and casts. What else reads them takes any number: they are 0 or 1 there.
    """
    return min((2 if limit is None else limit for _, limit in _picked(graph, name)), default=2)


def _picked(graph: Graph, name: str) -> Iterator[tuple[Operator, int | None]]:
    """What reads integers, through views and casts, and how many distinct ones it allows; None: any."""
    stack, seen = [name], {name}
    while stack:
        for i, k in graph.consumers[stack.pop()]:
            op = graph.operators[i]
            limit = _limit(op, k)
            if limit is not None:
                yield op, limit
            elif (op.kind == "view" or op.attributes.get("fn") in _MOVED) and op.name not in seen:
                seen.add(op.name)
                stack.append(op.name)
            elif op.kind != "view":
                yield op, None


def _limit(op: Operator, k: int) -> int | None:
    """How many distinct indices an operator's k-th operand may hold; None if it holds no indices."""
    attributes: Mapping[str, Any] = op.attributes
    if attributes.get("fn") == "one_hot":
        return op.sizes[str(attributes["loop"])]
    if op.kind == "grouped" and k == 2:
        return op.sizes[str(attributes["pick"])]
    if k != 1:
        return None
    if op.kind == "view" and attributes.get("fn") == "index":
        return op.shape_of(op.parsed.operands[0])[int(attributes["dim"])]
    if op.kind not in ("embedding", "loss"):
        return None
    mine = {loop for group in op.parsed.operands[1] for loop in group}
    loops = [loop for group in op.parsed.operands[0] for loop in group if loop not in mine]
    return op.sizes[loops[0] if op.kind == "embedding" else loops[-1]] if loops else None
