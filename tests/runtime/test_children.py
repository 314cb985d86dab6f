"""Processes under this one: whoever stops is found, whoever is told to end leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from meshwright.errors import InputError
from meshwright.runtime.children import Children, ending

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
    pytest.mark.usefixtures("cold"),
]

CHILD = """
import sys, time
sys.path[:0] = [p for p in {path!r} if p not in sys.path]
from meshwright.runtime.lifeline import die_with_parent
import socket
pipe, lifeline, parent = (int(a) for a in sys.argv[1:])
die_with_parent(lifeline, parent)
pipe = socket.socket(fileno=pipe)
pipe.sendall(b"up")
{then}
pipe.recv(1)
"""


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, str]]:
    def write(then: str = "") -> dict[str, str]:
        (tmp_path / "child_of_test.py").write_text(CHILD.format(path=sys.path, then=then))
        return {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}

    return write


def alive(pid: int) -> bool:
    """Whether a process is there; who is dead and not yet waited for is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(what: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


@pytest.mark.parametrize("ready", [True, False], ids=["at work", "while starting"])
def test_one_that_is_stopped_is_ended_and_says_so_and_who_only_waits_is_left_alone(
    child: Callable[[str], dict[str, str]], ready: bool
) -> None:
    children = Children("test", silence_s=3.0)
    try:
        environment = child("")
        stopped, waits = (children.start("child_of_test", name, environment) for name in ("a", "b"))
        for one in (stopped, waits):
            assert one.pipe.recv(2) == b"up"
        if ready:
            children.ready()
        os.kill(stopped.popen.pid, signal.SIGSTOP)
        assert select.select([stopped.pipe], [], [], 120.0)[0], "its pipe closes when it is ended"
        assert stopped.pipe.recv(1) == b""
        assert stopped.obituary().startswith("is stopped: no sign of life for ")
        assert alive(waits.popen.pid)
        assert not waits.verdict
    finally:
        children.close()
    assert not alive(stopped.popen.pid)
    assert not alive(waits.popen.pid)


def test_one_whose_threads_all_hang_is_ended(child: Callable[[str], dict[str, str]]) -> None:
    """It is not stopped: it holds the interpreter, as a library's call may that never returns."""
    children = Children("test", silence_s=3.0)
    try:
        hangs = children.start("child_of_test", "a", child("import re; re.match('(a+)+b', 'a' * 60)"))
        assert hangs.pipe.recv(2) == b"up"
        children.ready()
        assert hangs.pipe.recv(1) == b""
        assert hangs.obituary().startswith("hangs: no sign of life for ")
    finally:
        children.close()


def test_nobody_is_judged_by_a_pause_of_this_process(child: Callable[[str], dict[str, str]], tmp_path: Path) -> None:
    environment = child("")
    parent = subprocess.Popen([sys.executable, "-c", PARENT.format(silence=2.0)], env=os.environ | environment,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
    assert parent.stdout is not None
    try:
        pid = int(parent.stdout.readline())
        os.kill(parent.pid, signal.SIGSTOP)
        time.sleep(4.0)
        os.kill(parent.pid, signal.SIGCONT)
        time.sleep(1.5)
        assert alive(pid)
    finally:
        parent.kill()
        parent.communicate()


PARENT = """
import time
from meshwright.runtime.children import Children
children = Children("test", silence_s={silence})
try:
    one = children.start("child_of_test", "a", {{}})
    assert one.pipe.recv(2) == b"up"
    children.ready()
    print(one.popen.pid, flush=True)
    print(children.folder, flush=True)
    while True:
        try:
            time.sleep(1.0)
        except Exception as error:
            print("swallowed", error, flush=True)
finally:
    children.close()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_nothing_stays_of_a_process_that_is_told_to_end(
    child: Callable[[str], dict[str, str]], number: signal.Signals
) -> None:
    environment = child("")
    parent = subprocess.Popen([sys.executable, "-c", PARENT.format(silence=60.0)], env=os.environ | environment,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
    assert parent.stdout is not None
    pid, folder = int(parent.stdout.readline()), Path(parent.stdout.readline().strip())
    assert folder.is_dir()
    parent.send_signal(number)
    if number == signal.SIGTERM:
        with contextlib.suppress(ProcessLookupError):
            parent.send_signal(number)  # told twice
    printed, complained = parent.communicate(timeout=120)
    until(lambda: not alive(pid))
    assert "swallowed" not in printed, "no handler of errors on the way takes it for one"
    if number == signal.SIGTERM:
        assert parent.returncode == 143
        assert complained == "run: terminated (SIGTERM); its processes are ended\n"
    assert folder.exists() == (number == signal.SIGKILL)
    if number == signal.SIGKILL:
        for left in folder.iterdir():
            left.unlink()
        folder.rmdir()


TOLD_TWICE = """
import os, signal, time
from meshwright.runtime.termination import Termination

for _ in range(2):
    try:
        with Termination("test"):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10.0)
    except SystemExit as told:
        print(told.code, signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)
"""


def test_who_takes_the_end_for_an_error_and_goes_on_can_be_told_again() -> None:
    """And starts processes that can be: an ignored signal is inherited. Tried in a process of its own."""
    done = subprocess.run([sys.executable, "-c", TOLD_TWICE], capture_output=True, text=True, timeout=60.0, check=False)
    assert done.stdout == "143 True\n143 True\n", done.stderr


@pytest.mark.parametrize("silence_s", [0.0, 1.0, -5.0, float("nan")])
def test_a_silence_shorter_than_signs_of_life_is_refused(silence_s: float) -> None:
    with pytest.raises(InputError, match="silence_s"):
        Children("test", silence_s)


def test_how_processes_end_is_said_for_every_signal() -> None:
    assert ending(3) == "exit code 3"
    assert ending(-9) == "killed by SIGKILL"
    assert ending(-40) == "killed by signal 40"
