"""Experts of a batch: which of them a rank reads, what that takes by the roofline, sending tokens there and back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .....errors import InputError
from ...decoder import DecoderSpec
from ...experts import SKEW
from ...fullest_rank import fullest_rank
from ...tables.grid import EXTRAPOLATED, Grid
from ...tables.kernels import Operators, Peaks
from ...tables.operators import GEMM_BYTES, WEIGHT_ONLY
from ..parts import Parts

__all__ = ["ALONE", "ROUTING_KERNELS", "Spread", "expert_seconds", "measured_experts"]

Floats = NDArray[np.float64]
GROUPED_EFFICIENCY = 0.6
"""Share of the peak that products of experts reach where nothing was measured: tiles of few rows are padded."""
All2All = Literal["allgather_reducescatter", "deepep_high_throughput"]
ALL2ALL: tuple[All2All, ...] = ("allgather_reducescatter", "deepep_high_throughput")
"""Ways of vLLM's ``--all2all-backend`` that are priced; the first is its default."""
SENT = ("dispatch to experts", "combine experts")
ROUTING_KERNELS = 4
"""Small kernels around the experts: choosing, sorting by expert, activation, summing up."""


@dataclass(frozen=True, slots=True)
class Spread:
    """How requests and experts are spread over ranks.

    Parameters
    ----------
    tp, dp : int
        Degrees of tensor parallelism and of ranks with requests of their own that meet at the experts.
    ep : int
        Degree that experts are split by; each expert's width is split by ``tp dp / ep``.
    skew : float
        Spread of the experts' popularity (`experts.SKEW`).
    balanced : bool
        Whether ranks bear equally popular experts (`fullest_rank`).
    all2all : str
        How tokens reach their experts (`ALL2ALL`).

    Raises
    ------
    InputError
        On degrees below one, an `ep` that does not divide ``tp dp``, or another way to send tokens.
    """

    tp: int = 1
    dp: int = 1
    ep: int = 1
    skew: float = SKEW
    balanced: bool = False
    all2all: str = ALL2ALL[0]

    def __post_init__(self) -> None:
        for name in ("tp", "dp", "ep"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"{name}: expected an integer >= 1 (got {value!r})")
        skew: Any = self.skew
        if isinstance(skew, bool) or not isinstance(skew, int | float) or not 0 <= skew < math.inf:
            raise InputError(f"skew: expected a finite spread >= 0 (got {skew!r})")
        if not isinstance(self.balanced, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"balanced: expected true or false (got {self.balanced!r})")
        if self.all2all not in ALL2ALL:
            raise InputError(f"all2all: expected {' or '.join(ALL2ALL)} (got {self.all2all!r})")
        if self.tp * self.dp % self.ep:
            raise InputError(f"ep: {self.ep} does not divide the tp x dp = {self.tp * self.dp} ranks")

    @property
    def width(self) -> int:
        """Ranks that share each expert's width."""
        return self.tp * self.dp // self.ep

    def check(self, model: DecoderSpec) -> None:
        """Check that the model's experts can be spread in this way.

        Raises
        ------
        InputError
            On `ep` without experts, or one that does not divide them, or widths that do not divide.
        """
        if not model.experts:
            if self.ep > 1:
                raise InputError(f"ep: {model.name} has no experts; leave ep at 1")
            return
        if model.experts % self.ep:
            raise InputError(f"ep: {self.ep} does not divide the {model.experts} experts of {model.name}")
        if model.moe_ffn % self.width:
            raise InputError(
                f"ep: {self.width} ranks do not divide the {model.moe_ffn} columns of an expert of {model.name}; "
                "raise ep"
            )

    def fullest(self, model: DecoderSpec, tokens: Floats) -> tuple[Floats, Floats]:
        """Rows and distinct experts of the rank that all wait for in one layer, for the tokens of all ranks."""
        return fullest_rank(
            model.experts, model.experts_per_token, self.ep, tokens, float(self.skew), bool(self.balanced)
        )

    def exchanges(
        self, model: DecoderSpec, tokens: Floats, latency_s: float, bytes_per_s: float, number: float = 2.0
    ) -> list[Parts]:
        """Tokens to their experts and the sums back, where ranks have requests of their own.

        vLLM's default (``allgather_reducescatter``): each of the two sends ``(dp - 1) / dp`` of T x E numbers of two
        bytes. ``deepep_high_throughput`` sends each token once to every other rank that has an expert of its, in
        `number` bytes, and its sums back in two; the rank that most go to is waited for. Without such ranks every
        rank has all tokens, and the all-reduce after the layer adds up the experts.
        """
        if self.dp == 1:
            return []
        kind = np.full(len(tokens), EXTRAPOLATED)
        if self.all2all == ALL2ALL[0]:
            there = back = (self.dp - 1) / self.dp * tokens * model.hidden * 2
        else:
            rows, _ = self.fullest(model, tokens)
            even = np.maximum(tokens * model.experts_per_token / self.ep, 1e-9)
            copies = tokens / (self.tp * self.dp) * self._others(model) * model.hidden * np.maximum(rows / even, 1.0)
            there, back = copies * number, copies * 2
        seconds = (model.moe_layers * (latency_s + moved / bytes_per_s) for moved in (there, back))
        return [Parts(name, each, kind) for name, each in zip(SENT, seconds, strict=True)]

    def _others(self, model: DecoderSpec) -> float:
        """Other ranks that a token is sent to, in expectation, where all experts are as popular."""
        away = model.experts - model.experts // self.ep
        none = math.prod(max(0, away - i) / (model.experts - i) for i in range(model.experts_per_token))
        return (self.ep - 1) * (1 - none)


ALONE = Spread()
"""One rank."""


def expert_seconds(
    model: DecoderSpec, spread: Spread, tokens: Floats, operators: Operators, peaks: Peaks, dtype: str
) -> Parts:
    """Routing and experts of all layers on one rank: as measured for the very shape, or by the roofline.

    The roofline reads the distinct experts of the fullest rank once and computes its products; the slower counts.

    Parameters
    ----------
    model, spread
        The model, and how its experts are spread.
    tokens : array
        Tokens of all ranks.
    operators, peaks
        The tables and the roofline.
    dtype : str
        Name of the GEMMs' precision.
    """
    grid = measured_experts(model, spread, operators, dtype)
    if grid is not None:
        seconds, kind = grid.at(tokens)
        return Parts("experts", model.moe_layers * seconds, kind)
    size = GEMM_BYTES.get(dtype, 1.0)
    plain = size == 2 or dtype.endswith(WEIGHT_ONLY)
    flops = peaks.flops if plain else peaks.fp8_flops / size
    inner, rate = model.moe_ffn / spread.width, peaks.bandwidth_bytes_per_s
    weights = model.expert_weights / spread.width
    rows, distinct = spread.fullest(model, tokens)
    # Two bytes a number, each counted once: the row in and the row out (2 × hidden); gate, up and their product (3 ×
    # inner).
    read = distinct * weights * size + 2 * rows * (2 * model.hidden + 3 * inner)
    seconds = np.maximum(2 * rows * weights / (flops * GROUPED_EFFICIENCY), read / (rate * peaks.efficiency))
    seconds = seconds + ROUTING_KERNELS * peaks.kernel_s
    return Parts("experts", model.moe_layers * seconds, np.full(len(tokens), EXTRAPOLATED))


def measured_experts(model: DecoderSpec, spread: Spread, operators: Operators, dtype: str) -> Grid | None:
    """The table of this very shape and precision, if there is one."""
    shape = model.hidden, model.moe_ffn, model.experts, model.experts_per_token, spread.width, spread.ep
    return operators.moe.get((dtype, *shape))
