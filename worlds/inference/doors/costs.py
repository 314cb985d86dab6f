"""The costs that a case is planned with: of the file that it names, or measured here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ....profiles.backends.costs import CostTable
from ....profiles.backends.document import load_costs
from ...door import Asked
from ..case import InferenceCase
from ..data import kept_file, table_of

if TYPE_CHECKING:
    from ....runtime.backends.capture import Captured

__all__ = ["costs_here"]


def costs_here(
    case: InferenceCase, asked: Asked, captured: Captured | None, kept: Path | None, limit_s: float | None = None
) -> CostTable:
    """The cost table of a case.

    Parameters
    ----------
    case : InferenceCase
        The network, its batch, and the backends.
    asked : Asked
        Whose folder files are relative to, and who is told.
    captured : Captured, optional
        The network; needed where the case names no costs.
    kept : Path, optional
        File that keeps costs.
    limit_s : float, optional
        Seconds that a backend may take for a unit.

    Raises
    ------
    InputError
        If the file is of something else or damaged, a backend cannot be used, or an operator is taken by none.
    """
    if case.costs is not None:
        return table_of(case, load_costs(asked.folder / case.costs))
    assert captured is not None
    from ....runtime.backends.measure.options import MeasureOptions
    from ....runtime.backends.measure.profile import profile

    path = kept_file() if kept is None else kept
    path.parent.mkdir(parents=True, exist_ok=True)
    options = MeasureOptions() if limit_s is None else MeasureOptions(limit_s=limit_s)
    return profile(
        captured, case.backends, model=case.model, options=options, kept=path, progress=asked.progress
    )  # fmt: skip
