"""`FleetReport`: what a fleet did beyond its iterations: transfers, deaths, retries, and what it cost."""

from __future__ import annotations

# pandas brings no type stubs.
# pyright: reportMissingTypeStubs=false
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ....reprs import Shown
from ...summary import Figure, Summary
from ..result.iterations import Iterations, TokenRuns

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FleetReport", "Journal", "Life", "report"]

Column = npt.NDArray[np.float64]
IntColumn = npt.NDArray[np.int64]

PAID = ("starting", "up", "draining")
"""States that are paid for: the devices are taken and not broken."""


class Life(Protocol):
    """The life of an engine: its number and role, its state and since when, and the spans before that."""

    @property
    def index(self) -> int: ...

    @property
    def role(self) -> str: ...

    @property
    def state(self) -> str: ...

    @property
    def since(self) -> float: ...

    @property
    def spans(self) -> list[tuple[str, float, float]]: ...


class Journal:
    """Records that a fleet keeps of each request while it runs, by row of the workload."""

    def __init__(self, n: int) -> None:
        self.first_engine = np.full(n, -1, dtype=np.int64)
        self.transfer_start, self.transfer_end = np.full(n, np.nan), np.full(n, np.nan)
        self.transfer_bytes, self.retries, self.lost_tokens = (np.zeros(n, dtype=np.int64) for _ in range(3))
        self.failed = np.zeros(n, dtype=bool)
        self.begun = np.full(n, -np.inf)  # tokens of this time and before are lost
        self.deaths: dict[int, int] = {}


@dataclass(frozen=True, eq=False, repr=False)
class FleetReport(Shown):
    """What happened to every request and every engine of a fleet; times in seconds, NaN where there is none.

    Parameters
    ----------
    first_engine : ndarray of int64, shape (n,)
        Engine on which each request began in its last try (with pools: which processed its prompt); -1 if none took it.
    transfer_start, transfer_end, decode_start : ndarray of float64, shape (n,)
        With pools: when the transfer of keys and values began and ended, and when the first decoding iteration began.
    transfer_bytes : ndarray of int64, shape (n,)
        Bytes that were transferred in the last try.
    retries : ndarray of int64, shape (n,)
        How often each request lost its engine.
    failed : ndarray of bool, shape (n,)
        Requests that were given up: too many retries, or no engine left.
    lost_tokens : ndarray of int64, shape (n,)
        Tokens that were generated and thrown away, for each of the request's sequences.
    roles : tuple of str
        Role of each engine: "prefill", "decode" or "both".
    engine, state, start, end : ndarray, shape (s,)
        Spans of the engines' lives: the engine, its state (one of ``starting, up, draining, down, gone``), and when the
        span began and ended.
    busy_s : ndarray of float64, shape (engines,)
        Seconds that each engine computed, including iterations that a failure cut short.
    deaths : ndarray of int64, shape (engines,)
        How often each engine failed.
    end_s : float
        When the simulation ended.
    """

    first_engine: IntColumn
    transfer_start: Column
    transfer_end: Column
    decode_start: Column
    transfer_bytes: IntColumn
    retries: IntColumn
    failed: npt.NDArray[np.bool_]
    lost_tokens: IntColumn
    roles: tuple[str, ...]
    engine: IntColumn
    state: npt.NDArray[np.str_]
    start: Column
    end: Column
    busy_s: Column
    deaths: IntColumn
    end_s: float

    def seconds(self, *states: str, role: str | None = None) -> float:
        """Seconds that engines spent in some states, all together.

        Parameters
        ----------
        *states : str
            ``starting``, ``up``, ``draining``, ``down``.
        role : str, optional
            Only engines of this role.
        """
        mine = np.isin(self.state, states) & np.isin(self.engine, self._of(role))
        return float((self.end - self.start)[mine].sum())

    @property
    def engine_seconds(self) -> float:
        """Seconds of engines that are paid for: starting, up and draining. Broken ones are not."""
        return self.seconds(*PAID)

    def utilization(self, role: str | None = None) -> float:
        """Share of the time in which engines serve (up, draining) that they compute; NaN if they never serve."""
        there = self.seconds("up", "draining", role=role)
        return float(self.busy_s[self._of(role)].sum() / there) if there > 0 else float("nan")

    @property
    def availability(self) -> float:
        """Share of the engines' lives, `gone` aside, in which they serve."""
        return self.seconds("up", "draining") / self.seconds(*PAID, "down")

    def _of(self, role: str | None) -> IntColumn:
        if role is not None and role not in self.roles:
            raise InputError(f"role: expected one of {', '.join(dict.fromkeys(self.roles))} (got {role!r})")
        return np.flatnonzero([role is None or r == role for r in self.roles])

    @property
    def transfer_time(self) -> Column:
        """Seconds on the link, of requests that were sent, in order of rows."""
        return _some(self.transfer_end - self.transfer_start)

    def waits(self, first_token: Column) -> tuple[Column, Column]:
        """Between prompt and decode: seconds until the transfer began (memory, NICs), and from its end to the decode.

        Parameters
        ----------
        first_token : ndarray of float64, shape (n,)
            When each prompt was processed: `LLMResult.first_token`.
        """
        return _some(self.transfer_start - first_token), _some(self.decode_start - self.transfer_end)

    def serving_engines(self, times: npt.ArrayLike) -> IntColumn:
        """Engines that take requests at each of some times (seconds)."""
        up, at = self.state == "up", np.asarray(times, dtype=np.float64)
        begun = np.searchsorted(np.sort(self.start[up]), at, side="right")
        return (begun - np.searchsorted(np.sort(self.end[up]), at, side="right")).astype(np.int64)

    def spans(self) -> pd.DataFrame:
        """The engines' lives: ``engine, role, state, start, end``."""
        import pandas as pd

        roles: Any = [self.roles[i] for i in self.engine.tolist()]
        return pd.DataFrame(
            {"engine": self.engine, "role": roles, "state": self.state, "start": self.start, "end": self.end}
        )

    def summary(self) -> Summary:
        """The figures that one looks at first: seconds, shares, counts."""
        figures = [
            Figure("engine_seconds", self.engine_seconds, "s", "of engines that are paid for"),
            Figure("deaths", float(self.deaths.sum()), "", "of engines"),
            Figure("retries", float(self.retries.sum()), "", "of requests that lost their engine"),
            Figure("failed", float(self.failed.sum()), "", "requests that were given up"),
            Figure("lost_tokens", float(self.lost_tokens.sum()), "", "tokens that were generated and thrown away"),
            Figure("availability", self.availability, "", "share of the engines' lives in which they serve"),
        ]
        for role in dict.fromkeys(self.roles):
            says = f"share of serving time in which engines of role {role} compute"
            figures.append(Figure(f"utilization_{role}", self.utilization(role), "", says))
        if len(self.transfer_time):
            sent = float(self.transfer_bytes.sum())
            figures.append(Figure("transfer_p50", float(np.median(self.transfer_time)), "s", "on the link, median"))
            figures.append(Figure("transfer_bytes", sent, "bytes", "keys and values that were sent"))
        return Summary(repr(self), figures)

    def _headline(self) -> str:
        roles = ", ".join(f"{self.roles.count(role)} {role}" for role in dict.fromkeys(self.roles))
        deaths, retries = int(self.deaths.sum()), int(self.retries.sum())
        return f"{roles}; {len(self.retries)} requests, {deaths} deaths, {retries} retries"

    def shown_rows(self) -> Iterable[tuple[str, object]]:
        return self.summary().shown_rows()


def _some(values: Column) -> Column:
    return values[~np.isnan(values)]


def _decode_start(journal: Journal, members: Sequence[Life], iterations: Iterations, runs: TokenRuns) -> Column:
    """When each request's first decoding iteration began after the transfer of its last try."""
    decode, engine = np.full(len(journal.retries), np.nan), iterations.engine
    decodes = np.array([m.role == "decode" for m in members])
    if not decodes.any():
        return decode

    def here(who: IntColumn, rows: IntColumn) -> npt.NDArray[np.bool_]:
        # False where nothing was sent.
        return decodes[engine[rows]] & (iterations.start[rows] >= journal.transfer_end[who])

    def note(who: IntColumn, rows: IntColumn) -> None:
        mine = here(who, rows)
        np.fmin.at(decode, who[mine], iterations.start[rows[mine]])

    note(runs.request, runs.first)
    # Of a run, if not its first token, a later one may be the first here; of one over two engines, any.
    late = ~here(runs.request, runs.first) & here(runs.request, runs.last)
    late |= engine[runs.first] != engine[runs.last]
    rest = TokenRuns(runs.request[late], runs.first[late], runs.last[late])
    note(np.repeat(rest.request, rest.last - rest.first + 1), rest.tokens())
    return decode


def report(
    journal: Journal, members: Sequence[Life], iterations: Iterations, runs: TokenRuns, end: float
) -> FleetReport:
    """The journal and the engines' lives together, until the simulation's end."""
    spans = [(m.index, *span) for m in members for span in (*m.spans, (m.state, m.since, end)) if span[2] > span[1]]
    columns: list[Any] = [list(column) for column in zip(*spans, strict=True)] if spans else [[], [], [], []]
    length = iterations.end - iterations.start
    return FleetReport(
        journal.first_engine,
        journal.transfer_start,
        journal.transfer_end,
        _decode_start(journal, members, iterations, runs),
        journal.transfer_bytes,
        journal.retries,
        journal.failed,
        journal.lost_tokens,
        tuple(m.role for m in members),
        np.array(columns[0], dtype=np.int64),
        np.array(columns[1], dtype=np.str_),
        np.array(columns[2], dtype=np.float64),
        np.array(columns[3], dtype=np.float64),
        np.bincount(iterations.engine, weights=length, minlength=len(members)).astype(np.float64),
        np.array([journal.deaths.get(m.index, 0) for m in members], dtype=np.int64),
        end,
    )
