"""`DecoderSpec`: the shape of a decoder-only language model, dense or of experts, from its config.json."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...errors import InputError
from ...reprs import Shown
from .checkpoint import read_shape
from .precisions import precision_bytes, weight_bytes
from .shape_checks import check_shape
from .tower import Tower

__all__ = ["DecoderSpec", "precision_bytes", "weight_bytes"]


@dataclass(frozen=True, slots=True, repr=False)
class DecoderSpec(Shown):
    """Shape of a decoder; dense where `experts` is 0.

    Parameters
    ----------
    name : str
        Name of the model, which plans record.
    layers, hidden, heads, ffn, vocab : int
        Transformer layers; model width; attention heads; inner width of the feed-forward block; vocabulary.
    kv_heads : int
        Heads of keys and values (grouped-query attention); as many as `heads` without grouping.
    head_dim : int
        Width of one head; ``hidden / heads`` in most models.
    gated : bool
        Whether the feed-forward block has a gate (SwiGLU: three matrices).
    tied : bool
        Whether the head shares the embedding's weights.
    biases : bool
        Whether matrices have biases.
    max_positions : int
        Longest sequence that the model takes, tokens.
    learned_positions : bool
        Whether positions are a table of weights (OPT, GPT).
    source : str
        Where the figures come from.
    experts, experts_per_token : int
        Routed experts of a layer, and those that a token goes to; 0 in dense models.
    moe_ffn, shared_ffn : int
        Inner width of one expert, and of the shared experts together, which every token goes to.
    dense_layers : int
        Layers with a feed-forward block of width `ffn` in place of experts (the first ones, or every other).
    window : int
        Tokens that some layers see (sliding windows, chunks of attention); 0 where all see everything.
    full_layers : int
        Layers that see everything beside those with the window; counts with a window alone.
    chunked : bool
        Whether `window` is the length of chunks that sequences are cut into. These are not modelled: longer sequences
        are refused (`check_length`).
    kv_rank, rope_dim, value_dim, q_rank : int
        Multi-head latent attention (DeepSeek-V2 §2.1): numbers of the latent that stands for a token's keys and values,
        of its rotated key, of a value, and of the queries' latent (0: none). `kv_rank` 0: plain attention. `head_dim`
        is the width of a query, rotated part included.
    mtp_layers : int
        Layers of the checkpoint that predict further tokens (multi-token prediction, DeepSeek-V3 §2.2): engines load
        them for speculative decoding alone, and neither `layers` nor `weights` counts them (`draft`).
    joins : bool
        Whether a projection joins the last hidden state and the embedding before the layers, as in such a draft.
    tower : Tower, optional
        The part that sees, whose weights `weights` does not count; or its fields, as files hold them.
    weights_precision, kv_precision : str
        Precisions that the checkpoint's files state, by the cost model's names; empty where they say none.

    Raises
    ------
    InputError
        On a size below one, heads that the KV heads do not divide, or experts that do not fit together.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    ffn: int
    vocab: int
    kv_heads: int
    head_dim: int
    gated: bool = True
    tied: bool = False
    biases: bool = False
    max_positions: int = 4096
    learned_positions: bool = False
    source: str = ""
    experts: int = 0
    experts_per_token: int = 0
    moe_ffn: int = 0
    shared_ffn: int = 0
    dense_layers: int = 0
    window: int = 0
    full_layers: int = 0
    chunked: bool = False
    kv_rank: int = 0
    rope_dim: int = 0
    value_dim: int = 0
    q_rank: int = 0
    mtp_layers: int = 0
    joins: bool = False
    weights_precision: str = ""
    kv_precision: str = ""
    tower: Tower | None = None

    def __post_init__(self) -> None:
        check_shape(self)
        tower: Any = self.tower
        if isinstance(tower, Mapping):
            object.__setattr__(self, "tower", Tower.of(tower))  # pyright: ignore[reportUnknownArgumentType]
        elif tower is not None and not isinstance(tower, Tower):
            raise InputError(f"decoder {self.name!r}: tower: expected a Tower (got {tower!r:.60})")

    @classmethod
    def from_config(cls, config: Mapping[str, Any], name: str = "", *, ignore: Collection[str] = ()) -> DecoderSpec:
        """Read the fields of a config.json, as model repositories publish it.

        Every field is modelled, or known to change neither weights, KV memory nor FLOPs (`checkpoint.fields`), or
        refused by its name: linear and cross-attention, layers that differ, chunks of attention, parts that hear,
        and whatever is not known here. Towers that see are read where their kind is known (`checkpoint.vision`).
        Precisions that the file states are kept.

        Parameters
        ----------
        config : mapping
            The file's fields.
        name : str
            Name to give the model.
        ignore : collection of str
            Fields that are taken as if they were not there; `source` names them.

        Raises
        ------
        InputError
            If fields are missing, wrong or not modelled, all named in one line.
        """
        where = name or str(config.get("_name_or_path") or "config.json")
        return cls(name=where, **read_shape(config, where, ignore))

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence that the model takes and that is modelled."""
        return min(self.max_positions, self.window or self.max_positions)

    def check_length(self, tokens: int, where: str = "") -> None:
        """See that no layer would forget a part of a sequence, for those who do not model that.

        Parameters
        ----------
        tokens : int
            Tokens of the longest sequence, prompt and output.
        where : str
            What the error begins with; the model's name if left out.

        Raises
        ------
        InputError
            If it is longer than the model's window.
        """
        if self.window and tokens > self.window:
            raise InputError(
                f"{where or self.name}: a request of {tokens} tokens, prompt and output, is above the sliding_window "
                f"of {self.name}, {self.window} tokens; windows are not modelled here (every layer would be taken to "
                "keep and read all tokens): leave out longer requests, or give another model"
            )

    @property
    def window_layers(self) -> int:
        """Layers that see no further back than the window."""
        return self.layers - self.full_layers if self.window else 0

    @property
    def kv_groups(self) -> tuple[int, int, int]:
        """How vLLM's allocator lays out layers that see differently far: layers of a group, groups that hold all
        tokens, groups that hold the window.

        One pool of equal blocks serves all groups, so groups are as large as the rarer kind of layer, or as the
        commoner one where that has less than half as many again (vLLM, `_get_kv_cache_groups_uniform_page_size`).
        """
        near = 0 if self.chunked else self.window_layers
        far = self.layers - near
        if not near or not far:
            return self.layers, int(not near), int(not far)
        few, many = sorted((near, far))
        size = many if many < 1.5 * few else few
        return size, -(-far // size), -(-near // size)

    @property
    def moe_layers(self) -> int:
        """Layers with experts; none in a dense model."""
        return self.layers - self.dense_layers if self.experts else 0

    @property
    def weights(self) -> int:
        """Number of weights, norms left out (below 0.01 %)."""
        plain, moe = self.layers - self.moe_layers, self.moe_layers
        blocks = self.layers * self.attention_weights + plain * self.ffn_weights + moe * self.moe_weights
        return blocks + self.embedding_weights + self.head_weights + self.joining_weights

    @property
    def joining_weights(self) -> int:
        """Weights of the projection that joins hidden state and embedding; none where nothing is joined."""
        return 2 * self.hidden * self.hidden if self.joins else 0

    @property
    def draft(self) -> DecoderSpec:
        """The checkpoint's own draft: one layer that predicts a further token, of the kind of the model's last ones.

        Embedding and head are the model's, so that the draft's own weights are `layer_weights` and `joining_weights`.

        Raises
        ------
        InputError
            If the checkpoint has none.
        """
        if not self.mtp_layers:
            raise InputError(f"{self.name}: its checkpoint has no layer that predicts further tokens; give a draft")
        whole = {"window": 0, "full_layers": 0, "dense_layers": 0, "mtp_layers": 0}
        return replace(self, name=f"{self.name} (MTP layer)", layers=1, joins=True, tower=None, **whole)

    @property
    def active_weights(self) -> int:
        """Weights that one token passes through; all of them in a dense model."""
        idle = self.moe_layers * (self.experts - self.experts_per_token) * self.expert_weights
        return self.weights - idle

    @property
    def layer_weights(self) -> int:
        """Weights of one layer: attention projections and feed-forward block, or experts in a layer that has them."""
        return self.attention_weights + (self.moe_weights if self.moe_layers else self.ffn_weights)

    @property
    def attention_weights(self) -> int:
        """Weights of a layer's attention projections."""
        if self.kv_rank:
            down = self.hidden * (self.q_rank + self.kv_rank + self.rope_dim)
            up = self.heads * ((self.q_rank or self.hidden) * self.head_dim + self.kv_rank * self.kv_up)
            return down + up + self.heads * self.value_dim * self.hidden
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return self.hidden * (2 * q + 2 * kv) + ((q + 2 * kv + self.hidden) if self.biases else 0)

    @property
    def ffn_weights(self) -> int:
        """Weights of a feed-forward block without experts."""
        matrices = (3 if self.gated else 2) * self.hidden * self.ffn
        return matrices + ((self.hidden + self.ffn) if self.biases else 0)

    @property
    def expert_weights(self) -> int:
        """Weights of one routed expert."""
        return (3 if self.gated else 2) * self.hidden * self.moe_ffn

    @property
    def moe_weights(self) -> int:
        """Weights of a layer's experts: routed, shared, and the router."""
        shared = (3 if self.gated else 2) * self.hidden * self.shared_ffn
        return self.experts * (self.expert_weights + self.hidden) + shared

    @property
    def embedding_weights(self) -> int:
        """Weights of the token embedding, and of positions where they are a table."""
        return self.vocab * self.hidden + (self.max_positions * self.hidden if self.learned_positions else 0)

    @property
    def head_weights(self) -> int:
        """Weights of the output head; none of its own if tied."""
        return 0 if self.tied else self.vocab * self.hidden

    @property
    def kv_up(self) -> int:
        """Numbers of a head's key and value that latent attention makes of the latent; the rotated part is apart."""
        return self.head_dim - self.rope_dim + self.value_dim

    def kv_numbers(self, tp: int = 1) -> int:
        """Numbers that one layer of one tensor-parallel rank keeps of a token; each rank has the whole of a latent."""
        return self.kv_rank + self.rope_dim if self.kv_rank else 2 * max(1, self.kv_heads // tp) * self.head_dim

    def kv_bytes_per_token(self, precision: str = "float16") -> int:
        """Bytes of keys and values of one token, all layers: 800 KB for OPT-13B (vLLM §5.3)."""
        return self.layers * self.kv_numbers() * precision_bytes(precision)

    def weight_bytes(self, precision: str = "float16") -> int:
        """Bytes of all weights."""
        return round(self.weights * weight_bytes(precision))
