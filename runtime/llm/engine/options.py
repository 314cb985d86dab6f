"""`EngineConfig`: where and how an engine computes; what it decides is the policy's own options."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ....errors import InputError

__all__ = ["EngineConfig"]


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """On which devices, in which number format and with which kernels an engine computes.

    Parameters
    ----------
    device : str
        ``"cpu"`` or ``"cuda"``; rank r of several runs on ``cuda:r``.
    dtype : str
        Number format of weights, activations, keys and values: ``"float32"``, ``"bfloat16"``, ``"float16"`` or
        ``"float64"``.
    seed : int
        Seed of the weights, and of sampling for requests without a seed.
    tp, cp : int
        Degrees of tensor parallelism and of cache parallelism (shards of every sequence, each on `tp` processes);
        ``tp * cp`` processes run.
    threads : int, optional
        Torch threads of each process on a CPU, 1 by default; None leaves this process's number as it is.
    backend : {"auto", "torch", "triton"}
        Which attention and cache kernels to use.
    cuda_graphs : bool
        Capture decode steps as CUDA graphs (one GPU).
    graph_sequences : int
        Largest decode batch that is captured.
    timeout_s : float
        Longest wait for another process, seconds.

    Raises
    ------
    InputError
        On a value out of its range.
    """

    device: str = "cpu"
    dtype: str = "float32"
    seed: int = 0
    tp: int = 1
    cp: int = 1
    threads: int | None = 1
    backend: str = "auto"
    cuda_graphs: bool = True
    graph_sequences: int = 256
    timeout_s: float = 120.0

    def __post_init__(self) -> None:
        if self.device.partition(":")[0] not in ("cpu", "cuda"):
            raise InputError(f"device: expected cpu or cuda (got {self.device!r})")
        if ":" in self.device and self.tp * self.cp > 1:
            raise InputError(f"device: several processes take GPUs in order; expected cuda (got {self.device!r})")
        for name, least in (("tp", 1), ("cp", 1), ("seed", 0), ("graph_sequences", 1), ("threads", 1)):
            value: Any = getattr(self, name)
            if name == "threads" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(f"{name}: expected an integer >= {least} (got {value!r})")
        if self.backend not in ("auto", "torch", "triton"):
            raise InputError(f"backend: expected auto, torch or triton (got {self.backend!r})")
        if not (math.isfinite(self.timeout_s) and self.timeout_s > 0):
            raise InputError(f"timeout_s: expected finite seconds > 0 (got {self.timeout_s})")

    @property
    def world(self) -> int:
        """Processes in all."""
        return self.tp * self.cp

    @property
    def cuda(self) -> bool:
        """Whether it runs on GPUs."""
        return self.device.startswith("cuda")

    def check_device(self) -> None:
        """See that the device is there.

        Raises
        ------
        InputError
            If not.
        """
        if not self.cuda:
            return
        import torch

        have = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if have < self.world:
            raise InputError(
                f"device: {self.device} with tp {self.tp} and cp {self.cp} needs {self.world} GPUs, torch "
                f"{torch.__version__} finds {have}; use device='cpu' or fewer"
            )

    def device_of(self, rank: int) -> str:
        """Torch device of a rank."""
        return f"cuda:{rank}" if self.device == "cuda" and self.world > 1 else self.device
