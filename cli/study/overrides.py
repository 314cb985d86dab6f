"""What the command line says instead of a study's file: other planners, other replications."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import InputError

if TYPE_CHECKING:
    from ...studies import Study

__all__ = ["overridden"]


def overridden(study: Study, planners: list[str], replications: int | None) -> Study:
    """A study with other planners or replications than its file's; it is another study, with a store of its own.

    Parameters
    ----------
    study : Study
        As its file says it.
    planners : list of str
        Names, or ``path/to/file.py:name`` from the current folder; empty for the file's.
    replications : int, optional
        At least 1.

    Raises
    ------
    InputError
        If a planner is named twice.
    """
    changes: dict[str, object] = {}
    if planners:
        names = [_from(name, study.folder) for name in planners]
        if len(set(names)) < len(names):
            raise InputError(f"--planner: each once (got {', '.join(planners)})")
        changes["planners"] = names
    if replications is not None:
        changes["replications"] = replications
    return study.but(**changes) if changes else study


def _from(name: str, folder: Path) -> str:
    """A planner's file as seen from the study's folder, so that no path of this machine gets into the store."""
    from ...planners.contract.file import split

    file = split(name)
    return name if file is None else f"{os.path.relpath(file[0], folder)}:{file[1]}"
