"""What a module is traced with: its inputs by name, and the loss of its result."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ....errors import InputError

__all__ = ["named_inputs", "with_loss"]


def named_inputs(module: Any, inputs: Sequence[Any] | Mapping[str, Any], source: str) -> dict[str, Any]:
    """Inputs by the names of the arguments that they are given to."""
    if isinstance(inputs, Mapping):
        return {key: x for key, x in inputs.items() if key not in _settings(inputs)}
    listed = list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]
    try:
        bound = inspect.signature(module.forward).bind(*listed)
    except TypeError as error:
        raise InputError(f"{source}: inputs: {error}") from None
    found: dict[str, Any] = {}
    for key, value in bound.arguments.items():
        if isinstance(value, tuple) and key not in ("self",):  # *args
            found |= {f"{key}{i}": x for i, x in enumerate(value)}
        else:
            found[key] = value
    return found


def _settings(inputs: Sequence[Any] | Mapping[str, Any]) -> dict[str, Any]:
    """Inputs by name that are truth values, numbers or words: a part of the module, the same for every sample."""
    by_name = inputs if isinstance(inputs, Mapping) else {}
    return {key: x for key, x in by_name.items() if x is None or isinstance(x, (bool, int, float, str))}


def with_loss(
    module: Any, loss: str | Callable[..., Any] | None, inputs: Sequence[Any] | Mapping[str, Any], *,
    results: bool = False,
) -> Any:  # fmt: skip
    """A module that takes such inputs (and ``labels``) by name and returns the loss; or all that the module gives.

    A module that gives a loss among other things (an output with ``loss``, as those of Hugging Face) returns that one.
    """
    import torch
    from torch.nn import functional

    def cross_entropy(result: Any, labels: Any) -> Any:
        return functional.cross_entropy(result.flatten(0, -2), labels.flatten())

    losses: Mapping[str, Callable[..., Any]] = {"cross_entropy": cross_entropy, "mse": functional.mse_loss}
    if isinstance(loss, str) and loss not in losses:
        raise InputError(f"loss: expected {' or '.join(map(repr, losses))} or a function (got {loss!r})")
    function = losses[loss] if isinstance(loss, str) else loss
    by_name, settings = isinstance(inputs, Mapping), _settings(inputs)

    class Traced(torch.nn.Module):
        """The module under a known name, and its loss."""

        def __init__(self) -> None:
            super().__init__()
            self.traced = module

        def forward(self, given: Mapping[str, Any]) -> Any:
            own = {key: x for key, x in given.items() if function is None or key != "labels"}
            result = self.traced(**own, **settings) if by_name else self.traced(*own.values())
            if function is not None:
                return function(result, given["labels"])
            return result if results else _loss_among(result)

    return Traced()


def _loss_among(result: Any) -> Any:
    """The entry ``loss`` of an output with named entries; what is no such output as it is."""
    found = result.get("loss") if isinstance(result, Mapping) else getattr(result, "loss", None)
    return result if found is None else found
