"""`Space`: every combination of the means that a training configuration has, as columns."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...reprs import Shown
from ...simulator.training import Stack
from ...simulator.training.configuration.columns import RECOMPUTE
from ..batches import check_batch, divisors

__all__ = ["NAMES", "Choices", "ImpossibleError", "Means", "Space"]

DEGREES = ("tp", "pp", "dp")
NAMES = (*DEGREES, "microbatch", "interleave", "recompute", "sequence_parallel", "zero")
"""Columns of a space, in the order in which equally good configurations are preferred: the first of each counts."""
CHUNK = 1 << 18
"""Rows that are laid out at once: a space may have millions, and each is dozens of numbers while it is priced."""

Choices = int | bool | str | Sequence[int] | Sequence[bool] | Sequence[str] | None
"""What may be tried for one of the means: one value, several, or None for all."""


class ImpossibleError(InputError):
    """Each choice is right, and no combination of them is possible on this cluster. Another cluster may have one."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Means(Shown):
    """What may be tried of each of the means; None: all that is possible.

    Parameters
    ----------
    tp, pp, dp : int or several, optional
        Degrees of tensor, pipeline and data parallelism.
    microbatch : int or several, optional
        Samples of a microbatch.
    interleave : int or several, optional
        Model chunks of a stage.
    recompute : str or several, optional
        Activation recomputation: none, selective, full.
    sequence_parallel : bool or both, optional
        Whether norms are cut along the sequence.
    zero : int or several, optional
        ZeRO's stages, 0 to 3.
    """

    tp: Choices = None
    pp: Choices = None
    dp: Choices = None
    microbatch: Choices = None
    interleave: Choices = None
    recompute: Choices = None
    sequence_parallel: Choices = None
    zero: Choices = None


@dataclass(frozen=True, slots=True, repr=False)
class Space(Shown):
    """All combinations of the choices whose degrees multiply to the number of devices.

    Parameters
    ----------
    devices, global_batch : int
        Devices of the cluster; samples of an iteration.
    degrees : tuple of (int, int, int)
        (tp, pp, dp) whose product is `devices`, ascending.
    microbatch, interleave, zero : tuple of int
        Choices, ascending.
    recompute : tuple of str
        Choices, from the least that is done again.
    sequence_parallel : tuple of bool
        Choices, False first.
    stacks : tuple of Stack
        Training software, each with every combination.
    """

    devices: int
    global_batch: int
    degrees: tuple[tuple[int, int, int], ...]
    microbatch: tuple[int, ...]
    interleave: tuple[int, ...]
    recompute: tuple[str, ...]
    sequence_parallel: tuple[bool, ...]
    zero: tuple[int, ...]
    stacks: tuple[Stack, ...]

    @classmethod
    def of(
        cls,
        devices: int,
        global_batch: int,
        layers: int,
        *,
        stack: Stack | Sequence[Stack],
        **means: Choices,
    ) -> Space:
        """The space of the means that are named, fields of `Means`, and of all that is possible of the others.

        All is: divisors of the devices for degrees, of the batch for microbatches, of the layers, or of two more
        (stages with a layer less at the ends), for `interleave`.

        Raises
        ------
        InputError
            On a choice of a wrong kind, none at all, or a batch below one or above ten million.
        ImpossibleError
            If no product of the degrees is the number of devices.
        """
        check_batch(global_batch)
        some = Means(**means)
        by_device = divisors(devices)
        chosen = {name: _numbers(name, getattr(some, name), by_device) for name in DEGREES}
        every = product(*chosen.values())
        degrees = tuple((t, p, d) for t, p, d in every if t * p * d == devices)
        if not degrees:
            said = ", ".join(f"{name} {_short(given)}" for name, given in chosen.items())
            raise ImpossibleError(
                f"tp, pp, dp: no product of {said} is the number of devices, {devices}; allow more of them"
            )
        stacks = (stack,) if isinstance(stack, Stack) else tuple(stack)
        if not stacks or not all(isinstance(one, Stack) for one in stacks):
            raise InputError(f"stack: expected a Stack or several (got {stack!r})")
        return cls(
            devices,
            global_batch,
            degrees,
            _numbers("microbatch", some.microbatch, divisors(global_batch)),
            _numbers("interleave", some.interleave, sorted({*divisors(layers), *divisors(layers + 2)})),
            _words("recompute", some.recompute, RECOMPUTE),
            _flags("sequence_parallel", some.sequence_parallel),
            _numbers("zero", some.zero, (0, 1, 2, 3), least=0),
            stacks,
        )

    def __len__(self) -> int:
        """Combinations."""
        return len(self.stacks) * self._rows

    @property
    def _choices(self) -> tuple[Sequence[Any], ...]:
        return (self.degrees, self.microbatch, self.interleave, self.recompute, self.sequence_parallel, self.zero)

    @property
    def _rows(self) -> int:
        return int(np.prod([len(choices) for choices in self._choices]))

    def chunks(self, size: int = CHUNK) -> Iterator[tuple[Stack, dict[str, NDArray[Any]]]]:
        """All combinations in order, as columns of at most `size` rows, one stack after the other."""
        lengths = [len(choices) for choices in self._choices]
        degrees = np.array(self.degrees, dtype=np.int64)
        codes = np.array([RECOMPUTE.index(word) for word in self.recompute])
        for stack in self.stacks:
            for begin in range(0, self._rows, size):
                index = np.unravel_index(np.arange(begin, min(begin + size, self._rows)), lengths)
                degree = degrees[index[0]]
                columns: dict[str, NDArray[Any]] = {
                    "tp": degree[:, 0],
                    "pp": degree[:, 1],
                    "dp": degree[:, 2],
                    "microbatch": np.array(self.microbatch)[index[1]],
                    "interleave": np.array(self.interleave)[index[2]],
                    "recompute": codes[index[3]],
                    "sequence_parallel": np.array(self.sequence_parallel)[index[4]],
                    "zero": np.array(self.zero)[index[5]],
                }
                yield stack, columns


def _several(name: str, given: Any) -> list[Any]:
    if isinstance(given, str) or not hasattr(given, "__iter__"):
        return [given]
    found = list(given)
    if not found:
        raise InputError(f"{name}: expected at least one choice (got none)")
    return found


def _numbers(name: str, given: Choices, every: Sequence[int], least: int = 1) -> tuple[int, ...]:
    if given is None:
        return tuple(every)
    found = _several(name, given)
    for value in found:
        if isinstance(value, bool | np.bool_) or not hasattr(value, "__index__") or int(value) < least:
            what = "a positive integer" if least else "0, 1, 2 or 3"
            raise InputError(f"{name}: expected {what}, or several (got {value!r})")
        if not least and int(value) > every[-1]:
            raise InputError(f"{name}: expected 0, 1, 2 or 3, or several (got {value!r})")
    return tuple(sorted({int(value) for value in found}))


def _words(name: str, given: Choices, every: Sequence[str]) -> tuple[str, ...]:
    if given is None:
        return tuple(every)
    found = _several(name, given)
    for value in found:
        if value not in every:
            raise InputError(f"{name}: expected some of {', '.join(every)} (got {value!r})")
    return tuple(word for word in every if word in found)


def _flags(name: str, given: Choices) -> tuple[bool, ...]:
    if given is None:
        return (False, True)
    found = _several(name, given)
    for value in found:
        if not isinstance(value, bool | np.bool_):
            raise InputError(f"{name}: expected True, False or both (got {value!r})")
    return tuple(sorted({bool(value) for value in found}))


def _short(values: Sequence[int]) -> str:
    shown = ", ".join(map(str, values[:8]))
    return f"{{{shown}{', …' if len(values) > 8 else ''}}}"
