"""What was chosen, for people: every class of tensors with its bytes and seconds; and FLOPs of what is made again."""

from __future__ import annotations

from dataclasses import dataclass

from .....reprs import Shown
from ..model import TransformerShape
from ..rates import Stack
from ..replicas import HOST
from .choices import AGAIN, OFFLOAD, Layers
from .fit import Chosen
from .tensors import TENSORS, present

__all__ = ["TensorUse", "again_flops", "tensor_lines", "tensor_uses"]

WORDS = {0: "kept", AGAIN: "recomputed", OFFLOAD: "offloaded"}


@dataclass(frozen=True, slots=True, repr=False)
class TensorUse(Shown):
    """What becomes of a class of tensors that a layer makes.

    Parameters
    ----------
    name : str
        The class (`activations.tensors.TENSORS`); "layer": what is no input of it, under full recomputation.
    use : str
        "kept", "recomputed" or "offloaded".
    bytes : int
        Of one microbatch, in the layer that has more of it.
    seconds : float
        Of one layer and microbatch: making it again, or its way to the host and back, hidden or not.
    """

    name: str
    use: str
    bytes: int
    seconds: float


def tensor_uses(
    shape: TransformerShape, stack: Stack, layers: tuple[Layers, Layers], chosen: Chosen
) -> tuple[TensorUse, ...]:
    """Of a single configuration."""
    kind = layers[1]  # with experts, where there are some
    actions = chosen.actions[0]
    if chosen.whole[0]:
        sent = float(kind.input_bytes[0])
        away = actions[TENSORS.index("inputs")] == OFFLOAD
        rest = float(kind.size[list(present(shape, stack)), 0].sum()) - sent
        return (
            TensorUse("inputs", "offloaded" if away else "kept", int(sent), 2 * sent / HOST[0] if away else 0.0),
            TensorUse("layer", "recomputed", int(rest), float(kind.whole_s[0])),
        )
    found: list[TensorUse] = []
    for k in present(shape, stack):
        action, size = int(actions[k]), float(kind.size[k, 0])
        seconds = {AGAIN: float(kind.again[k, 0]), OFFLOAD: 2 * size / HOST[0]}.get(action, 0.0)
        if TENSORS[k] == "context" and action == AGAIN == int(actions[TENSORS.index("scores")]):
            seconds = 0.0  # comes with the scores
        found.append(TensorUse(TENSORS[k], WORDS[action], int(size), seconds))
    return tuple(found)


def tensor_lines(uses: tuple[TensorUse, ...]) -> list[str]:
    """One line each, largest first."""
    lines = ["a layer's tensors, of one microbatch:"]
    for one in sorted(uses, key=lambda x: -x.bytes):
        took = f"{one.seconds * 1e3:>9.3f} ms" if one.use != "kept" else ""
        lines.append(f"  {one.name:<18}{one.bytes / 2**20:>9.1f} MiB {one.use:<10}{took}".rstrip())
    return lines


def again_flops(shape: TransformerShape, stack: Stack, chosen: Chosen) -> int:
    """Forward FLOPs per token that a configuration does again."""
    if chosen.whole[0]:
        return shape.forward_flops()[0]
    again = {name for k, name in enumerate(TENSORS) if chosen.actions[0, k] == AGAIN}
    every = shape.layers + shape.mtp_layers
    total = 0
    if "qkv" in again:
        total += every * 2 * (shape.attention_params - shape.out_width * shape.hidden)
    if "latents" in again:
        total += every * 2 * shape.latent_params
    if "scores" in again or ("context" in again and stack.flash):
        total += every * shape.attention_flops
    elif "context" in again:
        total += every * shape.attention_flops // 2
    if "inner" in again:
        special = shape.expert_layers + (shape.mtp_layers if shape.experts else 0)
        total += (every - special) * 2 * shape.hidden * shape.inner
        if shape.experts:
            total += special * 4 * shape.hidden * (shape.experts.shared_ffn + shape.experts.top_k * shape.experts.ffn)
    return total
