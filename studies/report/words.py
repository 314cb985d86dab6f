"""How names and numbers are said in a report: labels, units, short values."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["LATENCIES", "cell", "label", "number", "plain", "scale", "short_names", "sized", "with_unit"]

_SECONDS = {"mean_latency", "p50_latency", "p99_latency"}
_SHARES = {"attainment", "utilization", "offered_load", "demand", "difference"}
_RATES = {"goodput"}

LATENCIES = ("mean_latency", "p99_latency")
"""Metrics that share a figure: a solid and a dashed line."""


def label(metric: str) -> str:
    """Name and unit of a metric: ``"mean latency (s)"``."""
    words = metric.replace("_", " ")
    if metric in _SHARES:
        return f"{words} (%)"
    if metric in _SECONDS:
        return f"{words} (s)"
    return f"{words} (1/s)" if metric in _RATES else words


def scale(metric: str) -> float:
    """What a metric is multiplied with to be shown in its label's unit."""
    return 100.0 if metric in _SHARES else 1.0


def number(value: float, digits: int = 4) -> str:
    """A number that people read: ``99.25``, ``1,234``, ``1.2e-07``; ``"–"`` where there is none."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if not -4 <= size < 9:
        return f"{value:.{digits - 1}e}".replace("-", "−")
    text = f"{value:,.{max(0, digits - 1 - size)}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text).replace("-", "−")


def with_unit(metric: str, value: float, half_width: float = math.nan) -> str:
    """A metric's value with its unit and, where it is known, half its interval: ``"99.25 ± 0.31 %"``."""
    factor = scale(metric)
    half_width = 0.0 if half_width < 1e-9 * abs(value) else half_width  # the last bits of equal draws
    unit = " %" if metric in _SHARES else " s" if metric in _SECONDS else "/s" if metric in _RATES else ""
    spread = f" ± {number(half_width * factor, 2)}" if math.isfinite(half_width) else ""
    return f"{number(value * factor)}{spread}{unit}"


def plain(value: Any, digits: int = 6) -> str:
    """A value of an axis as text."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    if isinstance(value, int | float):
        return "–" if math.isnan(value) else number(float(value), digits)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def sized(path: str, value: Any) -> Any:
    """A value as people say it: bytes of memory in GiB."""
    if path.endswith("memory") and isinstance(value, int | float) and value >= 2**20:
        return f"{number(value / 2**30)} GiB"
    return value


def cell(value: Any) -> Any:
    """A value as a table file holds it: numbers and text stay, lists and mappings become JSON."""
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    item = getattr(value, "item", None)
    return item() if callable(item) else json.dumps(value, ensure_ascii=False, default=str)


def short_names(paths: Iterable[str]) -> Mapping[str, str]:
    """Path -> its last word where that tells it from the others, else the whole path.

    The last two where the last is no word of ours, as in ``speed.v100-16gb``.
    """
    known = list(paths)
    last = [path.rpartition(".")[2] for path in known]
    last = [w if w.isidentifier() else " ".join(p.split(".")[-2:]) for p, w in zip(known, last, strict=True)]
    return {path: word if last.count(word) == 1 else path for path, word in zip(known, last, strict=True)}
