"""`Copy`: a copy of the tree in which mutants are planted and taken out again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from importers import importers, module_name
from inside import MODULES
from mutant import Mutant, MutantError

__all__ = ["Copy", "Outcome", "copied"]

Verdict = Literal["caught", "survived", "timed out", "broken"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a run of tests.

    Parameters
    ----------
    verdict : {"caught", "survived", "timed out", "broken"}
        A test failed; all passed; time ran out; anything else (nothing collected, a fixture that raises, a crash).
    said : str
        The first test that failed, or what happened.
    wall_s, cpu_s : float
        Seconds, and seconds of CPU of all processes.
    tail : str
        The end of what pytest said.
    bad : frozenset of str
        Test files in which something failed or broke.
    """

    verdict: Verdict
    said: str
    wall_s: float
    cpu_s: float
    tail: str
    bad: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of the tree, in a folder `meshwright` of its own.

    Parameters
    ----------
    root : Path
        The copy.
    """

    root: Path

    @classmethod
    def of(cls, tree: Path, parent: Path) -> Copy:
        """Tracked files and new ones, without what git ignores: no cache comes along.

        Raises
        ------
        MutantError
            If the tree is no git checkout.
        """
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=tree, capture_output=True, check=False)
        if listed.returncode:
            raise MutantError(f"{tree} is no git checkout: cannot tell the project's files from others")
        root = parent / "meshwright"
        for name in filter(None, listed.stdout.decode().split("\0")):
            if (tree / name).is_file():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(tree / name, root / name)
        return cls(root)

    def try_out(self, mutant: Mutant, *, limit_s: float) -> Outcome:
        """Plant a mutant, run its tests, and take it out again."""
        with self._planted(mutant):
            return self.run(mutant.tests, tuple(map(module_name, mutant.files)), limit_s=limit_s)

    @contextmanager
    def _planted(self, mutant: Mutant) -> Iterator[None]:
        """What was compiled from the changed files, or from files that take something from them, is laid aside."""
        texts = mutant.planted(self.root)
        stale = importers(self.root, mutant.files)
        aside = self.root.parent / "aside"
        kept = [(path, aside / path.relative_to(self.root)) for file in stale for path in self._compiled(file)]
        for path, away in kept:
            away.parent.mkdir(parents=True, exist_ok=True)
            path.rename(away)
        originals = {file: ((self.root / file).read_bytes(), (self.root / file).stat()) for file in texts}
        try:
            for file, text in texts.items():
                (self.root / file).write_text(text, encoding="utf-8")
            yield
        finally:
            for file, (content, stat) in originals.items():
                (self.root / file).write_bytes(content)
                os.utime(self.root / file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
            for file in stale:
                for path in self._compiled(file):
                    path.unlink()
            for path, away in kept:
                away.rename(path)

    def _compiled(self, file: str) -> list[Path]:
        """What Python and numba keep of a file."""
        path = self.root / file
        return [p for p in (path.parent / "__pycache__").glob(f"{path.stem}.*") if p.suffix in (".pyc", ".nbi", ".nbc")]

    def run(
        self, tests: tuple[str, ...], modules: tuple[str, ...] = (), *, limit_s: float, whole: bool = False
    ) -> Outcome:
        """Run tests until the first that fails, or to the end."""
        report, log = self.root.parent / "report.xml", self.root.parent / "log.txt"
        report.unlink(missing_ok=True)
        here = self.root / Path(__file__).resolve().parent.relative_to(Path(__file__).resolve().parents[2])
        paths = os.pathsep.join((str(self.root.parent), str(here)))
        environment = {**os.environ, "PYTHONPATH": paths, MODULES: ",".join(modules)}
        for name in ("NUMBA_CACHE_DIR", "PYTEST_ADDOPTS", "PYTHONPYCACHEPREFIX"):
            environment.pop(name, None)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "inside"]
        command += ["--continue-on-collection-errors"] if whole else ["-x"]
        begun = time.monotonic()
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*command, f"--junitxml={report}", *tests], cwd=self.root, env=environment, stdout=out,
                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            code, cpu_s = _waited(process, limit_s)
        wall_s = time.monotonic() - begun
        tail = log.read_text(encoding="utf-8", errors="replace")[-3000:]
        cases = list(ElementTree.parse(report).getroot().iter("testcase")) if report.is_file() else []
        verdict, said = _judged(code, cases, tail)
        return Outcome(verdict, said, wall_s, cpu_s, tail, _bad_files(cases))


def copied(copy: Copy, parent: Path) -> Copy:
    """Another copy, with all that was compiled in it."""
    shutil.copytree(copy.root, parent / "meshwright")
    return Copy(parent / "meshwright")


def _waited(process: subprocess.Popen[bytes], limit_s: float) -> tuple[int | None, float]:
    """Exit code (None when time ran out) and seconds of CPU of it and its children."""
    end = time.monotonic() + limit_s
    late = False
    while True:
        pid, status, used = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        if time.monotonic() > end and not late:
            late = True
            _kill(process.pid)
        time.sleep(0.05)
    process.returncode = os.waitstatus_to_exitcode(status)
    _kill(process.pid)  # what it started and left
    return (None if late else process.returncode), used.ru_utime + used.ru_stime


def _kill(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def _bad_files(cases: list[ElementTree.Element]) -> frozenset[str]:
    bad = (case for case in cases if case.find("failure") is not None or case.find("error") is not None)
    where = (case.get("classname") or case.get("name") or "" for case in bad)  # no class: it was not collected
    return frozenset(f"{name.replace('.', '/')}.py" for name in where)


def _judged(code: int | None, cases: list[ElementTree.Element], tail: str) -> tuple[Verdict, str]:
    """By pytest's exit code and its report: a failure is a test's, an error somebody else's."""
    last = tail.strip().splitlines()[-1:] or [""]
    if code is None:
        return "timed out", "time ran out"
    if code == 0:
        return "survived", last[0]
    if code == 1:
        for case in cases:
            if case.find("failure") is not None:
                return "caught", f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
    return "broken", f"pytest ended with {code}: {last[0]}"
