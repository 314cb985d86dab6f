"""`StageTable`: costs of every run of layers on every submesh, in every configuration (Algorithm 1, lines 8–24)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..memory import later_stages

__all__ = ["Prices", "StageConfig", "StageTable"]

Floats = npt.NDArray[np.float64]
Shape = tuple[int, int]


@dataclass(frozen=True, slots=True)
class StageConfig:
    """How a stage may be run on its submesh.

    Parameters
    ----------
    logical : (int, int)
        Shape of the logical mesh.
    recompute : {"none", "selective", "full"}
        Activation recomputation.
    place : int
        Which of the intra-operator plans for them, such as one for each price of memory.
    """

    logical: Shape
    recompute: Literal["none", "selective", "full"] = "none"
    place: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class Prices:
    """What runs of layers take on one logical mesh, for C intra-operator plans each.

    Parameters
    ----------
    seconds : ndarray of float64, shape (L, L, C)
        Forward and backward of one microbatch through layers i…j inclusive; inf: impossible.
    iteration_s : ndarray of float64, same shape
        Gradient reduction and update, once an iteration.
    state, activation, work : ndarray of float64, same shape
        Bytes on one device: parameters with their states, kept for one microbatch, temporaries.
    """

    seconds: Floats
    iteration_s: Floats
    state: Floats
    activation: Floats
    work: Floats


@dataclass(frozen=True, eq=False, slots=True)
class StageTable:
    """Costs of all stages. Arrays are [L, L, submesh, config]: layers i…j inclusive.

    Parameters
    ----------
    submeshes : tuple of (int, int)
        Hosts and devices per host.
    configs : tuple of tuple of StageConfig
        For each submesh, what the last index of the arrays means.
    seconds, iteration_s, state, activation, work : ndarray of float64
        As in `Prices`; inf seconds beyond a submesh's configurations.
    """

    submeshes: tuple[Shape, ...]
    configs: tuple[tuple[StageConfig, ...], ...]
    seconds: Floats
    iteration_s: Floats
    state: Floats
    activation: Floats
    work: Floats

    @classmethod
    def of(cls, priced: list[tuple[Shape, list[tuple[StageConfig, Prices]]]]) -> StageTable:
        """Put together what was priced: for each submesh the (logical mesh and option, prices) pairs."""
        names: list[tuple[StageConfig, ...]] = []
        blocks: list[list[Floats]] = []
        for _, options in priced:
            found = [replace(c, place=p) for c, prices in options for p in range(prices.seconds.shape[2])]
            names.append(tuple(found))
            rows = [[getattr(x, f) for f in _FIELDS] for _, x in options]
            blocks.append([np.concatenate(parts, axis=2) for parts in zip(*rows, strict=True)])
        width = max(map(len, names))
        columns = [np.stack([_padded(b[f], width) for b in blocks], axis=2) for f in range(len(_FIELDS))]
        return cls(tuple(shape for shape, _ in priced), tuple(names), *columns)

    def with_more(self, other: StageTable) -> StageTable:
        """This table with further configurations of the same stages."""
        configs = tuple(a + b for a, b in zip(self.configs, other.configs, strict=True))
        width = max(map(len, configs))
        columns = [
            np.stack(
                [
                    _padded(
                        np.concatenate(
                            [
                                getattr(self, f)[:, :, k, : len(self.configs[k])],
                                getattr(other, f)[:, :, k, : len(other.configs[k])],
                            ],
                            axis=2,
                        ),
                        width,
                    )
                    for k in range(len(configs))
                ],
                axis=2,
            )
            for f in _FIELDS
        ]
        return StageTable(self.submeshes, configs, *columns)

    @classmethod
    def joined(cls, tables: Sequence[StageTable]) -> StageTable:
        """One table with the submeshes of all, each with its own configurations."""
        width = max(len(configs) for table in tables for configs in table.configs)
        columns = [
            np.concatenate(
                [np.stack([_padded(getattr(t, f)[:, :, k], width) for k in range(len(t.submeshes))], axis=2)
                 for t in tables], axis=2,
            )
            for f in _FIELDS
        ]  # fmt: skip
        shapes = tuple(shape for table in tables for shape in table.submeshes)
        return cls(shapes, tuple(configs for table in tables for configs in table.configs), *columns)

    @property
    def n_layers(self) -> int:
        """L."""
        return self.seconds.shape[0]

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Devices of each submesh."""
        return np.array([a * b for a, b in self.submeshes], np.int64)

    def cost(self, microbatches: int) -> Floats:
        """t_intra: seconds of one microbatch, with its share of what happens once an iteration."""
        return self.seconds + self.iteration_s / microbatches

    def later(self, memory_bytes: float | Floats, schedule: str, microbatches: int) -> list[npt.NDArray[np.int64]]:
        """Stages that may follow, Eq. 5; −1 where it does not fit. The best plan by any of these counts.

        The memory is that of a device, or of each submesh's, in the shape of the arrays' third axis.
        """
        found = later_stages(self.state, self.activation, self.work, memory_bytes, schedule, microbatches)
        return [np.where(np.isfinite(self.seconds), most, -1) for most in found]


_FIELDS = ("seconds", "iteration_s", "state", "activation", "work")


def _padded(values: Floats, width: int) -> Floats:
    full = np.full((*values.shape[:2], width), np.inf)
    full[:, :, : values.shape[2]] = values
    return full
