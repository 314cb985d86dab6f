"""`network`: a network by its name, ready to run, with inputs of any batch. Torch is loaded when one is built."""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["NETWORKS", "Network", "NetworkSpec", "network", "network_spec", "skeleton"]


@dataclass(frozen=True)
class NetworkSpec:
    """A kind of network, and its sizes.

    Parameters
    ----------
    kind : str
        ``module:class`` in this folder.
    description : str
        What it is, with the source of its structure.
    sizes : mapping
        Every size that can be asked for, with its value.
    fixed : mapping
        Arguments of the class that make it this network.
    input_only : tuple of str
        Sizes that are of the input alone, not arguments of the class.
    """

    kind: str
    description: str
    sizes: Mapping[str, int]
    fixed: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    input_only: tuple[str, ...] = ("image", "frames")

    def sample(self) -> tuple[int, ...]:
        """Shape of one sample of the input."""
        s = self.sizes
        if "latent" in s:
            return (s["latent"], 1, 1)
        if "seq" in s:
            return (s["seq"],) if s["vocab"] else (s["seq"], s["hidden"])
        return (3, *((s["frames"],) if "frames" in s else ()), s["image"], s["image"])


@dataclass(frozen=True, eq=False, repr=False)
class Network:
    """A network that can be run.

    Parameters
    ----------
    name : str
        As `network` takes it.
    module : torch.nn.Module
        In evaluation mode, float32, on the CPU (`skeleton`: on the meta device).
    spec : NetworkSpec
        Its sizes and what it is.
    """

    name: str
    module: nn.Module
    spec: NetworkSpec

    def __repr__(self) -> str:
        return f"Network({self.name}: {self.description}, {self.parameters / 1e6:.4g} M parameters)"

    @property
    def description(self) -> str:
        """What it is, with the source of its structure."""
        return self.spec.description

    @property
    def parameters(self) -> int:
        """Parameters, without the statistics of batch norms."""
        return sum(p.numel() for p in self.module.parameters())

    def inputs(self, batch: int = 1, seed: int = 0) -> tuple[Tensor]:
        """What the module is called with: standard normal numbers, or tokens, the same for the same seed.

        Raises
        ------
        ValueError
            If the batch is not a positive integer.
        """
        import torch

        if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
            raise ValueError(f"network {self.name!r}: batch: expected a positive integer (got {batch!r})")
        draw, shape = torch.Generator().manual_seed(seed), (batch, *self.spec.sample())
        if self.spec.sizes.get("vocab"):
            return (torch.randint(0, self.spec.sizes["vocab"], shape, generator=draw),)
        return (torch.randn(shape, generator=draw),)


def _resnet(description: str, sizes: Mapping[str, int], **fixed: Any) -> NetworkSpec:
    said = {"image": 224, "base": 64, "classes": 1000, **sizes}
    return NetworkSpec("resnet:ResNet", description, MappingProxyType(said), MappingProxyType(fixed))


_FIFTY = (3, 4, 6, 3)

NETWORKS: Mapping[str, NetworkSpec] = MappingProxyType(
    {
        "resnet-18": _resnet(
            "ResNet-18 for ImageNet (He et al. 2016, Table 1)", {}, blocks=(2, 2, 2, 2), bottleneck=False
        ),
        "resnet-50": _resnet(
            "ResNet-50 for ImageNet (He et al. 2016, Table 1)", {}, blocks=_FIFTY, bottleneck=True
        ),
        "resnext-50": _resnet(
            "ResNeXt-50 32 × 4d for ImageNet (Xie et al. 2017, Table 1)", {}, blocks=_FIFTY, bottleneck=True,
            groups=32, group_width=4,
        ),
        "resnet3d-50": _resnet(
            "3-D ResNet-50 for Kinetics-400, 16 frames of 112 × 112 (Hara et al. 2018, Table 1)",
            {"image": 112, "frames": 16, "classes": 400}, blocks=_FIFTY, bottleneck=True, space=3,
        ),
        "mobilenet-v2": NetworkSpec(
            "mobilenet:MobileNetV2", "MobileNetV2 for ImageNet, width 1 (Sandler et al. 2018, Table 2)",
            MappingProxyType({"image": 224, "classes": 1000}),
        ),
        "nasnet-a": NetworkSpec(
            "nasnet:NASNetA", "NASNet-A (4 @ 1056) for ImageNet, mobile (Zoph et al. 2018, Fig. 4 and Table 3)",
            MappingProxyType({"image": 224, "cells": 4, "filters": 44, "stem": 32, "classes": 1000}),
        ),
        "dcgan": NetworkSpec(
            "dcgan:Generator", "generator of DCGAN, 64 × 64 images (Radford et al. 2016, Fig. 1)",
            MappingProxyType({"latent": 100, "filters": 64}),
        ),
        "bert-base": NetworkSpec(
            "bert:Encoder", "encoder of BERT-base, 128 positions (Devlin et al. 2019)",
            MappingProxyType({"layers": 12, "hidden": 768, "heads": 12, "seq": 128, "vocab": 0}),
        ),
    }
)  # fmt: skip
"""Name -> network. Sizes stand behind a name: ``bert-base-layers2``, ``resnet-50-image64-base8``."""

_SIZE = re.compile(r"([a-z]+)(\d+)")


def network_spec(name: str) -> NetworkSpec:
    """The network of a name, with the sizes that stand behind it. Needs no torch.

    Raises
    ------
    ValueError
        If there is no such network or size; the message names the nearest, and those that are known.
    """
    word = str(name)
    kind = max((k for k in NETWORKS if word == k or word.startswith(f"{k}-")), key=len, default=None)
    if kind is None:
        near = difflib.get_close_matches(word.lower(), NETWORKS, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ValueError(f"network: unknown name {name!r}; {hint}known: {', '.join(NETWORKS)}")
    spec, said = NETWORKS[kind], dict[str, int]()
    for part in word[len(kind) + 1 :].split("-") if word != kind else ():
        match = _SIZE.fullmatch(part)
        # "vocab0" is no embeddings; no other size may be 0.
        if match is None or match[1] not in spec.sizes or match[1] in said or int(match[2]) < (match[1] != "vocab"):
            known = ", ".join(f"{key}{value}" for key, value in spec.sizes.items())
            raise ValueError(f"network {name!r}: {part!r} is no size of {kind}, said once; its sizes are {known}")
        said[match[1]] = int(match[2])
    return NetworkSpec(spec.kind, spec.description, MappingProxyType({**spec.sizes, **said}), spec.fixed)


def network(name: str, seed: int = 0) -> Network:
    """A network with random weights.

    Parameters
    ----------
    name : str
        One of `NETWORKS`, with sizes behind it or without: ``nasnet-a-cells1-filters8``.
    seed : int
        Of the weights: the same seed, the same bytes.

    Raises
    ------
    ValueError
        If there is no such network; if its sizes do not go together.
    ModuleNotFoundError
        Without torch; the message names the extra.
    """
    spec = network_spec(name)
    module = _built(name, spec, "cpu")
    from .weights import fill

    return Network(name, fill(module, seed), spec)


def skeleton(name: str) -> Network:
    """A network without weights, on the meta device: what is traced and counted without its memory.

    Raises
    ------
    ValueError, ModuleNotFoundError
        As `network`.
    """
    spec = network_spec(name)
    return Network(name, _built(name, spec, "meta").eval(), spec)


def _built(name: str, spec: NetworkSpec, device: str) -> nn.Module:
    try:
        import torch
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f"network {name!r}: needs torch; pip install -e '.[torch]' in Meshwright's folder"
        ) from None
    file, _, kind = spec.kind.partition(":")
    build = getattr(importlib.import_module(f"{__package__}.{file}"), kind)
    sizes = {key: value for key, value in spec.sizes.items() if key not in spec.input_only}
    with torch.random.fork_rng(devices=[]), torch.device(device):  # torch's own initialisation draws, too
        return build(**sizes, **spec.fixed)
