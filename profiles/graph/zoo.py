"""`zoo_graph`: the shipped graphs: the paper's models (Tables 6–8), BERT, Llama, and tiny ones that run anywhere.

``python -m meshwright.profiles.graph.zoo`` writes the shipped files anew.
"""

from __future__ import annotations

import difflib
import gzip
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...errors import InputError
from .build_language import bert, llama, moe
from .build_transformer import Attention, gpt
from .build_vision import mlp_net, resnet
from .document import from_json
from .graph import Graph

__all__ = ["PAPER_PARAMS", "ZOO", "build_graph", "zoo_graph", "zoo_module"]

DATA = Path(__file__).parent / "data"
ALPA = "Zheng et al., Alpa (OSDI 2022), "


def _gpt(hidden: int, layers: int, heads: int) -> dict[str, Any]:
    return {"build": gpt, "layers": layers, "hidden": hidden, "heads": heads, "vocab": 51200, "seq": 1024,
            "source": ALPA + "Table 6"}  # fmt: skip


def _moe(hidden: int, layers: int, heads: int, experts: int) -> dict[str, Any]:
    return {"build": moe, "layers": layers, "hidden": hidden, "heads": heads, "experts": experts, "vocab": 32000,
            "seq": 1024, "source": ALPA + "Table 7"}  # fmt: skip


def _wide(layers: int, base: int, width: int) -> dict[str, Any]:
    blocks = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}[layers]
    return {"build": resnet, "blocks": blocks, "base": base, "width": width, "source": ALPA + "Table 8"}


_TINY = {"layers": 4, "hidden": 32, "heads": 4, "vocab": 64, "seq": 16, "dtype": "float32"}

_SPECS: Mapping[str, dict[str, Any]] = MappingProxyType(
    {
        "gpt3-350m": _gpt(1024, 24, 16),
        "gpt3-1.3b": _gpt(2048, 24, 32),
        "gpt3-2.6b": _gpt(2560, 32, 32),
        "gpt3-6.7b": _gpt(4096, 32, 32),
        "gpt3-15b": _gpt(5120, 48, 32),
        "gpt3-39b": _gpt(8192, 48, 64),
        "gshard-moe-380m": _moe(768, 8, 16, 8),
        "gshard-moe-1.3b": _moe(768, 16, 16, 16),
        "gshard-moe-2.4b": _moe(1024, 16, 16, 16),
        "gshard-moe-10b": _moe(1536, 16, 16, 32),
        "gshard-moe-27b": _moe(2048, 16, 32, 48),
        "gshard-moe-70b": _moe(2048, 32, 32, 64),
        "wide-resnet-250m": _wide(50, 160, 2),
        "wide-resnet-1b": _wide(50, 320, 2),
        "wide-resnet-2b": _wide(50, 448, 2),
        "wide-resnet-4b": _wide(50, 640, 2),
        "wide-resnet-6.8b": _wide(50, 320, 16),
        "wide-resnet-13b": _wide(101, 320, 16),
        "bert-large": {
            "build": bert, "layers": 24, "hidden": 1024, "heads": 16, "vocab": 30522, "seq": 512,
            "source": "Devlin et al., BERT (2019), BERT-large uncased",
        },
        "llama-7b": {
            "build": llama, "layers": 32, "hidden": 4096, "heads": 32, "ffn": 11008, "vocab": 32000, "seq": 2048,
            "source": "Touvron et al., LLaMA (2023), Table 2",
        },
        "tiny-gpt": {"build": gpt, **_TINY},
        "tiny-moe": {"build": moe, **_TINY, "experts": 4, "ffn": 64},
        "tiny-mlp": {"build": mlp_net, "layers": 4, "hidden": 32, "features": 16, "classes": 8},
        "tiny-resnet": {
            "build": resnet, "blocks": (1, 1), "base": 4, "width": 2, "image": 8, "classes": 8, "stem": 3,
        },
    }
)  # fmt: skip

ZOO: tuple[str, ...] = tuple(_SPECS)
"""Names of the shipped graphs."""

PAPER_PARAMS: Mapping[str, float] = MappingProxyType(
    {
        "gpt3-350m": 350e6, "gpt3-1.3b": 1.3e9, "gpt3-2.6b": 2.6e9, "gpt3-6.7b": 6.7e9, "gpt3-15b": 15e9,
        "gpt3-39b": 39e9, "gshard-moe-380m": 380e6, "gshard-moe-1.3b": 1.3e9, "gshard-moe-2.4b": 2.4e9,
        "gshard-moe-10b": 10e9, "gshard-moe-27b": 27e9, "gshard-moe-70b": 70e9, "wide-resnet-250m": 250e6,
        "wide-resnet-1b": 1e9, "wide-resnet-2b": 2e9, "wide-resnet-4b": 4e9, "wide-resnet-6.8b": 6.8e9,
        "wide-resnet-13b": 13e9,
    }
)  # fmt: skip
"""#params as Tables 6–8 print them."""


def zoo_graph(name: str, batch: int = 1, *, attention: Attention = "matmuls") -> Graph:
    """A graph of the zoo, for microbatches of `batch` samples; read from the package, without torch.

    Parameters
    ----------
    name : str
        One of `ZOO`.
    batch : int
        Samples (sequences, images) of a microbatch.
    attention : {"matmuls", "fused"}
        How transformers compute attention; see `build_transformer.Heads`. Fused graphs are built, not read.

    Raises
    ------
    InputError
        If there is no such graph; the message names the nearest.
    """
    if name not in _SPECS:
        near = difflib.get_close_matches(str(name).lower(), ZOO, n=3, cutoff=0.3)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(ZOO)}"
        raise InputError(f"unknown model {name!r}; {hint}")
    if attention != "matmuls":
        return build_graph(name, attention=attention).with_batch(batch)
    return _shipped(name).with_batch(batch)


def build_graph(name: str, *, attention: Attention = "matmuls") -> Graph:
    """A graph of the zoo at batch 1, built from its formulas instead of read."""
    spec = dict(_SPECS[name])
    build = spec.pop("build")
    if attention != "matmuls":
        if "heads" not in spec:
            raise InputError(f"attention: {name} has none; leave the option out (got {attention!r})")
        spec["attention"] = attention
    return build(name, **({"source": "Meshwright, for tests"} | spec))


def zoo_module(name: str, *, attention: Attention = "matmuls", device: str = "cpu") -> Any:
    """The torch module that a graph of the zoo describes: its parameters are the graph's, by qualified name.

    Parameters
    ----------
    name : str
        One of `ZOO`, but BERT and Llama, which have no module here.
    attention : {"matmuls", "fused"}
        As for `zoo_graph`.
    device : str
        ``"meta"`` makes no weights.

    Raises
    ------
    InputError
        If there is no such graph or no module of it.
    """
    zoo_graph(name)
    import torch

    from ...kernels import training

    spec = {key: value for key, value in _SPECS[name].items() if key not in ("build", "dtype", "source")}
    kinds = {gpt: training.GPT, moe: training.MoE, resnet: training.ResNet, mlp_net: training.MlpNet}
    kind = kinds.get(_SPECS[name]["build"])
    if kind is None:
        raise InputError(f"no torch module of {name}; there are modules of GPT, MoE, Wide-ResNet and MLP graphs")
    if "heads" in spec:
        spec["fused"] = attention == "fused"
    with torch.device(device):
        return kind(**spec)


@lru_cache(maxsize=8)
def _shipped(name: str) -> Graph:
    path = DATA / f"{name}.json.gz"
    return from_json(gzip.decompress(path.read_bytes()).decode(), path.name)


def _write() -> None:
    for name in ZOO:
        graph = build_graph(name)
        path = DATA / f"{name}.json.gz"
        path.write_bytes(gzip.compress(graph.to_json().encode(), mtime=0))
        paper = f"{PAPER_PARAMS[name] / 1e9:8.2f}" if name in PAPER_PARAMS else " " * 8
        print(f"{name:20} {len(graph.operators):5} operators {graph.params / 1e9:8.3f} B parameters (paper {paper})"
              f" {graph.forward_flops / 1e12:9.3f} forward TFLOP {path.stat().st_size / 1024:6.1f} KiB")  # fmt: skip


if __name__ == "__main__":
    _write()
