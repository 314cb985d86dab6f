"""`Summary`: the figures of a result that one looks at first: the same kind of table in every world."""

from __future__ import annotations

# pandas brings no type stubs.
# pyright: reportMissingTypeStubs=false
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import InputError
from ..reprs import Shown

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Figure", "Summary"]


@dataclass(frozen=True, slots=True, repr=False)
class Figure(Shown):
    """One figure.

    Parameters
    ----------
    name : str
        What it is called everywhere: in tables, studies and JSON.
    value : float
        The figure; NaN where it is not known.
    unit : str
        ``s``, ``1/s``, ``bytes``, …; empty of counts and shares.
    says : str
        What it is, in a few words.
    """

    name: str
    value: float
    unit: str = ""
    says: str = ""

    def __post_init__(self) -> None:
        if not self.name:
            raise InputError("summary: a figure needs a name (got '')")

    @property
    def text(self) -> str:
        """The value with its unit; ``unknown`` where it is NaN."""
        shown = "unknown" if math.isnan(self.value) else f"{self.value:.6g}"
        return f"{shown} {self.unit}".rstrip()

    def _headline(self) -> str:
        return f"{self.name}: {self.text}"


class Summary(Shown, Mapping[str, float]):
    """Figures by name, in the order in which one reads them: a read-only mapping from name to value.

    ``print(summary)`` writes a line for each, with its unit.

    Parameters
    ----------
    of : str
        What it is about: the result's own line.
    figures : iterable of Figure
        The rows.

    Raises
    ------
    InputError
        If two have the same name.
    """

    __slots__ = ("_by_name", "of")

    def __init__(self, of: str, figures: Iterable[Figure]) -> None:
        rows = tuple(figures)
        self.of = of
        self._by_name = {row.name: row for row in rows}
        if len(self._by_name) != len(rows):
            names = [row.name for row in rows]
            raise InputError(f"summary: two figures are called {max(names, key=names.count)!r}; give each its own name")

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The rows."""
        return tuple(self._by_name.values())

    def __getitem__(self, name: str) -> float:
        return self._by_name[name].value

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def to_dict(self) -> dict[str, float]:
        """Name -> value."""
        return {row.name: row.value for row in self.figures}

    def to_frame(self) -> pd.DataFrame:
        """One row per figure, indexed by name: value, unit, says."""
        import pandas as pd

        columns = {key: [getattr(row, key) for row in self.figures] for key in ("value", "unit", "says")}
        return pd.DataFrame(columns, index=pd.Index(list(self), name="figure"))

    def __str__(self) -> str:
        width = max((len(name) for name in self), default=0)
        values = [row.text for row in self.figures]
        wide = max((len(text) for text in values), default=0)
        lines = [f"{r.name:<{width}}  {text:<{wide}}  {r.says}" for r, text in zip(self.figures, values, strict=True)]
        return "\n".join([self.of, *(line.rstrip() for line in lines)])

    def _headline(self) -> str:
        return f"{len(self)} figures of {self.of}"

    def shown_rows(self) -> Iterable[tuple[str, object]]:
        return [(row.name, row.text + (f" ({row.says})" if row.says else "")) for row in self.figures]
