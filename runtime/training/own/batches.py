"""`global_batches`: the user's samples, checked and collated to the global batches of a plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ....errors import InputError, MeshwrightError
from ....profiles.graph.compute.values import index_limit

if TYPE_CHECKING:
    from torch import Tensor

    from ....profiles.graph import Graph

__all__ = ["Batch", "global_batches", "rows_of_inputs"]

Batch = dict[str, "Tensor"]
"""Input -> its values for all samples of an iteration."""


@dataclass(frozen=True, slots=True)
class Rows:
    """How an input grows with the samples.

    Parameters
    ----------
    dim : int
        The dimension; −1 if it does not grow.
    each : int
        How many rows of it a sample has.
    """

    dim: int
    each: int


def rows_of_inputs(graph: Graph) -> dict[str, Rows]:
    """How each input grows with the samples.

    Raises
    ------
    InputError
        If one does in several dimensions.
    """
    found: dict[str, Rows] = {}
    for t in graph.inputs:
        if len(t.batch_dims) > 1:
            raise InputError(f"run: data: input {t.name!r} grows with the samples in several dimensions")
        dim = t.batch_dims[0] if t.batch_dims else -1
        found[t.name] = Rows(dim, t.shape[dim] // graph.batch if dim >= 0 else 1)
    return found


def global_batches(data: Any, graph: Graph, global_batch: int, iterations: int) -> Iterator[Batch]:
    """Collate the user's items to global batches, in their order.

    Parameters
    ----------
    data : iterable, or map-style dataset
        Items are samples, or batches of any number of samples: mappings from input to array, or tuples in the order of
        the graph's inputs. A mapping of arrays is one item.
    graph : Graph
        The graph that is trained.
    global_batch : int
        Samples of one iteration.
    iterations : int
        How many batches are needed.

    Raises
    ------
    InputError
        One line for an item that lacks an input, has another one, a wrong type or shape, or a number of samples that
        does not go with the global batch; for data that end too early, and for what the user's own code raises.
    """
    collate = _Collate(graph, global_batch)
    given = -1
    try:
        length = len(data) if hasattr(data, "__len__") and not isinstance(data, Mapping) else None
    except TypeError:  # a DataLoader of an iterable dataset
        length = None
    made = 0
    waiting: list[tuple[int, Batch]] = []
    for given, item in enumerate(_items(data)):
        n, batch = collate.read(item, given)
        if given == 0 and length is not None and length * n < iterations * global_batch:
            raise InputError(
                f"run: data: {length} items of {n} samples are too few for {iterations} iterations of {global_batch} "
                "samples; give more, or say fewer iterations"
            )
        if n % global_batch == 0:
            for k in range(n // global_batch):
                yield collate.part(batch, k * global_batch, global_batch)
                made += 1
            continue
        waiting.append((n, batch))
        have = sum(count for count, _ in waiting)
        if global_batch % n or have > global_batch:
            raise InputError(
                f"run: data: item {given} has {n} samples, and the plan's global batch of {global_batch} is not made "
                "of such; give samples, or batches that divide it (of a DataLoader say drop_last=True)"
            )
        if have == global_batch:
            yield collate.joined([one for _, one in waiting])
            made += 1
            waiting = []
    left = sum(count for count, _ in waiting)
    raise InputError(
        f"run: data: ended after {made} of {iterations} iterations ({given + 1} items, {left} samples left over; an "
        f"iteration takes {global_batch})"
    )


def _items(data: Any) -> Iterator[Any]:
    """The user's items; what their code raises, in one line."""
    source: Iterable[Any]
    try:
        if isinstance(data, Mapping):
            source = [data]
        elif not hasattr(data, "__iter__") and hasattr(data, "__getitem__") and hasattr(data, "__len__"):
            source = (data[i] for i in range(len(data)))
        else:
            source = data
        walk = iter(source)
    except TypeError:
        raise InputError(
            f"run: data: expected an iterable, or a dataset with __len__ and __getitem__ (got {type(data).__name__})"
        ) from None
    number = 0
    while True:
        try:
            item = next(walk)
        except StopIteration:
            return
        except MeshwrightError:
            raise
        except Exception as error:
            text = " ".join(str(error).split()) or "no reason given"
            raise InputError(f"run: data: item {number}: {type(error).__name__}: {text}") from error
        yield item
        number += 1


class _Collate:
    """Checks items and puts them together."""

    def __init__(self, graph: Graph, global_batch: int) -> None:
        one = graph.with_batch(1)
        self.inputs = {t.name: t for t in one.inputs}
        self.rows, self.global_batch = rows_of_inputs(one), global_batch
        self.limits = {name: index_limit(one, name) for name, t in self.inputs.items() if t.dtype.startswith("int")}
        # An input that is called as a parameter has another name in the graph; users know it by their own.
        self.called = {
            name.removeprefix("inputs."): name
            for name in self.inputs
            if name.removeprefix("inputs.") not in self.inputs
        }

    def read(self, item: Any, number: int) -> tuple[int, Batch]:
        """An item's samples, and its values with a dimension of samples."""
        where, reads = f"run: data: item {number}", ", ".join(self.inputs)
        if isinstance(item, tuple | list) and len(item) == len(self.inputs):
            item = dict(zip(self.inputs, item, strict=True))
        if not isinstance(item, Mapping):
            raise InputError(f"{where}: expected a mapping or tuple of the model's inputs, {reads} (got {_said(item)})")
        named = {self.called.get(name, name): x for name, x in item.items()}
        for name in self.inputs:
            if name not in named:
                raise InputError(f"{where}: has no {name!r}; the model reads {reads}")
        strange = next((name for name in named if name not in self.inputs), None)
        if strange is not None:
            raise InputError(f"{where}: has {strange!r}, which the model does not read; it reads {reads}")
        found: Batch = {}
        counts: dict[str, int] = {}
        for name in self.inputs:
            x = self._typed(name, named[name], where)
            count, found[name] = self._shaped(name, x, where)
            if count:
                counts[name] = count
        if len(set(counts.values())) != 1:
            raise InputError(f"{where}: inputs have different numbers of samples: {counts}")
        return next(iter(counts.values())), found

    def _typed(self, name: str, value: Any, where: str) -> Tensor:
        import torch

        try:
            x = torch.as_tensor(value).detach().cpu()
        except Exception as error:
            raise InputError(f"{where}: {name!r}: expected numbers: {' '.join(str(error).split())}") from None
        wanted = self.inputs[name].dtype
        floats = wanted.startswith(("float", "bfloat"))
        kind = "bool" if wanted == "bool" else "floating-point" if floats else "integer"
        has = "bool" if x.dtype == torch.bool else "floating-point" if x.is_floating_point() else "integer"
        if has != kind or x.is_complex():
            raise InputError(f"{where}: {name!r}: expected {kind} values (got {str(x.dtype).removeprefix('torch.')})")
        if floats:
            return x
        limit = self.limits.get(name)
        if limit is not None and x.numel() and int(x.max()) >= limit:
            raise InputError(f"{where}: {name!r}: expected indices below {limit} (got {int(x.max())})")
        return x.to(getattr(torch, wanted))

    def _shaped(self, name: str, x: Tensor, where: str) -> tuple[int, Tensor]:
        """The samples of an input, 0 where it does not grow with them; and its values with their dimension."""
        shape, how = self.inputs[name].shape, self.rows[name]
        if how.dim < 0:
            if tuple(x.shape) != shape:
                raise InputError(f"{where}: {name!r} has shape {tuple(x.shape)}; expected {shape}")
            return 0, x
        if x.dim() == len(shape) - 1 and how.each == 1:
            x = x.unsqueeze(how.dim)
        rest = [size for d, size in enumerate(x.shape) if d != how.dim]
        wanted = [size for d, size in enumerate(shape) if d != how.dim]
        if rest != wanted or x.shape[how.dim] % how.each or not x.shape[how.dim]:
            many = "n" if how.each == 1 else f"{how.each}n"
            said = ", ".join(many if d == how.dim else str(size) for d, size in enumerate(shape))
            raise InputError(f"{where}: {name!r} has shape {tuple(x.shape)}; expected ({said}) for n samples")
        return x.shape[how.dim] // how.each, x

    def part(self, batch: Batch, first: int, count: int) -> Batch:
        """Some samples of an item."""
        return {
            name: x if (how := self.rows[name]).dim < 0 else x.narrow(how.dim, first * how.each, count * how.each)
            for name, x in batch.items()
        }

    def joined(self, batches: list[Batch]) -> Batch:
        """Items one behind another; what does not grow with samples must be the same in all of them."""
        import torch

        found: Batch = {}
        for name, how in self.rows.items():
            if how.dim >= 0:
                found[name] = torch.cat([one[name] for one in batches], how.dim)
                continue
            found[name] = batches[0][name]
            if not all(torch.equal(found[name], one[name]) for one in batches[1:]):
                raise InputError(
                    f"run: data: {name!r} is the same for all samples of a batch, and differs between items"
                )
        return found


def _said(item: Any) -> str:
    many = f" of {len(item)}" if isinstance(item, tuple | list) else ""
    return f"a {type(item).__name__}{many}"
