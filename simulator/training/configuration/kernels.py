"""Seconds of single kernels for arrays of sizes: GEMMs in waves of tiles, fused attention, streaming kernels."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ....errors import InputError
from ....profiles.hardware import DeviceSpec
from .rates import DeviceRates

if TYPE_CHECKING:
    from ....profiles.llm import KernelTables

__all__ = ["DTYPE_BYTES", "FP8", "Kernels"]

Floats = NDArray[np.float64]

DTYPE_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}
"""Bytes of one activation or parameter as it is computed with."""
FP8 = "fp8"
"""Transformer Engine's recipe: the products of a layer's matrices in 8 bits, all else in bf16."""
FP8_PEAK = 2.0
"""Rate of 8-bit matmuls over half precision: 1,979 of 989 TFLOP/s on an H100's data sheet."""
TF32 = 0.5
"""Rate of fp32 matmuls (TF32) over half precision, from Ampere on: 156 of 312 TFLOP/s on an A100's data sheet."""
TILES = ((128, 256, 1.0), (256, 128, 1.0), (128, 192, 0.97), (192, 128, 0.97), (128, 128, 0.96), (64, 128, 0.80))
"""Tiles that a GEMM library chooses from, and the rate of each over the best; from the same fit as `DeviceRates`."""


@dataclass(frozen=True, slots=True)
class Kernels:
    """Kernels on one device.

    Parameters
    ----------
    spec : DeviceSpec
        Its data sheet.
    rates : DeviceRates
        What it reaches of that.
    dtype : str
        "bf16", "fp16", "fp32" (TF32 products) or "fp8" (bf16, but 8-bit products of the layers' matrices).
    tables : KernelTables, optional
        Measured kernels; their GEMM grid replaces the tile model, at the same sustained clocks.
    devices : int
        Devices that wait for each other: products run at the clock of the slowest (`pace`).

    Raises
    ------
    InputError
        If the tables hold no GEMMs of this type, or the device has no 8-bit products.
    """

    spec: DeviceSpec
    rates: DeviceRates
    dtype: str = "bf16"
    tables: KernelTables | None = None
    devices: int = 1

    def __post_init__(self) -> None:
        if self.dtype == FP8:
            if not self.rates.fp8:
                raise InputError(
                    f"dtype: 'fp8' needs 8-bit tensor cores, Hopper or later (got {self.spec.name!r}); use 'bf16', or "
                    "give rates with fp8 > 0"
                )
            if self.tables is not None:
                raise InputError(
                    "tables: expected none with dtype 'fp8', since the GEMMs of serving tables count the casts of "
                    f"their inputs (got {self.tables.name!r})"
                )
        if self.tables is not None and (
            self.tables.operators is None or self.table_dtype not in self.tables.operators.gemm
        ):
            raise InputError(f"tables: expected GEMMs of {self.table_dtype} in {self.tables.name!r} (there are none)")

    @property
    def size(self) -> int:
        """Bytes of an activation or a parameter between kernels; two for "fp8"."""
        return DTYPE_BYTES.get(self.dtype, 2)

    @property
    def table_dtype(self) -> str:
        """What tables call `dtype`; half precisions run at one rate."""
        return "bfloat16" if self.size == 2 else "float32"

    @property
    def peak(self) -> float:
        """FLOP per second of the data sheet for the products of the layers' matrices."""
        return self.plain_peak * (FP8_PEAK if self.dtype == FP8 else 1.0)

    @property
    def plain_peak(self) -> float:
        """The same for all other products: attention, and the output layer."""
        return self.spec.peak_flops * (1.0 if self.size == 2 else TF32)

    @property
    def pace(self) -> float:
        """Expected clock of the slowest device over the mean one: normal clocks, with Blom's approximation of the
        expected largest of n values."""
        n = self.devices
        return 1.0 - self.rates.spread * (NormalDist().inv_cdf((n - 0.375) / (n + 0.25)) if n > 1 else 0.0)

    @property
    def clock(self) -> float:
        """`pace` at the level of published runs (`DeviceRates.level`)."""
        return self.pace * self.rates.level

    @property
    def stream(self) -> float:
        """Bytes per second of a streaming kernel."""
        return self.spec.memory_bandwidth_bytes_per_s * self.rates.memory

    def gemm(
        self, m: Any, n: Any, k: Any, *, batch: Any = 1, output_bytes: float | None = None, narrow: bool = False
    ) -> Floats:
        """Seconds of `batch` products [m, k] x [k, n] in one kernel.

        The slower of its bytes and its products: the tiles of the output are dealt to the multiprocessors in waves,
        the last of which may be nearly empty; the best of `TILES` counts.

        Parameters
        ----------
        m, n, k, batch : array
            Sizes.
        output_bytes : float, optional
            Bytes moved per element of the output; 8 where it is added to fp32 gradients. The fixed time of a wave is
            the store of its tiles (108 of them in half precision are 7 MB, 3 us of an A100's memory): it grows with
            these bytes.
        narrow : bool
            A product that "fp8" computes in 8 bits: inputs of one byte, at the rate of `DeviceRates.fp8`.
        """
        m, n, k, batch = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in (m, n, k, batch)))
        eight = narrow and self.dtype == FP8
        size = self.size
        written = size if output_bytes is None else output_bytes
        moved = batch * ((1 if eight else size) * (m * k + k * n) + written * m * n)
        if self.tables is not None and np.all(batch == 1):
            assert self.tables.operators is not None  # checked at the door
            measured = self.tables.operators.gemm[self.table_dtype].at(m, n, k)[0]
            return np.maximum(measured / (self.rates.sustained * self.clock), moved / self.stream)
        r = self.rates
        speed = (self.peak * r.fp8 if eight else self.plain_peak) * r.matmul * r.sustained * self.clock
        if not r.multiprocessors:
            return r.kernel_s + np.maximum(2 * batch * m * n * k / speed, moved / self.stream)
        store = r.wave_s * written / 2
        best = np.full(m.shape, np.inf)
        for rows, columns, share in TILES:
            waves = np.ceil(batch * np.ceil(m / rows) * np.ceil(n / columns) / r.multiprocessors)
            wave = 2.0 * rows * columns * k * r.multiprocessors / (speed * share) + store
            best = np.minimum(best, waves * wave)
        return r.kernel_s + np.maximum(best, moved / self.stream)

    def flash(
        self, tokens: Any, heads: Any, seq: Any, head_dim: float, *, backward: bool, generation: int = 0
    ) -> Floats:
        """Seconds of causal fused attention: half of the scores; the backward pass has five products for two.

        The share of the peak is ``asymptote x seq / (seq + half)``, less for narrow heads (0.8 of it at 64); which
        ones, `generation` says (`DeviceRates.flash`).
        """
        forward, back, half = self.rates.flash(generation)
        products = 2.0 * np.asarray(tokens, dtype=float) * seq * np.asarray(heads, dtype=float) * head_dim
        share = (back if backward else forward) * seq / (seq + half)
        share *= min(1.0, 0.6 + 0.4 * head_dim / 128)  # a line through the two head widths of the papers, 64 and 128
        return self.rates.kernel_s + (2.5 if backward else 1.0) * products / (self.plain_peak * self.clock * share)

    def streaming(self, n_bytes: Any, kernels: int = 1) -> Floats:
        """Seconds of element-wise kernels that move `n_bytes` in all."""
        return kernels * self.rates.kernel_s + np.asarray(n_bytes, dtype=float) / self.stream

    def beside(self, collective: Any, work: Any) -> Floats:
        """Seconds that a collective adds to work that it runs beside: what is longer than the work, and what its
        channels take from the work meanwhile. Nothing for no collective."""
        collective, work = np.asarray(collective, dtype=float), np.asarray(work, dtype=float)
        return np.maximum(collective - work, 0) + self.rates.contention * np.minimum(collective, work)
