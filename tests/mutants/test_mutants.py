"""The mutants fit the code as it is, and their runner tells a test that fails from one that cannot run."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import run
from catalogue import MUTANTS
from copied import Copy
from importers import importers
from mutant import WORLDS, Mutant, MutantError

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_it_can_be_planted(mutant: Mutant) -> None:
    """Its texts stand once in their files, and its tests are there."""
    assert set(mutant.planted(ROOT)) == set(mutant.files)
    for test in mutant.tests:
        path, _, name = test.partition("::")
        assert (ROOT / path).is_file(), test
        assert not name or f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), test


def test_they_are_forty_and_more_over_all_worlds() -> None:
    assert len({m.name for m in MUTANTS}) == len(MUTANTS) >= 40
    assert {m.world for m in MUTANTS} == set(WORLDS)
    assert [m.name for m in run.choose(MUTANTS, [MUTANTS[3].name])] == [MUTANTS[3].name]
    with pytest.raises(MutantError, match="no mutant and no world is called 'llmm'"):
        run.choose(MUTANTS, ["llmm"])


SUM = Mutant(
    "lost-term", "serving", "missing term",
    (("deep/sums.py", "return a + b", "return a"),), ("tests/test_sums.py",), "Sums would be too small.",
)  # fmt: skip


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        (("deep/gone.py", "a", "b"), "no such file: deep/gone.py"),
        (("deep/sums.py", "a", "b"), r"expected this text once.*found \d+ times"),
        (("deep/sums.py", "return a + b", "return a + b"), "expected this text once, and another instead"),
        (("deep/sums.py", "return a + b", "return a +"), "is no Python any more"),
        (("deep/sums.py", "return a + b", "return (a + b)"), "reads differently and says the same"),
    ],
)
def test_a_mutant_that_does_not_fit_says_why(project: Path, edit: tuple[str, str, str], problem: str) -> None:
    with pytest.raises(MutantError, match=problem):
        replace(SUM, edits=(edit,)).planted(project)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small package of the same name, with what its runner needs beside it."""
    root = tmp_path / "project"
    files = {
        "__init__.py": "",
        "deep/__init__.py": "from .sums import add\n",
        "deep/sums.py": "from .apart import LIMIT\n\n\ndef add(a, b):\n    return a + b\n\n\nZERO = 0.0  # none\n",
        "deep/zero.py": "from .sums import ZERO\n",
        "deep/twice.py": "from . import add as plus\n\n\ndef twice(x):\n    return plus(x, x)\n",
        "deep/apart.py": "LIMIT = max(1, 2)\n",
        "late.py": "def f():\n    from .deep.twice import twice\n    return twice(1)\n",
        "tests/test_sums.py": "from meshwright.deep import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
        "tests/test_weak.py": "from meshwright.deep import add\n\n\ndef test_add():\n    assert add(1, 0) == 1\n",
        "tests/test_stuck.py": "import time\n\n\ndef test_stuck():\n    time.sleep(60)\n",
        "tests/test_fixture.py": (
            "import pytest\nfrom meshwright.deep import add\n\n\n@pytest.fixture\ndef three():\n"
            "    assert add(1, 2) == 3\n    return 3\n\n\ndef test_three(three):\n    assert three\n"
        ),
        "tests/mutants/inside.py": (Path(__file__).parent / "inside.py").read_text(encoding="utf-8"),
        ".gitignore": "ignored.py\n",
        "ignored.py": "",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    return root


def test_who_takes_something_from_a_file_by_way_of_others(project: Path) -> None:
    """Through a package that hands a name on, under another name, inside a function."""
    sums = {"deep/sums.py", "deep/twice.py", "late.py"}
    assert importers(project, ("deep/sums.py",)) == sums | {"deep/zero.py", "deep/__init__.py"}
    # what stands in sums.py in digits stays
    assert importers(project, ("deep/apart.py",)) == sums | {"deep/apart.py", "deep/__init__.py"}
    assert importers(project, ("deep/zero.py",)) == {"deep/zero.py"}


def test_stale_kernels_of_other_files_are_found() -> None:
    """The themis kernels have functions of the sharing world compiled into them; serving has nothing of these."""
    found = importers(ROOT, ("simulator/sharing/compiled/view.py",))
    assert {"simulator/sharing/compiled/loop.py", "planners/themis/kernels/bids.py"} <= found
    assert not any(path.startswith("simulator/serving/") for path in found)
    assert "simulator/sharing/compiled/policies.py" not in importers(ROOT, ("simulator/sharing/compiled/arrays.py",))
    assert "simulator/llm/compiled/kernel.py" in importers(ROOT, ("profiles/llm/cost/grid.py",))


@pytest.mark.slow
def test_verdicts(project: Path, tmp_path: Path) -> None:
    copy = Copy.of(project, tmp_path / "copy")
    assert not (copy.root / "ignored.py").exists()
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in copy.root.rglob("*.py")}
    assert copy.run(SUM.tests, limit_s=60).verdict == "survived"
    both = copy.run(("tests/test_sums.py", "tests/test_fixture.py"), limit_s=60, whole=True)
    assert (both.verdict, both.bad) == ("survived", frozenset())
    caught = copy.try_out(SUM, limit_s=60)
    assert (caught.verdict, caught.said) == ("caught", "test_sums::test_add")
    assert caught.cpu_s > 0
    assert caught.bad == {"tests/test_sums.py"}
    verdicts = {
        "tests/test_weak.py": "survived",
        "tests/test_fixture.py": "broken",  # a fixture that raises is no test that fails
        "tests/test_gone.py": "broken",
    }
    for test, verdict in verdicts.items():
        assert copy.try_out(replace(SUM, tests=(test,)), limit_s=60).verdict == verdict, test
    assert copy.run(("tests/test_stuck.py",), limit_s=3).verdict == "timed out"
    no_import = replace(SUM, edits=(("deep/sums.py", "return a + b", "return a\n\n\n1 / 0"),))
    broken = copy.try_out(no_import, limit_s=60)
    assert broken.verdict == "broken"
    assert "deep.sums cannot be imported" in broken.tail
    assert {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in copy.root.rglob("*.py")} == before
