"""`fingerprint`: what a module does with some inputs, call by call, as a digest; it takes a run of the module."""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

__all__ = ["Fingerprint", "fingerprint", "parameters_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Fingerprint:
    """What a run did.

    Parameters
    ----------
    digest : str
        Equal only for runs that call the same functions of torch in the same order, whose kernels get the same
        settings, and tensors of the same origin, shape, type and strides, under the same torch and Python.
    result : torch.Tensor
        What it gave.
    """

    digest: str
    result: torch.Tensor


class _Unclear(Exception):
    """A tensor or setting whose origin or value a digest cannot hold."""


def parameters_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers by all their names."""
    return {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }


def fingerprint(module: torch.nn.Module, inputs: Sequence[torch.Tensor], reader: str = "") -> Fingerprint | None:
    """Run a module, and say what it did; nothing where that does not determine a graph.

    It does not where a number is taken out of a tensor (control flow or shapes that depend on data), a tensor is made
    outside of the run and is no parameter, there are several results, or the module fails.

    Parameters
    ----------
    module : torch.nn.Module
        In evaluation.
    inputs : sequence of torch.Tensor
        What it is called with.
    reader : str
        What else decides which graph comes out: whoever reads graphs of runs.
    """
    import torch
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    notes = _Notes()
    for k, one in enumerate(inputs):
        notes.name(one, f"input {k}")
    for name, one in parameters_of(module).items():
        notes.name(one, f"parameter {name}")

    class Functions(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            notes.calls.append(getattr(func, "__qualname__", None) or str(func))
            return func(*args, **(kwargs or {}))

    class Kernels(TorchDispatchMode):
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            """torch asks this itself; by its own answer it would load its compiler here, for two CPU seconds."""
            return False

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            said = [str(func), notes.word(args), notes.word(kwargs or {})]
            made = func(*args, **(kwargs or {}))
            notes.calls.append([*said, notes.made(made)])
            return made

    with torch.no_grad(), Kernels(), Functions():
        try:
            result = module(*inputs)
        except Exception:  # whoever captures it is told what is wrong
            return None
        if not isinstance(result, torch.Tensor) or id(result) not in notes.names:
            return None
    where = [torch.__version__, sys.version, reader, list(inspect.signature(module.forward).parameters)]
    text = json.dumps([where, notes.calls, notes.names[id(result)]])
    return Fingerprint(hashlib.sha256(text.encode()).hexdigest(), result)


@dataclass
class _Notes:
    """What was called, with words for tensors."""

    calls: list[Any] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    alive: list[Any] = field(default_factory=list)
    """Every tensor that has a name: another must not get its id."""

    def name(self, tensor: Any, name: str) -> None:
        if id(tensor) not in self.names:
            self.names[id(tensor)] = f"{name} {_form(tensor)}"
            self.alive.append(tensor)

    def word(self, given: Any) -> Any:
        """An argument of a kernel as JSON has it."""
        import torch

        if isinstance(given, torch.Tensor):
            if id(given) not in self.names:
                raise _Unclear(f"a tensor of unknown origin: {_form(given)}")
            return {"tensor": self.names[id(given)]}
        if isinstance(given, Mapping):
            return {str(name): self.word(one) for name, one in given.items()}
        if isinstance(given, list | tuple):
            return [self.word(one) for one in given]
        if given is None or isinstance(given, bool | int | str):
            return given
        if isinstance(given, float | complex | torch.dtype | torch.device | torch.memory_format | torch.layout):
            return repr(given)
        raise _Unclear(f"a setting of {type(given).__name__}")

    def made(self, found: Any) -> Any:
        """What a kernel gave; tensors get names."""
        import torch

        if isinstance(found, torch.Tensor):
            self.name(found, f"result {len(self.names)}")
            return self.names[id(found)]
        if isinstance(found, list | tuple):
            return [self.made(one) for one in found]
        if found is None:
            return None
        raise _Unclear(f"a kernel that gives {type(found).__name__}: it depends on data")


def _form(tensor: Any) -> str:
    return f"{tuple(tensor.shape)} {tensor.dtype} {tuple(tensor.stride())} {tensor.device}"
