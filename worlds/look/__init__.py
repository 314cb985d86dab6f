"""The look of pages and figures that people get: of studies, and of what a door answers."""

from .figures import DASHES, INK, Style, canvas, png, styles, svg
from .page import document, held, items, pairs, section

__all__ = [
    "DASHES", "INK", "Style", "canvas", "document", "held", "items", "pairs", "png", "section", "styles", "svg",
]  # fmt: skip
