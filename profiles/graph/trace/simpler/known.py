"""What is known while a module is traced: values that depend on its buffers and on numbers alone, such as edges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .....errors import InputError
from ..errors import line_of

if TYPE_CHECKING:
    from ..export import Exported

__all__ = ["check_constants", "known_values"]

LARGEST = 1 << 22
"""Buffers and results of more elements than this are not followed: 32 MB of indices. A guess."""

NUMBERS = frozenset({"item", "tolist", "__int__", "__bool__", "__float__", "__index__", "is_nonzero", "equal"})
"""Functions whose results are no tensors, and which torch's export takes for data that it does not know."""

SHAPES = frozenset({"nonzero", "masked_select", "unique", "unique_consecutive", "argwhere", "bincount"})
"""Functions whose results have a shape that depends on values."""

RANDOM = frozenset({"rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "dropout", "empty",
                    "rand_like", "randn_like", "randint_like", "empty_like", "new_empty", "poisson"})  # fmt: skip


def known_values(buffers: Mapping[Any, Any]) -> Any:
    """A mode for a forward pass that is being traced, in which values that follow from buffers are known.

    A tensor that is made of nothing else is followed: beside each call on tensors that torch traces, which have no
    values, the same call is made on the true ones. Where a shape or a number depends on values that are known so, torch
    is given it: ``edges[:, edges[0] != edges[1]]`` of edges in a buffer picks what it picks.

    Parameters
    ----------
    buffers : mapping
        Buffer as it is traced -> its true value, which is not changed.
    """
    import torch
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import _disable_current_modes
    from torch.utils._pytree import tree_leaves, tree_map

    class Known(TorchFunctionMode):
        def __init__(self) -> None:
            super().__init__()
            self.kept: dict[int, tuple[Any, Any]] = {}
            with _disable_current_modes():
                for traced, value in buffers.items():
                    if value.numel() <= LARGEST:
                        self._keep(traced, value.detach().clone())

        def _keep(self, traced: Any, value: Any) -> None:
            self.kept[id(traced)] = traced, value  # the tensor too, so that its id stays its own

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs, word = kwargs or {}, str(getattr(func, "__name__", ""))
            if word in ("__getitem__", "__setitem__"):
                args = (args[0], self._picked(args[1]), *args[2:])
            said = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
            sized = any(isinstance(x, (torch.SymInt, torch.SymFloat)) for x in tree_leaves((args, kwargs)))
            if sized or word in RANDOM or any(id(x) not in self.kept for x in said):
                return self._forgotten(func, word, args, kwargs)
            if not said and not word.startswith(("arange", "tensor", "zeros", "ones", "full", "eye", "as_tensor")):
                return func(*args, **kwargs)
            true = self._true(func, args, kwargs)
            if true is None:
                return self._forgotten(func, word, args, kwargs)
            if word in NUMBERS:
                return true
            shaped = word in SHAPES and isinstance(true, torch.Tensor)
            found = self._constant(true) if shaped else func(*args, **kwargs)
            ours, theirs = tree_leaves(found), tree_leaves(true)
            for traced, value in zip(ours, theirs, strict=False):
                if isinstance(traced, torch.Tensor) and isinstance(value, torch.Tensor) and value.numel() <= LARGEST:
                    self._keep(traced, value)
            return found

        def _forgotten(self, func: Any, word: str, args: Any, kwargs: Any) -> Any:
            """A call on what is not known: what it writes into is not known any more either."""
            found = func(*args, **kwargs)
            if args and (word == "__setitem__" or (word.endswith("_") and not word.endswith("__"))):
                self.kept.pop(id(args[0]), None)
            return found

        def _true(self, func: Any, args: Any, kwargs: Any) -> Any:
            """What the call makes of true values; None if it makes nothing of them."""

            def value(x: Any) -> Any:
                return self.kept[id(x)][1] if isinstance(x, torch.Tensor) else x

            with _disable_current_modes():
                try:
                    return func(*tree_map(value, args), **tree_map(value, {**kwargs}))
                except Exception:  # then nothing is known of it, and the traced call says what is wrong
                    return None

        def _constant(self, value: Any) -> Any:
            """A tensor of these values in the traced program."""
            with _disable_current_modes():
                listed = value.tolist()
            return torch.tensor(listed, dtype=value.dtype).reshape(value.shape)

        def _picked(self, index: Any) -> Any:
            """An index, masks that are known replaced by the places that they pick."""
            every = index if isinstance(index, tuple) else (index,)
            found: list[Any] = []
            for one in every:
                if isinstance(one, torch.Tensor) and one.dtype == torch.bool and one.ndim and id(one) in self.kept:
                    with _disable_current_modes():
                        true = self.kept[id(one)][1].nonzero(as_tuple=True)
                    for places in true:
                        made = self._constant(places)
                        self._keep(made, places)
                        found.append(made)
                else:
                    found.append(one)
            return tuple(found) if isinstance(index, tuple) or len(found) > 1 else found[0]

    return Known()


def check_constants(one: Exported, two: Exported) -> None:
    """Refuse tensors that the module makes of numbers where they are others at another batch.

    Raises
    ------
    InputError
        If there is one: edges of several graphs, laid one after another, are such where a layer picks among them.
    """
    import torch

    for name, x in one.lifted.items():
        other = two.lifted.get(name)
        if other is None or x.shape != other.shape or not torch.equal(x, other):
            node = next(t.node for t in one.tensors if t.name == name)
            line = next((found for user in node.users if (found := line_of(user))), "")
            raise InputError(
                f"{one.source}: picks by values, other ones at batch {two.batch} than at {one.batch}"
                f"{f', at {line}' if line else ''}; expected the same for every sample: pick before the module (add "
                "self loops to the edges, and tell the layer not to), or weigh by a mask"
            )
