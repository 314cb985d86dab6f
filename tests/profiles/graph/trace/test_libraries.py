"""Whole models of timm, torchvision, diffusers and torch_geometric, small and with random weights: `from_torch` holds
each against its module, loss and every gradient, in float64. Slow; each needs its library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from meshwright.profiles.graph import from_torch
from torch import nn
from torch.nn import functional as F

pytestmark = pytest.mark.slow

Made = tuple[nn.Module, Any, Callable[..., Any], torch.Tensor]


def image(side: int) -> tuple[torch.Tensor, ...]:
    return (torch.randn(2, 3, side, side),)


def five() -> torch.Tensor:
    return torch.randint(0, 5, (2,))


def vision(name: str, side: int = 64, **options: Any) -> Made:
    models = pytest.importorskip("torchvision").models
    return getattr(models, name)(num_classes=5, **options), image(side), F.cross_entropy, five()


def swin(_: str) -> Made:
    models = pytest.importorskip("torchvision").models
    module = models.SwinTransformer([4, 4], 16, [2, 2], [2, 4], [4, 4], stochastic_depth_prob=0.2, num_classes=5)
    return module, image(64), F.cross_entropy, five()


def timm_model(name: str, **options: Any) -> Made:
    side = options.get("img_size", 64)
    model = pytest.importorskip("timm").create_model(name, num_classes=5, **options)
    return model, image(side), F.cross_entropy, five()


def diffusion(_: str) -> Made:
    kind = pytest.importorskip("diffusers").UNet2DModel
    module = kind(
        sample_size=16, layers_per_block=1, block_out_channels=(16, 32), norm_num_groups=4, dropout=0.1,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    inputs = {"sample": torch.randn(2, 3, 16, 16), "timestep": torch.randint(0, 100, (2,))}
    return module, inputs, lambda result, y: F.mse_loss(result.sample, y), torch.randn(2, 3, 16, 16)


def graphs(_: str) -> Made:
    kind = pytest.importorskip("torch_geometric.nn").SAGEConv

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = kind(5, 8), kind(8, 5)
            self.register_buffer("edges", torch.tensor([[0, 1, 2, 3, 4, 4], [1, 2, 3, 4, 0, 2]]))

        def forward(self, x: Any) -> Any:
            return self.two(F.relu(self.one(x, self.edges)), self.edges).mean(1)

    return Net(), (torch.randn(2, 5, 5),), F.cross_entropy, five()


MODELS: dict[str, Callable[[str], Made]] = {
    "torchvision": lambda _: vision("mobilenet_v3_small"),
    "densenet121": vision,
    "shufflenet_v2_x0_5": vision,
    "swin": swin,
    "vit_tiny_patch16_224": lambda name: timm_model(name, img_size=64, depth=2, drop_path_rate=0.1, attn_drop_rate=0.1),
    "deit_tiny_distilled_patch16_224": lambda name: timm_model(name, img_size=64, depth=2),
    "diffusers": diffusion,
    "torch_geometric": graphs,
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_a_library(name: str) -> None:
    torch.manual_seed(0)
    module, inputs, loss, labels = MODELS[name](name)
    graph = from_torch(module.train(), inputs, loss=loss, labels=labels, name=name)
    trained = sum(t.trainable for t in graph.parameters)
    assert f"compared with it in float64: the loss and {trained} gradients" in graph.source
    assert graph.with_batch(6).batch == 6
