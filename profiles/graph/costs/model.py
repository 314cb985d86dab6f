"""`CostModel`: the seconds that an operator takes on one device, forward and backward; `roofline` builds one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from ....errors import InputError
from ....reprs import Shown
from ...hardware import DeviceSpec
from ..operator import DTYPE_BYTES, Operator
from .rates import Rates, peak_flops, rates_of
from .shapes import Local, Product, local

if TYPE_CHECKING:
    from ...llm import Grid, KernelTables

__all__ = ["CostModel", "OperatorTimes", "Roofline", "roofline"]

TILES = ((128, 256, 1.0), (256, 128, 1.0), (128, 192, 0.97), (192, 128, 0.97), (128, 128, 0.96), (64, 128, 0.80))
"""Tiles that a GEMM library chooses from, and the rate of each over the best (as in the training estimates)."""
SPLITS = (1, 2, 4, 8, 16, 32, 64, 128)
LEAST_K = 128
"""Long sums of small results (gradients of weights) are cut into parts, each of `LEAST_K` at least, that run beside
each other; a second kernel reads their float32 results and adds them."""
PRODUCTS = frozenset({"contraction", "convolution", "dispatch"})
TABLE_DTYPE = "bfloat16"
"""What measured tables call half precision; both halves run at one rate."""


@dataclass(frozen=True, slots=True, repr=False)
class OperatorTimes(Shown):
    """Seconds of one operator on one device, one microbatch.

    Parameters
    ----------
    forward_s : float
        Seconds of the forward pass.
    backward_input_s : float
        Gradients of the activations that it reads.
    backward_weight_s : float
        Gradients of its weights: the operands without a loop that grows with the samples.
    """

    forward_s: float
    backward_input_s: float
    backward_weight_s: float

    @property
    def backward_s(self) -> float:
        """The whole backward pass."""
        return self.backward_input_s + self.backward_weight_s

    @property
    def total_s(self) -> float:
        """Forward and backward."""
        return self.forward_s + self.backward_s


class CostModel(Protocol):
    """Anything that knows how long operators take on one device."""

    @property
    def source(self) -> str:
        """What the seconds rest on."""
        ...

    def times(self, op: Operator, parts: Mapping[str, int]) -> OperatorTimes:
        """Seconds on one device, with each loop cut into so many pieces; loops that are not named are whole."""
        ...


NOTHING = OperatorTimes(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Roofline:
    """A roofline: each kernel takes the longer of its products and its bytes; see `roofline`."""

    device: DeviceSpec
    rates: Rates
    dtype: str | None
    grid: Grid | None
    source: str
    fp8: bool = False
    _known: dict[tuple[object, ...], OperatorTimes] = field(default_factory=dict[tuple[object, ...], OperatorTimes])

    def times(self, op: Operator, parts: Mapping[str, int]) -> OperatorTimes:
        """Seconds on one device; equal operators of repeated layers are computed once."""
        key = (
            *(op.kind, op.formula, op.loops, op.dtype, op.flops, op.saves, op.attributes.get("causal", False)),
            tuple(sorted(item for item in parts.items() if item[1] != 1)),
            op.layer >= 0 and self.fp8,
        )
        found = self._known.get(key)
        if found is None:
            # Integers and truth values keep their type: only what is computed in floating point changes with the
            # precision.
            if self.dtype is not None and op.dtype.startswith(("float", "bfloat")):
                op = replace(op, dtype=self.dtype)
            found = self._known[key] = self._times(local(op, parts))
        return found

    def _times(self, on: Local) -> OperatorTimes:
        op = on.operator
        if op.kind == "view":
            return NOTHING
        if op.kind in PRODUCTS and len(op.inputs) > 1:
            return self._products(on)
        if op.kind == "attention":
            return self._attention(on)
        if op.kind in ("call", "grouped"):
            return self._call(on)
        return self._streams(on)

    def _products(self, on: Local) -> OperatorTimes:
        seconds, saves = {True: 0.0, False: 0.0}, set(on.operator.saves)
        operands = set(range(len(on.operator.inputs)))
        op = on.operator
        weighs = op.kind == "contraction" and any(map(on.is_weight, operands))
        eight = self.fp8 and weighs and op.layer >= 0 and DTYPE_BYTES[op.dtype] == 2
        for k in sorted(operands):
            if saves and not operands - {k} <= saves:
                continue  # what its gradient would be made of is not kept: it has none (images, masks)
            seconds[on.is_weight(k)] += self.product_s(on.gradient(k), op.dtype, eight)
        return OperatorTimes(self.product_s(on.forward(), op.dtype, eight), seconds[False], seconds[True])

    def product_s(self, p: Product, dtype: str, eight: bool = False) -> float:
        """Seconds of a matrix product: tiles of its result, dealt to the multiprocessors in waves, or its bytes.

        Measured tables replace the tiles where there is one product of a type that they hold. `eight`: in 8 bits. What
        makes an operand writes its 8-bit copy, which is read: as many bytes as a half-precision operand that is read.
        """
        r, peak = self.rates, peak_flops(self.device, dtype) * (self.rates.eight if eight else 1.0)
        moved_s = p.bytes / self.stream
        if self.grid is not None and p.batch == 1 and DTYPE_BYTES[dtype] == 2:
            return max(float(self.grid.at(p.m, p.n, p.k)[0]) / r.sustained, moved_s)
        speed = peak * r.matmul * r.sustained
        if not r.multiprocessors:
            return r.kernel_s + max(p.flops / speed, moved_s)
        store, best = r.wave_s * DTYPE_BYTES[dtype] / 2, math.inf
        for rows, columns, share in TILES:
            tiles = p.batch * math.ceil(p.m / rows) * math.ceil(p.n / columns)
            for splits in SPLITS:
                # Splitting pays only while tiles do not fill the device: libraries stop at about two waves.
                if splits > 1 and (p.k < splits * LEAST_K or tiles * splits >= 2 * r.multiprocessors):
                    break
                waves = math.ceil(tiles * splits / r.multiprocessors)
                wave = 2.0 * rows * columns * p.k / splits * r.multiprocessors / (speed * share) + store
                # Each part's float32 result is written and read again.
                added = 2 * splits * 4 * p.batch * p.m * p.n / self.stream + r.kernel_s if splits > 1 else 0.0
                best = min(best, waves * wave + added)
        return r.kernel_s + max(best, moved_s)

    def _attention(self, on: Local) -> OperatorTimes:
        """Fused attention: the share of the peak grows with the sequence; five products backward for two forward."""
        op, r = on.operator, self.rates
        query = {x for dims in op.parsed.operands[0] for x in dims}
        keys = [on.sizes[x] for x in op.parsed.reduced if x not in query]
        seq = max(keys, default=1.0)
        # Fused kernels skip the tiles above the diagonal, half of the scores.
        flops = on.flops * (0.5 if op.attributes.get("causal") else 1.0)
        peak = peak_flops(self.device, op.dtype) * seq / (seq + r.flash_half_seq)
        moved = (sum(on.operand_bytes) + on.result_bytes) / self.stream
        forward = r.kernel_s + max(flops / (peak * r.flash_forward), moved)
        # 2.5 times: the backward pass has five products where the forward pass has two (it computes the scores again).
        return OperatorTimes(forward, r.kernel_s + max(2.5 * flops / (peak * r.flash_backward), 2 * moved), 0.0)

    def _call(self, on: Local) -> OperatorTimes:
        """A call of torch, or grouped rows: the longer of its FLOPs and its tensors' bytes; backward twice that."""
        flops = on.flops / (peak_flops(self.device, on.operator.dtype) * self.rates.matmul * self.rates.sustained)
        moved = (sum(on.operand_bytes) + on.result_bytes) / self.stream
        once = self.rates.kernel_s + max(flops, moved)
        weights = any(on.is_weight(k) for k in range(len(on.operand_bytes)))
        return OperatorTimes(once, once if weights else 2 * once, once if weights else 0.0)

    def _streams(self, on: Local) -> OperatorTimes:
        """Price the operators that only move bytes. What XLA fuses has no kernel of its own and reads nothing twice.

        Elementwise: a chain of them is one kernel that reads what goes in and writes what comes out: each counts its
        result once (right for chains of two) and operands of that size after the first. Backward, it writes one
        gradient and reads what was saved; with nothing saved (sums) gradients pass. Gradients of smaller operands are
        sums over the result's gradient. Norm, softmax: one kernel sums (read), one applies (read, write); backward the
        same of two tensors. Gate: a few passes over masks as large as its result. Loss: reads the logits twice,
        backward reads and writes them. Embedding: rows read and written; backward they are added to a cleared table.
        """
        op = on.operator
        result, operands = on.result_bytes, on.operand_bytes
        kernel = self.rates.kernel_s
        small = [k for k, size in enumerate(operands) if on.is_weight(k) and size < result]
        sums = result if small else 0.0
        if op.kind == "elementwise" or op.attributes.get("statistics") == "running":
            read = sum(size for size in operands[1:] if size >= result)
            back = (1 + len(op.saves)) * result if op.saves else 0.0
            return OperatorTimes(
                (result + read) / self.stream, back / self.stream, (kernel + sums / self.stream) if small else 0.0
            )
        largest = max(operands, default=0.0)
        forward, back, weight = largest + result, largest + result, 0.0
        if op.kind in ("norm", "softmax"):
            forward, back, weight = 2 * largest + result, 4 * largest + result, sums
        elif op.kind == "gate":
            forward, back = largest + 3 * result, largest + 2 * result
        elif op.kind == "loss":
            forward, back = 2 * largest, 2 * largest
        elif op.kind == "embedding":
            forward, back, weight = 2 * result, 0.0, 3 * result + largest
        kernels = 2 if op.kind in ("norm", "softmax", "loss") else 1
        return OperatorTimes(
            kernels * kernel + forward / self.stream,
            kernels * kernel + back / self.stream if back else 0.0,
            kernel + weight / self.stream if weight else 0.0,
        )

    @property
    def stream(self) -> float:
        """Bytes per second of streaming kernels."""
        return self.device.memory_bandwidth_bytes_per_s * self.rates.memory


def roofline(
    device: DeviceSpec, dtype: str | None = None, tables: KernelTables | None = None, *, fp8: bool = False
) -> Roofline:
    """Cost model of one type of device: products by shape, everything else by its bytes.

    Time of a kernel = launch + max(products, bytes / (bandwidth x share)). Products: tiles in waves at the family's
    share of the peak, or measured GEMMs; a convolution is its implicit GEMM; the gradients of each operand are
    products of their own. Shares by family: `costs.rates`, none fitted to a training run.

    Parameters
    ----------
    device : DeviceSpec
        The device, with the rates of its data sheet.
    dtype : str, optional
        Type that all floating-point operators are computed in; by default each in its own.
    tables : KernelTables, optional
        Measured GEMMs (A100, H100, H200), for half-precision products without a batch.
    fp8 : bool
        Whether half-precision products with weights of repeated layers are computed in 8 bits, forward and backward, as
        Transformer Engine does. Bytes, memory and everything else stay half precision's: it is a cost alone.

    Raises
    ------
    InputError
        If the device has no FLOP/s or bandwidth, the type is unknown, the tables hold no half-precision GEMMs, or 8-bit
        products are asked for of a device that has none, or of tables.
    """
    rates = rates_of(device)
    if fp8 and not rates.eight:
        raise InputError(f"roofline: fp8 needs 8-bit tensor cores, Hopper or later (got {device.name!r})")
    if fp8 and tables is not None:
        raise InputError(f"roofline: fp8: expected no tables, which hold half-precision products (got {tables.name!r})")
    if dtype is not None and dtype not in DTYPE_BYTES:
        raise InputError(f"roofline: unknown dtype {dtype!r}; known: {', '.join(DTYPE_BYTES)}")
    grid: Grid | None = None
    source = f"roofline of {device.name} ({rates.source})"
    if tables is not None:
        if tables.operators is None or TABLE_DTYPE not in tables.operators.gemm:
            raise InputError(f"tables: expected GEMMs of {TABLE_DTYPE} in {tables.name!r} (there are none)")
        grid = tables.operators.gemm[TABLE_DTYPE]
        source += f"; GEMMs measured: {tables.source or tables.name}"
    source += "; products of layers' weights in 8 bits" if fp8 else ""
    return Roofline(device, rates, dtype, grid, source, fp8)
