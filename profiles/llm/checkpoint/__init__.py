"""Read the shape of a decoder from a checkpoint's config.json. Begin with `read` (`read_shape`).

Every field is either modelled, or known to be harmless (`fields`), or refused, so that no model is planned wrongly.
"""

from .families import FAMILIES, Family
from .read import read_shape

__all__ = ["FAMILIES", "Family", "read_shape"]
