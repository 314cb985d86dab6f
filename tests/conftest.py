"""What holds for all tests: which need the machine for themselves, one thread each where several run, Ctrl-C."""

from __future__ import annotations

import gc
import os
import signal
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ALONE = (
    "runtime_sharing",
    "runtime/test_real_runs.py::test_killed_worker_fails_its_group_only",
    "runtime/test_real_runs.py::test_replica_elsewhere_takes_over",
    "llm/test_engine_compare.py::test_both_worlds_serve_every_request_and_agree_within_a_factor_of_two",
    "llm/test_engine_compare.py::test_the_report_holds_every_figure_with_its_sign_and_verdict",
)
"""Folders, and tests of files, that compare real seconds with told ones: not beside other tests. Tests that start or
kill processes, and wait for what must happen however late, need not be here."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "alone: compares real seconds with told ones; not beside other tests")
    for entry in ALONE:
        where, _, name = entry.partition("::")
        if not (HERE / where).exists() or (name and f"def {name}(" not in (HERE / where).read_text(encoding="utf-8")):
            raise pytest.UsageError(f"tests/conftest.py: ALONE: no such test (got {entry!r}); was it renamed?")
    if hasattr(config, "workerinput"):  # of pytest-xdist: threads of every worker would fight for the same cores
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        # A shell that starts this in the background has it ignore Ctrl-C, and so would every process of a test.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.disable()  # until all is imported: nothing of that is garbage


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files without tests that run alone are not even imported where those alone are asked for."""
    if config.getoption("markexpr") != "alone" or not collection_path.is_relative_to(HERE):
        return None
    where = collection_path.relative_to(HERE)
    known = [Path(entry.partition("::")[0]) for entry in ALONE]
    return None if any(where.is_relative_to(path) or path.is_relative_to(where) for path in known) else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        where = item.path.relative_to(HERE).as_posix()
        name = getattr(item, "originalname", item.name)
        if where.partition("/")[0] in ALONE or f"{where}::{name}" in ALONE:
            item.add_marker(pytest.mark.alone)


def pytest_collection_finish() -> None:
    gc.enable()
    if "hypothesis" in sys.modules:  # which, imported later, looks for who holds the random states that it knows
        gc.freeze()  # modules and tests stay: no collection need look at those millions of objects again


def pytest_unconfigure() -> None:
    gc.unfreeze()  # else libraries that count their objects at the end miss some
    gc.enable()
