"""`TransformerShape`: the decoder that is trained, its parameters and its floating-point operations, exactly."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
from collections.abc import Mapping
from dataclasses import dataclass, fields

from ....errors import InputError
from ....reprs import Shown

__all__ = ["TransformerShape", "shape_of"]


@dataclass(frozen=True, slots=True, repr=False)
class TransformerShape(Shown):
    """A dense decoder-only transformer.

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

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "seq", "head_dim"):
            optional = name in ("kv_heads", "ffn", "head_dim")
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
    def layer_matrix_params(self) -> int:
        """Weights of one layer that tensor parallelism splits: attention and MLP matrices."""
        attention = self.hidden * (2 * self.q_width + 2 * self.kv_width)
        return attention + self.hidden * (self.inner + self.ffn)

    @property
    def layer_vector_params(self) -> int:
        """Norms and biases of one layer."""
        if self.gated:
            return 2 * self.hidden
        return 4 * self.hidden + (self.q_width + 2 * self.kv_width) + self.hidden + self.ffn + self.hidden

    @property
    def embedding_params(self) -> int:
        """Token embedding; an untied output layer holds as many again."""
        return self.vocab * self.hidden

    @property
    def params(self) -> int:
        """All parameters, vocabulary unpadded."""
        layers = self.layers * (self.layer_matrix_params + self.layer_vector_params)
        norm = (1 if self.gated else 2) * self.hidden
        positions = 0 if self.gated else self.seq * self.hidden
        return layers + norm + positions + (1 if self.tied else 2) * self.embedding_params

    @property
    def attention_flops(self) -> int:
        """Forward FLOPs per token of one layer's two attention products over all `seq` keys, as Megatron counts."""
        return 4 * self.seq * self.q_width

    def forward_flops(self) -> tuple[int, int]:
        """Forward FLOPs per token: (of all layers, of the output layer)."""
        layer = 2 * self.layer_matrix_params + self.attention_flops
        return self.layers * layer, 2 * self.embedding_params

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
