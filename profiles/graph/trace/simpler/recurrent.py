"""Recurrent layers with dropout between them, traced layer by layer: the draws are operators of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["layer_by_layer"]

CALLS = ("lstm", "gru", "rnn_tanh", "rnn_relu")
"""Functions of `torch._VF` that run all layers of a recurrent module, dropout included, in one call."""


@contextmanager
def layer_by_layer() -> Iterator[None]:
    """torch.nn's recurrent modules call one layer after another where they drop elements between them."""
    from torch import _VF as calls  # pyright: ignore[reportPrivateUsage]

    try:
        for word in CALLS:
            setattr(calls, word, _layered(getattr(calls, word)))
        yield
    finally:
        for word in CALLS:
            if word in vars(calls):  # what is not set is looked up in torch's own functions
                delattr(calls, word)


def _layered(whole: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        # (input, state, weights, biases?, layers, dropout, training, both ways?, batch first?); of packed sequences
        # the lengths stand second, and they are left alone.
        if len(args) != 9 or not isinstance(args[3], bool):
            return whole(*args)
        x, state, weights, biases, layers, p, training, *rest = args
        if not training or not p or layers < 2:
            return whole(*args)
        return _run(whole, x, state, weights, (biases, layers, float(p), training, *rest))

    return call


def _run(whole: Callable[..., Any], x: Any, state: Any, weights: Any, how: tuple[Any, ...]) -> Any:
    import torch

    biases, layers, p, training, both, first = how
    several = isinstance(state, (tuple, list))
    count, ways = len(weights) // layers, 2 if both else 1
    ends: list[list[Any]] = []
    for k in range(layers):
        mine = [part[k * ways : (k + 1) * ways] for part in (state if several else [state])]
        own = weights[k * count : (k + 1) * count]
        x, *last = whole(x, mine if several else mine[0], own, biases, 1, 0.0, training, both, first)
        ends.append(last)
        if k + 1 < layers:
            x = torch.nn.functional.dropout(x, p, True)
    return x, *(torch.cat(parts) for parts in zip(*ends, strict=True))
