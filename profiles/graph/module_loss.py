"""`ModuleLoss`: the loss and gradients that a user's own module has for given values, the module left as it was."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .trace.inputs import named_inputs, with_loss
from .trace.simpler.experts import PLAIN, experts

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["DRAWN", "ModuleLoss", "in_float64", "untouched"]


@dataclass(frozen=True, eq=False)
class ModuleLoss:
    """A module and its loss (none: its results), as `from_torch` takes them.

    Parameters
    ----------
    module : torch.nn.Module
        On any device, meta too: its own values are not used where others are given.
    inputs : sequence or mapping of Tensor
        Example inputs.
    loss : str or callable, optional
        As for `from_torch`.
    labels : Tensor, optional
        Example labels.
    """

    module: Any
    inputs: Sequence[Any] | Mapping[str, Any]
    loss: str | Callable[..., Any] | None = None
    labels: Any = None

    def given(self) -> dict[str, Any]:
        """The example inputs by name, ``labels`` among them where there is a loss of them."""
        found = named_inputs(self.module, self.inputs, type(self.module).__name__)
        return found if self.loss is None else {**found, "labels": self.labels}

    def input_names(self) -> dict[str, str]:
        """Name of an input in the graph -> name here: inputs that are called as a parameter is have another there."""
        own = {name for name, _ in (*self.module.named_parameters(), *self.module.named_buffers())}
        return {f"inputs.{name}" if name in own else name: name for name in self.given()}

    def buffers(self) -> dict[str, Tensor]:
        """Copies of the buffers, in float64 where they are floating; none of a module on the meta device."""
        return {name: _plain(x.detach()).clone() for name, x in self.module.named_buffers() if x.device.type != "meta"}

    def lifted(self, names: Collection[str]) -> dict[str, Tensor]:
        """Tensors that the module makes of numbers while it runs, by the names that a graph with these has for them."""
        from .trace.export import AS_IT_RUNS, lifted

        as_it_runs = any(name.startswith(AS_IT_RUNS) for name in names)
        with untouched(self.module):
            return lifted(self.module, self.inputs, self.loss, self.labels, as_it_runs)

    def results(self, values: Mapping[str, Tensor], inputs: Mapping[str, Tensor]) -> list[Tensor]:
        """What the module gives, flattened, in float64; parameters as for `gradients`."""
        import torch
        from torch.utils._pytree import tree_leaves

        with torch.no_grad(), untouched(self.module), in_float64():
            found = self._called({name: _plain(x).detach().clone() for name, x in values.items()}, inputs, True)
        return [x for x in tree_leaves(found) if isinstance(x, torch.Tensor)]

    def _called(
        self, leaves: Mapping[str, Tensor], inputs: Mapping[str, Tensor], results: bool = False,
        then: Callable[[Any], Any] = lambda found: found,
    ) -> Any:  # fmt: skip
        """The module's loss, or its results, by functional call, and what is made of it while the values are there.

        Backward is such: what was checkpointed runs again then, and must not find the module's own values.
        """
        import torch

        class Followed(torch.nn.Module):
            def __init__(self, whole: Any) -> None:
                super().__init__()
                self.whole = whole

            def forward(self, given: Mapping[str, Any]) -> Any:
                return then(self.whole(given))

        names = self.input_names()
        whole = Followed(with_loss(self.module, self.loss, self.inputs, results=results))
        parts = {f"whole.traced.{name}": x for name, x in leaves.items()}
        example = {names[name]: _plain(x) for name, x in inputs.items()}
        with experts(self.module, PLAIN):  # whatever is fast is not for float64
            return torch.func.functional_call(whole, parts, ({name: example[name] for name in self.given()},))

    def gradients(
        self, values: Mapping[str, Tensor], inputs: Mapping[str, Tensor], wanted: Sequence[str]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss and its gradients, in float64, without dropout.

        Parameters
        ----------
        values : mapping
            Parameters and buffers by qualified name. Of tied ones the first is enough.
        inputs : mapping
            Inputs by their names in the graph.
        wanted : sequence of str
            Parameters whose gradients are wanted; zero where the loss does not depend on one.
        """
        import torch

        leaves = {name: _plain(x).detach().clone().requires_grad_(name in wanted) for name, x in values.items()}

        def both(loss: Tensor) -> tuple[Tensor, Sequence[Tensor | None]]:
            asked = [leaves[name] for name in wanted]
            return loss, torch.autograd.grad(loss.reshape(()), asked, allow_unused=True)

        with untouched(self.module), in_float64():
            loss, found = self._called(leaves, inputs, then=both)
        zero = {name: torch.zeros_like(leaves[name]) for name in wanted}
        pairs = zip(wanted, found, strict=True)
        return loss.detach().reshape(()), {name: zero[name] if x is None else x.detach() for name, x in pairs}


def _plain(x: Tensor) -> Tensor:
    return x.double() if x.dtype.is_floating_point else x


@contextmanager
def untouched(module: Any) -> Iterator[None]:
    """Put back afterwards what running a module changes: attributes, parts, hooks, and torch's random numbers.

    A module may keep what it computed (tables of angles, masks) as attributes. Those that a trial makes are not its
    own.
    """
    import torch

    kept = [(part, dict(vars(part))) for part in module.modules()]
    # Parts that are registered, and hooks: what a module hangs on itself in a trial would otherwise act twice.
    torchs = vars(torch.nn.Module()).keys()  # a library's own may be frozen
    inner = [(part, {key: dict(x) for key, x in vars(part).items() if key in torchs and isinstance(x, dict)})
             for part in module.modules()]  # fmt: skip
    values = [(x, x.detach().clone()) for x in module.buffers() if x.device.type != "meta"]
    values = [(x, old) for x, old in values if x.numel() <= _LARGEST]
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            for (part, attributes), (_, registered) in zip(kept, inner, strict=True):
                vars(part).clear()
                vars(part).update(attributes)
                for key, entries in registered.items():
                    vars(part)[key].clear()
                    vars(part)[key].update(entries)
            with torch.no_grad():
                for x, old in values:
                    if not torch.equal(x, old):
                        x.copy_(old)


_LARGEST = 1 << 26
"""Buffers of more elements are not copied: statistics that a pass changes are small."""


@contextmanager
def in_float64() -> Iterator[None]:
    """All floating-point work in float64 on the CPU, whatever dtype or device a module names; no element is dropped."""
    import torch

    before = torch.get_default_dtype()
    with ExitStack() as stack:
        stack.callback(torch.set_default_dtype, before)
        torch.set_default_dtype(torch.float64)
        stack.enter_context(_mode())
        yield


DRAWN = 0.5
"""What is drawn while a module is checked, for every number between 0 and 1 and every normal one."""


def _undrawn(func: Any, args: Any, kwargs: Mapping[str, Any]) -> float | None:
    """What every element is that a call draws; None if it draws nothing."""
    word = func._schema.name.removeprefix("aten::").rstrip("_")
    if word not in ("rand", "rand_like", "randn", "randn_like", "uniform", "normal", "exponential",
                    "randint", "randint_like"):  # fmt: skip
        return None
    named = {a.name: a.default_value for a in func._schema.arguments} | dict(
        zip((a.name for a in func._schema.arguments), args, strict=False)
    ) | dict(kwargs)  # fmt: skip
    if word.startswith("randint"):
        low = named.get("low", 0)
        return low + math.floor(DRAWN * (named["high"] - low))
    if word == "uniform":
        return named["from"] + DRAWN * (named["to"] - named["from"])
    if word == "exponential":
        return -math.log(1.0 - DRAWN) / named["lambd"]
    return named["mean"] + DRAWN * named["std"] if word == "normal" else DRAWN


def _mode() -> Any:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_map

    low = {torch.float32, torch.float16, torch.bfloat16}

    def wide(x: Any) -> Any:
        if isinstance(x, torch.dtype):
            return torch.float64 if x in low else x
        if isinstance(x, torch.device):
            return torch.device("cpu")
        return x.double() if isinstance(x, torch.Tensor) and x.dtype in low and x.device.type != "meta" else x

    class InFloat64(TorchDispatchMode):
        """Calls below autograd: dtypes and devices that they name, constants that they read, and draws of dropout."""

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            del types
            name = func._schema.name
            if name == "aten::bernoulli_" and func._overloadname == "float":
                share = args[1] if len(args) > 1 else func._schema.arguments[1].default_value
                return args[0].fill_(share)  # torch's dropout then divides by it: nothing is dropped
            if name == "aten::native_dropout":
                return args[0].clone(), torch.ones_like(args[0], dtype=torch.bool)
            if name == "aten::bernoulli" and func._overloadname == "default":  # of a tensor of chances
                return (args[0].double() > DRAWN).double()
            given = (kwargs or {}).get("generator") is not None  # draws of ours, for a check
            drawn = None if given else _undrawn(func, args, kwargs or {})
            if drawn is not None:
                made = args[0] if name.endswith("_") else func(*args, **(kwargs or {}))
                return (made.double() if made.dtype in low else made).fill_(drawn)
            written = {i for i, a in enumerate(func._schema.arguments) if a.alias_info and a.alias_info.is_write}
            args = [a if i in written else tree_map(wide, a) for i, a in enumerate(args)]
            kwargs = {key: tree_map(wide, a) if key != "out" else a for key, a in (kwargs or {}).items()}
            return func(*args, **kwargs)

    return InFloat64()
