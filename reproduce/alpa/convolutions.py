"""What V100s make of float32 convolutions, by shape: public measurements, and a cost model that has them.

A roofline gives all large convolutions the same share of the peak. cuDNN's have other shares: Winograd's algorithm for
3 x 3 and 5 x 5, small images that fill tiles badly. What lies between the measured sides is interpolated. 1 x 1
convolutions are matrix products, and stay those of the roofline; batch norms and ReLUs move bytes there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from ...errors import InputError
from ...profiles.graph import CostModel, Operator, OperatorTimes, roofline
from ...profiles.hardware import DeviceSpec

__all__ = ["DEEPBENCH", "Measured", "Scaled", "Shares", "convolution_costs"]


@dataclass(frozen=True, slots=True)
class Measured:
    """A convolution that was timed: forward pass and both gradients.

    Parameters
    ----------
    side, kernel, samples, inputs, outputs : int
        Side of the square image (stride 1, padded) and of the filter; samples; channels.
    total_ms : float
        Milliseconds of the three passes.
    peak_tflops : float
        float32 peak of the device by its data sheet.
    device : str
        What it ran on.
    """

    side: int
    kernel: int
    samples: int
    inputs: int
    outputs: int
    total_ms: float
    peak_tflops: float
    device: str

    @property
    def share(self) -> float:
        """FLOPs of the direct algorithm, three passes, over what the peak does in the same time."""
        flops = 3 * 2 * self.samples * self.side**2 * self.kernel**2 * self.inputs * self.outputs
        return flops / (self.total_ms * 1e-3 * self.peak_tflops * 1e12)


DEEPBENCH = (
    Measured(54, 3, 8, 64, 64, 0.55, 15.7, "Tesla V100 FP32"),
    Measured(28, 5, 16, 192, 32, 0.93, 15.7, "Tesla V100 FP32"),
    Measured(7, 3, 16, 512, 512, 1.37, 11.3, "GTX 1080 Ti"),
)
"""Baidu's DeepBench, README, convolutions in training (github.com/baidu-research/DeepBench, commits a5a2b60 and
106e523). At a side of 7 V100 is listed in mixed precision only (0.70 ms, so float32 took longer: a share of at most
1.01); Pascal's stands in for it. These have 32 to 512 channels, Wide-ResNet's 3 x 3 convolutions 320 and more: that
shares go over to them is a guess, and they are swept."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of the float32 peak of convolutions with filters of 3 x 3 and more, by the side of their images.

    Parameters
    ----------
    large, middle, small : float
        At sides of 54 and more, of 28, and of 7 and less, each in (0, 2.25]: Winograd's algorithm for 3 x 3 saves at
        most 2.25 times the multiplications.

    Raises
    ------
    InputError
        If a share is not in that range.
    """

    large: float = DEEPBENCH[0].share
    middle: float = DEEPBENCH[1].share
    small: float = DEEPBENCH[2].share

    def __post_init__(self) -> None:
        for name in ("large", "middle", "small"):
            if not 0 < getattr(self, name) <= 2.25:
                raise InputError(f"shares: {name}: expected in (0, 2.25] (got {getattr(self, name)})")

    def at(self, side: float) -> float:
        """Share at a side, between the three linear in its logarithm."""
        known = ((7, self.small), (28, self.middle), (54, self.large))
        if side <= known[0][0]:
            return self.small
        for (a, low), (b, high) in pairwise(known):
            if side <= b:
                return low + (high - low) * math.log(side / a) / math.log(b / a)
        return self.large


@dataclass(frozen=True, eq=False)
class Scaled:
    """A cost model whose operators take `factor` times as long as those of another one."""

    base: CostModel
    factor: Callable[[Operator], float]
    source: str

    def times(self, op: Operator, parts: Mapping[str, int]) -> OperatorTimes:
        """Seconds on one device."""
        found, factor = self.base.times(op, parts), self.factor(op)
        if factor == 1.0:
            return found
        return OperatorTimes(
            factor * found.forward_s, factor * found.backward_input_s, factor * found.backward_weight_s
        )


def convolution_costs(device: DeviceSpec, shares: Shares | None, memory: float | None = None) -> CostModel:
    """A roofline whose convolutions have these shares (None: its own).

    Parameters
    ----------
    device : DeviceSpec
        The device.
    shares : Shares or None
        Of convolutions with filters of 3 x 3 and more.
    memory : float, optional
        Share of the memory bandwidth of batch norms, ReLUs and additions; the roofline's 0.8 if left out.
    """
    plain = roofline(device)
    base = plain if memory is None else replace(plain, rates=replace(plain.rates, memory=memory), _known={})
    if shares is None:
        return base
    wave = plain.rates.matmul * plain.rates.sustained  # of the peak, in the roofline's full tiles

    def factor(op: Operator) -> float:
        if op.kind != "convolution" or min(op.sizes[x] for x in _filter(op)) < 3:
            return 1.0
        side = max(op.sizes[group[0]] for group in op.parsed.result[-2:])
        return wave / shares.at(side)

    return Scaled(base, factor, f"{plain.source}; convolutions of 3 x 3 and more as DeepBench measured")


def _filter(op: Operator) -> tuple[str, str]:
    """The loops over a convolution's filter: the last two dimensions of its weight."""
    (first,), (second,) = op.parsed.operands[1][-2:]
    return first, second
