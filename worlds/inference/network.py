"""The network that a case names: one of ours, or a torch module of the user's; captured at the case's batch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import InputError

if TYPE_CHECKING:
    from ...runtime.backends.capture import Captured

__all__ = ["captured_network", "check_name", "is_file"]


def is_file(model: str) -> bool:
    """Whether it is ``path/to/file.py:function``, and no name of a network."""
    return model.endswith(".py") or ".py:" in model


def check_name(model: str) -> None:
    """Refuse a network that is not there, without torch.

    Raises
    ------
    InputError
        Naming the nearest.
    """
    from ...kernels.networks.catalogue import network_spec

    if not is_file(model):
        try:
            network_spec(model)
        except ValueError as error:
            raise InputError(f"model: {str(error).removeprefix('network: ')}") from None


def captured_network(model: str, batch: int, folder: Path, graphs: Path | None = None) -> Captured:
    """The network's operators, with its weights and an example input.

    Weights of our networks are random, the same each time; a user's module has its own.

    Parameters
    ----------
    model, batch
        As the case says.
    folder : Path
        That a file's path is relative to.
    graphs : Path, optional
        Folder that keeps graphs: the second time a network is run once instead of captured.

    Raises
    ------
    InputError
        If there is no such network, torch is missing, or it cannot be captured at this batch.
    """
    from ...runtime.backends.capture import capture
    from ...runtime.backends.keeping import capture_kept

    check_name(model)
    if is_file(model):
        module, inputs = _users(model, batch, folder)
    else:
        from ...kernels.networks import network

        try:
            made = network(model)
        except ModuleNotFoundError as error:
            raise InputError(f"model: {error}") from None
        module, inputs = made.module, made.inputs(batch)
    return capture(module, inputs) if graphs is None else capture_kept(module, inputs, graphs)


def _users(model: str, batch: int, folder: Path) -> tuple[Any, tuple[Any, ...]]:
    """A user's module in evaluation, and its inputs with as many rows as the batch has."""
    from ...profiles.graph.named import module_of
    from ...profiles.graph.trace.inputs import named_inputs

    file, _, name = model.rpartition(":") if not model.endswith(".py") else (model, "", "")
    found = module_of(f"{folder / file}:{name}", "model")
    if found is None:
        raise InputError(f"model: {model}: makes a graph; placements run a module: return (module, (input, …))")
    given = found.inputs
    if isinstance(given, Mapping):
        given = tuple(named_inputs(found.module, given, model).values())
    return found.module.eval(), tuple(_rows(one, batch, model) for one in given)


def _rows(tensor: Any, batch: int, model: str) -> Any:
    """A tensor whose first dimension is the batch: its rows again and again, or the first of them."""
    if not getattr(tensor, "ndim", 0):
        raise InputError(f"model: {model}: inputs: expected tensors whose first dimension counts samples")
    repeats = -(-batch // tensor.shape[0])
    return tensor.repeat(repeats, *[1] * (tensor.ndim - 1))[:batch].contiguous()
