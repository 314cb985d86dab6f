"""`LayerTable`: the costs of each layer of a model by itself. Profiles are composed from it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..errors import InputError, OutOfProfileError
from ..reprs import Shown
from .profile import Provenance

__all__ = ["Layer", "LayerTable"]


@dataclass(frozen=True, slots=True, repr=False)
class Layer(Shown):
    """One unit that a partition never cuts: an embedding, a Transformer layer or an operator of one, a head.

    Parameters
    ----------
    name : str
        Unique within its table.
    latency : Mapping[int, Mapping[int, float]]
        Intra-op degree -> batch size -> seconds on one device of the stage, *without* the collectives
        (`CommModel` adds those).
    weight_bytes : Mapping[int, float]
        Intra-op degree -> weight bytes on one device of the stage.
    output_bytes : float
        Bytes per request that the next stage needs if the model is cut after this layer.
    allreduce_bytes : float
        Bytes per request of one all-reduce inside this layer when the intra-op degree is above 1.
    allreduces : int
        Number of such all-reduces.
    activation_bytes : float
        Working memory per request while this layer runs, on one device at degree 1; 0.0 where unknown.
    block : int or None
        Index of the Transformer layer that this belongs to; None for an embedding or head. The manual
        partition (`equal_layers`) deals out blocks.
    """

    name: str
    latency: Mapping[int, Mapping[int, float]]
    weight_bytes: Mapping[int, float]
    output_bytes: float = 0.0
    allreduce_bytes: float = 0.0
    allreduces: int = 0
    activation_bytes: float = 0.0
    block: int | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise InputError("layer: name must not be empty")
        if not self.latency or not all(self.latency.values()):
            raise InputError(f"layer {self.name!r}: expected a latency for at least one degree and batch size")
        for op, by_batch in self.latency.items():
            _positive_int(f"layer {self.name!r}: intra-op degree", op)
            for batch, seconds in by_batch.items():
                _positive_int(f"layer {self.name!r}, op {op}: batch size", batch)
                if not (math.isfinite(seconds) and seconds > 0):
                    raise InputError(
                        f"layer {self.name!r}, op {op}, batch {batch}: latency must be positive and finite "
                        f"seconds (got {seconds}); measure this cell again"
                    )
        missing = [op for op in self.latency if op not in self.weight_bytes]
        if missing:
            raise InputError(f"layer {self.name!r}: weight_bytes misses intra-op degree {missing[0]}; give 0.0 if none")
        sizes = {f"weight_bytes[{op}]": value for op, value in self.weight_bytes.items()}
        sizes |= {n: getattr(self, n) for n in ("output_bytes", "allreduce_bytes", "activation_bytes", "allreduces")}
        for what, value in sizes.items():
            if not (math.isfinite(value) and value >= 0):
                raise InputError(f"layer {self.name!r}: {what} must be finite and >= 0 (got {value})")
        if self.block is not None and self.block < 0:
            raise InputError(f"layer {self.name!r}: block must be >= 0 or None (got {self.block})")


def _positive_int(where: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{where}: expected a positive integer (got {value!r})")


@dataclass(frozen=True, repr=False)
class LayerTable(Shown):
    """The layers of one model in order, with what was measured (or modelled) for each.

    Parameters
    ----------
    model : str
        The model's name.
    layers : tuple[Layer, ...]
        Embedding first, head last; every layer holds the same intra-op degrees and batch sizes.
    provenance : Provenance
        Where the numbers come from.

    Raises
    ------
    InputError
        If there is no layer, a name repeats, blocks are not in order, or layers hold different degrees or
        batch sizes.
    """

    model: str
    layers: tuple[Layer, ...]
    provenance: Provenance = field(default_factory=lambda: Provenance("given by hand"))

    def __post_init__(self) -> None:
        where = f"layer table {self.model!r}"
        if not self.layers:
            raise InputError(f"{where}: no layer given")
        object.__setattr__(self, "layers", tuple(self.layers))
        names = [layer.name for layer in self.layers]
        if len(set(names)) < len(names):
            twice = next(n for n in names if names.count(n) > 1)
            raise InputError(f"{where}: layer {twice!r} is given twice; names must be unique")
        keys = {op: frozenset(by_batch) for op, by_batch in self.layers[0].latency.items()}
        for layer in self.layers[1:]:
            if {op: frozenset(by_batch) for op, by_batch in layer.latency.items()} != keys:
                raise InputError(
                    f"{where}: layer {layer.name!r} holds other intra-op degrees or batch sizes than "
                    f"{names[0]!r}; measure every layer at the same points"
                )
        blocks = [layer.block for layer in self.layers if layer.block is not None]
        if blocks != sorted(blocks):
            raise InputError(f"{where}: blocks must be in order (got {blocks})")

    def __len__(self) -> int:
        return len(self.layers)

    def _headline(self) -> str:
        degrees = ", ".join(map(str, self.ops))
        weight = float(self.weight_bytes(self.ops[0]).sum()) / 2**30
        return f"{self.model}: {len(self)} layers, op degrees {degrees}, weights {weight:.4g} GiB at op {self.ops[0]}"

    @property
    def ops(self) -> tuple[int, ...]:
        """Intra-op degrees held, ascending."""
        return tuple(sorted(self.layers[0].latency))

    def batches(self, op: int = 1) -> tuple[int, ...]:
        """Batch sizes held for degree `op`, ascending."""
        self._check(op)
        return tuple(sorted(self.layers[0].latency[op]))

    @property
    def n_blocks(self) -> int:
        """Number of Transformer layers (distinct `Layer.block`)."""
        return len({layer.block for layer in self.layers if layer.block is not None})

    def latency(self, op: int = 1, batch: int = 1) -> npt.NDArray[np.float64]:
        """Seconds per layer, shape ``(len(table),)``, collectives not included.

        Raises
        ------
        OutOfProfileError
            If the degree or the batch size was not measured.
        """
        self._check(op)
        if batch not in self.layers[0].latency[op]:
            have = ", ".join(map(str, self.batches(op)))
            raise OutOfProfileError(
                f"layer table {self.model!r}, op {op}: no entry for batch {batch}; held batches: {have}"
            )
        return np.array([layer.latency[op][batch] for layer in self.layers])

    def weight_bytes(self, op: int = 1) -> npt.NDArray[np.float64]:
        """Weight bytes per layer on one device at degree `op`, shape ``(len(table),)``."""
        self._check(op)
        return np.array([layer.weight_bytes[op] for layer in self.layers])

    @property
    def output_bytes(self) -> npt.NDArray[np.float64]:
        """Bytes per request that leave each layer, shape ``(len(table),)``."""
        return np.array([layer.output_bytes for layer in self.layers])

    def _check(self, op: int) -> None:
        if op not in self.layers[0].latency:
            have = ", ".join(map(str, self.ops))
            raise OutOfProfileError(
                f"layer table {self.model!r}: no entry for intra-op degree {op}; held degrees: {have}"
            )
