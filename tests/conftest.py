"""What holds for all tests: what is drawn, which are slow, which need the machine for themselves, threads, Ctrl-C."""

from __future__ import annotations

import gc
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

HERE = Path(__file__).parent
HELPERS = [p for p in HERE.rglob("*.py") if not p.name.startswith(("test_", "conftest")) and p.parent.name != "planted"]
"""Modules beside tests, which any test imports by their names: each name stands once (test_house.py)."""
sys.path[:0] = sorted({str(path.parent) for path in HELPERS})
ALONE = (
    "runtime/sharing/test_kills.py",
    "runtime/sharing/test_real.py",
    "runtime/sharing/test_run_world_cli.py",
    "runtime/sharing/test_service.py",
    "runtime/serving/test_real_runs.py::test_killed_worker_fails_its_group_only",
    "runtime/serving/test_real_runs.py::test_replica_elsewhere_takes_over",
    "runtime/llm/kills/test_killed_engine.py",
    "runtime/llm/compare/test_engine.py::test_both_worlds_serve_every_request_and_agree_within_a_factor_of_two",
    "runtime/llm/compare/test_engine.py::test_the_report_holds_every_figure_with_its_sign_and_verdict",
)
"""Files, and tests of files, that compare real seconds with told ones: not beside other tests. Tests that start or
kill processes, and wait for what must happen however late, need not be here."""


FIXED, ANEW = "fixed", "anew"
"""What is drawn is the same on every machine and in every run; or it is new each time (docs/testing.md)."""


def pytest_addoption(parser: pytest.Parser) -> None:
    what = "slow tests too, and examples that are drawn anew (make test-all; docs/testing.md)"
    parser.addoption("--everything", action="store_true", default=False, help=what)


def drawn_examples(anew: bool) -> None:
    """Before any test is imported: its settings take what the profile leaves them."""
    # Seconds decide nothing: no deadline, no verdict that drawing is slow.
    common = {"deadline": None, "suppress_health_check": (HealthCheck.too_slow,), "print_blob": True}
    settings.register_profile(ANEW, settings.get_profile("default"), derandomize=False, **common)
    settings.register_profile(FIXED, settings.get_profile("default"), derandomize=True, database=None, **common)
    settings.load_profile(ANEW if anew else FIXED)
    if not anew:
        # Hypothesis also draws constants that it reads in our modules imported so far: other draws after any edit, and
        # beside other tests. It has no setting for that; tests/test_draws.py fails where this no longer helps.
        providers._get_local_constants = lambda: providers._local_constants


def pytest_configure(config: pytest.Config) -> None:
    drawn_examples(anew=config.getoption("everything"))
    config.addinivalue_line("markers", "alone: compares real seconds with told ones; not beside other tests")
    config.addinivalue_line("markers", "slow: takes long; runs with --everything only (make test-all)")
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


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object | None:
    """Workers stay in a room as long as it has files for them (by_rooms.py)."""
    if config.getoption("dist") != "loadfile":
        return None
    from by_rooms import RoomScheduling

    return RoomScheduling(config, log)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files without tests that run alone are not even imported where those alone are asked for."""
    if config.getoption("markexpr") != "alone" or not collection_path.is_relative_to(HERE):
        return None
    where = collection_path.relative_to(HERE)
    known = [Path(entry.partition("::")[0]) for entry in ALONE]
    return None if any(where.is_relative_to(path) or path.is_relative_to(where) for path in known) else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        where = item.path.relative_to(HERE).as_posix()
        name = getattr(item, "originalname", item.name)
        if {where, f"{where}::{name}"} & set(ALONE):
            item.add_marker(pytest.mark.alone)
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow and not config.getoption("everything"):
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item.get_closest_marker("slow") is None]


def pytest_collection_finish() -> None:
    gc.enable()
    gc.freeze()  # modules and tests stay: no collection need look at those millions of objects again


def pytest_unconfigure() -> None:
    gc.unfreeze()  # else libraries that count their objects at the end miss some
    gc.enable()
