"""A chunk of layers is cut over ranks: products by DTensor, tokens and experts by groups, the rest by `fully_shard`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from .config import Config
from .context import all_to_all_attention, positions_of, ring_attention
from .experts import Experts
from .mesh import Ranks
from .model import Chunk, Layer

__all__ = ["Cutter"]

PRODUCTS = {"attention.q": 0, "attention.k": 0, "attention.v": 0, "attention.o": 1,
            "mlp.gate": 0, "mlp.up": 0, "mlp.down": 1}  # fmt: skip
"""Products of a layer, and the dimension of their weights that `tp` cuts: results (0) or what is summed (1)."""


@dataclass
class Cutter:
    """Fills chunks that were made without memory and cuts them, a layer at a time: no rank holds more than one whole.

    Parameters
    ----------
    config : Config
        How.
    ranks : Ranks
        Over whom.
    fill : function
        Takes a parameter's name and the whole tensor, and sets its values.
    device : str
        Where parameters go.
    dtype : torch.dtype
        What is computed in. Parameters are kept, and gradients reduced, in float32 where that is shorter.
    """

    config: Config
    ranks: Ranks
    fill: Callable[[str, Tensor], None]
    device: str
    dtype: torch.dtype
    cut: dict[str, int] = field(default_factory=dict[str, int])
    """Parameters whose dimension so is cut over the ranks that share products (`Ranks.tp`)."""

    def __call__(self, chunk: Chunk) -> None:
        """Fill and cut a chunk."""
        way, shape, ranks = self.config.way, self.config.shape, self.ranks
        tokens = positions_of(ranks.data % way.cp, way.cp, shape.seq, way.context)
        chunk.positions = tokens
        for key, layer in chunk.layers.items():
            assert isinstance(layer, Layer)
            self._filled(layer, f"layers.{key}.")
            layer.again = way.recompute == "full"
            layer.attention.positions, layer.attention.again = tokens, way.recompute == "selective"
            if ranks.context is not None:
                core = ring_attention if way.context == "ring" else all_to_all_attention
                layer.attention.core = partial(core, group=ranks.context)
            if isinstance(layer.mlp, Experts):
                self._spread(layer.mlp)
            if way.tp > 1:
                self._products(layer, f"layers.{key}.")
            self._sharded(layer)
        ends = [name for name in ("embedding", "place", "norm", "output") if getattr(chunk, name) is not None]
        for name in ends:
            shared = name == "output" and chunk.tied
            if not shared or chunk.embedding is None:
                self._filled(getattr(chunk, name), "embedding." if shared else f"{name}.")
        if way.tp > 1:
            rows = RowwiseParallel(input_layouts=Replicate(), output_layouts=self._outside)
            plan: dict[str, Any] = {"embedding": rows, "place": rows, "norm": self._norm,
                                    "output": ColwiseParallel(input_layouts=self._outside)}  # fmt: skip
            chosen = {name: plan[name] for name in ends if plan[name] is not None}
            parallelize_module(chunk, ranks.dense["tp"], chosen, src_data_rank=None)
            self.cut |= {f"{name}.weight": 0 for name in ends if name != "norm"}
        chunk.tie()
        self._sharded(chunk)

    @property
    def _outside(self) -> Replicate | Shard:
        """How what lies between products is laid over the ranks that share them: whole, or cut over tokens."""
        return Shard(1) if self.config.way.sequence_parallel else Replicate()

    @property
    def _norm(self) -> SequenceParallel | None:
        return SequenceParallel(use_local_output=True) if self.config.way.sequence_parallel else None

    def _filled(self, part: nn.Module, prefix: str) -> None:
        part.to_empty(device="cpu").to(torch.float64 if self.dtype == torch.float64 else torch.float32)
        with torch.no_grad():
            for name, x in part.named_parameters():
                self.fill(prefix + name, x)
        part.to(self.device)

    def _products(self, layer: Layer, prefix: str) -> None:
        """Heads and channels over ranks; where the residual stream is cut over tokens, these are gathered for them."""
        gathered = PrepareModuleInput(input_layouts=(self._outside,), desired_input_layouts=(Replicate(),))
        how = ColwiseParallel(), RowwiseParallel(output_layouts=self._outside)
        here = {name for name, _ in layer.named_modules()}
        plan: dict[str, Any] = {name: how[dim] for name, dim in PRODUCTS.items() if name in here}
        plan |= {"attention": gathered}
        if self._norm is not None:
            plan |= {"norm1": self._norm, "norm2": self._norm}
        across = self.ranks.dense["tp"]
        if isinstance(layer.mlp, Experts):  # tokens are other ranks': gradients of what all have are added up
            for name, x in layer.mlp.named_parameters(recurse=False):
                whole = distribute_tensor(x.detach(), across, [Replicate()], src_data_rank=None)
                setattr(layer.mlp, name, nn.Parameter(whole))
        else:
            plan |= {"mlp": gathered}
        parallelize_module(layer, across, plan, src_data_rank=None)
        for name, dim in PRODUCTS.items():
            self.cut |= {f"{prefix}{name}.weight": dim} | ({f"{prefix}{name}.bias": 0} if dim == 0 else {})

    def _spread(self, mlp: Experts) -> None:
        """Keep this rank's experts. Their gradient is of all tokens that came, and divided by all ranks of a stage."""
        way, mesh = self.config.way, self.ranks.sparse
        if way.ep > 1:
            mlp.group = mesh.get_group("ep")
        for name, whole in mlp.bank.named_parameters():
            mine = whole.detach().chunk(way.ep)[mesh.get_local_rank("ep")]
            setattr(mlp.bank, name, nn.Parameter(mine.clone()))
        if not way.fully_sharded:
            return
        fully_shard(mlp.bank, mesh=mesh["copy"], reshard_after_forward=way.reshard, mp_policy=self._policy)
        assert isinstance(mlp.bank, FSDPModule)
        if mesh["copy"].size() > 1:
            mlp.bank.set_gradient_divide_factor(way.dp * way.cp)

    @property
    def _policy(self) -> MixedPrecisionPolicy:
        short = self.dtype not in (torch.float64, torch.float32)
        return MixedPrecisionPolicy(
            param_dtype=self.dtype if short else None, reduce_dtype=torch.float32 if short else None
        )

    def _sharded(self, part: nn.Module) -> None:
        way, dense = self.config.way, self.ranks.dense
        if not way.fully_sharded:
            return
        whole = way.shard == way.dp * way.cp
        mesh: DeviceMesh = dense["shard"] if whole else dense["replica", "shard"]
        fully_shard(part, mesh=mesh, reshard_after_forward=way.reshard, mp_policy=self._policy)
