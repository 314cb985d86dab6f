"""`zoo_graph`: the known graphs: Alpa's models (Tables 6–8), GraphPipe's of several branches, BERT, Llama, tiny ones;
and those of inference (`networks`).

Graphs of several branches are built when asked for, with any number of branches (``mmt-2`` … ``mmt-16``); the others
are shipped.

``python -m meshwright.profiles.graph.zoo`` writes the shipped files anew.
"""

from __future__ import annotations

import difflib
import gzip
import re
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...errors import InputError
from .document import from_json
from .graph import Graph
from .models.branches import DLRM, MMT, CandleUno, CaseStudy
from .models.builder import Model
from .models.language import BERT, Llama, MoE
from .models.transformer import GPT, Attention, Transformer
from .models.vision import MlpNet, ResNet
from .networks import INFERENCE, is_network, network_graph

__all__ = ["BRANCHES", "PAPER_PARAMS", "ZOO", "build_graph", "in_zoo", "zoo_graph", "zoo_module"]

DATA = Path(__file__).parent / "data"
ALPA = "Zheng et al., Alpa (OSDI 2022), "
GRAPHPIPE = "GraphPipe (thesis chapter 3), "
TESTS = "Meshwright, for tests"
NOT_SIZES = ("dtype", "attention")
"""Fields of models that a torch module is told otherwise, or later."""


def _gpt(hidden: int, layers: int, heads: int) -> tuple[Model, str]:
    return GPT(layers=layers, hidden=hidden, heads=heads, vocab=51200, seq=1024), ALPA + "Table 6"


def _moe(hidden: int, layers: int, heads: int, experts: int) -> tuple[Model, str]:
    model = MoE(layers=layers, hidden=hidden, heads=heads, experts=experts, vocab=32000, seq=1024)
    return model, ALPA + "Table 7"


def _wide(layers: int, base: int, width: int) -> tuple[Model, str]:
    blocks = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}[layers]
    return ResNet(blocks=blocks, base=base, width=width), ALPA + "Table 8"


_BERT = BERT(layers=24, hidden=1024, heads=16, vocab=30522, seq=512)
_LLAMA = Llama(layers=32, hidden=4096, heads=32, ffn=11008, vocab=32000, seq=2048)
_TINY: dict[str, Any] = {"layers": 4, "hidden": 32, "heads": 4, "vocab": 64, "seq": 16, "dtype": "float32"}

_SPECS: Mapping[str, tuple[Model, str]] = MappingProxyType(
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
        "bert-large": (_BERT, "Devlin et al., BERT (2019), BERT-large uncased"),
        "llama-7b": (_LLAMA, "Touvron et al., LLaMA (2023), Table 2"),
        "mmt": (MMT(branches=4), GRAPHPIPE + "§3.10.3"),
        "dlrm": (DLRM(branches=7), GRAPHPIPE + "§3.10.3"),
        "candle-uno": (CandleUno(branches=7), GRAPHPIPE + "§3.10.3"),
        "case-study-3-7-4": (CaseStudy(branches=2), GRAPHPIPE + "§3.7.4"),
        "tiny-gpt": (GPT(**_TINY), TESTS),
        "tiny-moe": (MoE(**_TINY, experts=4, ffn=64), TESTS),
        "tiny-mlp": (MlpNet(layers=4, hidden=32, features=16, classes=8), TESTS),
        "tiny-resnet": (ResNet(blocks=(1, 1), base=4, width=2, image=8, classes=8, stem=3), TESTS),
        "tiny-mmt": (MMT(branches=2, layers=2, hidden=32, heads=4, ffn=64, seq=8, classes=8), TESTS),
        "tiny-dlrm": (DLRM(branches=2, layers=2, hidden=32, rows=64, width=8, bag=4, post=2), TESTS),
        "tiny-uno": (CandleUno(branches=2, layers=3, hidden=32), TESTS),
    }
)
"""Name -> the model, and where its sizes are from."""

ZOO: tuple[str, ...] = tuple(_SPECS)
"""Names of the known training graphs; those of several branches are known with ``-2`` … ``-16`` behind them, too."""

BRANCHES: tuple[str, ...] = tuple(name for name, (model, _) in _SPECS.items() if hasattr(model, "branches"))
"""Names of the graphs whose number of branches can be asked for: ``mmt-8`` has eight."""

_COUNTED = re.compile(rf"({'|'.join(map(re.escape, BRANCHES))})-(\d+)")
MOST_BRANCHES = 16  # the most that GraphPipe's figures have (Fig. 3.7)

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
        One of `ZOO`, or one of `BRANCHES` with a number of branches, such as ``candle-uno-16``; or a graph of
        inference: one of `INFERENCE`, with sizes behind it or without (``bert-base-layers2``). Those without sizes
        are shipped, others are traced, which takes torch.
    batch : int
        Samples (sequences, images) of a microbatch.
    attention : {"matmuls", "fused"}
        Whether transformers compute attention as separate products or as one fused operator. Graphs with fused
        attention are built on demand, not read from files.

    Raises
    ------
    InputError
        If there is no such graph; the message names the nearest. If it must be traced and torch is missing.
    """
    if is_network(name):
        if attention != "matmuls":
            raise InputError(f"attention: {name} is a graph of inference; leave the option out (got {attention!r})")
        return network_graph(name).with_batch(batch)
    model, _ = _spec(name)
    if attention != "matmuls":
        return build_graph(name, attention=attention).with_batch(batch)
    return (_built(name) if hasattr(model, "branches") else _shipped(name)).with_batch(batch)


def in_zoo(name: str) -> bool:
    """Whether `zoo_graph` knows a graph of this name."""
    counted = _COUNTED.fullmatch(name)
    return name in _SPECS or is_network(name) or (counted is not None and 2 <= int(counted[2]) <= MOST_BRANCHES)


def _spec(name: str) -> tuple[Model, str]:
    """The model of a name, and where its sizes are from."""
    if name in _SPECS:
        return _SPECS[name]
    counted = _COUNTED.fullmatch(str(name))
    if counted is not None:
        if not 2 <= int(counted[2]) <= MOST_BRANCHES:
            raise InputError(f"model {name!r}: branches: expected 2 to {MOST_BRANCHES} (got {counted[2]})")
        model, source = _SPECS[counted[1]]
        return replace(model, branches=int(counted[2])), source
    near = difflib.get_close_matches(str(name).lower(), (*ZOO, *INFERENCE), n=3, cutoff=0.3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join((*ZOO, *INFERENCE))}"
    raise InputError(f"unknown model {name!r}; {hint}")


def build_graph(name: str, *, attention: Attention = "matmuls", sizes: Mapping[str, int] | None = None) -> Graph:
    """A graph of the zoo at batch 1, built from its formulas instead of read.

    Parameters
    ----------
    name : str
        As for `zoo_graph`.
    attention : {"matmuls", "fused"}
        As for `zoo_graph`.
    sizes : mapping of str to int, optional
        Sizes that differ from the named model's, such as ``{"layers": 48, "seq": 4096}``. They stand behind the name.

    Raises
    ------
    InputError
        If there is no such graph, or it has no such size; or the sizes do not go together.
    """
    if is_network(name):
        raise InputError(f"model {name!r} is a graph of inference: write sizes behind its name, with zoo_graph")
    model, source = _spec(name)
    if sizes:
        taken = [field.name for field in fields(model) if field.type == "int" and field.name != "top_k"]
        unknown = next((key for key in sizes if key not in taken), None)
        if unknown is not None:
            raise InputError(f"model {name!r}: has no size {unknown!r}; it has {', '.join(taken)}")
        model = replace(model, **sizes)
        name = f"{name}-{'-'.join(f'{key}{value}' for key, value in sizes.items())}"
    if attention != "matmuls":
        if not isinstance(model, Transformer):
            raise InputError(f"attention: {name} has none; leave the option out (got {attention!r})")
        model = replace(model, attention=attention)
    return model.graph(name, source=source)


def zoo_module(name: str, *, attention: Attention = "matmuls", device: str = "cpu") -> Any:
    """The torch module that a graph of the zoo describes: its parameters are the graph's, by qualified name.

    Parameters
    ----------
    name : str
        One of `ZOO`, but BERT and Llama, which have no module here; those of inference are `network_of`.
    attention : {"matmuls", "fused"}
        As for `zoo_graph`.
    device : str
        ``"meta"`` makes no weights.

    Raises
    ------
    InputError
        If there is no such graph or no module of it.
    """
    if is_network(name):
        raise InputError(f"model {name!r} is a network of inference; its module is network_of({name!r}).module")
    zoo_graph(name)
    import torch

    from ...kernels import training

    model, _ = _spec(name)
    kinds: dict[type[Model], Any] = {
        GPT: training.GPT,
        MoE: training.MoE,
        ResNet: training.ResNet,
        MlpNet: training.MlpNet,
    }
    kind = kinds.get(type(model))
    if kind is None:
        raise InputError(f"no torch module of {name}; there are modules of GPT, MoE, Wide-ResNet and MLP graphs")
    sizes: dict[str, Any] = {f.name: getattr(model, f.name) for f in fields(model) if f.name not in NOT_SIZES}
    if isinstance(model, Transformer):
        sizes["fused"] = attention == "fused"
    with torch.device(device):
        return kind(**sizes)


# Eight graphs at a time, a guess: a session plans few models again and again, and a large graph takes megabytes.
@lru_cache(maxsize=8)
def _built(name: str) -> Graph:
    return build_graph(name)


@lru_cache(maxsize=8)
def _shipped(name: str) -> Graph:
    path = DATA / f"{name}.json.gz"
    return from_json(gzip.decompress(path.read_bytes()).decode(), path.name)


def _write() -> None:
    for name in ZOO:
        graph = build_graph(name)
        packed = gzip.compress(graph.to_json().encode(), mtime=0)
        if name not in BRANCHES:
            (DATA / f"{name}.json.gz").write_bytes(packed)
        paper = f"{PAPER_PARAMS[name] / 1e9:8.2f}" if name in PAPER_PARAMS else " " * 8
        print(f"{name:20} {len(graph.operators):5} operators {graph.params / 1e9:8.3f} B parameters (paper {paper})"
              f" {graph.forward_flops / 1e12:9.3f} forward TFLOP {len(packed) / 1024:6.1f} KiB")  # fmt: skip


if __name__ == "__main__":
    _write()
