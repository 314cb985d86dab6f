"""`TokenLog`: what a published log says of its requests, whatever its format."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ..columns import FloatArray, LongArray
from ..files.text import TraceWarning

__all__ = ["TokenLog", "made"]


@dataclass(frozen=True, eq=False)
class TokenLog:
    """Requests in order of arrival, as columns of one length.

    Parameters
    ----------
    arrival : ndarray of float64
        Seconds, counted from the first request.
    prompt_tokens, output_tokens : ndarray of int64
        Tokens, >= 1.
    model, kind : ndarray of int64, optional
        Index into `models`, into `kinds`: what the log says of the model that was asked and of the class of request.
    models, kinds : tuple of str
        Their names.
    prefix_ids : sequence of tuple of int, optional
        For each request the ids of the blocks of `prefix_block` tokens that its prompt consists of.
    prefix_block : int
        Tokens of a block.
    """

    arrival: FloatArray
    prompt_tokens: LongArray
    output_tokens: LongArray
    model: LongArray | None = None
    models: tuple[str, ...] = ()
    kind: LongArray | None = None
    kinds: tuple[str, ...] = ()
    prefix_ids: Sequence[tuple[int, ...]] | None = None
    prefix_block: int = 512

    def __len__(self) -> int:
        return len(self.arrival)

    def rows(self, kept: npt.NDArray[Any]) -> TokenLog:
        """Only some rows, by an index or a mask; times unchanged."""
        index = np.arange(len(self))[kept]
        columns = ("arrival", "prompt_tokens", "output_tokens", "model", "kind")
        some: dict[str, Any] = {name: column[index] for name in columns if (column := getattr(self, name)) is not None}
        if self.prefix_ids is not None:
            some["prefix_ids"] = [self.prefix_ids[i] for i in index.tolist()]
        return replace(self, **some)


def made(path: Path, log: TokenLog, lines: str) -> TokenLog:
    """A log without the requests that hold no token, in time counted from its first one.

    Logs keep requests that failed, with 0 tokens. They are left out, and a `TraceWarning` says how many.

    Parameters
    ----------
    path : Path
        The file, for messages.
    log : TokenLog
        What it holds.
    lines : str
        What it calls a request: "row", "line", …

    Raises
    ------
    InputError
        If no request is left.
    """
    some = (log.prompt_tokens > 0) & (log.output_tokens > 0)
    empty = len(log) - int(some.sum())
    if not some.any():
        raise InputError(f"{path}: holds no request" + (f": all {empty} {lines}s have 0 tokens" if empty else ""))
    if empty:
        warnings.warn(
            f"{path}: left out {empty} of {len(log)} requests: 0 prompt or output tokens, as of requests that failed",
            TraceWarning,
            stacklevel=2,
        )
        log = log.rows(some)
    return replace(log, arrival=log.arrival - log.arrival[0])
