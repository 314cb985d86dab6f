"""MAF1, the Azure Functions trace of 2019: how often every function was called in every minute.

Files ``invocations_per_function_md.anon.dNN.csv``, one a day, hundreds of megabytes: HashOwner, HashApp,
HashFunction, Trigger, then the number of calls in minutes 1 … 1440. They are read a few thousand rows at a time and
added up to one row per model, so memory is bounded by models × minutes and by the trace that comes out.

Source: https://github.com/Azure/AzurePublicDataset/blob/master/AzureFunctionsDataset2019.md (CC-BY).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError
from ...reprs import Shown
from ...seeds import generator
from ..columns import FloatArray, LongArray, slo_column
from ..files.cells import COUNT, TEXT
from ..files.chunks import Progress, read_chunks
from ..files.tabular import check_interval
from ..files.text import Header, read_header, require_columns
from ..trace import Trace
from .functions import Dealer

__all__ = ["Azure2019Options", "read_azure2019"]

IDS = ("HashOwner", "HashApp", "HashFunction")
MINUTES_PER_DAY = 1440
CHUNK = 6_000
"""Rows that are read at a time: of 1440 counts of eight bytes each, about 70 MB."""
MAX_CELLS = 50_000_000
"""Calls per model and minute that are held at a time: 400 MB."""
MAX_REQUESTS = 500_000_000
"""Most requests of one trace: each takes 20 bytes (arrival, model, SLO), so 10 GB; a guess at what is still useful."""
SPREADS = ("random", "even")
PATTERN = "invocations_per_function_md.anon.d*.csv*"


@dataclass(frozen=True, repr=False)
class Azure2019Options(Shown):
    """How calls that were counted by the minute become requests.

    Parameters
    ----------
    spread : {"random", "even"}
        Where in its minute a call arrives. ``"random"``: uniformly, by the seed; ``"even"``: a model's n calls at
        (i + ½)/n of the minute. A minute of the trace comes out the same whatever slice it is read in.
    thin : float
        Keep every call with this probability, in (0, 1]: the whole trace is about 10,000 calls per second.

    Raises
    ------
    InputError
        On another way to spread or a probability out of its range.
    """

    spread: str = "random"
    thin: float = 1.0

    def __post_init__(self) -> None:
        if self.spread not in SPREADS:
            raise InputError(f"spread: unknown way {self.spread!r}; expected one of {', '.join(SPREADS)}")
        if not 0 < self.thin <= 1:
            raise InputError(f"thin: expected a probability in (0, 1] (got {self.thin})")


def read_azure2019(
    path: str | Path | Sequence[str | Path],
    options: Azure2019Options | None = None,
    *,
    models: Sequence[str] | None = None,
    slo: Any = np.inf,
    start: float = 0.0,
    stop: float | None = None,
    assign: str = "stripe",
    seed: int = 0,
    progress: Progress | None = None,
) -> Trace:
    """Read calls of the Azure Functions trace of 2019 as requests.

    Parameters
    ----------
    path : path or sequence of paths
        One day's file, several, or the folder that holds them; gzipped or not. The day is the NN of ``dNN`` in
        the name: the first file begins at time 0, the others at their distance in days from it.
    options : Azure2019Options, optional
        Where in its minute a call arrives, and which share of the calls is kept.
    models : sequence of str, optional
        Models that the functions are dealt to; without, every function is a model.
    slo : float, sequence or mapping
        Seconds, as in `Trace`.
    start, stop : float
        Only calls in ``[start, stop)``, seconds from the first midnight, whole minutes; times count from `start`.
        Functions that are not called in between do not count when functions are dealt to models.
    assign : str
        ``"stripe"`` or ``"hash"``: see `functions.Dealer`.
    seed : int
        Of where calls arrive, which are kept, and the hash that deals functions to models, >= 0.
    progress : callable, optional
        Called with bytes read and bytes in all, of one file after the other.

    Returns
    -------
    Trace

    Raises
    ------
    InputError
        On a file that is missing, truncated or wrong (naming line and column), a slice without a call, or one
        with more than 500 million.
    """
    options = options or Azure2019Options()
    check_interval(start, stop)
    days = day_files(path)
    end = (max(day for day, _ in days) + 1) * MINUTES_PER_DAY * 60.0 if stop is None else stop
    if start % 60 or end % 60:
        raise InputError(
            f"start, stop: the trace counts by the minute; expected multiples of 60 s (got {start}, {stop})"
        )
    low, high = int(start // 60), int(end // 60)

    dealer = Dealer(models, assign, seed)
    calls = np.zeros((0 if models is None else len(dealer.models), high - low), dtype=np.int64)
    for day, file in days:
        offset = day * MINUTES_PER_DAY
        if offset < high and offset + MINUTES_PER_DAY > low:
            calls = _add_day(calls, file, low - offset, high - offset, dealer, progress)
    if not calls.any():
        raise InputError(f"{days[0][1]}: no call between {start:g} and {end:g} s")
    if calls.sum() * options.thin > MAX_REQUESTS:
        raise InputError(
            f"{days[0][1]}: {calls.sum():,} calls between {start:g} and {end:g} s; expected at most "
            f"{MAX_REQUESTS:,}; read less (start, stop) or only a share of them (thin)"
        )
    return _spread(calls, dealer.models, slo, low, options, seed)


def day_files(path: str | Path | Sequence[str | Path]) -> list[tuple[int, Path]]:
    """The files to read, with their distance in days from the first.

    Raises
    ------
    InputError
        If a folder holds no such file, or two files are of the same day.
    """
    if isinstance(path, str | Path):
        files = sorted(Path(path).glob(PATTERN)) if Path(path).is_dir() else [Path(path)]
        if not files:
            raise InputError(f"{path}: the folder holds no {PATTERN}; `meshwright trace fetch maf1` gets them")
    else:
        files = [Path(p) for p in path]
        if not files:
            raise InputError("azure2019: expected at least one file")
    numbers = [re.search(r"\.d(\d+)\.csv", file.name) for file in files]
    found = [int(match.group(1)) for match in numbers if match]
    if len(found) < len(files):
        return list(enumerate(files))  # not the published names: days in the order given
    if len(set(found)) < len(found):
        raise InputError(f"azure2019: two files of day {next(n for n in found if found.count(n) > 1):02d}")
    return sorted((n - min(found), file) for n, file in zip(found, files, strict=True))


def _minutes(file: Path, header: Header) -> list[str]:
    """The minute columns, ``"1"`` to the last one, none missing."""
    numbers = [int(name) for name in header.columns if name.isdecimal()]
    last = max(numbers, default=MINUTES_PER_DAY)
    if last > MINUTES_PER_DAY:
        raise InputError(f"{file}:{header.line}: column {last} is no minute of a day; expected 1 … {MINUTES_PER_DAY}")
    minutes = [str(minute) for minute in range(1, last + 1)]
    require_columns(file, header, (*IDS, *minutes))
    return minutes


def _add_day(calls: LongArray, file: Path, low: int, high: int, dealer: Dealer, progress: Progress | None) -> LongArray:
    """Add one day's calls in its minutes [low, high) to `calls`, shape (models, minutes of the whole slice)."""
    header = read_header(file)
    minutes = _minutes(file, header)
    first, last = max(low, 0), min(high, len(minutes))
    kinds = dict.fromkeys(IDS, TEXT) | dict.fromkeys(minutes, COUNT)
    for chunk in read_chunks(file, header, kinds, CHUNK, progress):
        table: Any = chunk
        counts: LongArray = table[minutes[first:last]].to_numpy()
        active = np.flatnonzero(counts.sum(axis=1))
        keys: Iterable[tuple[str, ...]] = zip(*(table[name].to_numpy()[active] for name in IDS), strict=True)
        index = np.array([dealer.model(*key) for key in keys], dtype=np.int64)
        if len(index) == 0:
            continue
        if index.max() >= len(calls):
            grown = max(int(index.max()) + 1, 2 * len(calls))
            if grown * calls.shape[1] > MAX_CELLS:
                raise InputError(f"{file}: {grown:,} functions are too many to be a model each; give models=")
            calls = np.concatenate([calls, np.zeros((grown - len(calls), calls.shape[1]), dtype=np.int64)])
        np.add.at(calls[:, first - low : last - low], index, counts[active])
    return calls


def _spread(
    calls: LongArray, models: tuple[str, ...], slo: Any, low: int, options: Azure2019Options, seed: int
) -> Trace:
    """Turn counts of calls per model and minute into arrival times."""
    calls = calls[: len(models)]
    if options.thin < 1:
        # A stream of its own for every minute: a slice keeps the same calls as the whole trace.
        kept: list[LongArray] = [
            generator(seed, "azure2019", "thin", low + minute).binomial(column, options.thin)
            for minute, column in enumerate(calls.T)
        ]
        calls = np.array(kept, dtype=np.int64).T
    total = int(calls.sum())
    if total == 0:
        raise InputError(f"thin: no call is left at {options.thin:g}; keep more")
    arrival, model = np.empty(total), np.empty(total, dtype=np.int32)
    done = 0
    for minute, column in enumerate(calls.T):
        n = int(column.sum())
        if n == 0:
            continue
        label = np.repeat(np.arange(len(models), dtype=np.int32), column)
        offset = _even(column) if options.spread == "even" else _random(n, seed, low + minute)
        order = np.argsort(offset, kind="stable")
        arrival[done : done + n] = 60.0 * (minute + offset[order])
        model[done : done + n] = label[order]
        done += n
    return Trace.trusted(arrival, model, models, slo_column(slo, models, model))


def _random(n: int, seed: int, minute: int) -> FloatArray:
    return generator(seed, "azure2019", "minute", minute).random(n)


def _even(column: LongArray) -> FloatArray:
    """(i + ½)/n for the i-th of the n calls of each model, one model after the other."""
    position = np.arange(int(column.sum())) - np.repeat(np.cumsum(column) - column, column)
    return (position + 0.5) / np.repeat(column, column)
