"""What an estimate says: seconds, bytes, MFU, and every part of the first two."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from ....reprs import Shown
from .activations.said import TensorUse, tensor_lines
from .rules import PROBLEMS

__all__ = ["Breakdown", "Estimate", "Estimates", "MemoryParts", "TimeParts"]

GIB = 2**30


@dataclass(frozen=True, slots=True, repr=False)
class TimeParts(Shown):
    """Parts of an iteration's seconds on the slowest stage. They add up; in all but `bubble` its device is busy.

    Parameters
    ----------
    forward_gemm, forward_attention, forward_element : float
        Layers' forward passes: matrix products, attention core, streaming kernels.
    backward_gemm, backward_attention, backward_element : float
        Layers' backward passes, without what is recomputed.
    recompute : float
        Forward work done again, with its communication.
    offload : float
        Waiting for activations on their way to the host and back.
    tensor_parallel : float
        All-reduces, or reduce-scatters and all-gathers, that no product hides.
    context_parallel : float
        Keys and values on their way to other parts of their sequences, that no attention hides.
    expert_parallel : float
        Tokens on their way to their experts and back, that nothing hides.
    launch : float
        Waiting for the host to launch kernels.
    ends : float
        Embedding or output layer and loss, whichever the slowest stage has.
    bubble : float
        Filling and draining the pipeline.
    pipeline_transfer : float
        Sends between stages that no work hides.
    data_parallel : float
        Reduction of gradients and gathering of parameters that no work hides.
    tied_embedding : float
        The sum of the tied embedding's two gradients over the first and the last stage.
    optimizer : float
        Norms and the Adam step.
    host : float
        Host work of an iteration: what is fixed, and the optimizer's loops over parameter tensors.
    """

    forward_gemm: float
    forward_attention: float
    forward_element: float
    backward_gemm: float
    backward_attention: float
    backward_element: float
    recompute: float
    offload: float
    tensor_parallel: float
    context_parallel: float
    expert_parallel: float
    launch: float
    ends: float
    bubble: float
    pipeline_transfer: float
    data_parallel: float
    tied_embedding: float
    optimizer: float
    host: float

    @property
    def total(self) -> float:
        """Seconds of the iteration."""
        return sum(getattr(self, field.name) for field in fields(self))


@dataclass(frozen=True, slots=True, repr=False)
class MemoryParts(Shown):
    """Bytes at the allocator's peak on the fullest device (`memory.Memory`), and what lies outside the allocator."""

    parameters: int
    gradients: int
    optimizer: int
    activations: int
    ends: int
    workspace: int
    outside: int

    @property
    def total(self) -> int:
        """What the allocator has handed out at its peak: all parts but `outside`."""
        return sum(getattr(self, field.name) for field in fields(self)) - self.outside

    @property
    def device(self) -> int:
        """What the device must have: the peak, and context, NCCL and fragmentation."""
        return self.total + self.outside


@dataclass(frozen=True, slots=True, repr=False)
class Breakdown(Shown):
    """What an estimate consists of.

    Parameters
    ----------
    time, memory
        Parts of the iteration time and of the peak memory.
    microbatches : int
        Microbatches of each pipeline.
    model_flops, hardware_flops : int
        FLOPs of one iteration, without and with what is recomputed.
    params : int
        Parameters of the model.
    stack : str
        Training software that was modelled.
    source : str
        Where the device's rates come from.
    tensors : tuple of TensorUse
        What becomes of each class of tensors that a layer keeps, where it was chosen.
    """

    time: TimeParts
    memory: MemoryParts
    microbatches: int
    model_flops: int
    hardware_flops: int
    params: int
    stack: str
    source: str
    tensors: tuple[TensorUse, ...] = ()

    def explain(self) -> str:
        """Parts of time and of memory, largest first, as text."""
        lines = [f"{self.params / 1e9:.2f} B parameters, {self.microbatches} microbatches, {self.stack}"]
        lines.append(f"iteration {self.time.total:.4g} s")
        rows = sorted(((getattr(self.time, f.name), f.name) for f in fields(self.time)), reverse=True)
        lines += [f"  {name:<18}{s:>11.4g} s {s / self.time.total:>7.1%}" for s, name in rows if s > 0]
        lines.append(f"memory {self.memory.total / GIB:.2f} GiB, {self.memory.device / GIB:.2f} with what is outside")
        held = sorted(((getattr(self.memory, f.name), f.name) for f in fields(self.memory)), reverse=True)
        lines += [f"  {name:<18}{n / GIB:>9.2f} GiB" for n, name in held if n > 0]
        lines += tensor_lines(self.tensors) if self.tensors else []
        lines.append(f"rates: {self.source}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, repr=False)
class Estimate(Shown):
    """Estimated time, memory and MFU of one training configuration.

    Parameters
    ----------
    seconds : float
        Seconds of one iteration.
    peak_bytes : int
        Allocator's peak on the fullest device (``torch.cuda.max_memory_allocated``).
    mfu : float
        Model FLOPs utilisation: model FLOPs over the peak FLOPs of all devices in that time.
    fits : bool
        Whether peak, context, buffers and fragmentation fit into the device's memory.
    breakdown : Breakdown
        All parts of the time and of the memory.
    """

    seconds: float
    peak_bytes: int
    mfu: float
    fits: bool
    breakdown: Breakdown

    @property
    def hfu(self) -> float:
        """Hardware FLOPs utilisation: what is recomputed counts as well."""
        return self.mfu * (self.breakdown.hardware_flops / self.breakdown.model_flops)

    def explain(self) -> str:
        """The result in a line, and its parts."""
        said = f"{self.seconds:.4g} s per iteration, MFU {self.mfu:.1%}, peak {self.peak_bytes / GIB:.2f} GiB"
        return f"{said}{'' if self.fits else ', does NOT fit'}\n{self.breakdown.explain()}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Estimates(Shown):
    """Estimates of many training configurations, one per row.

    Parameters
    ----------
    seconds, mfu : array of float64
        As in `Estimate`; NaN where the configuration is impossible.
    peak_bytes, device_bytes : array of int64
        Allocator's peak, and with what lies outside it; -1 where impossible.
    fits : array of bool
        Whether the configuration is possible and within the device's memory.
    problem : array of int64
        The rule that the configuration breaks, an index into `rules.PROBLEMS`; 0 for none.
    """

    seconds: NDArray[np.float64]
    peak_bytes: NDArray[np.int64]
    mfu: NDArray[np.float64]
    fits: NDArray[np.bool_]
    device_bytes: NDArray[np.int64]
    problem: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.seconds)

    @property
    def best(self) -> int | None:
        """Row of the fastest configuration that fits, the first of equals; None if none does."""
        if not self.fits.any():
            return None
        return int(np.argmin(np.where(self.fits, self.seconds, np.inf)))

    def why(self, row: int) -> str:
        """The rule that a row breaks; empty for none."""
        return PROBLEMS[int(self.problem[row])]
