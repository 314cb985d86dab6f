"""`Space`: every combination of the means that a training configuration has, as columns."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...reprs import Shown
from ...simulator.training import Stack, TransformerShape
from ...simulator.training.configuration.columns import CONTEXT, RECOMPUTE, SCHEDULES, WORDS
from ..batches import check_batch, divisors
from .means import ALL, AXES, DEGREES, Choices, Means, flags, numbers, stages, words

__all__ = ["ImpossibleError", "Space"]

CHUNK = 1 << 18
"""Rows that are laid out at once: a space may have millions, and each is dozens of numbers while it is priced."""


class ImpossibleError(InputError):
    """Each choice is right, and no combination of them is possible on this cluster. Another cluster may have one."""


@dataclass(frozen=True, slots=True, repr=False)
class Space(Shown):
    """All combinations of the choices whose degrees multiply to the number of devices.

    Parameters
    ----------
    devices, global_batch : int
        Devices of the cluster; samples of an iteration.
    degrees : tuple of tuple of int
        (tp, pp, dp, cp) whose product is `devices`, ascending.
    choices : dict
        Choices of every other axis by name, numbers ascending, words from the least that is done again, False first.
    stacks : tuple of Stack
        Training software, each with every combination.
    layers : int
        Of the model.
    """

    devices: int
    global_batch: int
    degrees: tuple[tuple[int, ...], ...]
    choices: Mapping[str, tuple[Any, ...]]
    stacks: tuple[Stack, ...]
    layers: int

    @classmethod
    def of(
        cls,
        devices: int,
        global_batch: int,
        layers: int,
        *,
        stack: Stack | Sequence[Stack],
        shape: TransformerShape | None = None,
        **means: Choices,
    ) -> Space:
        """The space of the means that are named, fields of `Means`, and of what is usual of the others.

        Usual is: divisors of the devices for tp, pp and dp, of the batch for microbatches, of the layers, or of two
        more (stages with a layer less at the ends), for `interleave`, of the experts for ep; one value for the later
        ones, which `Means` names.

        Parameters
        ----------
        devices, global_batch, layers : int
            Devices of the cluster, samples of an iteration, layers of the model.
        stack : Stack or several
            Training software.
        shape : TransformerShape, optional
            The model, for what depends on its experts and its sequences.
        **means
            Fields of `Means`.

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
        mixed = shape.experts if shape else None
        longest = shape.seq if shape else 1
        every: dict[str, Sequence[int]] = {
            **dict.fromkeys(("tp", "pp", "dp"), by_device),
            "cp": [d for d in by_device if longest % (2 * d) == 0 or d == 1],
            "microbatch": divisors(global_batch),
            "interleave": sorted({*divisors(layers), *divisors(layers + 2 + (shape.mtp_layers if shape else 0))}),
            "ep": [d for d in divisors(mixed.count) if devices % d == 0] if mixed else [1],
            "etp": [0, 1] if mixed else [0],
            "shard": [0, *(d for d in by_device if d >= 8)],
        }
        every |= dict.fromkeys(("first_layers", "last_layers"), range(layers // 2 + 1))
        usual: dict[str, Sequence[int]] = {
            **every,
            "cp": [1],
            "etp": [1] if mixed else [0],
            "shard": [0],
            "first_layers": [0],
            "last_layers": [0],
        }

        def of(name: str, least: int = 1) -> tuple[int, ...]:
            given = getattr(some, name)
            if isinstance(given, str) and given == ALL:
                return tuple(every[name])
            return numbers(name, given, usual[name], least)

        chosen = {name: of(name) for name in DEGREES}
        degrees = tuple(one for one in product(*chosen.values()) if prod(one) == devices)
        if not degrees:
            said = ", ".join(
                f"{name} {_short(given)}" for name, given in chosen.items() if name != "cp" or given != (1,)
            )
            names = ", ".join(name for name in DEGREES if name != "cp" or chosen[name] != (1,))
            raise ImpossibleError(
                f"{names}: no product of {said} is the number of devices, {devices}; allow more of them"
            )
        stacks = (stack,) if isinstance(stack, Stack) else tuple(stack)
        if not stacks or not all(isinstance(one, Stack) for one in stacks):
            raise InputError(f"stack: expected a Stack or several (got {stack!r})")
        choices = {
            "microbatch": of("microbatch"),
            "interleave": of("interleave"),
            "recompute": words("recompute", some.recompute, RECOMPUTE, 3),
            "sequence_parallel": flags("sequence_parallel", some.sequence_parallel, (False, True)),
            "zero": stages(some.zero),
            "context": words("context", some.context, CONTEXT, 1),
            "ep": of("ep"),
            "etp": of("etp", 0),
            "overlap_experts": flags("overlap_experts", some.overlap_experts, (False,)),
            "shard": of("shard", 0),
            "reshard": flags("reshard", some.reshard, (True,)),
            "schedule": words("schedule", some.schedule, SCHEDULES, 1),
            "offload_optimizer": flags("offload_optimizer", some.offload_optimizer, (False,)),
            "offload_activations": flags("offload_activations", some.offload_activations, (False,)),
            "first_layers": of("first_layers", 0),
            "last_layers": of("last_layers", 0),
        }
        return cls(devices, global_batch, degrees, choices, stacks, layers)

    def __len__(self) -> int:
        """Combinations."""
        return len(self.stacks) * self.rows

    @property
    def rows(self) -> int:
        """Combinations of one software."""
        return prod(self.lengths.values())

    @property
    def lengths(self) -> dict[str, int]:
        """Choices of each axis."""
        return {"degrees": len(self.degrees), **{name: len(choices) for name, choices in self.choices.items()}}

    def chunks(self, size: int = CHUNK) -> Iterator[tuple[Stack, dict[str, NDArray[Any]]]]:
        """All combinations in order, as columns of at most `size` rows, one stack after the other."""
        for stack in self.stacks:
            for begin in range(0, self.rows, size):
                yield stack, self.at(np.arange(begin, min(begin + size, self.rows)))

    def at(self, places: NDArray[np.int64], axes: Sequence[str] = AXES) -> dict[str, NDArray[Any]]:
        """Columns of the combinations at these places of the order, or of the order of some of the axes. What has one
        choice is one number, spread."""
        lengths = self.lengths
        index = np.unravel_index(places, [lengths[name] for name in axes])
        return self.chosen(dict(zip(axes, index, strict=True)))

    def chosen(self, index: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Columns of combinations of axes, by the place of each one's choice."""
        columns: dict[str, NDArray[Any]] = {}
        for name, at in index.items():
            if name == "degrees":
                degrees = np.array(self.degrees, dtype=np.int64)
                columns |= {degree: degrees[:, k][at] for k, degree in enumerate(DEGREES)}
                continue
            choices = self.choices[name]
            values = np.array([WORDS[name].index(word) for word in choices] if name in WORDS else choices)
            columns[name] = values[at] if len(values) > 1 else np.broadcast_to(values, at.shape)
        return columns

    def places(self, places: NDArray[np.int64], axes: Sequence[str]) -> NDArray[np.int64]:
        """Where combinations of some of the axes are in the order of all, with the first choice of all others."""
        lengths = self.lengths
        index = dict(zip(axes, np.unravel_index(places, [lengths[name] for name in axes]), strict=True))
        none = np.zeros_like(places)
        return np.ravel_multi_index([index.get(name, none) for name in AXES], list(lengths.values()))


def _short(values: Sequence[int]) -> str:
    shown = ", ".join(map(str, values[:8]))
    return f"{{{shown}{', …' if len(values) > 8 else ''}}}"
