"""The generator of DCGAN (Radford et al. 2016, Fig. 1): a vector becomes a 64 × 64 image by transposed convolutions."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn
from torch.nn import functional

__all__ = ["Generator"]


class Generator(nn.Module):
    """DCGAN's generator, with the widths of PyTorch's example (64 filters; the paper's figure has twice that).

    Parameters
    ----------
    latent : int
        Elements of the vector.
    filters : int
        Channels before the last convolution; 2, 4 and 8 times that before.
    """

    def __init__(self, *, latent: int = 100, filters: int = 64) -> None:
        super().__init__()
        widths = (latent, 8 * filters, 4 * filters, 2 * filters, filters)
        self.convs = nn.ModuleList(
            nn.ConvTranspose2d(a, b, 4, 2 if i else 1, 1 if i else 0, bias=False)
            for i, (a, b) in enumerate(pairwise(widths))
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for width in widths[1:])
        self.last = nn.ConvTranspose2d(filters, 3, 4, 2, 1, bias=False)

    def forward(self, noise: Tensor) -> Tensor:
        """Images ``[batch, 3, 64, 64]`` in −1 … 1, of vectors ``[batch, latent, 1, 1]``."""
        x = noise
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = functional.relu(norm(conv(x)))
        return self.last(x).tanh()
