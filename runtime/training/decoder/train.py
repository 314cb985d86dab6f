"""Train a decoder by ``config.json``: one process for each device, started by torchrun; torch alone is needed.

    torchrun --nproc-per-node 8 -m decoder.train --config config.json --steps 10

Without ``--data`` tokens are drawn from the seed. ``--data file.py:batches`` names a function without arguments that
gives an iterable of (tokens, labels), each of (global batch, sequence), or of tokens alone: labels are the next ones.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from .config import Adam, Config
from .context import positions_of
from .losses import cross_entropy
from .mesh import Ranks
from .model import Chunk
from .parallel import Cutter
from .pipeline import chunks_of, schedule
from .weights import Fill, from_seed, from_values, load, save, whole

__all__ = ["Training", "drawn", "main"]


class Training:
    """One rank's part of the training.

    Parameters
    ----------
    config : Config
        What is trained, and how it is shared.
    fill : function
        Values of parameters, by name.
    dtype : torch.dtype
        What is computed in.
    adam : Adam
        The optimizer.
    device : torch.device
        This rank's.
    """

    def __init__(self, config: Config, fill: Fill, dtype: torch.dtype, adam: Adam, device: torch.device) -> None:
        self.config, self.device, self.adam = config, device, adam
        way = config.way
        self.ranks = Ranks.of(way, device.type)
        cutter = Cutter(config, self.ranks, fill, str(device), dtype)
        self.chunks = list[Chunk]()
        for number in chunks_of(way, self.ranks.stage):
            with torch.device("meta"):
                ends = number == 0, number == way.chunks - 1
                chunk = Chunk(config.shape, config.chunk_layers[number], *ends)
            cutter(chunk)
            self.chunks.append(chunk)
        self.cut = cutter.cut
        products = self.ranks.dense.get_group("tp") if way.tp > 1 else None

        def loss(logits: Tensor, labels: Tensor) -> Tensor:
            return cross_entropy(logits, labels, products)

        self.loss = loss
        self.schedule = schedule(way, self.ranks, self.chunks, device, loss) if way.pp > 1 else None
        parameters = [x for chunk in self.chunks for x in chunk.parameters()]
        self.optimizer = torch.optim.AdamW(
            parameters, lr=adam.lr, betas=adam.betas, weight_decay=adam.weight_decay, foreach=False
        )

    def mine(self, batch: Tensor) -> Tensor:
        """This rank's tokens of a whole batch."""
        way, shape = self.config.way, self.config.shape
        rows = batch.chunk(way.dp)[self.ranks.data // way.cp]
        places = positions_of(self.ranks.data % way.cp, way.cp, shape.seq, way.context)
        return rows[:, torch.tensor(places)].to(self.device)

    def gradients(self, tokens: Tensor, labels: Tensor) -> float:
        """Forward and backward of an iteration; the mean loss over all tokens, on every rank."""
        way = self.config.way
        tokens, labels = self.mine(tokens), self.mine(labels)
        self.optimizer.zero_grad(set_to_none=True)
        if self.schedule is not None:
            losses = list[Tensor]()
            last = any(chunk.last for chunk in self.chunks)
            given = [tokens] if any(chunk.first for chunk in self.chunks) else []
            kept: dict[str, Any] = {"target": labels, "losses": losses} if last else {}
            self.schedule.step(*given, **kept)
            total = torch.stack(losses).mean() if losses else tokens.new_zeros((), dtype=torch.float64)
        else:
            (chunk,), total = self.chunks, tokens.new_zeros((), dtype=torch.float64)
            assert isinstance(chunk, FSDPModule)
            parts = list(zip(tokens.chunk(way.microbatches), labels.chunk(way.microbatches), strict=True))
            for k, (x, y) in enumerate(parts):
                chunk.set_is_last_backward(k == len(parts) - 1)
                loss = self.loss(chunk(x), y) / len(parts)
                loss.backward()
                total = total + loss.detach()
        if not way.fully_sharded:
            self._reduced()
        elif self.ranks.sparse["copy"].size() == 1:
            self._divided()
        self._tied()
        total = total.detach().double() / (way.dp * way.cp * way.tp)
        dist.all_reduce(total)  # other stages add nothing
        return float(total)

    def step(self, tokens: Tensor, labels: Tensor) -> float:
        """An iteration; the mean loss of its tokens before the step."""
        loss = self.gradients(tokens, labels)
        self.finish(self.norm() if self.adam.clip else 0.0)
        return loss

    def finish(self, norm: float) -> None:
        """Clip gradients whose norm together is known, and take the step."""
        if self.adam.clip and norm > self.adam.clip:
            for chunk in self.chunks:
                for x in chunk.parameters():
                    if x.grad is not None:
                        _local(x.grad).mul_(self.adam.clip / norm)
        self.optimizer.step()

    def _reduced(self) -> None:
        """Mean of the gradients over the ranks of the stage, where `fully_shard` does not take it."""
        ranks, way = self.ranks, self.config.way
        for chunk in self.chunks:
            for name, x in chunk.named_parameters():
                assert x.grad is not None, name
                if isinstance(x, DTensor) and isinstance(x.grad, DTensor):
                    x.grad = x.grad.redistribute(placements=x.placements)
                found = _local(x.grad)
                same = ranks.sparse.get_group("copy") if ".bank." in name else ranks.dense.get_group("replica")
                dist.all_reduce(found, group=same)
                found.div_(way.dp * way.cp)

    def _divided(self) -> None:
        """Divide gradients of experts that no other rank has: `fully_shard`, with nobody to share, does so twice."""
        for chunk in self.chunks:
            for name, x in chunk.named_parameters():
                if ".bank." in name and x.grad is not None:
                    _local(x.grad).div_(self.config.way.dp * self.config.way.cp)

    def _tied(self) -> None:
        """Add up what the first and the last stage found of a tied embedding's gradient."""
        if self.ranks.tied is None or not self.config.shape.tied:
            return
        ends = [x for chunk in self.chunks for x in (chunk.embedding, chunk.output) if x is not None]
        if len({id(end.weight) for end in ends}) == 2:  # a V: both ends are here
            one, two = (end.weight for end in ends)
            assert one.grad is not None
            assert two.grad is not None
            one.grad.add_(two.grad)
            two.grad.copy_(one.grad)
        elif ends and ends[0].weight.grad is not None:
            dist.all_reduce(_local(ends[0].weight.grad), group=self.ranks.tied)

    def norm(self) -> float:
        """Norm of all gradients together, each element counted once."""
        ranks, way = self.ranks, self.config.way
        sums = {kind: torch.zeros((), dtype=torch.float64, device=self.device) for kind in ("cut", "same", "expert")}
        for chunk in self.chunks:
            for name, x in chunk.named_parameters():
                twice = name == "output.weight" and chunk.tied and way.pp > 1
                if x.grad is not None and not twice:
                    kind = "expert" if ".bank." in name else "cut" if self.cut.get(name) is not None else "same"
                    sums[kind] += _local(x.grad).double().square().sum()
        shares: dict[str, Sequence[Any]] = {
            "cut": [ranks.dense.get_group("shard"), ranks.dense.get_group("tp")],
            "same": [ranks.dense.get_group("shard")],
            "expert": [ranks.sparse.get_group(name) for name in (("copy", "ep") if way.fully_sharded else ("ep",))],
        }
        for kind, groups in shares.items():
            for group in groups:
                dist.all_reduce(sums[kind], group=group)
        total = torch.stack(list(sums.values())).sum()
        dist.all_reduce(total, group=ranks.dense.get_group("pp"))
        return float(total.sqrt())

    def whole(self, gradients: bool = False) -> dict[str, Tensor]:
        """All parameters, or their gradients, in one piece each; on rank 0."""
        return whole(self.chunks, self.ranks, (lambda x: x.grad) if gradients else (lambda x: x))


def _local(x: Tensor) -> Tensor:
    return x.to_local() if isinstance(x, DTensor) else x


def drawn(config: Config, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Tokens from the seed and those that follow them, the same for every way."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        made = torch.randint(
            config.shape.vocab, (config.way.global_batch, config.shape.seq + 1), generator=generator
        )  # fmt: skip
        yield made[:, :-1], made[:, 1:]


def read(word: str, config: Config) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches that a function of the user's gives (``file.py:function``).

    Raises
    ------
    ValueError
        On what is no batch of the configuration.
    """
    file, _, name = word.rpartition(":")
    spec = importlib.util.spec_from_file_location("user_data", file)
    if not file or spec is None or spec.loader is None:
        raise ValueError(f"data: expected file.py:function (got {word!r})")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: Iterable[Any] = getattr(module, name)()
    sizes = (config.way.global_batch, config.shape.seq)
    for one in made:
        tokens, labels = one if isinstance(one, tuple | list) else (one, None)
        tokens = torch.as_tensor(tokens)
        if labels is None:
            tokens, labels = tokens[:, :-1], tokens[:, 1:]
        labels = torch.as_tensor(labels)
        if tuple(tokens.shape) != sizes or tuple(labels.shape) != sizes:
            raise ValueError(
                f"data: expected tokens and labels of {sizes}, or tokens alone of {(sizes[0], sizes[1] + 1)} "
                f"(got {tuple(tokens.shape)} and {tuple(labels.shape)})"
            )
        yield tokens.long(), labels.long()
    raise ValueError("data: it ended before the last step; expected a batch for each")


def main(arguments: Sequence[str] | None = None) -> None:
    """Train; rank 0 prints loss and seconds of each step."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("--config", default="config.json")
    asked.add_argument("--steps", type=int, default=5)
    asked.add_argument("--seed", type=int, default=0, help="of parameters and tokens")
    asked.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float32", "float64"])
    asked.add_argument("--lr", type=float, default=1e-3)
    asked.add_argument("--weight-decay", type=float, default=0.1)
    asked.add_argument("--clip", type=float, default=0.0, help="largest norm of all gradients together; 0: any")
    asked.add_argument("--data", default="", help="FILE.py:FUNCTION that gives batches")
    asked.add_argument("--weights", default="", help="state dict to begin with (.pt or .safetensors)")
    asked.add_argument("--save", default="", help="state dict to end with")
    asked.add_argument("--timeout", type=float, default=600.0, help="longest wait for another process, seconds")
    said = asked.parse_args(arguments)
    try:
        _train(said)
    except ValueError as error:
        raise SystemExit(str(error)) from None


def _train(said: argparse.Namespace) -> None:
    config = Config.load(said.config)
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if cuda else "gloo", timeout=timedelta(seconds=said.timeout))
    fill = from_values(load(said.weights)) if said.weights else from_seed(said.seed)
    adam = Adam(lr=said.lr, weight_decay=said.weight_decay, clip=said.clip)
    training = Training(config, fill, getattr(torch, said.dtype), adam, device)
    batches = read(said.data, config) if said.data else drawn(config, said.seed)
    for step in range(said.steps):
        tokens, labels = next(batches)
        begin = time.perf_counter()
        loss = training.step(tokens, labels)
        if dist.get_rank() == 0:
            print(f"step {step}: loss {loss:.9g}, {time.perf_counter() - begin:.4g} s", flush=True)
    if said.save:
        values = training.whole()
        if dist.get_rank() == 0:
            save(values, Path(said.save))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
