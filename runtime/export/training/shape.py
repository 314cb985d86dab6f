"""`transformer_shape`: layers, width, heads and the like of a graph of a transformer, read off its operators."""

from __future__ import annotations

from dataclasses import dataclass

from ....errors import InputError
from ....profiles.graph import Graph, Operator

__all__ = ["TransformerSizes", "transformer_sizes"]


@dataclass(frozen=True, slots=True)
class TransformerSizes:
    """Sizes of a decoder or encoder.

    Parameters
    ----------
    layers, hidden, heads, kv_heads, ffn, vocab, seq : int
        As usual; `kv_heads` equals `heads` where queries do not share keys.
    experts, top_k : int
        Experts of a mixture layer and how many a token sees; 0: there are none.
    moe_layers : tuple of int
        Layers that have experts.
    causal, gated, rotary, tied, rms, bias : bool
        Attention sees the past only; MLP with a gate; rotary positions; output tied to the embedding; RMS norms;
        biases in the projections.
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    seq: int
    experts: int
    top_k: int
    moe_layers: tuple[int, ...]
    causal: bool
    gated: bool
    rotary: bool
    tied: bool
    rms: bool
    bias: bool


def transformer_sizes(graph: Graph) -> TransformerSizes:
    """Sizes of the transformer.

    Raises
    ------
    InputError
        If the graph is none: convolutions, no attention, layers that differ; names the operator.
    """
    wrong = next((op for op in graph.operators if op.kind in ("convolution", "pool")), None)
    if wrong is not None:
        raise InputError(f"export: {graph.name}: {wrong.name!r} is a {wrong.kind}; Megatron-LM trains transformers")
    table = _one(graph, "embedding", [op for op in graph.operators if op.kind == "embedding"][:1])
    weight = graph.tensors[table.inputs[0]]
    vocab, hidden = weight.shape
    head = _last_contraction(graph)
    layers = sorted({op.layer for op in graph.operators if op.layer >= 0})
    cores = [op for op in graph.operators if op.kind == "softmax" and op.attributes.get("query")]
    cores += [op for op in graph.operators if op.kind == "attention"]
    if len(cores) != len(layers):
        raise InputError(
            f"export: {graph.name}: {len(layers)} layers with {len(cores)} attentions; expected one in each"
        )
    heads, kv_heads, seq = _heads(cores[0])
    for op in cores:
        if _heads(op) != (heads, kv_heads, seq):
            raise InputError(f"export: {graph.name}: {op.name!r} has other heads than {cores[0].name!r}")
    norms = [op for op in graph.operators if op.kind == "norm"]
    gates = [op for op in graph.operators if op.kind == "gate"]
    ups = [op for op in graph.operators if op.layer >= 0 and "f" in op.parsed.result[-1] and op.kind == "contraction"]
    per_layer = {op.layer: sum(1 for o in ups if o.layer == op.layer) for op in ups}
    return TransformerSizes(
        layers=len(layers),
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        ffn=_one(graph, "MLP", ups[:1]).sizes["f"],
        vocab=vocab,
        seq=seq,
        experts=gates[0].sizes["e"] if gates else 0,
        top_k=int(str(gates[0].attributes["top_k"])) if gates else 0,
        moe_layers=tuple(op.layer for op in gates),
        causal=bool(cores[0].attributes.get("causal")),
        gated=max(per_layer.values()) > 1,
        rotary=any(op.attributes.get("fn") == "rope" for op in graph.operators),
        tied=table.inputs[0] in head.inputs,
        rms=any(op.attributes.get("fn") == "rms" for op in norms),
        bias=any(name.endswith(".bias") for op in graph.operators for name in op.inputs if op.kind == "elementwise"),
    )


def _one(graph: Graph, what: str, found: list[Operator]) -> Operator:
    if not found:
        raise InputError(f"export: {graph.name}: no {what} in it; Megatron-LM trains transformers")
    return found[0]


def _last_contraction(graph: Graph) -> Operator:
    return _one(graph, "output layer", [op for op in graph.operators if op.kind == "contraction"][-1:])


def _heads(core: Operator) -> tuple[int, int, int]:
    """Query heads, heads of keys and values, sequence length of an attention."""
    sizes = core.sizes
    shared = sizes.get("g", 1)
    return sizes["n"] * shared, sizes["n"], sizes[str(core.attributes["query"])]
