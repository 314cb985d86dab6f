"""Published logs of language-model requests as a `Trace`: one model, or those that the log names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError
from ..files.chunks import Progress
from ..trace import Trace
from .formats import read_log

__all__ = ["LogOptions", "read_logged"]

UNNAMED = "llm"
"""The model of a log that names none."""


@dataclass(frozen=True)
class LogOptions:
    """What a caller wants of a log.

    Parameters
    ----------
    models : sequence of str, optional
        One name: of the model that all requests are for. Without it those that the log names, or ``"llm"``.
    slo : float or mapping, optional
        Seconds, as in `Trace`; without it none.
    sort : bool
        Whether requests are put in order of arrival; else a log that is out of order is an error.
    start, stop : float
        Only requests in ``[start, stop)``, seconds; times count from `start`.

    Raises
    ------
    InputError
        On several models.
    """

    models: Sequence[str] | None = None
    slo: Any = None
    sort: bool = False
    start: float = 0.0
    stop: float | None = None

    def __post_init__(self) -> None:
        if self.models is not None and len(self.models) != 1:
            raise InputError(f"models: a log of requests is read for one model (got {len(self.models)})")


def read_logged(
    format: str,
    path: str | Path | Sequence[str | Path],
    options: LogOptions | None = None,
    *,
    progress: Progress | None = None,
) -> Trace:
    """Read a log of one of the formats as a `Trace`.

    ``prefix`` is the first block's id where the log tells of prefixes: requests with the same one share their first
    tokens. How much more they share, only `simulator.llm.read_requests` keeps.
    """
    asked = options or LogOptions()
    if not isinstance(path, str | Path):
        raise InputError(f"{format}: expected one file (got {len(path)})")
    log = read_log(path, format, start=asked.start, stop=asked.stop, sort=asked.sort, progress=progress)
    named = tuple(asked.models or log.models or (UNNAMED,))
    model = np.zeros(len(log), dtype=np.int64) if log.model is None or len(named) == 1 else log.model
    first = None if log.prefix_ids is None else np.array([ids[0] for ids in log.prefix_ids], dtype=np.int64)
    return Trace(
        log.arrival, model, named, np.inf if asked.slo is None else asked.slo,
        prompt_tokens=log.prompt_tokens, output_tokens=log.output_tokens, prefix=first,
    )  # fmt: skip
