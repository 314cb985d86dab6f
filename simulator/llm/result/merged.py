"""`merged`: results of parts of a model's requests, each on engines of its own, as one result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..workload.requests import LLMTrace
from .columns import LLMResult
from .iterations import Iterations, TokenRuns

if TYPE_CHECKING:
    from ..fleet.report import FleetReport

__all__ = ["Part", "merged"]

BLANK = {"generated": 0, "preemptions": 0, "cached_tokens": 0, "engine": -1, "ignored": False}
"""What columns hold of a request that no part has; the others NaN."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Some of the requests, and what came of them.

    Parameters
    ----------
    rows : ndarray of int64
        Rows of the trace, ascending.
    result : LLMResult
        Their result, row by row.
    first : int
        Number that its first engine gets.
    """

    rows: npt.NDArray[np.int64]
    result: LLMResult
    first: int


def merged(trace: LLMTrace, parts: Sequence[Part], engines: int) -> LLMResult:
    """One result of a whole trace.

    Parameters
    ----------
    trace : LLMTrace
        All requests.
    parts : sequence of Part
        Each row of the trace in one of them at most; in the order of their engines.
    engines : int
        Engines of all parts, those without a request too.

    Returns
    -------
    LLMResult
        Its ``capacity_tokens`` is the mean over the engines, which may differ.
    """
    columns: dict[str, Any] = {}
    for name in ("arrival", "scheduled", "first_token", "finish", *BLANK):
        kind = getattr(parts[0].result, name).dtype
        columns[name] = np.full(len(trace), BLANK.get(name, np.nan), dtype=kind)
        for part in parts:
            values = getattr(part.result, name)
            columns[name][part.rows] = (
                np.where(values >= 0, values + part.first, values) if name == "engine" else values
            )
    return LLMResult(
        trace=trace,
        **columns,
        iterations=_iterations(parts, engines),
        runs=_runs(parts),
        policy=", ".join(dict.fromkeys(part.result.policy for part in parts)),
        made_by=", ".join(sorted({part.result.made_by for part in parts})),
        fleet=_fleet(parts, len(trace), engines),
    )


def _iterations(parts: Sequence[Part], engines: int) -> Iterations:
    held = [part.result.iterations for part in parts]
    whole: dict[str, npt.NDArray[Any]] = {}
    for name in dict.fromkeys(name for each in held for name in each.columns()):
        columns = [each.columns().get(name, np.zeros(len(each), dtype=np.int64)) for each in held]
        if name == "engine":
            columns = [column + part.first for column, part in zip(columns, parts, strict=True)]
        whole[name] = np.concatenate(columns)
    slots = sum(each.capacity_tokens * each.engines for each in held)
    return Iterations(**whole, capacity_tokens=round(slots / sum(each.engines for each in held)), engines=engines)


ABSENT = {
    "first_engine": -1, "transfer_start": np.nan, "transfer_end": np.nan, "decode_start": np.nan,
    "transfer_bytes": 0, "retries": 0, "failed": False, "lost_tokens": 0,
}  # fmt: skip
"""What a fleet's columns hold of a request that no part has."""


def _fleet(parts: Sequence[Part], n: int, engines: int) -> FleetReport | None:
    """What befell the engines of all parts; None where nothing could.

    Each part ends with its own last request, and its engines' lives with it; those that nothing befell are there all
    the time. Engines of a part without a request have no life.
    """
    from ..fleet.report import FleetReport

    reports = [(part, part.result.fleet) for part in parts if part.result.fleet is not None]
    if not reports:
        return None
    columns: dict[str, npt.NDArray[Any]] = {}
    for name, absent in ABSENT.items():
        columns[name] = np.full(n, absent, dtype=getattr(reports[0][1], name).dtype)
        for part, found in reports:
            values = getattr(found, name)
            numbered = name == "first_engine"
            columns[name][part.rows] = np.where(values >= 0, values + part.first, values) if numbered else values
    busy, deaths, ends = np.zeros(engines), np.zeros(engines, dtype=np.int64), [f.end_s for _, f in reports]
    for part, found in reports:
        mine = slice(part.first, part.first + len(found.roles))
        busy[mine], deaths[mine] = found.busy_s, found.deaths
    spans = [(f.engine + part.first, f.state, f.start, f.end) for part, f in reports]
    for part in (part for part in parts if part.result.fleet is None):
        held, count = part.result.iterations, part.result.iterations.engines
        numbers = part.first + np.arange(count)
        columns["first_engine"][part.rows] = np.where(part.result.engine >= 0, part.result.engine + part.first, -1)
        np.add.at(busy, held.engine + part.first, held.end - held.start)
        ends.append(float(held.end.max()) if len(held) else 0.0)
        spans.append((numbers, np.full(count, "up"), np.zeros(count), np.full(count, ends[-1])))
    engine, state, start, end = (np.concatenate(each) for each in zip(*spans, strict=True))
    return FleetReport(
        **columns, roles=("both",) * engines, engine=engine, state=state, start=start, end=end, busy_s=busy,
        deaths=deaths, end_s=max(ends),
    )  # fmt: skip


def _runs(parts: Sequence[Part]) -> TokenRuns:
    before = np.cumsum([0, *(len(part.result.iterations) for part in parts)])
    who = np.concatenate([part.rows[part.result.runs.request] for part in parts])
    first, last = (
        np.concatenate([getattr(p.result.runs, name) + n for p, n in zip(parts, before[:-1], strict=True)])
        for name in ("first", "last")
    )
    order = np.argsort(who, kind="stable")  # a request is in one part: its runs keep their order
    return TokenRuns(who[order], first[order], last[order])
