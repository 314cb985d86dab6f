"""How the decode step of a decoder is spread over GPUs: `Parallel`, and the widths of what is stored and sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ....errors import InputError
from ....reprs import Shown
from ..decoder import DecoderSpec

__all__ = ["EXCHANGES", "Exchange", "Parallel", "Widths"]

Exchange = Literal["qkv", "q", "helix", "ag_rs", "a2a"]

EXCHANGES: dict[str, str] = {
    "qkv": "thesis §4.4: requests are spread over the sequence shards but for attention; queries, keys and values are "
    "gathered, partial results go back in an all-to-all",
    "q": "the same, but keys and values go to the one shard that stores the token",
    "helix": "arXiv 2507.07120: every shard projects all requests, partial results go to the GPUs of each head, all "
    "other matrices are split over all GPUs",
    "ag_rs": "vLLM's decode context parallelism within the tensor-parallel group: queries and log-sums are gathered, "
    "corrected outputs are reduce-scattered",
    "a2a": "the same, with outputs and log-sums in one all-to-all",
}
"""Exchange -> what is sent between the shards of a sequence."""

INSIDE = ("ag_rs", "a2a")


@dataclass(frozen=True, slots=True)
class Widths:
    """Bytes of one number of each sort.

    Parameters
    ----------
    activation, weight, kv : float
        What passes between matrices; weights; keys and values in the cache.
    partial : float
        Outputs of attention over a piece, as they are sent.
    statistic : float
        A maximum, a sum or a log-sum; fp32 by default.
    statistics : int
        Numbers per head that go with outputs in the exchanges "qkv" and "q": 2 (m and s, thesis) or 1 (their log-sum).
    """

    activation: float = 2.0
    weight: float = 2.0
    kv: float = 2.0
    partial: float = 2.0
    statistic: float = 4.0
    statistics: int = 2

    def __post_init__(self) -> None:
        if not min(self.activation, self.weight, self.kv, self.partial, self.statistic) > 0:
            raise InputError(f"widths: expected bytes > 0 (got {self})")
        if self.statistics not in (1, 2):
            raise InputError(f"widths: statistics: expected 1 or 2 (got {self.statistics})")

    @classmethod
    def uniform(cls, n_bytes: float = 1.0) -> Widths:
        """The same width for everything, as the thesis counts."""
        return cls(n_bytes, n_bytes, n_bytes, n_bytes, n_bytes)


@dataclass(frozen=True, slots=True, repr=False)
class Parallel(Shown):
    """Degrees of parallelism of the decode step.

    Parameters
    ----------
    tp : int
        Tensor parallelism: heads and the matrices' inner width are split.
    cp : int
        Cache parallelism: shards of every sequence. With the exchanges "ag_rs" and "a2a" these are GPUs of the
        tensor-parallel group; else each shard has `tp` GPUs of its own.
    dp : int
        Data parallelism: replicas, each with requests of its own.
    pp : int
        Pipeline stages.
    exchange : str
        What is sent between shards, a key of `EXCHANGES`; of no meaning at ``cp=1``.

    Raises
    ------
    InputError
        On a degree below one, an unknown exchange, or shards that do not divide the tensor-parallel group they are in.
    """

    tp: int = 1
    cp: int = 1
    dp: int = 1
    pp: int = 1
    exchange: Exchange = "qkv"

    def __post_init__(self) -> None:
        for name in ("tp", "cp", "dp", "pp"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"parallel: {name}: expected an integer >= 1 (got {value!r})")
        if self.exchange not in EXCHANGES:
            raise InputError(f"parallel: exchange: expected one of {', '.join(EXCHANGES)} (got {self.exchange!r})")
        if self.inside and self.tp % self.cp:
            raise InputError(
                f"parallel: cp: shards inside the tensor-parallel group must divide it (got cp {self.cp}, tp {self.tp})"
            )

    @property
    def inside(self) -> bool:
        """Whether the shards of a sequence are GPUs of the tensor-parallel group."""
        return self.cp > 1 and self.exchange in INSIDE

    @property
    def spread(self) -> bool:
        """Whether requests are spread over the shards but for attention."""
        return self.cp > 1 and self.exchange in ("qkv", "q")

    @property
    def stage_devices(self) -> int:
        """GPUs of one stage of one replica."""
        return self.tp if self.inside else self.tp * self.cp

    @property
    def devices(self) -> int:
        """GPUs in all."""
        return self.stage_devices * self.dp * self.pp

    @property
    def matrix_tp(self) -> int:
        """GPUs that share the output projection and the feed-forward block."""
        return self.stage_devices if self.cp > 1 and self.exchange == "helix" else self.tp

    @property
    def head_groups(self) -> int:
        """Groups of query heads in attention: heads on one GPU are ``heads / head_groups``."""
        return self.tp // self.cp if self.inside else self.tp

    def kv_heads(self, model: DecoderSpec) -> int:
        """KV heads that one GPU stores; at least one, repeated where `tp` is above their number."""
        return max(1, model.kv_heads // self.tp)

    def kv_copies(self, model: DecoderSpec) -> float:
        """How often one replica stores each key and value: ``tp / KV heads`` under tensor parallelism beyond them."""
        shards = self.cp if self.inside else 1
        return self.tp * self.kv_heads(model) / model.kv_heads / shards

    def check(self, model: DecoderSpec) -> None:
        """See that heads can be split so.

        Raises
        ------
        InputError
            If they cannot; for "ag_rs" and "a2a" also where shards would not share one KV head (vLLM asks for
            ``cp <= tp / KV heads``).
        """
        if model.heads % self.matrix_tp or model.heads % self.tp:
            raise InputError(f"parallel: {self.matrix_tp} GPUs do not divide the {model.heads} heads of {model.name}")
        if model.kv_heads % self.tp and self.tp % model.kv_heads:
            raise InputError(f"parallel: tp {self.tp} does not fit the {model.kv_heads} KV heads of {model.name}")
        if self.inside and self.cp * model.kv_heads > self.tp:
            raise InputError(
                f"parallel: cp {self.cp} inside tp {self.tp}: at most tp / KV heads = {self.tp // model.kv_heads} of "
                f"{model.name}'s {model.kv_heads} KV heads; raise tp, or take the exchange 'qkv', 'q' or 'helix'"
            )
        if self.pp > model.layers:
            raise InputError(f"parallel: pp {self.pp} is more than the {model.layers} layers of {model.name}")
