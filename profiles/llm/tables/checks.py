"""Measured tables are checked at the door: columns, numbers, repeats and units, one clear error each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ....errors import InputError, MeshwrightError, install_hint
from ....files import readable

__all__ = ["consistent", "read_header", "read_table", "read_yaml", "units"]

REPEAT = 8.0
"""Measurements of one point that lie further apart than this contradict each other (public tables reach 4.3)."""
ASIDE, FEW = 0.2, 4
"""A table with a larger share of outliers, at least so many, is refused (of public tables 9 % are the most)."""


def read_table(
    path: Path,
    numbers: Sequence[str],
    words: Sequence[str],
    value: str,
    zero: Sequence[str] = (),
    optional: Sequence[str] = (),
) -> Any:
    """Read one table of measurements (CSV or Parquet) as a checked data frame.

    Parameters
    ----------
    path : Path
        The file.
    numbers, words : sequence of str
        Columns that must be there: positive numbers; words.
    value : str
        The measured column.
    zero : sequence of str
        Number columns that may be zero.
    optional : sequence of str
        Columns that tell measurements apart where the table has them.

    Raises
    ------
    InputError
        On an unreadable file, missing columns, NaN, negative or zero numbers, contradicting duplicates.
    """
    import pandas

    pd: Any = pandas  # its own types are partly unknown
    try:
        frame = pd.read_parquet(readable(path)) if path.suffix == ".parquet" else pd.read_csv(readable(path))
    except ImportError:
        raise MeshwrightError(
            f"{path}: reading Parquet needs pyarrow; install it with: {install_hint('parquet')}"
        ) from None
    except Exception as error:  # pandas, pyarrow and csv each have their own
        raise InputError(f"{path}: cannot be read as a table: {error}") from None
    missing = [name for name in (*words, *numbers, value) if name not in frame.columns]
    if missing:
        raise InputError(f"{path}: columns missing: {', '.join(missing)} (got {', '.join(map(str, frame.columns))})")
    if frame.empty:
        raise InputError(f"{path}: the table has no rows; measure it again")
    for name in (*numbers, value):
        column = pd.to_numeric(frame[name], errors="coerce").to_numpy(dtype=float)
        least = 0.0 if name in zero else np.nextafter(0, 1)
        bad = ~(np.isfinite(column) & (column >= least))
        if bad.any():
            row = int(np.argmax(bad))
            what = "a number >= 0" if name in zero else "a number > 0"
            raise InputError(
                f"{path}: row {row + 1}: {name}: expected {what} (got {frame[name].iloc[row]}); "
                f"drop or measure again the {int(bad.sum())} such rows"
            )
        frame[name] = column
    key = [*words, *numbers, *(name for name in optional if name in frame.columns)]
    spread = frame.groupby(key, sort=False, dropna=False)[value].agg(["min", "max"])
    wild = spread["max"] > REPEAT * spread["min"]
    if wild.any():
        where: Any = spread.index[int(np.argmax(wild.to_numpy()))]
        low, high = spread.loc[where, "min"], spread.loc[where, "max"]
        named = ", ".join(f"{k}={v}" for k, v in zip(key, where if isinstance(where, tuple) else (where,), strict=True))
        raise InputError(f"{path}: {named} is measured twice with {low:g} and {high:g}; keep the right row")
    return frame


def read_header(path: Path) -> tuple[str, ...]:
    """Names of a CSV file's columns; none if it cannot be read, which `read_table` says."""
    try:
        with readable(path).open(encoding="utf-8") as lines:
            return tuple(name.strip() for name in lines.readline().split(","))
    except (OSError, UnicodeDecodeError):
        return ()


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML mapping.

    Raises
    ------
    InputError
        If it is missing, unreadable or no mapping.
    """
    import yaml

    try:
        said = yaml.safe_load(readable(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"{path}: cannot be read: {' '.join(str(error).split())}") from None
    if not isinstance(said, dict):
        raise InputError(f"{path}: expected a mapping of fields (got {type(said).__name__})")
    return said


def consistent(where: str, grid: Any) -> None:
    """Refuse a table of which more than `ASIDE` of the points contradict others: no neighbour tells what is right.

    Parameters
    ----------
    where : str
        The file, and the part of it.
    grid : Grid
        With what was set aside.

    Raises
    ------
    InputError
        If that many were.
    """
    aside = [point for point in grid.aside if point.why != "law"]
    measured = int(grid.measured.sum()) + len(grid.aside)
    if len(aside) >= FEW and len(aside) > ASIDE * measured:
        raise InputError(
            f"{where}: contradicts itself: {len(aside)} of {measured} points take longer than larger ones, or are less "
            "efficient than both neighbours; measure it again on a device with fixed clocks and nobody else on it"
        )


def units(where: str, fastest: float, slowest_ok: float = 1e-3, fastest_ok: float = 1.5) -> None:
    """Refuse a table whose best kernel is impossibly fast or hopelessly slow: then its unit is wrong.

    Units differ by factors of a thousand, so the defaults are wide: half above the data sheet (clocks boost, sheets
    round) and a thousandth of it.

    Parameters
    ----------
    where : str
        The file, and the unit that was expected.
    fastest : float
        The best kernel's rate as a share of the device's peak.

    Raises
    ------
    InputError
        If that share cannot be.
    """
    if not slowest_ok <= fastest <= fastest_ok:
        raise InputError(
            f"{where}: the best kernel would run at {fastest:.3g} x the device's peak; is the time in another unit?"
        )
