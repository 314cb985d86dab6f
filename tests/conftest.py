"""What holds for all tests: Ctrl-C reaches processes that they start, and those that need the machine are marked."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ALONE = (
    *("runtime", "runtime_training", "runtime_slices", "runtime_graphs", "llm_engine", "export", "export_training"),
    "runtime_sharing",
    *(
        "llm/test_engine_compare.py",
        "studies/test_interrupted.py",
        "studies/test_executors.py",
        "gate/test_gate_cli.py",
    ),
)
"""Folders and files whose tests run processes that are timed or killed at a moment: not beside other tests."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "alone: runs processes in real time; not beside other tests")
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        # A shell that starts this in the background has it ignore Ctrl-C, and so would every process of a test.
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        where = item.path.relative_to(HERE)
        if where.parts[0] in ALONE or where.as_posix() in ALONE:
            item.add_marker(pytest.mark.alone)
