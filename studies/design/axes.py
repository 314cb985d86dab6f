"""`Axis`: one field that varies, and the values that it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .ranges import Range

__all__ = ["Axis", "Values"]

Values = tuple[tuple[str, Any], ...]
"""Path and value of each field that varies, in axis order."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One field that varies.

    Parameters
    ----------
    path : str
        Full path of the field.
    values : sequence
        What it takes, in order: a tuple, or a `Range`.
    """

    path: str
    values: Sequence[Any]

    @property
    def numeric(self) -> bool:
        """Whether every value is a number."""
        if isinstance(self.values, Range):
            return True
        return all(isinstance(v, int | float) and not isinstance(v, bool) for v in self.values)

    def document(self) -> Any:
        """As a study file says it."""
        return self.values.document() if isinstance(self.values, Range) else list(self.values)
