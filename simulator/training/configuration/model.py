"""`TransformerShape`: the decoder that is trained, its parameters and its floating-point operations, exactly."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
from collections.abc import Mapping
from dataclasses import dataclass, fields

from ....errors import InputError
from ....reprs import Shown
from .mixture.parts import Experts, Latent, part_of

__all__ = ["TransformerShape", "shape_of"]


@dataclass(frozen=True, slots=True, repr=False)
class TransformerShape(Shown):
    """A decoder-only transformer, dense or with experts.

    Parameters
    ----------
    layers, hidden, heads : int
        Transformer layers, width, query heads of each layer.
    kv_heads : int, optional
        Heads of keys and values (grouped queries); `heads` by default.
    ffn : int, optional
        Inner width of the MLP; ``4 x hidden`` by default.
    vocab, seq : int
        Vocabulary before padding; tokens of one sample.
    gated : bool
        False: GPT, with LayerNorm, biases, GELU, learned positions. True: Llama, with RMSNorm, no biases, SwiGLU
        (three MLP matrices), rotary positions.
    tied : bool, optional
        Whether the output layer is the embedding; by default GPT's is and Llama's is not.
    dropout : bool, optional
        Whether dropout masks are stored; by default as in the software that is modelled (`Stack.dropout`) for GPT,
        never for gated models.
    head_dim : int, optional
        Width of a head; ``hidden / heads`` by default.
    experts : Experts, optional
        Experts in place of the MLP, or their fields; none by default.
    latent : Latent, optional
        Latent attention in place of plain attention, or its fields; none by default.
    mtp_layers : int
        Further layers after the last, each of which predicts one more token with the same output layer (multi-token
        prediction, DeepSeek-V3, section 2.2). `params` leaves them out, as their papers do; FLOPs, time and memory
        count them.

    Raises
    ------
    InputError
        On a size below one, heads that do not divide, or a width that heads do not divide.
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int = 0
    ffn: int = 0
    vocab: int = 51200
    seq: int = 2048
    gated: bool = False
    tied: bool | None = None
    dropout: bool | None = None
    head_dim: int = 0
    experts: Experts | None = None
    latent: Latent | None = None
    mtp_layers: int = 0

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "seq", "head_dim", "mtp_layers"):
            optional = name in ("kv_heads", "ffn", "head_dim", "mtp_layers")
            value = getattr(self, name)
            value = 0 if optional and value is None else value
            if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < (0 if optional else 1):
                raise InputError(f"model.{name}: expected a positive integer (got {value!r})")
            object.__setattr__(self, name, int(value))
        if not self.head_dim and self.hidden % self.heads:
            raise InputError(
                f"model.heads: expected a divisor of hidden {self.hidden} (got {self.heads}); or give head_dim"
            )
        object.__setattr__(self, "head_dim", self.head_dim or self.hidden // self.heads)
        object.__setattr__(self, "kv_heads", self.kv_heads or self.heads)
        object.__setattr__(self, "ffn", self.ffn or 4 * self.hidden)
        if self.heads % self.kv_heads:
            raise InputError(f"model.kv_heads: expected a divisor of heads {self.heads} (got {self.kv_heads})")
        object.__setattr__(self, "gated", bool(self.gated))
        object.__setattr__(self, "tied", (not self.gated) if self.tied is None else bool(self.tied))
        object.__setattr__(self, "experts", part_of(Experts, self.experts, "model.experts"))
        object.__setattr__(self, "latent", part_of(Latent, self.latent, "model.latent"))
        if self.experts and self.experts.dense_layers >= self.layers:
            raise InputError(
                f"model.experts.dense_layers: expected fewer than the {self.layers} layers "
                f"(got {self.experts.dense_layers})"
            )
        if (self.experts or self.latent) and not self.gated:
            raise InputError("model.gated: expected True with experts or latent attention (got False)")
        if self.latent and (self.kv_heads != self.heads or self.latent.rope_dim >= self.head_dim):
            raise InputError("model.latent: expected kv_heads equal to heads, and a rope_dim below head_dim")

    @property
    def q_width(self) -> int:
        """Width of all query heads together."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Width of all key heads together, and of all value heads."""
        return self.kv_heads * self.head_dim

    @property
    def inner(self) -> int:
        """Columns of the MLP's first matrix: twice `ffn` where it is gated."""
        return (2 if self.gated else 1) * self.ffn

    @property
    def out_width(self) -> int:
        """Width of what the attention core gives: all heads' values."""
        return self.heads * (self.latent.value_dim if self.latent else self.head_dim)

    @property
    def core_dim(self) -> float:
        """Mean width of a head in the core's two products: with keys, and with values."""
        return (self.head_dim + self.latent.value_dim) / 2 if self.latent else float(self.head_dim)

    @property
    def latent_params(self) -> int:
        """Weights of a layer's projections to latents, which tensor parallelism does not split."""
        return self.hidden * (self.latent.kv_rank + self.latent.rope_dim + self.latent.q_rank) if self.latent else 0

    @property
    def attention_params(self) -> int:
        """Weights of a layer's attention that tensor parallelism splits."""
        if self.latent is None:
            return self.hidden * (2 * self.q_width + 2 * self.kv_width)
        queries = (self.latent.q_rank or self.hidden) * self.q_width
        pairs = self.latent.kv_rank * self.heads * (self.head_dim - self.latent.rope_dim + self.latent.value_dim)
        return queries + pairs + self.out_width * self.hidden

    @property
    def mlp_params(self) -> int:
        """Weights of a dense layer's MLP."""
        return self.hidden * (self.inner + self.ffn)

    @property
    def expert_params(self) -> int:
        """Weights of one routed expert; 0 for a dense model."""
        return 3 * self.hidden * self.experts.ffn if self.experts else 0

    @property
    def shared_params(self) -> int:
        """Weights of a layer's shared experts."""
        return 3 * self.hidden * self.experts.shared_ffn if self.experts else 0

    @property
    def router_params(self) -> int:
        """Weights of a layer's router."""
        return (self.hidden + self.experts.router_bias) * self.experts.count if self.experts else 0

    @property
    def expert_layers(self) -> int:
        """Layers with experts."""
        return self.layers - self.experts.dense_layers if self.experts else 0

    @property
    def layer_matrix_params(self) -> int:
        """Weights of one layer with a dense MLP that tensor parallelism splits: attention and MLP matrices."""
        return self.attention_params + self.mlp_params

    @property
    def layer_vector_params(self) -> int:
        """Norms and biases of one layer."""
        if self.gated:
            return 2 * self.hidden + (self.latent.kv_rank + self.latent.q_rank if self.latent else 0)
        return 4 * self.hidden + (self.q_width + 2 * self.kv_width) + self.hidden + self.ffn + self.hidden

    @property
    def embedding_params(self) -> int:
        """Token embedding; an untied output layer holds as many again."""
        return self.vocab * self.hidden

    def _all_params(self, each: int) -> int:
        """Parameters with `each` routed experts of a layer."""
        everywhere = self.layers * (self.attention_params + self.latent_params + self.layer_vector_params)
        dense = (self.layers - self.expert_layers) * self.mlp_params
        mixed = self.expert_layers * (self.router_params + self.shared_params + each * self.expert_params)
        norm = (1 if self.gated else 2) * self.hidden
        positions = 0 if self.gated else self.seq * self.hidden
        return everywhere + dense + mixed + norm + positions + (1 if self.tied else 2) * self.embedding_params

    @property
    def params(self) -> int:
        """All parameters, vocabulary unpadded."""
        return self._all_params(self.experts.count if self.experts else 0)

    @property
    def active_params(self) -> int:
        """Parameters that a token meets, embedding and output layer included."""
        return self._all_params(self.experts.top_k if self.experts else 0)

    @property
    def attention_flops(self) -> int:
        """Forward FLOPs per token of one layer's two attention products over all `seq` keys, as Megatron counts."""
        return 2 * self.seq * (self.q_width + self.out_width)

    def forward_flops(self) -> tuple[int, int]:
        """Forward FLOPs per token: (of all layers, of the output layer). Layers that predict further tokens count with
        their projection, and with an output layer each."""
        everywhere = 2 * (self.attention_params + self.latent_params) + self.attention_flops
        mixed = 0
        if self.experts:
            active = self.hidden * self.experts.count + self.shared_params + self.experts.top_k * self.expert_params
            mixed = 2 * active
        further = self.mtp_layers * (everywhere + (mixed or 2 * self.mlp_params) + 4 * self.hidden**2)
        dense = (self.layers - self.expert_layers) * 2 * self.mlp_params
        layers = self.layers * everywhere + dense + self.expert_layers * mixed
        return layers + further, 2 * (1 + self.mtp_layers) * self.embedding_params

    def model_flops(self, global_batch: int) -> int:
        """FLOPs of one iteration, nothing recomputed: three forward passes.

        For GPT this is ``72 B L s h^2 (1 + s / 6h + V / 12hL)`` (Korthikanti et al. 2022, Appendix A). Causal
        attention counts as full, as there: MFUs are comparable with published ones.
        """
        return 3 * global_batch * self.seq * sum(self.forward_flops())

    def hardware_flops(self, global_batch: int, recompute: str) -> int:
        """FLOPs of one iteration with what is recomputed: layers once more ("full"), or their attention core."""
        again = {"none": 0, "selective": self.layers * self.attention_flops, "full": self.forward_flops()[0]}
        return self.model_flops(global_batch) + global_batch * self.seq * again[recompute]


def shape_of(model: object) -> TransformerShape:
    """A shape from a `TransformerShape`, a mapping, or any object with these attributes.

    Raises
    ------
    InputError
        If layers, hidden, heads, vocab or seq is missing, or a key of a mapping is unknown.
    """
    if isinstance(model, TransformerShape):
        return model
    names = [field.name for field in fields(TransformerShape)]
    if isinstance(model, Mapping):
        given: dict[str, object] = {str(key): value for key, value in model.items()}  # pyright: ignore
        unknown = sorted(set(given) - set(names))
        if unknown:
            raise InputError(f"model: unknown field {unknown[0]!r}; expected {', '.join(names)}")
    else:
        given = {name: getattr(model, name) for name in names if hasattr(model, name)}
    missing = [name for name in ("layers", "hidden", "heads", "vocab", "seq") if name not in given]
    if missing:
        raise InputError(f"model: {', '.join(missing)} missing; expected a TransformerShape or its fields")
    return TransformerShape(**given)  # pyright: ignore[reportArgumentType]
