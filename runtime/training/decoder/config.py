"""`Config`: a decoder, and how the devices share its training; what ``config.json`` of an export holds."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

__all__ = ["Adam", "Config", "Shape", "Way"]

SCHEDULES = ("gpipe", "1f1b", "interleaved_1f1b", "zb_v")
"""Of torch.distributed.pipelining: ScheduleGPipe, Schedule1F1B, ScheduleInterleaved1F1B, ScheduleZBVZeroBubble."""

CONTEXTS = ("ring", "all_to_all")


@dataclass(frozen=True, slots=True)
class Shape:
    """The decoder, by the fields of `simulator.training.TransformerShape`.

    Parameters
    ----------
    layers, hidden, heads, kv_heads, head_dim, ffn, vocab, seq : int
        Sizes; `seq` is the tokens of a sample.
    gated : bool
        False: GPT (LayerNorm, biases, GELU, learned positions). True: Llama (RMSNorm, SwiGLU, rotary positions).
    tied : bool
        Whether the output layer is the embedding.
    experts, top_k, expert_ffn, shared_ffn : int
        Of a mixture of experts (no `experts`: none): how many, how many of them a token goes to, the inner width of
        one, and of an MLP that every token goes through besides.
    dense : tuple of int
        Layers that have the plain MLP although there are experts.
    theta : float
        Base of the rotary positions.

    Raises
    ------
    ValueError
        On a size below one, heads that do not divide, or experts without a width.
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    seq: int
    gated: bool = False
    tied: bool = True
    experts: int = 0
    top_k: int = 0
    expert_ffn: int = 0
    shared_ffn: int = 0
    dense: tuple[int, ...] = ()
    theta: float = 10_000.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "dense", tuple(self.dense))
        for name in ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab", "seq"):
            if getattr(self, name) < 1:
                raise ValueError(f"shape.{name}: expected a positive integer (got {getattr(self, name)!r})")
        if self.heads % self.kv_heads:
            raise ValueError(f"shape.kv_heads: expected a divisor of heads {self.heads} (got {self.kv_heads})")
        if self.experts and not (1 <= self.top_k <= self.experts and self.expert_ffn >= 1):
            raise ValueError(
                f"shape: {self.experts} experts want 1 <= top_k <= experts and expert_ffn >= 1 "
                f"(got {self.top_k}, {self.expert_ffn})"
            )


@dataclass(frozen=True, slots=True)
class Way:
    """How the devices share the training.

    Parameters
    ----------
    tp, pp, dp, cp, ep : int
        Tensor-, pipeline-, data-, context- and expert-parallel degrees. tp x pp x dp x cp processes; experts are spread
        over `ep` of a stage's dp x cp x tp ranks.
    shard : int
        Ranks of dp x cp that share parameters, gradients and states by `fully_shard`; the others hold replicas of these
        (HSDP). 1: every rank holds all of its stage's share.
    reshard : bool
        Whether a layer's gathered parameters are dropped after its forward pass and gathered again backward (ZeRO-3).
    microbatch, global_batch : int
        Samples of a microbatch on one rank, and of an iteration on all.
    interleave : int
        Chunks of layers on a stage's ranks.
    layers : tuple of int
        Layers of each chunk, first to last; empty: as even as they go.
    schedule : {"gpipe", "1f1b", "interleaved_1f1b", "zb_v"}
        Of the pipeline.
    sequence_parallel : bool
        Whether what is between products is cut over the tokens where products are cut over heads and channels.
    context : {"ring", "all_to_all"}
        How attention reads the keys of other ranks: they come round, each rank's tokens a piece of the sequence's
        beginning and one of its end (equal work under a causal mask); or heads are dealt out for it (Ulysses).
    recompute : {"none", "selective", "full"}
        What backward computes again: nothing, attention, whole layers.

    Raises
    ------
    ValueError
        On degrees that do not go together.
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    cp: int = 1
    ep: int = 1
    shard: int = 1
    reshard: bool = True
    microbatch: int = 1
    global_batch: int = 1
    interleave: int = 1
    layers: tuple[int, ...] = ()
    schedule: str = "1f1b"
    sequence_parallel: bool = False
    context: str = "ring"
    recompute: str = "none"

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", tuple(self.layers))
        for name in ("tp", "pp", "dp", "cp", "ep", "shard", "microbatch", "global_batch", "interleave"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected a positive integer (got {getattr(self, name)!r})")
        for name, known in (
            ("schedule", SCHEDULES),
            ("context", CONTEXTS),
            ("recompute", ("none", "selective", "full")),
        ):
            if getattr(self, name) not in known:
                raise ValueError(f"{name}: expected one of {', '.join(known)} (got {getattr(self, name)!r})")
        ranks = self.dp * self.cp
        if ranks % self.shard:
            raise ValueError(f"shard: expected a divisor of dp x cp = {ranks} (got {self.shard})")
        if ranks * self.tp % self.ep:
            raise ValueError(f"ep: expected a divisor of dp x cp x tp = {ranks * self.tp} (got {self.ep})")
        if self.global_batch % (self.dp * self.microbatch):
            raise ValueError(
                f"global_batch: expected a multiple of dp x microbatch = {self.dp * self.microbatch} "
                f"(got {self.global_batch})"
            )
        chunks = {"interleaved_1f1b": self.interleave, "zb_v": 2}.get(self.schedule, 1)
        if self.interleave != chunks:
            raise ValueError(f"interleave: {self.schedule} has {chunks} chunks a rank (got {self.interleave})")
        if self.schedule == "zb_v" and self.shard > 1:
            raise ValueError(
                f"shard: zb_v's halved backward pass does not go with fully_shard; expected 1 (got {self.shard})"
            )
        if self.layers and len(self.layers) != self.chunks:
            raise ValueError(f"layers: expected one number for each of {self.chunks} chunks (got {len(self.layers)})")

    @property
    def fully_sharded(self) -> bool:
        """Whether gradients are reduced by `fully_shard`, also where one rank shares with none."""
        return self.schedule != "zb_v"

    @property
    def chunks(self) -> int:
        """Chunks of layers, over all stages."""
        return self.pp * self.interleave

    @property
    def processes(self) -> int:
        """How many there are."""
        return self.tp * self.pp * self.dp * self.cp

    @property
    def microbatches(self) -> int:
        """Of an iteration, on each rank."""
        return self.global_batch // (self.dp * self.microbatch)


@dataclass(frozen=True, slots=True)
class Adam:
    """AdamW, and the largest norm of all gradients together (0: any)."""

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.1
    clip: float = 0.0


@dataclass(frozen=True, slots=True)
class Config:
    """A decoder, and how it is trained.

    Raises
    ------
    ValueError
        Where the shape does not divide as the degrees want it.
    """

    shape: Shape
    way: Way

    def __post_init__(self) -> None:
        shape, way = self.shape, self.way
        asked = {
            f"heads {shape.heads}": (shape.heads, "tp", way.tp),
            f"kv_heads {shape.kv_heads}": (shape.kv_heads, "tp", way.tp),
            f"ffn {shape.ffn}": (shape.ffn, "tp", way.tp),
            f"vocab {shape.vocab}": (shape.vocab, "tp", way.tp),
        }
        pieces = (2 * way.cp if way.context == "ring" and way.cp > 1 else way.cp) * (
            way.tp if way.sequence_parallel else 1
        )
        asked[f"seq {shape.seq}"] = (shape.seq, "the tokens' pieces", pieces)
        if way.context == "all_to_all":
            asked[f"kv_heads {shape.kv_heads} / tp"] = (shape.kv_heads // way.tp or 1, "cp", way.cp)
        if shape.experts:
            asked[f"experts {shape.experts}"] = (shape.experts, "ep", way.ep)
            if way.tp > 1 and not way.sequence_parallel:
                raise ValueError("tp: of a model with experts goes with sequence_parallel, which cuts their tokens")
        elif way.ep > 1:
            raise ValueError(f"ep: {way.ep} ranks share experts, and the model has none; expected 1")
        for what, (size, name, parts) in asked.items():
            if size % parts:
                raise ValueError(f"{name}: {parts} does not divide {what}")
        if shape.layers < way.chunks and not way.layers:
            raise ValueError(f"pp x interleave: {way.chunks} chunks of {shape.layers} layers; expected at most as many")
        if way.layers and sum(way.layers) != shape.layers:
            raise ValueError(f"layers: expected {shape.layers} in all (got {sum(way.layers)})")

    @property
    def chunk_layers(self) -> tuple[range, ...]:
        """Layers of each chunk."""
        chunks, layers = self.way.chunks, self.shape.layers
        sizes = self.way.layers or tuple(layers // chunks + (k < layers % chunks) for k in range(chunks))
        ends = [sum(sizes[: k + 1]) for k in range(chunks)]
        return tuple(range(end - size, end) for end, size in zip(ends, sizes, strict=True))

    def to_json(self) -> str:
        """As text."""
        return json.dumps({"shape": asdict(self.shape), "way": asdict(self.way)}, indent=1) + "\n"

    @classmethod
    def load(cls, path: str | Path) -> Config:
        """Read ``config.json``.

        Raises
        ------
        ValueError
            If it lacks a field, has an unknown one, or holds what does not go together.
        """
        found: dict[str, dict[str, Any]] = json.loads(Path(path).read_text(encoding="utf-8"))
        for part, kind in (("shape", Shape), ("way", Way)):
            known = {field.name for field in fields(kind)}
            unknown = sorted(set(found.get(part, {})) - known)
            if part not in found or unknown:
                raise ValueError(f"{path}: {part}: {f'unknown field {unknown[0]!r}' if unknown else 'missing'}")
        return cls(Shape(**found["shape"]), Way(**found["way"]))
