"""Which panels show a design: what runs along x, and what makes panels."""

from __future__ import annotations

# pandas brings no type stubs.
# pyright: reportMissingTypeStubs=false
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from .results import Frame

__all__ = ["Kind", "Layout", "Panel", "kind_of", "layout", "spread"]

MAX_PANELS = 6

Kind = Literal["linear", "log", "category"]


@dataclass(frozen=True)
class Panel:
    """One panel: an axis along x, at fixed values of the others (empty if they are scattered)."""

    path: str
    fixed: Mapping[str, Any]
    joined: bool = True


@dataclass(frozen=True)
class Layout:
    """Which panels show a design, and how many more there would be."""

    panels: tuple[Panel, ...]
    hidden: int = 0


def layout(rows: Frame, axes: Sequence[str]) -> Layout:
    """Choose x and panels: the number axis with most values runs along x, combinations of the others make panels.

    Where the axes form no grid (a Latin hypercube, a list), each axis has a panel of its own, and points no lines.
    """
    axes = [a for a in axes if rows[a].nunique(dropna=True) > 1] or list(axes[:1])
    if not axes or rows.empty:
        return Layout(())
    by_size = sorted(axes, key=lambda a: (kind_of(rows[a]) == "category", -rows[a].nunique()))
    for x in by_size:
        others = [a for a in axes if a != x]
        if not others:
            return Layout((Panel(x, {}),))
        groups = list(rows.groupby(others, sort=False, dropna=False))
        if 2 * sum(len(part[x].unique()) > 1 for _, part in groups) > len(groups):
            chosen = spread(groups, MAX_PANELS)
            panels = tuple(Panel(x, dict(zip(others, key, strict=True))) for key, _ in chosen)
            return Layout(panels, len(groups) - len(panels))
    shown = by_size[:MAX_PANELS]
    return Layout(tuple(Panel(a, {}, joined=False) for a in shown), len(axes) - len(shown))


def kind_of(values: Frame, *, probes: bool = False) -> Kind:
    """Whether a column is categories, or numbers, and whether these grow by factors rather than by steps.

    Of probes, which are wherever a search went, the range decides.
    """
    known = sorted(set(values.dropna()), key=str)
    if not known or any(isinstance(v, bool | str) for v in known):
        return "category"
    numbers = sorted(float(v) for v in known)
    if len(numbers) < 3 or numbers[0] <= 0:
        return "linear"
    if probes:
        return "log" if numbers[-1] > 12 * numbers[0] else "linear"
    factors = [b / a for a, b in pairwise(numbers)]
    steps = [b - a for a, b in pairwise(numbers)]
    even = max(factors) / min(factors) < 0.7 * max(steps) / min(steps)
    return "log" if even and numbers[-1] > 3 * numbers[0] else "linear"


def spread(items: Sequence[Any], most: int) -> list[Any]:
    """At most so many of the items, evenly spread, the first and the last among them."""
    if len(items) <= most:
        return list(items)
    return [items[round(i * (len(items) - 1) / (most - 1))] for i in range(most)]
