"""torch's export of a module's forward, written as simply as its code allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .experts import STATIC, experts
from .hints import not_for_compilers, without_hints
from .recurrent import layer_by_layer

__all__ = ["traced_forward"]


def traced_forward(whole: Any, example: Mapping[str, Any], module: Any) -> Any:
    """The exported program of a module (`whole`: with its loss), as compilers see it or, where that fails, as it runs.

    Some modules make a mask only where they are not compiled, and fail without it. What fails both ways raises what
    the first way did.
    """
    import torch

    with experts(module, STATIC), without_hints(), layer_by_layer():
        try:
            return torch.export.export(whole, (example,), strict=False)
        except Exception as error:
            try:
                with not_for_compilers():
                    return torch.export.export(whole, (example,), strict=False)
            except Exception:
                raise error from None
