"""How wrong the predictions are: every kind of prediction beside something measured, as one page.

Begin with `line` (what a line says) and `make` (which gathers them). `published` computes what others measured; `here`
measures this machine; `files` reads what a user has; `elsewhere` names what takes minutes. `page` writes it all down:
``meshwright reproduce accuracy --out docs/accuracy.md``.
"""

from .line import Errors, Line
from .make import Accuracy, make
from .options import Given, Options
from .page import markdown, table

__all__ = ["Accuracy", "Errors", "Given", "Line", "Options", "make", "markdown", "table"]
