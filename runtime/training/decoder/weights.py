"""Values of parameters: from a seed, the same in every cut; from a file; and whole again for one."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor

from .mesh import Ranks
from .model import Chunk

__all__ = ["from_seed", "from_values", "load", "save", "whole"]

Fill = Callable[[str, Tensor], None]


def from_seed(seed: int) -> Fill:
    """Normal values of standard deviation 0.02, norms one and biases zero, by the parameter's name."""

    def fill(name: str, x: Tensor) -> None:
        part = name.split(".")[-2]
        if name.endswith("bias"):
            x.zero_()
        elif part.startswith("norm"):
            x.fill_(1.0)
        else:
            digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
            generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))
            x.copy_(torch.randn(x.shape, generator=generator, dtype=torch.float32).mul_(0.02))

    return fill


def from_values(values: Mapping[str, Tensor]) -> Fill:
    """Values by name.

    Raises
    ------
    ValueError
        When filling, on a parameter that is missing or has another shape.
    """

    def fill(name: str, x: Tensor) -> None:
        if name not in values:
            raise ValueError(f"weights: no {name!r} among them; expected the decoder's own names")
        if values[name].shape != x.shape:
            raise ValueError(f"weights: {name!r}: expected shape {tuple(x.shape)} (got {tuple(values[name].shape)})")
        x.copy_(values[name])

    return fill


def load(path: str | Path) -> dict[str, Tensor]:
    """A state dict from a file of `torch.save`, or a ``.safetensors`` file where safetensors is installed."""
    if str(path).endswith(".safetensors"):
        from safetensors.torch import load_file

        return load_file(path)
    return torch.load(path, map_location="cpu", weights_only=True, mmap=True)


def save(values: Mapping[str, Tensor], path: str | Path) -> None:
    """Write a state dict; the file is whole or not there."""
    part = Path(f"{path}.part")
    if str(path).endswith(".safetensors"):
        from safetensors.torch import save_file

        save_file({name: x.contiguous() for name, x in values.items()}, part)
    else:
        torch.save(dict(values), part)
    part.replace(path)


def whole(chunks: list[Chunk], ranks: Ranks, of: Callable[[Tensor], Tensor | None] = lambda x: x) -> dict[str, Tensor]:
    """Every parameter (or what `of` makes of it: its gradient) in one piece, on rank 0; elsewhere nothing is returned.

    All ranks call it. One parameter at a time is put together.
    """
    logging.getLogger("torch.distributed.tensor._redistribute").setLevel(logging.ERROR)  # two gathers: here, none minds
    found = dict[str, Tensor]()
    for chunk in chunks:
        for name, x in chunk.named_parameters():
            value = of(x.detach() if of(x) is x else x)
            if value is None:
                continue
            value = value.full_tensor() if isinstance(value, DTensor) else value
            if ".bank." in name and ranks.sparse["ep"].size() > 1:
                parts = [torch.empty_like(value) for _ in range(ranks.sparse["ep"].size())]
                dist.all_gather(parts, value.contiguous(), group=ranks.sparse.get_group("ep"))
                value = torch.cat(parts)
            if ranks.first_of_stage and not (name == "output.weight" and chunk.tied):
                found[name] = value.cpu()
    everyone: list[dict[str, Tensor] | None] = [None] * dist.get_world_size()
    dist.gather_object(found, everyone if dist.get_rank() == 0 else None)
    return {name: x for part in everyone if part for name, x in part.items()} if dist.get_rank() == 0 else {}
