"""What it costs to move KV blocks between device and host memory (vLLM §5.4.5 and §5.7.3)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ....errors import InputError
from ....profiles.llm.decoder import DecoderSpec, precision_bytes
from ....reprs import Shown

__all__ = ["SwapCost"]


@dataclass(frozen=True, slots=True, repr=False)
class SwapCost(Shown):
    """Seconds of swapping blocks between device and host.

    Every block is a copy of its own for the keys and for the values of each layer, so small blocks waste the bus.
    One direction of `n` blocks takes ``n x 2 layers x max(start_s, piece_bytes / bandwidth)``: vLLM swaps before the
    model runs, and the step waits for it.

    Parameters
    ----------
    layers : int
        Layers on a device.
    piece_bytes : int
        Keys (or values) of one block in one layer on a device.
    start_s : float
        Least seconds of one copy, however small: what issuing it costs.
    bandwidth : float
        Bytes per second between host and device; PCIe 4.0 x16 reaches about 24 GB/s.

    Raises
    ------
    InputError
        On a value that is not positive (`start_s`: negative).
    """

    # Both fitted by hand to the vLLM thesis' §5.7.3 (1,024 tokens: 1.3 s in blocks of 1, 70 ms in blocks of 32) and not
    # measured: 8 µs is about a CUDA copy call, 24 GB/s what PCIe 4.0 x16 gives in practice.
    layers: int
    piece_bytes: int
    start_s: float = 8e-6
    bandwidth: float = 24e9

    def __post_init__(self) -> None:
        for name in ("layers", "piece_bytes", "bandwidth"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise InputError(f"swap cost: {name}: expected a finite value > 0 (got {value})")
        if not (math.isfinite(self.start_s) and self.start_s >= 0):
            raise InputError(f"swap cost: start_s: expected finite seconds >= 0 (got {self.start_s})")

    @classmethod
    def of(
        cls,
        model: DecoderSpec,
        block_size: int,
        *,
        tp: int = 1,
        kv: str = "float16",
        start_s: float = 8e-6,
        bandwidth: float = 24e9,
    ) -> SwapCost:
        """The cost for a model whose KV heads are split over `tp` devices."""
        piece = block_size * max(1, model.kv_heads // tp) * model.head_dim * precision_bytes(kv)
        return cls(model.layers, piece, start_s, bandwidth)

    def seconds(self, blocks: int) -> float:
        """Seconds to move `blocks` blocks one way."""
        return blocks * 2 * self.layers * max(self.start_s, self.piece_bytes / self.bandwidth)
