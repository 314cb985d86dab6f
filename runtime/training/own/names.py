"""`StateNames`: the user's state dict, entry by entry, and which of the graph's parameters each is."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ....errors import InputError
from ....profiles.graph.fused.values import apart, parts_of, together

if TYPE_CHECKING:
    from torch import Tensor

    from ....profiles.graph import Graph
    from ....profiles.graph import Tensor as GraphTensor
    from ....profiles.graph.module_loss import ModuleLoss

__all__ = ["StateEntry", "StateNames"]


@dataclass(frozen=True, slots=True)
class StateEntry:
    """One entry of a state dict.

    Parameters
    ----------
    key : str
        Its name there.
    shape : tuple of int
        Its shape.
    dtype : str
        Its number format there, such as ``float32``.
    parameter : str
        The graph's parameter that it is, which several entries may be (tied weights), or that it is together with
        others (fused weights, `Tensor.part`). Empty: the loss does not depend on it; it leaves the run as it entered
        it.
    """

    key: str
    shape: tuple[int, ...]
    dtype: str
    parameter: str


@dataclass(frozen=True, slots=True)
class StateNames:
    """All entries, in the state dict's order.

    Parameters
    ----------
    entries : tuple of StateEntry
        Of the state dict.
    parts : tuple of Tensor
        The graph's tensors that are parts of a parameter.
    """

    entries: tuple[StateEntry, ...]
    parts: tuple[GraphTensor, ...] = ()

    @classmethod
    def of_module(cls, module: ModuleLoss, graph: Graph, statistics: Collection[str] = ()) -> StateNames:
        """Entries of the module's own state dict; `statistics` are buffers that the run keeps up to date."""
        own = module.module
        every = (*own.named_parameters(remove_duplicate=False), *own.named_buffers(remove_duplicate=False))
        first: dict[int, str] = {}
        for name, x in every:
            # A tied weight has in the graph the first of its names.
            first.setdefault(id(x), name)
        canonical = {name: first[id(x)] for name, x in every}
        parts = _parts(graph)
        known = {t.name for t in graph.parameters} | parts_of(parts).keys() | set(statistics)
        found = [
            (key, x, next((n for n in (canonical.get(key, key), key) if n in known), ""))
            for key, x in own.state_dict().items()
        ]
        return cls(tuple(StateEntry(key, tuple(x.shape), _word(x), name) for key, x, name in found), parts)

    @classmethod
    def of_graph(cls, graph: Graph, statistics: Mapping[str, tuple[int, ...]]) -> StateNames:
        """Entries of a model of which there is the graph alone: its parameters, those in parts as wholes, and the
        `statistics` that the run keeps up to date, with their shapes."""
        named = {(t.name if t.part is None else t.part.of): t for t in graph.parameters}
        shapes = {name: t.shape if t.part is None else t.part.shape for name, t in named.items()}
        counts = {op.running.batches for op in graph.operators if op.running is not None}
        entries = [StateEntry(n, shapes[n], t.dtype, n) for n, t in named.items()]
        entries += [StateEntry(n, x, "int64" if n in counts else "float32", n) for n, x in statistics.items()]
        return cls(tuple(entries), _parts(graph))

    @classmethod
    def read(cls, document: Sequence[Sequence[Any]], graph: Graph) -> StateNames:
        """What `document` wrote, of this graph."""
        entries = tuple(StateEntry(key, tuple(shape), dtype, name) for key, shape, dtype, name in document)
        return cls(entries, _parts(graph))

    def document(self) -> list[list[Any]]:
        """The entries as JSON can hold them."""
        return [[e.key, list(e.shape), e.dtype, e.parameter] for e in self.entries]

    def values(self, state: Mapping[str, Any], where: str = "state") -> dict[str, Tensor]:
        """The graph's parameters of a state dict.

        Raises
        ------
        InputError
            If an entry is missing or not known, has another shape, or tied ones differ; one line that names it.
        """
        import torch

        lacking = [e.key for e in self.entries if e.key not in state]
        known = {e.key for e in self.entries}
        strange = [key for key in state if key not in known]
        for what, keys in (("has no", lacking), ("has an unknown", strange)):
            if keys:
                more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
                raise InputError(f"run: {where}: {what} {keys[0]!r}{more}; are these the weights of this model?")
        found: dict[str, Tensor] = {}
        for entry in self.entries:
            x = torch.as_tensor(state[entry.key]).detach().cpu()
            if tuple(x.shape) != entry.shape:
                raise InputError(
                    f"run: {where}: {entry.key!r} has shape {tuple(x.shape)}, the model's has {entry.shape}; are these "
                    "the weights of this model?"
                )
            if not entry.parameter:
                continue
            if entry.parameter in found and not torch.equal(found[entry.parameter], x):
                raise InputError(
                    f"run: {where}: {entry.key!r} is tied to {entry.parameter!r} in the model, and differs from it here"
                )
            found[entry.parameter] = x
        return apart(found, self.parts)

    def whole(self, values: Mapping[str, Any]) -> dict[str, Tensor]:
        """Weights or gradients by the graph's names, with fused ones put together."""
        import torch

        return together({name: torch.as_tensor(x) for name, x in values.items()}, self.parts)

    def state(self, weights: Mapping[str, Any], kept: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The state dict of whole weights by the graph's names.

        Parameters
        ----------
        weights : mapping
            Arrays or tensors. Tied entries share one tensor, as a module's do.
        kept : mapping
            Key -> what an entry that the loss does not depend on was.
        """
        tensors = self.whole(weights)
        found: dict[str, Tensor] = {}
        for entry in self.entries:
            if entry.parameter in tensors:
                found[entry.key] = tensors[entry.parameter]
            elif entry.key in kept:
                found[entry.key] = kept[entry.key]
        return found

    def kept(self, state: Mapping[str, Any]) -> dict[str, Tensor]:
        """What the loss does not depend on, of a state dict."""
        import torch

        rest = [e.key for e in self.entries if not e.parameter and e.key in state]
        return {key: torch.as_tensor(state[key]).detach().cpu() for key in rest}


def _parts(graph: Graph) -> tuple[GraphTensor, ...]:
    return tuple(t for t in graph.parameters if t.part is not None)


def _word(x: Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")
