"""Progress lines say when kernels are being compiled, which else looks like a standstill."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from meshwright import compiling
from meshwright.cli import status as module
from meshwright.compiling import SAID, compiling_s


def slow_to_compile():
    """A kernel of its own, which no cache has, and whose compilation takes as long as it takes to see it."""

    @numba.njit
    def kernel(x):
        total = 0.0
        for i in range(10):
            total += x[i % len(x)] ** 2
        return total

    return kernel


def test_a_status_line_says_it_while_it_compiles(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "QUIET_S", 0.0)
    monkeypatch.setattr(module, "LOOK_S", 0.001)
    with module.status("working") as say:
        say("a step")
        time.sleep(0.05)  # the watcher has seen numba by now
        slow_to_compile()(np.ones(3))
    err = capsys.readouterr().err
    assert f"working: {SAID} (" in err, err
    assert compiling_s() == 0, "it is over"


def test_what_is_compiled_already_is_not_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel, x = slow_to_compile(), np.ones(3)
    kernel(x)
    monkeypatch.setattr(module, "QUIET_S", 0.0)
    monkeypatch.setattr(module, "LOOK_S", 0.001)
    with module.status("working") as say:
        for _ in range(20):
            say("a step")
            kernel(x)
            time.sleep(0.002)
    assert SAID not in capsys.readouterr().err


def test_a_study_and_a_worker_say_it_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from meshwright.cli.study import progress as study_progress
    from meshwright.studies.execution import processes
    from meshwright.studies.progress import Progress

    monkeypatch.setattr(study_progress, "compiling_s", lambda: 5.0)
    shower = study_progress.Shower.__new__(study_progress.Shower)
    shower.latest, shower.finished, shower._first = Progress(0, 0, 0, 24, 5.0), False, None
    assert shower._line(5.0) == f"0 of 24 points, {compiling.said()} (5.0 s)"

    monkeypatch.setattr(compiling, "compiling_s", lambda: 5.0)
    monkeypatch.setenv(processes.TELLS, "1")
    compiling.announce(after_s=2.0)
    for _ in range(100):
        time.sleep(0.02)
        if SAID in (said := capsys.readouterr().err):
            break
    assert said.startswith(SAID)
    with processes._for_children(first=False):
        assert processes.os.environ[processes.TELLS] == "0"


def kernel_of(room: str) -> Any:
    """A kernel that says it is of a room of ours."""
    kernel = slow_to_compile()
    kernel.py_func.__module__ = f"meshwright.{room}.anywhere"
    return kernel


def test_it_says_about_how_long_by_the_rooms_that_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(compiling._state, "ended", -1e9)  # a wait of its own
    compiling_s()
    kernel_of("planners.piper")(np.ones(3))
    kernel_of("simulator.training.program")(np.ones(3))
    both = compiling.ABOUT_S["planners.piper"] + compiling.ABOUT_S["simulator.training"]
    assert compiling.said() == f"{SAID}, about {both} s"


def test_a_verb_without_a_progress_line_says_it_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compiling, "compiling_s", lambda: 5.0)
    with compiling.voice():
        time.sleep(0.7)
    assert capsys.readouterr().err.count(SAID) == 1
    with compiling.voice(), module.status("working"):
        time.sleep(0.5)
    assert SAID not in capsys.readouterr().err, "the status line has other eyes, which see that nothing is compiled"


def test_every_kernel_is_of_a_room_whose_seconds_are_known() -> None:
    root = Path(compiling.__file__).parent
    files = [path for room in ("planners", "simulator", "profiles") for path in (root / room).rglob("*.py")]
    jitted = re.compile(r"^\s*@(kernel|inner|njit|numba\.njit)\b", re.MULTILINE)
    names = {".".join(path.relative_to(root).parent.parts) for path in files if jitted.search(path.read_text("utf-8"))}
    assert len(names) > 10
    unknown = [name for name in names if not any(f"{name}.".startswith(f"{room}.") for room in compiling.ABOUT_S)]
    assert not unknown, "compiling.ABOUT_S: a room is missing"
