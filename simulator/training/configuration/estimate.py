"""`estimate` and `estimate_many`: a training configuration given by hand, its iteration time and peak memory."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ....errors import InfeasibleError, InputError
from ...cluster import Cluster
from .activations.decide import decide, layers_of
from .activations.fit import Chosen
from .activations.said import again_flops, tensor_uses
from .columns import RECOMPUTE, Columns
from .iteration import TimeColumns, iteration
from .kernels import Kernels
from .layer_costs import NONE
from .memory import Memory, memory, outside_bytes
from .model import TransformerShape, shape_of
from .rates import CORE, MEGATRON_2022, DeviceRates, Stack, rates_of
from .result import Breakdown, Estimate, Estimates, MemoryParts
from .settings import Settings
from .weights import STATE_BYTES

if TYPE_CHECKING:
    from ....profiles.llm import KernelTables

__all__ = ["MARGIN", "costs_of", "estimate", "estimate_many", "kernels_of"]

GIB = 2**30
HOPPER_FLOPS = 900e12
"""Half-precision FLOP/s above which a device counts as Hopper or later, and runs software of its time (`CORE`): an
H100 SXM has 989e12, an A100 312e12. Slower Hopper cards (H100 PCIe, 756e12) fall below it: give `stack` for them."""
SHORT = 1024
"""Longest sequences that Megatron-LM of 2021-2022 trained with scores in memory and nothing recomputed."""
MARGIN = 0.10
"""A configuration is refused only if it exceeds the device's memory by more than this share, which the estimate may be
wrong by. A round figure."""


def estimate(
    model: object,
    cluster: Cluster,
    *settings: Any,
    tables: KernelTables | None = None,
    stack: Stack | None = None,
    rates: DeviceRates | None = None,
    check_memory: bool = True,
    memory_bytes: float | None = None,
    **named: Any,
) -> Estimate:
    """Iteration time, peak memory and MFU of one training configuration.

    Parameters
    ----------
    model : TransformerShape, mapping or object
        ``layers, hidden, heads, kv_heads, ffn, vocab, seq, gated`` (see `TransformerShape`).
    cluster : Cluster
        Devices and links; its inter-node bandwidth is that of one network adapter.
    *settings, **named
        The configuration: fields of `Settings`, in their order or by name. These are ``tp, pp, dp, microbatch,
        global_batch`` and, optionally, ``interleave, recompute, sequence_parallel, zero, dtype``.
    tables : KernelTables, optional
        Measured GEMMs in place of the tile model.
    stack : Stack, optional
        Training software. By default `MEGATRON_2022` for what its papers trained: GPT with full heads and sequences of
        at most 2,048 tokens, recomputing (at most 1,024: recomputing or not), on devices before Hopper. Else `CORE`.
        Name one to compare configurations.
    rates : DeviceRates, optional
        What the device reaches of its data sheet, for devices without shipped rates.
    check_memory : bool
        Whether to refuse a configuration that exceeds the memory by more than `MARGIN`; otherwise only `Estimate.fits`
        says so.
    memory_bytes : float, optional
        Bytes of a device that a choice of what to recompute and to offload may fill; by default all that it has.

    Returns
    -------
    Estimate
        ``.seconds, .peak_bytes, .mfu, .fits, .breakdown, .explain()``

    Raises
    ------
    InputError
        On an impossible configuration; the message says what to change.
    InfeasibleError
        If the device's memory is too small; the message names what would help.
    """
    asked = Settings(*settings, **named)
    shape, columns = shape_of(model), asked.columns
    kernels = kernels_of(cluster, asked.dtype, tables, rates)
    code = int(columns.problems(shape, cluster)[0])
    if code:
        raise InputError(f"estimate: {columns.say(0, code, shape, cluster)}")
    used = stack or _stack(shape, cluster, int(columns.recompute[0]))
    limit = cluster.spec.memory_bytes if memory_bytes is None else memory_bytes
    chosen = decide(shape, cluster, kernels, used, columns, limit)
    times = iteration(shape, cluster, kernels, used, columns, chosen)
    held = memory(shape, used, columns, asked.dtype, chosen.held if chosen else None)
    parts = _memory_parts(held, used)
    if check_memory:
        _refuse(shape, cluster, columns, parts)
    flops = shape.model_flops(int(asked.global_batch))
    seconds = float(times.total[0])
    return Estimate(
        seconds,
        parts.total,
        flops / (seconds * cluster.n_devices * kernels.peak),
        parts.device <= cluster.spec.memory_bytes,
        Breakdown(
            times.row(0),
            parts,
            int(columns.microbatches[0]),
            flops,
            _hardware_flops(shape, used, columns, chosen),
            shape.params,
            used.name,
            kernels.rates.said if tables is None else f"tables: {tables.source}; else {kernels.rates.said}",
            ()
            if chosen is None
            else tensor_uses(shape, used, layers_of(shape, cluster, kernels, used, columns), chosen),
        ),
    )


def _hardware_flops(shape: TransformerShape, stack: Stack, c: Columns, chosen: Chosen | None) -> int:
    batch = int(c.global_batch[0])
    if chosen is None:
        return shape.hardware_flops(batch, RECOMPUTE[int(c.recompute[0])])
    return shape.model_flops(batch) + batch * shape.seq * again_flops(shape, stack, chosen)


def estimate_many(
    model: object,
    cluster: Cluster,
    *,
    dtype: str = "bf16",
    tables: KernelTables | None = None,
    stack: Stack | None = None,
    rates: DeviceRates | None = None,
    memory_bytes: float | None = None,
    **columns: Any,
) -> Estimates:
    """`estimate` for many configurations at once, in array operations.

    Rows that `estimate` would refuse are NaN, with the reason in `Estimates.problem`; they raise nothing.

    Parameters
    ----------
    model, cluster, dtype, tables, stack, rates, memory_bytes
        As in `estimate`, for all rows.
    **columns
        Fields of `Settings` but for the type, each an array of shape (rows,) or one value for all rows. `recompute` is
        a column of words, or of indices into ("none", "selective", "full", "chosen").

    Returns
    -------
    Estimates
        Arrays of shape (rows,): seconds, bytes, MFU, whether it fits, and what is wrong with a row.

    Raises
    ------
    InputError
        On what concerns all rows: model, device, dtype, columns of unequal length or wrong type.
    """
    shape = shape_of(model)
    kernels = kernels_of(cluster, dtype, tables, rates)
    asked = Columns.of(**columns)
    problem = asked.problems(shape, cluster)
    count = len(problem)
    limit = cluster.spec.memory_bytes if memory_bytes is None else memory_bytes
    seconds, peak = np.full(count, np.nan), np.full(count, -1, dtype=np.int64)
    device = np.full(count, -1, dtype=np.int64)
    groups: dict[Stack, list[int]] = {}
    for code in range(len(RECOMPUTE)):
        groups.setdefault(stack or _stack(shape, cluster, code), []).append(code)
    for used, codes in groups.items():
        rows = np.flatnonzero((problem == 0) & np.isin(asked.recompute, codes))
        if not len(rows):
            continue
        seconds[rows], peak[rows], device[rows] = costs_of(shape, cluster, kernels, used, asked.take(rows), limit)
    flops = 3.0 * asked.global_batch * shape.seq * sum(shape.forward_flops())
    mfu = flops / (seconds * cluster.n_devices * kernels.peak)
    fits = (problem == 0) & (device <= cluster.spec.memory_bytes)
    return Estimates(seconds, peak, mfu, fits, device, problem)


def costs_of(
    shape: TransformerShape, cluster: Cluster, kernels: Kernels, stack: Stack, c: Columns, limit: float
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Seconds, peak bytes and bytes of the device of configurations that break no rule; `limit`: bytes of a device that
    choices of what to recompute and to offload may fill."""
    chosen = decide(shape, cluster, kernels, stack, c, limit)
    times: TimeColumns = iteration(shape, cluster, kernels, stack, c, chosen)
    total: Any = sum(memory(shape, stack, c, kernels.dtype, chosen.held if chosen else None).rounded)
    return times.total, total, total + outside_bytes(total, stack)


def kernels_of(cluster: Cluster, dtype: str, tables: KernelTables | None, rates: DeviceRates | None) -> Kernels:
    """Kernels on a cluster's devices.

    Raises
    ------
    InputError
        On what is no cluster, a device without rates, or a dtype that is not known or that it does not have.
    """
    if not isinstance(cluster, Cluster):
        raise InputError(f"cluster: expected a simulator.Cluster (got {type(cluster).__name__})")
    if dtype not in STATE_BYTES:
        raise InputError(f"dtype: expected one of {', '.join(STATE_BYTES)} (got {dtype!r})")
    found = rates_of(cluster.spec)
    return Kernels(cluster.spec, rates or found, dtype, tables, cluster.n_devices)


def _stack(shape: TransformerShape, cluster: Cluster, recompute: int) -> Stack:
    later = cluster.spec.peak_flops > HOPPER_FLOPS or shape.gated or shape.kv_heads < shape.heads or shape.seq > 2048
    return CORE if later or (recompute == NONE and shape.seq > SHORT) else MEGATRON_2022


def _memory_parts(held: Memory, stack: Stack) -> MemoryParts:
    parts = [int(part[0]) for part in held.rounded]
    parameters, gradients, optimizer, activations, ends, workspace = parts
    outside = int(outside_bytes(sum(parts), stack))
    return MemoryParts(parameters, gradients, optimizer, activations, ends, workspace, outside)


def _refuse(shape: TransformerShape, cluster: Cluster, c: Columns, parts: MemoryParts) -> None:
    """Raise where the device is too small, and say what would help."""
    have = cluster.spec.memory_bytes
    if parts.device <= have * (1 + MARGIN):
        return
    states = parts.parameters + parts.gradients + parts.optimizer
    ways: list[str] = []
    if states > have / 2:
        ways.append("larger tp or pp" + ("" if c.zero[0] or c.dp[0] == 1 else ", or zero=1"))
    if parts.activations + parts.ends + parts.workspace > have / 4:
        ways.append(" or ".join(
            (["microbatch=1"] if c.microbatch[0] > 1 else [])
            + (["recompute='full'"] if c.recompute[0] != RECOMPUTE.index("full") else ["larger tp"])
        ))  # fmt: skip
    raise InfeasibleError(
        f"estimate: {shape.params / 1e9:.1f} B parameters do not fit: {parts.device / GIB:.1f} GiB needed on the "
        f"fullest {cluster.spec.name}, which has {have / GIB:.0f} GiB ({states / GIB:.1f} GiB of them parameters, "
        f"gradients and optimizer); try {', or '.join(ways) or 'larger pp'}"
    )
