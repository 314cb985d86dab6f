"""Towers that see: the part of a model that turns images into tokens; its weights, and its tokens."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import InputError
from ...reprs import Shown

__all__ = ["Image", "Tower", "checked_images", "images_of"]

Image = tuple[int, int]
"""Height and width, pixels."""
MOST_TOKENS = 16384
"""Most tokens of an image of any size, by the processors' own limit (Qwen2-VL: ``max_pixels`` 16384 x 28 x 28)."""


MOST_PIXELS = 65535
"""Longest side of an image that is taken: as JPEG's."""


@dataclass(frozen=True, slots=True, repr=False)
class Tower(Shown):
    """Shape of a vision transformer and of the projector behind it.

    Parameters
    ----------
    layers, hidden, heads, ffn : int
        Layers that engines load; width; attention heads; inner width of the feed-forward block.
    patch : int
        Side of a patch, pixels.
    gated : bool
        Whether the feed-forward block has a gate.
    merge : int
        Patches on each side that become one token.
    side : int
        Side to which every image is brought; 0 where images keep their shape.
    longest : int
        Longest side of an image that keeps its shape, pixels; larger ones are made smaller. 0: any.
    breaks : bool
        Whether each row of tokens ends with one of its own (Pixtral).
    window : int
        Side of the square in which patches see each other, pixels; 0: all see all.
    full_layers : int
        Layers that see everything beside those with a window.
    projector, further : int
        Weights of the projector; of patches' and positions' embeddings.

    Raises
    ------
    InputError
        On a size below one, or one that does not divide.
    """

    layers: int
    hidden: int
    heads: int
    ffn: int
    patch: int
    gated: bool = False
    merge: int = 1
    side: int = 0
    longest: int = 0
    breaks: bool = False
    window: int = 0
    full_layers: int = 0
    projector: int = 0
    further: int = 0

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "heads", "ffn", "patch", "merge"):
            value: Any = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"tower: {name}: expected an integer >= 1 (got {value!r})")
        if self.side % (self.patch * self.merge) and self.side // self.patch % self.merge:
            raise InputError(f"tower: images of {self.side} pixels are no multiple of {self.merge} patches")

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Tower:
        """From its fields, as `dataclasses.asdict` gives them.

        Raises
        ------
        InputError
            On a field that is missing or unknown, or a value that cannot be.
        """
        try:
            return cls(**said)
        except TypeError as error:
            raise InputError(f"tower: {str(error).partition(') ')[2] or error}") from None

    @property
    def weights(self) -> int:
        """Number of weights, biases and norms left out."""
        block = 4 * self.hidden**2 + (3 if self.gated else 2) * self.hidden * self.ffn
        return self.layers * block + self.projector + self.further

    def split(self, tp: int) -> int:
        """Ranks of a tensor-parallel group that share its work; one where they do not divide its heads."""
        return tp if self.heads % tp == 0 else 1

    def grid(self, image: Image) -> tuple[int, int]:
        """Rows and columns of an image's patches."""
        if self.side:
            return self.side // self.patch, self.side // self.patch
        height, width = image
        shrink = max(1.0, max(image) / self.longest) if self.longest else 1.0
        unit = self.patch * self.merge
        shrink = max(shrink, math.sqrt(height * width / (MOST_TOKENS * unit * unit)))
        rows, columns = (max(1, round(size / shrink / unit)) for size in (height, width))
        return rows * self.merge, columns * self.merge

    def image_tokens(self, image: Image) -> int:
        """Tokens of a prompt that an image becomes."""
        rows, columns = (patches // self.merge for patches in self.grid(image))
        return rows * (columns + self.breaks)


def checked_images(images: Any, tower: Tower | None, model: str) -> tuple[Image, ...]:
    """Images of a request, checked.

    Raises
    ------
    InputError
        If one is no pair of pixels, or the model has no tower.
    """
    given: Any = images
    if not isinstance(given, tuple | list):
        raise InputError(f"images: expected pairs of height and width in pixels, as ((448, 448),) (got {images!r:.80})")
    found: list[Image] = []
    for each in given:  # pyright: ignore[reportUnknownVariableType]
        pair: Any = each
        if not (isinstance(pair, tuple | list) and len(pair) == 2  # pyright: ignore[reportUnknownArgumentType]
                and all(type(n) is int and n >= 1 for n in pair)):  # pyright: ignore[reportUnknownVariableType]  # fmt: skip
            raise InputError(f"images: expected pairs of height and width in pixels, each >= 1 (got {pair!r:.80})")
        found.append((pair[0], pair[1]))
    if found and tower is None:
        raise InputError(f"images: {model} has no tower that sees; give a config.json with vision_config")
    return tuple(found)


def images_of(said: Iterable[str]) -> tuple[Image, ...]:
    """Images as a person writes them: height x width in pixels, ``1120x1120``.

    Raises
    ------
    InputError
        On anything else.
    """
    found: list[Image] = []
    for text in said:
        sizes = text.lower().split("x")
        if len(sizes) != 2 or not all(size.strip().isdecimal() and 1 <= int(size) <= MOST_PIXELS for size in sizes):
            raise InputError(
                f"images: expected height x width in pixels, each from 1 to {MOST_PIXELS}, as 1120x1120 "
                f"(got {text!r:.40})"
            )
        height, width = map(int, sizes)
        found.append((height, width))
    return tuple(found)
