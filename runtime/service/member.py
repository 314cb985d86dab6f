"""One device of a group: runs its share of its stage of whatever comes down the pipeline.

Position 0 of a group takes the requests. Header and activation go from stage to stage, share by share; the answer goes
from the last stage back to position 0. Everything is in order of submission, so answers need no label.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from .layout import Held

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Member"]

STOP = -1
AHEAD = 16
"""Transfers to the next stage that may be under way at once; each holds one activation in memory."""

LAST_WORDS_S = 10.0
"""How long the end of a group may take, seconds; peers that are gone do not answer."""
IDLE = timedelta(days=365)
"""A service may wait long for its next request; torchrun ends all members when one dies."""


class Member:
    """The stage modules of one device of a group.

    `torch.distributed` is initialised from torchrun's environment if the group has several devices.

    Parameters
    ----------
    held : dict of str to Held
        The group's models, the same order in every member.
    op, pp : int
        The group's parallel configuration.
    order : sequence of int
        Rank -> position (``stage * op + share``).
    rank : int
        This process's rank.
    device : str
        Torch device.
    """

    def __init__(self, held: dict[str, Held], op: int, pp: int, order: Sequence[int], rank: int, device: str) -> None:
        import torch
        import torch.distributed as dist

        self._torch, self._dist = torch, dist
        self.models = list(held.values())
        self.index = {name: i for i, name in enumerate(held)}
        self.op, self.pp, self.device = op, pp, device
        self.position = order[rank]
        self.stage, self.share = divmod(self.position, op)
        self._rank_at = {position: r for r, position in enumerate(order)}
        self._stage_group: Any = None
        self._data: Any = None
        self._answers: Any = None
        if op * pp > 1:
            self._join()
        self._stages = [self._build(model) for model in self.models]
        self._sent: deque[tuple[Any, Tensor]] = deque()
        self._threads: list[threading.Thread] = []
        self._inbox: queue.Queue[tuple[int, Tensor, Future[Tensor]] | None] = queue.Queue()
        self._awaited: queue.Queue[tuple[tuple[int, ...], Any, Future[Tensor]] | None] = queue.Queue()

    def _join(self) -> None:
        """Meet the others. Headers and answers travel by gloo; activations and sums by NCCL where there are GPUs."""
        dist = self._dist
        dist.init_process_group("gloo", timeout=IDLE)
        backend = "nccl" if self.device.startswith("cuda") else "gloo"
        everyone = list(range(self.op * self.pp))
        self._answers = dist.new_group(everyone, backend="gloo", timeout=IDLE)
        self._data = dist.new_group(everyone, backend=backend, timeout=IDLE)
        for stage in range(self.pp if self.op > 1 else 0):
            ranks = [self._rank_at[stage * self.op + share] for share in range(self.op)]
            group = dist.new_group(ranks, backend=backend, timeout=IDLE)
            if stage == self.stage:
                self._stage_group = group

    def _build(self, model: Held) -> Any:
        from ...kernels.transformer import build_stage

        return build_stage(
            model.spec, model.cuts[self.stage], model.cuts[self.stage + 1], seed=model.seed, device=self.device,
            op_rank=self.share, op_size=self.op, all_reduce=self._all_reduce if self.op > 1 else None,
        )  # fmt: skip

    def _all_reduce(self, x: Tensor) -> Tensor:
        x = x.contiguous()
        self._dist.all_reduce(x, group=self._stage_group)
        return x

    def start(self) -> None:
        """Begin to serve `submit` (position 0 only)."""
        self._threads = [threading.Thread(target=self._lead, daemon=True, name="stage-0")]
        if self.pp > 1:
            self._threads.append(threading.Thread(target=self._collect, daemon=True, name="answers"))
        for thread in self._threads:
            thread.start()

    def submit(self, model: str, tokens: Tensor) -> Future[Tensor]:
        """Queue one batch (position 0 only): int64, shape (batch, tokens). Gives the model's output on the CPU."""
        answer: Future[Tensor] = Future()
        self._inbox.put((self.index[model], tokens, answer))
        return answer

    def stop(self) -> None:
        """End the group when all that was submitted is answered (position 0 only), and see that the others know."""
        self._inbox.put(None)
        for thread in self._threads:
            thread.join(LAST_WORDS_S)

    def _lead(self) -> None:
        """Stage 0, share 0: take requests, hand them to the peers, run, pass on."""
        peers = [self._rank_at[share] for share in range(1, self.op)]
        while (item := self._inbox.get()) is not None:
            model, tokens, answer = item
            if not answer.set_running_or_notify_cancel():  # whoever asked is gone
                continue
            header = self._torch.tensor([model, tokens.shape[0]])
            given = tokens.to(self.device)
            for peer in peers:
                self._dist.send(header, peer)
                self._dist.send(given, peer, group=self._data)
            out = self._stages[model](given)
            if self.pp == 1:
                answer.set_result(out.cpu())
                continue
            self._awaited.put((*self._answer_shape(model, tokens.shape[0]), answer))
            self._pass_on(header, out)
        end = self._torch.tensor([STOP, 0])
        for peer in [*peers, *([self._rank_at[self.op]] if self.pp > 1 else [])]:
            self._dist.send(end, peer)
        self._awaited.put(None)

    def _collect(self) -> None:
        """Receive the answers of the last stage, in order."""
        source = self._rank_at[(self.pp - 1) * self.op]
        while (item := self._awaited.get()) is not None:
            shape, dtype, answer = item
            out = self._torch.empty(shape, dtype=dtype)
            self._dist.recv(out, source, group=self._answers)
            answer.set_result(out)

    def follow(self) -> None:
        """Serve until position 0 stops (all other positions)."""
        source = self._rank_at[0 if self.stage == 0 else self.position - self.op]
        header = self._torch.empty(2, dtype=self._torch.int64)
        while True:
            self._dist.recv(header, source)
            model, batch = (int(x) for x in header)
            if model == STOP:
                break
            given = self._empty_input(model, batch)
            self._dist.recv(given, source, group=self._data)
            out = self._stages[model](given)
            if self.stage < self.pp - 1:
                self._pass_on(header, out)
            elif self.share == 0 and self.pp > 1:
                self._dist.send(out.cpu(), self._rank_at[0], group=self._answers)
        if self.stage < self.pp - 1:
            self._dist.send(header, self._rank_at[self.position + self.op])

    def _empty_input(self, model: int, batch: int) -> Tensor:
        from ...kernels.specs import hidden_shape

        spec = self.models[model].spec
        if self.stage == 0:
            return self._torch.empty((batch, spec.seq_len), dtype=self._torch.int64, device=self.device)
        shape, dtype = hidden_shape(spec, batch), getattr(self._torch, spec.dtype)
        return self._torch.empty(shape, dtype=dtype, device=self.device)

    def _answer_shape(self, model: int, batch: int) -> tuple[tuple[int, ...], Any]:
        """Shape and type of what the head gives."""
        from ...kernels.specs import N_LABELS

        spec = self.models[model].spec
        if spec.family == "bert":
            return (batch, N_LABELS), getattr(self._torch, spec.dtype)
        return (batch, spec.seq_len, 2), self._torch.float32

    def _pass_on(self, header: Tensor, out: Tensor) -> None:
        """Send to the next stage without waiting for it; keep the tensors alive until they have gone."""
        after = self._rank_at[self.position + self.op]
        while len(self._sent) >= AHEAD:
            self._sent.popleft()[0].wait()
        kept, out = header.clone(), out.contiguous()
        self._sent.append((self._dist.isend(kept, after), kept))
        self._sent.append((self._dist.isend(out, after, group=self._data), out))
