"""How wrong the predictions are: every kind of prediction beside something measured, as one page.

Begin with `line` (what a line says) and `gather` (which makes them). `published` computes what others measured; `here`
measures this machine; `files` reads what a user has; `elsewhere` names what takes minutes. `page` writes it all down:
``meshwright reproduce accuracy --out docs/accuracy.md``.
"""

from .gather import Accuracy, make
from .line import Errors, Line
from .options import Given, Options
from .page import markdown, text

__all__ = ["Accuracy", "Errors", "Given", "Line", "Options", "make", "markdown", "text"]
