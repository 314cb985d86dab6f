"""What a reader of a report must know: notes of points, points without a result, answers that are not monotone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from .results import Results

__all__ = ["kinds", "split_notes", "warnings_of"]

MAX_KINDS = 8
CUT = 400


def split_notes(text: Any) -> list[str]:
    """The notes of a cell, one by one; a piece without a colon belongs to the one before it."""
    found: list[str] = []
    for piece in text.split("; ") if isinstance(text, str) and text else ():
        if found and ":" not in piece:
            found[-1] += f"; {piece}"
        else:
            found.append(piece)
    return found


def kinds(texts: Iterable[str]) -> list[tuple[str, int]]:
    """Texts that differ in numbers only are one kind: its first text and how many there are, most frequent first."""
    first: dict[str, str] = {}
    count: dict[str, int] = {}
    for text in texts:
        kind = re.sub(r"\d+(\.\d+)?(e[+-]?\d+)?", "#", text)
        first.setdefault(kind, text)
        count[kind] = count.get(kind, 0) + 1
    ranked = sorted(count.items(), key=lambda entry: -entry[1])
    return [(first[kind] if len(first[kind]) <= CUT else f"{first[kind][:CUT]}…", n) for kind, n in ranked]


def warnings_of(results: Results) -> list[str]:
    """The warnings, one line each."""
    points = results.points
    if not len(points):
        return ["The study has no point."]
    lines: list[str] = []
    for status, said in (("failed", "failed"), ("infeasible", "have no feasible plan")):
        lines += _said(
            [e for s, e in zip(points["status"], points["error"], strict=True) if s == status], said, len(points)
        )
    lines += [f"Not monotone: {a.sentence}" for a in results.answers if not a.monotone and not a.part]
    lines += [f"{a.planner}, {a.question}: {a.error}" for a in results.answers if a.error and not a.part]
    notes = [note for text in points["notes"] for note in split_notes(text)]
    lines += _said(notes, "", len(points))
    if results.study.replications == 1:
        lines.append("One replication: no interval is known, so differences between planners may be chance.")
    return lines


def _said(texts: list[str], what: str, total: int) -> list[str]:
    found = kinds(texts)
    lines = [
        f"{n:,} of {total:,} point{'s' if total != 1 else ''}{f' {what}' if what else ''}: {text}"
        for text, n in found[:MAX_KINDS]
    ]
    if len(found) > MAX_KINDS:
        lines.append(
            f"{len(found) - MAX_KINDS} more kinds of notes{f' of points that {what}' if what else ''}: see points.csv"
        )
    return lines
