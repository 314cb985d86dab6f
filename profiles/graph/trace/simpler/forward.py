"""torch's export of a module's forward, written as simply as its code allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any

from .experts import STATIC, experts
from .hints import nobody_traces, not_for_compilers, without_hints
from .known import known_values
from .recurrent import layer_by_layer

__all__ = ["traced_forward"]


def traced_forward(whole: Any, example: Mapping[str, Any], module: Any, as_it_runs: bool = False) -> Any:
    """The exported program of a module (`whole`: with its loss), as compilers see it or, where that fails, as it runs.

    Some modules make a mask only where they are not compiled, and fail without it. What fails both ways raises what
    the first way did. Values that follow from buffers of indices and truth values are known meanwhile. With
    `as_it_runs` the module hears that nothing traces it, and may ask for all that does not follow from its inputs and
    parameters: whether a mask that it made for itself hides anything.
    """
    with experts(module, STATIC), without_hints(), layer_by_layer(), _knowing(whole, module, as_it_runs):
        if as_it_runs:
            with nobody_traces():
                return _exported(whole, example, module)
        try:
            return _exported(whole, example, module)
        except Exception as error:
            try:
                with not_for_compilers():
                    return _exported(whole, example, module)
            except Exception:
                raise error from None


def _exported(whole: Any, example: Mapping[str, Any], module: Any) -> Any:
    """One try, which leaves nothing behind: torch puts back attributes of a module, and no hooks."""
    import torch

    from ...module_loss import untouched

    with untouched(module):
        return torch.export.export(whole, (example,), strict=False)


@contextmanager
def _knowing(whole: Any, module: Any, always: bool) -> Iterator[None]:
    """Where the module has buffers that may be indices or masks, its forward pass knows what follows from buffers."""
    true = {name: x.detach() for name, x in module.named_buffers() if x.device.type == "cpu"}
    if not always and not any(x.ndim and not x.is_floating_point() for x in true.values()):
        yield
        return
    forward = whole.forward

    @wraps(forward)
    def known(*args: Any, **kwargs: Any) -> Any:
        traced = dict(module.named_buffers())
        with known_values({x: true[name] for name, x in traced.items() if name in true}):
            return forward(*args, **kwargs)

    whole.forward = known
    try:
        yield
    finally:
        del whole.forward
