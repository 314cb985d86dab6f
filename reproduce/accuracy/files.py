"""What is measured in files that a user gives: tables of engines (silicon), and recorded runs of vLLM."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from ...errors import InputError
from ...runtime.llm import compare_silicon, compare_vllm_run
from .line import Errors, Line
from .options import Given
from .published import Tell

__all__ = ["lines"]


def lines(given: Given, tell: Tell) -> tuple[Line, ...]:
    """A line for TTFT and one for TPOT of the tables, and one for the recorded run.

    Raises
    ------
    InputError
        On files that cannot be read, or of which nothing can be predicted.
    """
    return (*_silicon(given, tell), *_run(given, tell))


def _silicon(given: Given, tell: Tell) -> Iterator[Line]:
    if given.silicon is None or given.kernels is None:
        return
    tell(f"rows of {given.silicon.name}")
    found = compare_silicon(given.silicon, given.kernels, progress=tell)
    systems = sorted({row.row.system for row in found.rows})
    for what, errors in (
        ("TPOT", [100 * row.tpot_error for row in found.rows if row.tpot_error == row.tpot_error]),
        ("TTFT", [100 * row.ttft_error for row in found.rows if row.ttft_error == row.ttft_error]),
    ):
        if errors:
            yield Line(
                "files", "llm", f"mean {what} of {len(errors)} measured engines",
                "tables of kernels, no fitted constant",
                "whoever made the table", ", ".join(systems), _day(given.silicon), "out",
                f"no parameter is fitted to a row; {len(found.skipped)} rows could not be predicted",
                f"{given.silicon.name}; `meshwright compare llm --silicon … --kernels …` prints every row",
                Errors.of(errors, "%"),
            )  # fmt: skip


def _run(given: Given, tell: Tell) -> Iterator[Line]:
    if given.vllm_run is None:
        return
    tell(f"recorded run {given.vllm_run.name}")
    found = compare_vllm_run(given.vllm_run, given.kernels)
    errors = [100 * found.error(metric, of) for metric in ("ttft", "tpot", "e2e") for of in ("mean", "median")]
    errors = [error for error in errors if error == error]
    if not errors:
        raise InputError(f"{given.vllm_run}: no finished request, nothing to compare")
    yield Line(
        "files", "llm", "mean and median TTFT, TPOT and end to end of a recorded run of vLLM",
        "the engine's arguments and kernels", "whoever recorded it", "see the run's meta.json", _day(given.vllm_run),
        "out", "the arrivals, lengths and arguments of the run are given; no time of it is",
        f"{given.vllm_run.name}; `meshwright compare llm --vllm-run …`", Errors.of(errors, "%"),
    )  # fmt: skip


def _day(path: Path) -> str:
    return f"file of {datetime.fromtimestamp(path.stat().st_mtime, UTC).date().isoformat()}"
