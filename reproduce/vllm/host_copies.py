"""What Fig. 19a needs a GPU for: blocks copied to the host and back, beside computing a prompt again.

``python -m meshwright.reproduce.vllm.host_copies`` prints both for OPT-13B, over block sizes, on the GPU that is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ...errors import InputError
from ...kernels.bandwidth import matmul_peak
from ...kernels.timing import time_callable
from ...profiles.llm import decoder
from .fig19 import SIZES, TOKENS

__all__ = ["Copied", "measured", "recomputed"]

COMMAND = "python -m meshwright.reproduce.vllm.host_copies"
MODEL = decoder("opt-13b")


@dataclass(frozen=True, slots=True)
class Copied:
    """Seconds to move a sequence out and in again.

    Parameters
    ----------
    block_size : int
        Tokens in a block.
    seconds : float
        Out and in.
    """

    block_size: int
    seconds: float


def measured(device: str = "cuda", sizes: Sequence[int] = SIZES, *, tokens: int = TOKENS) -> list[Copied]:
    """Copy the keys and the values of every block and layer one by one, as vLLM's swap does, out and in again."""
    width = MODEL.kv_heads * MODEL.head_dim
    found: list[Copied] = []
    for size in sizes:
        pieces = -(-tokens // size) * 2 * MODEL.layers
        there = torch.zeros(pieces, size * width, dtype=torch.float16, device=device)
        here = torch.zeros(pieces, size * width, dtype=torch.float16, pin_memory=device != "cpu")

        def both(there: torch.Tensor = there, here: torch.Tensor = here) -> None:
            for k in range(len(there)):
                here[k].copy_(there[k], non_blocking=True)
            for k in range(len(there)):
                there[k].copy_(here[k], non_blocking=True)

        found.append(Copied(size, time_callable(both, device, warmup=1, repeats=5, budget_s=5.0).median_s))
    return found


def recomputed(device: str = "cuda", *, size: int = 8192, tokens: int = TOKENS) -> float:
    """Seconds of the prompt's matrix products at the rate that the device reaches."""
    rate = matmul_peak(device, dtype="float16" if device != "cpu" else "float32", size=size)
    return 2.0 * MODEL.layers * MODEL.layer_weights * tokens / rate


def main() -> None:
    """Print the table.

    Raises
    ------
    InputError
        Where no GPU is.
    """
    if not torch.cuda.is_available():
        raise InputError(f"{COMMAND}: expected a CUDA device; torch finds none")
    again = recomputed()
    print(f"{torch.cuda.get_device_name()}: {TOKENS} tokens of OPT-13B, computed again: {1e3 * again:.1f} ms")
    for row in measured():
        swapped = f"{1e3 * row.seconds:.1f} ms, {row.seconds / again:.2f} of computing again"
        print(f"blocks of {row.block_size:3d}: out and in {swapped}")


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        raise SystemExit(str(error)) from None
