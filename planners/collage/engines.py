"""`evolve`: the graph-level search on a table of engine costs instead of measurements.

One bit per group of the op level: 0 keeps its choice, 1 gives it to the graph library. Neighbours on the graph library
form one engine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import InputError
from ...reprs import Shown
from .evolution import Evolution, EvolutionOptions, Evolved
from .instance import listed, mapping, number, whole

__all__ = ["EngineCosts", "evolve"]

KEYS = ("bits", "op_level_ms", "graph_library_ms", "engine_fixed_ms", "merge_saving_ms")


@dataclass(frozen=True, repr=False)
class EngineCosts(Shown):
    """What a chain of groups takes, by which of them the graph library has.

    Parameters
    ----------
    op_level_ms, graph_library_ms : tuple of float
        Milliseconds of each group by its op-level choice, and on the graph library.
    engine_fixed_ms : float
        Milliseconds of each engine: each run of ones.
    merge_saving_ms : tuple of float
        Milliseconds saved if groups k and k + 1 are both on the graph library: one less than there are groups. One for
        the last group, which has no next, may be given and is not used. Below 0 if joining costs.
    """

    op_level_ms: tuple[float, ...]
    graph_library_ms: tuple[float, ...]
    engine_fixed_ms: float
    merge_saving_ms: tuple[float, ...]

    def __post_init__(self) -> None:
        n = len(self.op_level_ms)
        if len(self.graph_library_ms) != n:
            raise InputError(f"graph_library_ms: expected {n} numbers, one a bit (got {len(self.graph_library_ms)})")
        if len(self.merge_saving_ms) not in (n - 1, n):
            raise InputError(f"merge_saving_ms: expected {max(n - 1, 0)} numbers (got {len(self.merge_saving_ms)})")
        for name in ("op_level_ms", "graph_library_ms", "merge_saving_ms"):
            least = -math.inf if name == "merge_saving_ms" else 0.0
            for k, ms in enumerate(getattr(self, name)):
                if not (math.isfinite(ms) and ms >= least):
                    raise InputError(f"{name}[{k}]: expected finite milliseconds >= 0 (got {ms!r})")
        if not (math.isfinite(self.engine_fixed_ms) and self.engine_fixed_ms >= 0):
            raise InputError(f"engine_fixed_ms: expected finite milliseconds >= 0 (got {self.engine_fixed_ms!r})")

    @classmethod
    def of(cls, given: EngineCosts | Mapping[str, Any]) -> EngineCosts:
        """Read a mapping with `KEYS`.

        Raises
        ------
        InputError
            If something is missing or does not fit.
        """
        if isinstance(given, EngineCosts):
            return given
        table = mapping(given, "instance", KEYS)

        def numbers(name: str) -> tuple[float, ...]:
            return tuple(number(x, f"{name}[{k}]") for k, x in enumerate(listed(table[name], name)))

        n = whole(table["bits"], "bits")
        op_level = numbers("op_level_ms")
        if len(op_level) != n:
            raise InputError(f"op_level_ms: expected {n} numbers, one a bit (got {len(op_level)})")
        fixed = number(table["engine_fixed_ms"], "engine_fixed_ms")
        return cls(op_level, numbers("graph_library_ms"), fixed, numbers("merge_saving_ms"))

    def ms(self, bits: str | Sequence[int]) -> float:
        """Σ (bit ? graph library : op level) + engine · (runs of ones) − Σ saving of neighbours that are both ones."""
        ones = [bit in ("1", 1) for bit in bits]
        each = (on if one else off for one, on, off in zip(ones, self.graph_library_ms, self.op_level_ms, strict=True))
        runs = sum(one and not before for before, one in zip([False, *ones], ones, strict=False))
        saved = (-ms for a, b, ms in zip(ones, ones[1:], self.merge_saving_ms, strict=False) if a and b)
        return math.fsum([*each, self.engine_fixed_ms * runs, *saved])


def evolve(
    costs: EngineCosts | Mapping[str, Any], *, seed: int = 0, evaluations: int = 600,
    options: EvolutionOptions | None = None,
) -> Evolved:  # fmt: skip
    """Search for the fastest bits of a table of costs, as the graph level searches by measuring.

    Parameters
    ----------
    costs : EngineCosts or mapping
        ``{"bits", "op_level_ms", "graph_library_ms", "engine_fixed_ms", "merge_saving_ms"}``.
    seed, evaluations : int
        See `EvolutionOptions`; not used if `options` is given.
    options : EvolutionOptions, optional
        All that can be said of the search.

    Raises
    ------
    InputError
        If the costs are not as described, or the seed or the evaluations are no such numbers.
    """
    table = EngineCosts.of(costs)
    how = options or EvolutionOptions(seed=seed, evaluations=evaluations)
    return Evolution(len(table.op_level_ms), lambda bits: table.ms(bits), how).run()
