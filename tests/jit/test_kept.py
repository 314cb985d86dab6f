"""What is compiled is kept, and found again until something changes that it reaches; without a folder it works too."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from meshwright import jit, kept
from meshwright.reached import digest

INSIDE = """
from meshwright.jit import inner

SCALE = 2
{constant}

@inner
def deepest(x):
    return x {sign} SCALE
"""
OUTSIDE = """
from meshwright.jit import inner, kernel
from . import inside
from .inside import deepest

@inner
def between(x):
    return deepest(x) + inside.OFFSET

@kernel
def outer(x):
    return between(x)

@kernel
def other(x):
    return x + 1

@kernel(plain=10)
def rented(x):
    total = 0.0
    for i in range(len(x)):
        total += x[i]
    return total

def made(step):
    @kernel
    def stepped(x):
        return x + step
    return stepped
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Import a package of two files as a new process would, after what is told was changed in the inner one."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "edited_package"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "outside.py").write_text(OUTSIDE)

    def load(constant: str = "OFFSET = 100", sign: str = "*") -> Any:
        (folder / "inside.py").write_text(INSIDE.format(constant=constant, sign=sign))
        for name in [name for name in sys.modules if name.startswith("edited_package")]:
            del sys.modules[name]
        importlib.invalidate_caches()
        kept._folders.cache_clear()
        kept._unwritable.cache_clear()
        return importlib.import_module("edited_package.outside")

    return load


def hits(function: Any) -> int:
    return sum(function.stats.cache_hits.values())


def test_what_did_not_change_is_found_again(package: Callable[..., Any]) -> None:
    assert package().outer(3) == 106
    again = package()
    assert again.outer(3) == 106
    assert hits(again.outer) == 1


LOADED = """
import sys
from edited_package.outside import outer
print(outer(3), sum(outer.stats.cache_hits.values()), [name for name in {names} if name in sys.modules])
outer(3.0)
print([name for name in {names} if name in sys.modules])
"""


@pytest.mark.skipif(numba.version_info.short != jit.KNOWN, reason="other versions load all that they can compile")
def test_what_is_kept_is_loaded_without_what_compiles(package: Callable[..., Any], tmp_path: Path) -> None:
    """And a kernel of other types is compiled after it."""
    package().outer(3)
    names = ["numba.np.arraymath", "scipy.linalg"]
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(names=names)], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
    )  # fmt: skip
    assert done.stdout.splitlines() == ["106 1 []", str(names)]


@pytest.mark.parametrize(
    ("change", "answer"),
    [({"sign": "+"}, 105), ({"constant": "OFFSET = 7"}, 13), ({"constant": "OFFSET = 100; SCALE = 5"}, 115)],
    ids=["an inner kernel", "a module's constant", "an inner kernel's constant"],
)
def test_a_change_in_another_file_is_noticed_and_touches_nothing_else(
    package: Callable[..., Any], change: dict[str, str], answer: int
) -> None:
    before = package()
    assert (before.outer(3), before.other(3)) == (106, 4)
    after = package(**change)
    assert (after.outer(3), after.other(3)) == (answer, 4)
    assert (hits(after.outer), hits(after.other)) == (0, 1)


def test_kernels_of_one_factory_are_kept_beside_each_other(package: Callable[..., Any]) -> None:
    first = package()
    assert (first.made(1)(1), first.made(10)(1)) == (2, 11)
    again = package()
    one, ten = again.made(1), again.made(10)
    assert (one(1), ten(1), hits(one), hits(ten)) == (2, 11, 1, 1)


def test_a_torn_file_is_compiled_anew(
    package: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(kept.SAID, raising=False)
    package().outer(3)
    for path in (tmp_path / "kept").rglob("outside.outer*.nbc"):
        path.write_bytes(path.read_bytes()[:100])
    assert package().outer(3) == 106
    assert "what is kept of outer cannot be read" in capsys.readouterr().err


def test_a_folder_that_can_only_be_read_is_used(
    package: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(kept.SAID, raising=False)
    package().outer(3)
    load = package
    monkeypatch.setattr(kept.tempfile, "TemporaryFile", _refused)
    again = load()
    assert again.outer(3) == 106
    assert hits(again.outer) == 1
    assert again.other(3) == 4
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "cannot be written (Read-only file system): kernels are compiled in every run" in said


def _refused(**_: object) -> None:
    raise OSError(30, "Read-only file system")


WORKERS = """
import sys, multiprocessing
sys.path[:0] = [{path!r}]
def run(x):
    from edited_package.outside import outer, other
    return outer(x) + other(x)
if __name__ == "__main__":
    from meshwright.spawning import check_can_start
    {before}
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        print(pool.map(run, range(4), chunksize=1))
    {also}
"""


@pytest.mark.parametrize(
    ("before", "also"),
    [("", ""), ("check_can_start('this')", "print(run(0))")],
    ids=["workers", "workers and their parent"],
)
def test_without_any_folder_it_works_and_says_so_once(
    package: Callable[..., Any], tmp_path: Path, before: str, also: str
) -> None:
    package()
    (tmp_path / "script.py").write_text(WORKERS.format(path=str(tmp_path), before=before, also=also))
    (tmp_path / "edited_package" / "__pycache__").write_text("a file in its place")
    env = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "MESHWRIGHT_"))}
    env |= {"NUMBA_CACHE_DIR": "/dev/null/kept", "HOME": "/dev/null"}
    done = subprocess.run(
        [sys.executable, str(tmp_path / "script.py")], env=env, capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.startswith("[101, 104, 107, 110]")
    assert done.stderr.count("NUMBA_CACHE_DIR=/dev/null/kept cannot be written (Not a directory)") == 1, done.stderr


def test_small_work_is_rented_until_that_has_cost_as_much(
    package: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def made() -> Any:
        rented = package().rented
        return rented, rented.dispatcher

    rented, dispatcher = made()
    assert rented(np.ones(3)) == 3
    assert not dispatcher.signatures, "three elements are summed as Python"
    monkeypatch.setattr(jit, "RENT_S", rented._spent_s / 2)
    assert rented(np.ones(3)) == 3
    assert len(dispatcher.signatures) == 1, "the rent is spent"


def test_large_work_is_compiled_and_found_at_once(package: Callable[..., Any]) -> None:
    rented = package().rented
    assert rented(np.ones(11)) == 11
    assert len(rented.dispatcher.signatures) == 1, "eleven elements are more than it may be asked plainly"
    again = package().rented
    assert again(np.ones(3)) == 3
    assert hits(again.dispatcher) == 1, "what is kept costs nothing"


def test_kernels_of_ours_reach_what_they_call(monkeypatch: pytest.MonkeyPatch) -> None:
    from meshwright.planners.alpa import stage_kernel

    before = digest(stage_kernel.least_total)
    assert digest(stage_kernel.least_total) == before
    untouched = digest(stage_kernel.fronts.dispatcher)
    monkeypatch.setattr(stage_kernel, "_pick", jit.inner(lambda later, i, j, k, s: 0))
    assert digest(stage_kernel.least_total) != before
    assert digest(stage_kernel.fronts.dispatcher) == untouched


def test_nothing_is_compiled_past_it() -> None:
    root = Path(jit.__file__).parent
    rooms = ("planners", "profiles", "simulator", "traces", "worlds", "studies", "gate", "runtime")
    files = [path for room in rooms for path in (root / room).rglob("*.py")]
    assert len(files) > 500
    past = [
        str(path.relative_to(root)) for path in files if re.search(r"\bnjit\b|numba\.jit\b", path.read_text("utf-8"))
    ]
    assert not past, "compile with meshwright.jit: numba's own cache does not see changes in other files"


AT_ONCE = """
import sys, time
from pathlib import Path

from edited_package.outside import outer

Path(sys.argv[1]).touch()
while not Path(sys.argv[2]).exists():
    time.sleep(0.001)
print(outer(3), sum(outer.stats.cache_hits.values()))
"""


def test_of_processes_that_start_at_once_one_compiles(package: Callable[..., Any], tmp_path: Path) -> None:
    package()
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    ready = [tmp_path / "first", tmp_path / "second"]
    began = [
        subprocess.Popen([sys.executable, "-c", AT_ONCE, *map(str, pair)], env=env, stdout=subprocess.PIPE, text=True)
        for pair in (ready, ready[::-1])
    ]
    assert sorted(process.communicate()[0].split()[1] for process in began) == ["0", "1"]
    assert not list((tmp_path / "kept").rglob("*.turn"))


def test_what_cannot_be_compiled_keeps_nobody_waiting(package: Callable[..., Any], tmp_path: Path) -> None:
    outside = package()
    with pytest.raises(numba.TypingError):
        outside.outer("no number")
    assert not list((tmp_path / "kept").rglob("*.turn"))
    assert outside.outer(3) == 106
