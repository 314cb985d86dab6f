"""`Draws`: what operators draw at random, as a pure function of where an element stands in the whole run.

A draw depends on the seed, the operator's name, the iteration, the number of the sample in the iteration and the place
of the element in the sample, and on nothing else: not on which device computes it, not on how often, not on how samples
are dealt into microbatches. So a run draws the same under every plan, and recomputation sees what was drawn before.
The generator is SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014), which is
its counter times a constant, hashed: each sample is a stream, each element a place in it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ....errors import InputError
from ....seeds import stream_digest
from ..operator import Operator

if TYPE_CHECKING:
    from torch import Tensor

    from .loops import Local

__all__ = ["DRAWING", "Draws", "draws_at_random", "kept", "normal", "uniform"]

DRAWING = frozenset({"dropout", "bernoulli", "uniform", "normal"})
"""Functions of `elementwise` operators that draw. Fused attention draws where it has an attribute ``dropout``."""

_BITS = 53
"""Bits of a draw: what a float64 in [0, 1) has."""


@dataclass(frozen=True, slots=True)
class Draws:
    """Which draws those of a microbatch are.

    Parameters
    ----------
    seed, iteration : int
        Of the run.
    first : int
        Number of the microbatch's first sample in the iteration.
    samples : int
        Samples of the microbatch.
    """

    seed: int
    iteration: int
    first: int
    samples: int


def draws_at_random(op: Operator) -> bool:
    """Whether an operator's result depends on draws."""
    if op.kind == "attention":
        return float(op.attributes.get("dropout", 0.0)) > 0  # pyright: ignore[reportArgumentType]
    fn = op.attributes.get("fn")
    if op.kind != "elementwise" or fn not in DRAWING:
        return False
    return fn != "dropout" or float(op.attributes.get("p", 0.0)) > 0  # pyright: ignore[reportArgumentType]


def kept(local: Local, order: Sequence[str], p: float) -> Tensor:
    """Truth values over the loops of `order`, of which a share of `p` is false."""
    return _bits(local, order, "") >= math.ceil(p * (1 << _BITS))


def uniform(local: Local, order: Sequence[str]) -> Tensor:
    """Numbers in [0, 1), float64."""
    import torch

    return _bits(local, order, "").to(torch.float64) * 2.0**-_BITS


def normal(local: Local, order: Sequence[str]) -> Tensor:
    """Standard normal numbers, float64 (Box and Muller, 1958)."""
    import torch

    radius = (_bits(local, order, "radius").to(torch.float64) + 1.0) * 2.0**-_BITS  # in (0, 1]: it has a logarithm
    angle = _bits(local, order, "angle").to(torch.float64) * (2.0 * math.pi * 2.0**-_BITS)
    return torch.sqrt(-2.0 * torch.log(radius)) * torch.cos(angle)


def _bits(local: Local, order: Sequence[str], word: str) -> Tensor:
    """Integers of `_BITS` bits, one for each element of the loops of `order` that is computed here.

    Raises
    ------
    InputError
        If it is not said which draws they are.
    """
    import torch

    op, draws = local.op, local.draws
    if draws is None:
        raise InputError(f"operator {op.name!r} draws at random; expected a seed, an iteration and samples to draw for")

    def along(loop: str, first: int = 0) -> Tensor:
        return (local.index(loop) + first).reshape([-1 if x == loop else 1 for x in order])

    digest = stream_digest(draws.seed, "draws", op.name, draws.iteration, word)
    state = torch.full([1] * len(order), int.from_bytes(digest[:8], "little", signed=True))
    place, stride = torch.zeros([1] * len(order), dtype=torch.int64), 1
    for loop in reversed(order):
        size = op.sizes[loop]
        if op.loop(loop).batch:  # a stream for each sample, whatever microbatch it is in
            state = _hashed(state, along(loop, draws.first * size // draws.samples))
        else:
            place = place + along(loop) * stride
            stride *= size
    return _shifted(_hashed(state, place), 64 - _BITS)


def _signed(x: int) -> int:
    return x - (1 << 64) if x >> 63 else x


_GOLDEN, _FIRST, _SECOND = map(_signed, (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def _hashed(state: Tensor, counter: Tensor) -> Tensor:
    """SplitMix64's output number `counter` of the streams `state`; products of int64 wrap around."""
    z = state + (counter + 1) * _GOLDEN
    z = (z ^ _shifted(z, 30)) * _FIRST
    z = (z ^ _shifted(z, 27)) * _SECOND
    return z ^ _shifted(z, 31)


def _shifted(x: Tensor, n: int) -> Tensor:
    """Shift right as if unsigned."""
    return (x >> n) & ((1 << (64 - n)) - 1)
