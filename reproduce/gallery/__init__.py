"""The gallery: all figures of all papers on one page, with verdicts, sensitivity, cost and command."""

from .page import page

__all__ = ["page"]
