"""MAF2, the Azure Functions trace of 2021: every single call of two weeks.

One file of some 300 megabytes: ``app,func,end_timestamp,duration``, seconds; a call arrives at end − duration. It is
read a few hundred thousand rows at a time; memory is bounded by the calls in the slice that is asked for.

Source: https://github.com/Azure/AzurePublicDataset/blob/master/AzureFunctionsInvocationTrace2021.md (CC-BY).
"""

from __future__ import annotations

# pandas, scipy and pyarrow bring no type stubs.
# pyright: reportMissingTypeStubs=false
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError
from ..columns import FloatArray, IntArray, slo_column
from ..files.cells import TEXT, TIME
from ..files.chunks import Progress, read_chunks
from ..files.tabular import check_interval
from ..files.text import TraceWarning, read_header, require_columns
from ..trace import Trace
from .functions import Dealer

__all__ = ["read_azure2021"]

COLUMNS = ("app", "func", "end_timestamp", "duration")
CHUNK = 200_000  # rows read at a time: some tens of megabytes, and large enough that pandas' overhead does not count


def read_azure2021(
    path: str | Path | Sequence[str | Path],
    *,
    models: Sequence[str] | None = None,
    slo: Any = np.inf,
    start: float = 0.0,
    stop: float | None = None,
    assign: str = "stripe",
    seed: int = 0,
    progress: Progress | None = None,
) -> Trace:
    """Read calls of the Azure Functions trace of 2021 as requests.

    Parameters
    ----------
    path : path or sequence of paths
        The file, or the parts of it in order; gzipped or not.
    models : sequence of str, optional
        Models that the functions are dealt to; without, every function is a model.
    slo : float, sequence or mapping
        Seconds, as in `Trace`.
    start, stop : float
        Only calls that arrive in ``[start, stop)``, seconds; times count from `start`. Functions that are not
        called in between do not count when functions are dealt to models. Day 13 is 12 × 86,400 … 13 × 86,400.
    assign : str
        ``"stripe"`` or ``"hash"``: see `functions.Dealer`.
    seed : int
        Seed of the hash.
    progress : callable, optional
        Called with bytes read and bytes in all.

    Returns
    -------
    Trace
        Calls that arrived before time 0 (running when the recording began) are left out, with a `TraceWarning`
        that says how many.

    Raises
    ------
    InputError
        On a file that is missing, truncated or wrong (naming line and column), or a slice without a call.
    """
    check_interval(start, stop)
    files = [Path(path)] if isinstance(path, str | Path) else [Path(p) for p in path]
    if not files:
        raise InputError("azure2021: expected at least one file")
    end = np.inf if stop is None else stop
    dealer = Dealer(models, assign, seed)
    arrivals: list[FloatArray] = []
    indices: list[IntArray] = []
    early = 0
    for file in files:
        header = read_header(file)
        require_columns(file, header, COLUMNS)
        kinds = {"app": TEXT, "func": TEXT, "end_timestamp": TIME, "duration": TIME}
        for chunk in read_chunks(file, header, kinds, CHUNK, progress):
            table: Any = chunk
            times: FloatArray = table["end_timestamp"].to_numpy() - table["duration"].to_numpy()
            early += int((times < 0).sum())
            inside = (times >= start) & (times < end)
            arrivals.append(times[inside] - start)
            indices.append(_deal(table["app"].to_numpy()[inside], table["func"].to_numpy()[inside], dealer))
    arrival, index = np.concatenate(arrivals or [np.empty(0)]), np.concatenate(indices or [np.empty(0, np.int32)])
    if len(arrival) == 0:
        raise InputError(f"{files[0]}: no call arrives between {start:g} and {end:g} s")
    if early and start == 0:
        warnings.warn(
            f"{files[0]}: left out {early} calls that arrived before time 0 (end_timestamp < duration)",
            TraceWarning,
            stacklevel=2,
        )
    if not bool((arrival[1:] >= arrival[:-1]).all()):
        order = np.argsort(arrival, kind="stable")
        arrival, index = arrival[order], index[order]
    return Trace.trusted(arrival, index, dealer.models, slo_column(slo, dealer.models, index))


def _deal(app: Any, func: Any, dealer: Dealer) -> IntArray:
    """The model of each call of a chunk; functions are dealt in the order in which they appear."""
    import pandas as pd

    library: Any = pd
    app_code, apps = library.factorize(app)
    func_code, funcs = library.factorize(func)
    pair_code, pairs = library.factorize(app_code * max(len(funcs), 1) + func_code)
    dealt = [dealer.model(str(apps[pair // len(funcs)]), str(funcs[pair % len(funcs)])) for pair in pairs.tolist()]
    return np.array(dealt, dtype=np.int32)[pair_code]
