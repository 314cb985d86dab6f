"""`ModelSpec`: the shape of a Transformer or MoE model, and the shipped ones (`SPECS`). Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

__all__ = ["DTYPE_BYTES", "N_LABELS", "SPECS", "Family", "LayerKind", "ModelSpec", "hidden_shape", "spec"]

Family = Literal["bert", "gpt", "moe"]
LayerKind = Literal["embedding", "dense", "moe", "head"]

DTYPE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
N_LABELS = 5
"""Classes of the BERT head: five, as in the sequence classifier that AlpaServe's authors serve."""

CAPACITY_FACTOR = 1.0
"""Slots of an expert, as a multiple of its fair share ``top_k * tokens / experts`` (GShard §2.2)."""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Shape of one model.

    The layers are numbered 0 (embedding), 1 … `layers` (Transformer layers) and `layers` + 1 (head). In the
    ``moe`` family every second Transformer layer, beginning with the second, has experts instead of one
    feed-forward block (GShard, and AlpaServe's MoE models).

    Parameters
    ----------
    name : str
        Name of the model, which profiles and plans use.
    family : {"bert", "gpt", "moe"}
        ``bert``: post-norm encoder with a classifier on the first token. ``gpt``: pre-norm, causal, with a
        language-model head on every position. ``moe``: ``gpt`` with experts.
    layers : int
        Transformer layers.
    hidden : int
        Hidden size.
    heads : int
        Attention heads; divides `hidden`.
    ffn : int
        Inner size of the feed-forward block (of each expert).
    vocab : int
        Vocabulary size.
    seq_len : int
        Tokens per request.
    experts : int
        Experts per MoE layer; 0 outside the ``moe`` family.
    top_k : int
        Experts per token; 0 outside the ``moe`` family.
    dtype : {"float32", "float16", "bfloat16"}
        Type of weights and activations.

    Raises
    ------
    ValueError
        If a size is not positive or does not divide as it must.
    """

    name: str
    family: Family
    layers: int
    hidden: int
    heads: int
    ffn: int
    vocab: int
    seq_len: int
    experts: int = 0
    top_k: int = 0
    dtype: str = "float32"

    def __post_init__(self) -> None:
        where = f"ModelSpec {self.name!r}"
        if self.family not in ("bert", "gpt", "moe"):
            raise ValueError(f"{where}: family must be bert, gpt or moe (got {self.family!r})")
        for field in ("layers", "hidden", "heads", "ffn", "vocab", "seq_len"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{where}: {field} must be a positive integer (got {value!r})")
        if self.hidden % self.heads:
            raise ValueError(f"{where}: heads must divide hidden (got {self.heads} and {self.hidden})")
        if self.dtype not in DTYPE_BYTES:
            raise ValueError(f"{where}: dtype must be one of {', '.join(DTYPE_BYTES)} (got {self.dtype!r})")
        if self.family == "moe" and not 1 <= self.top_k <= self.experts:
            raise ValueError(f"{where}: expected 1 <= top_k <= experts (got {self.top_k} and {self.experts})")
        if self.family != "moe" and (self.experts or self.top_k):
            raise ValueError(f"{where}: only the moe family has experts (got {self.experts}, top_k {self.top_k})")

    @property
    def n_layers(self) -> int:
        """All layers: embedding, Transformer layers, head."""
        return self.layers + 2

    def kind(self, layer: int) -> LayerKind:
        """What layer number `layer` is. Layers of one kind cost the same.

        Raises
        ------
        ValueError
            If there is no such layer.
        """
        if not 0 <= layer < self.n_layers:
            raise ValueError(f"ModelSpec {self.name!r}: layer must be in [0, {self.n_layers}) (got {layer})")
        if layer == 0:
            return "embedding"
        if layer == self.n_layers - 1:
            return "head"
        return "moe" if self.family == "moe" and layer % 2 == 0 else "dense"

    def layer_names(self) -> tuple[str, ...]:
        """One readable name per layer: ``embedding``, ``dense-1``, …, ``head``."""
        ends = (0, self.n_layers - 1)
        return tuple(self.kind(i) if i in ends else f"{self.kind(i)}-{i}" for i in range(self.n_layers))

    def check_op(self, op_size: int) -> None:
        """Check that the model can be split over `op_size` devices: heads, ffn and experts must divide.

        Raises
        ------
        ValueError
            Naming what does not divide.
        """
        sizes = {"heads": self.heads, "ffn": self.ffn, "hidden": self.hidden}
        if self.family == "moe":
            sizes["experts"] = self.experts
        for field, value in sizes.items():
            if op_size < 1 or value % op_size:
                raise ValueError(f"ModelSpec {self.name!r}: op degree {op_size} must divide {field} (got {value})")

    def capacity(self, tokens: int) -> int:
        """Token slots of each expert when `tokens` tokens are routed: fixed, whatever the data."""
        fair = -(-tokens * self.top_k // self.experts)
        return min(tokens, max(1, round(CAPACITY_FACTOR * fair)))

    @property
    def shape(self) -> ModelSpec:
        """The spec without its name: models of one shape cost the same and are measured once."""
        return replace(self, name="")

    def renamed(self, name: str) -> ModelSpec:
        """The same shape under another name (an instance fine-tuned from the same architecture)."""
        return replace(self, name=name)


def hidden_shape(spec: ModelSpec, batch: int) -> tuple[int, int, int]:
    """Shape of what one layer hands to the next: (batch, tokens, hidden)."""
    return batch, spec.seq_len, spec.hidden


def _bert(name: str, layers: int, hidden: int, heads: int, seq_len: int, vocab: int, dtype: str) -> ModelSpec:
    return ModelSpec(name, "bert", layers, hidden, heads, 4 * hidden, vocab, seq_len, dtype=dtype)


def _gpt(name: str, layers: int, hidden: int, heads: int, seq_len: int, vocab: int, dtype: str) -> ModelSpec:
    return replace(_bert(name, layers, hidden, heads, seq_len, vocab, dtype), family="gpt")


def _moe(
    name: str,
    layers: int,
    hidden: int,
    heads: int,
    seq_len: int,
    vocab: int,
    experts: int,
    inner: int,
    dtype: str,
) -> ModelSpec:
    return ModelSpec(name, "moe", layers, hidden, heads, inner * hidden, vocab, seq_len, experts, 2, dtype)


SPECS: dict[str, ModelSpec] = {
    spec.name: spec
    for spec in (
        # For one CPU core: a forward pass of 10 to 60 ms. The "tiny" ones are for tests (about 1 ms).
        _bert("cpu-bert-tiny", 2, 32, 4, 16, 64, "float32"),
        _gpt("cpu-gpt-tiny", 2, 32, 4, 16, 64, "float32"),
        _moe("cpu-moe-tiny", 2, 32, 4, 16, 64, 4, 4, "float32"),
        _bert("cpu-bert-s", 6, 256, 8, 128, 8192, "float32"),
        _bert("cpu-bert-m", 8, 384, 8, 128, 8192, "float32"),
        _gpt("cpu-gpt-s", 6, 256, 8, 128, 4096, "float32"),
        _moe("cpu-moe-s", 6, 256, 8, 128, 4096, 4, 4, "float32"),
        # AlpaServe's models (Table 1): hidden, layers, heads and vocabulary of the authors' released model
        # table (alpa-projects/mms, benchmarks/alpa/bert_model.py); sequence length 2048 (Table 1), 1024 for
        # the 104B one.
        _bert("bert-1.3b", 24, 2048, 32, 2048, 51200, "float16"),
        _bert("bert-2.7b", 32, 2560, 32, 2048, 51200, "float16"),
        _bert("bert-6.7b", 32, 4096, 32, 2048, 51200, "float16"),
        _bert("bert-104b", 128, 8192, 64, 1024, 51200, "float16"),
        # MoE: the 1.3B and 2.4B shapes of Alpa's published MoE suite (hidden, layers, heads, vocabulary,
        # experts; inner size 8 * hidden). The paper names a 5.3B model but not its shape: this one has 5.1e9
        # weights by the same rule.
        _moe("moe-1.3b", 16, 768, 16, 2048, 32000, 16, 8, "float16"),
        _moe("moe-2.4b", 16, 1024, 16, 2048, 32000, 16, 8, "float16"),
        _moe("moe-5.3b", 18, 1024, 16, 2048, 32000, 32, 8, "float16"),
    )
}


def spec(name: str) -> ModelSpec:
    """Look up a shipped spec.

    Raises
    ------
    ValueError
        If no such spec is shipped; the message lists those that are.
    """
    try:
        return SPECS[name]
    except KeyError:
        raise ValueError(f"ModelSpec: unknown model {name!r}; shipped: {', '.join(SPECS)}") from None
