"""What a checkpoint's config.json says of a decoder's shape: every field is modelled, known harmless, or refused."""

from .families import FAMILIES, Family
from .read import read_shape

__all__ = ["FAMILIES", "Family", "read_shape"]
