"""The house keeps its shape: folders that can be read, names that say one thing, imports that go one way.

Where the code fails a rule it stands in a list here, with a date and a reason. A list may only shrink: the last test
fails where an entry is needed no more.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).resolve().parents[1]
IMPORT = re.compile(r"^([ \t]*)from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n(]+)", re.MULTILINE)
COMMENT = re.compile(r"#[^\n]*")
NOT_CODE = ("tests", "examples", "docs")
MOST_FILES = 18
FEW_FILES = 6
"""In a folder as small as this, names that begin alike are easily told apart."""

BELOW_WORLDS = ("simulator", "planners", "runtime", "profiles", "traces", "kernels")
ABOVE = ("worlds", "cli", "studies", "gate", "reproduce")
CROWDED: dict[str, str] = {}
"""Folders that may hold more than `MOST_FILES`: why."""
REPEATING: dict[str, str] = {}
"""Files whose names begin with their folder's: why."""
ALIKE: dict[str, str] = {
    "examples/own": "named by what a reader looks for: a planner, a policy, each of one's own",
}
"""``folder/prefix`` of files that begin alike: why they are no folder."""
CIRCLES: frozenset[frozenset[str]] = frozenset()
"""Modules that import each other."""
UPWARDS: dict[str, str] = {}
"""``importer imported`` against the rule of who may import whom: why."""
KNOW_NO_WORLD = ("cli", "studies", "gate")
"""What knows a world by its contract alone."""
NAMING: dict[str, str] = {}
"""``file what`` above the worlds that names one: why."""
OUTSIDE_THE_HOUSE = ("benchmarks", "docs", "mutants", "samples", "services")
"""Folders of tests that mirror no folder: they try several of them, or hold data."""


@cache
def files() -> tuple[Path, ...]:
    """All Python files that are tracked, relative to the root."""
    listed = subprocess.run(["git", "ls-files", "-z", "*.py"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("no git checkout: nobody says which files are the project's")
    return tuple(path for path in map(Path, listed.stdout.rstrip("\0").split("\0")) if (ROOT / path).is_file())


@cache
def modules() -> dict[str, Path]:
    """Modules of the package by their dotted names, without ``meshwright``."""
    code = [path for path in files() if path.parts[0] not in NOT_CODE]
    return {".".join(path.with_suffix("").parts).removesuffix("__init__").rstrip("."): path for path in code}


@cache
def imports(module: str) -> tuple[tuple[bool, str], ...]:
    """Modules of ours that a module imports, and whether as soon as it is imported itself.

    By their text, like tests/mutants/importers.py: parsing all of it takes ten times as long.
    """
    path, made = modules()[module], list[tuple[bool, str]]()
    for indent, dots, origin, names in IMPORT.findall((ROOT / path).read_text(encoding="utf-8")):
        if not dots and origin.partition(".")[0] != "meshwright":
            continue
        base = [*path.parent.parts[: len(path.parent.parts) - len(dots) + 1]] if dots else []
        base += [part for part in origin.split(".") if part and (dots or part != "meshwright")]
        for name in COMMENT.sub("", names).strip("() \t\n").split(","):
            # A name may be a module of its own.
            reached = (".".join([*base, name.strip().partition(" ")[0]]), ".".join(base))
            made += [(not indent, found) for found in reached if found in modules()][:1]
    return tuple(made)


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Looking at what runs when a module is imported, not at what its functions import later."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    for module in modules():
        graph.add_edges_from((module, other) for at_once, other in imports(module) if at_once and other != module)
    circles = {frozenset(part) for part in nx.strongly_connected_components(graph) if len(part) > 1}
    assert circles == CIRCLES, [sorted(circle) for circle in circles ^ CIRCLES]


def test_imports_go_one_way() -> None:
    """Downwards only, wherever the import stands: a planner never runs anything, a kernel knows nothing of ours."""
    wrong = set[str]()
    for module in modules():
        room = module.partition(".")[0]
        for _, other in imports(module):
            there = other.partition(".")[0]
            upwards = room in BELOW_WORLDS and there in ABOVE
            if upwards or (room == "planners" and there == "runtime") or (room == "kernels" and there != "kernels"):
                wrong.add(f"{module} {other}")
    assert wrong == set(UPWARDS)


def naming() -> set[str]:
    """What above the worlds imports a module of one, or of a family of planners, or holds the name of one as text."""
    worlds = {path.parent.name for path in files() if path.parts[0] == "worlds" and path.name == "world.py"} - {
        "worlds"
    }
    families = {path.parts[1] for path in files() if path.parts[0] == "planners" and len(path.parts) > 2} - {"contract"}
    rooms = [*((room, name) for room in ("worlds", "simulator", "runtime") for name in worlds)]
    rooms += [("planners", family) for family in families]
    quoted = re.compile(f"""["']({"|".join(sorted(worlds))})["']""")
    found = set[str]()
    for module, path in modules().items():
        if path.parts[0] in KNOW_NO_WORLD:
            found |= {f"{path} {other}" for _, other in imports(module) if tuple(other.split(".")[:2]) in rooms}
            found |= {f"{path} {name!r}" for name in quoted.findall((ROOT / path).read_text(encoding="utf-8"))}
    return found


def test_above_the_worlds_nobody_names_one() -> None:
    assert naming() <= set(NAMING)


def test_this_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule finds what it is there for: planted in the place of a file that is right."""
    planted = 'from ..worlds.llm.case import LLMCase\nfrom ..planners.alpaserve import plan\nTABLE = {"serving": 1}\n'
    right = Path.read_text
    monkeypatch.setattr(
        Path, "read_text", lambda self, **how: planted if self.name == "doctor_cmd.py" else right(self, **how)
    )
    imports.cache_clear()
    try:
        found = {one for one in naming() if one.startswith("cli/doctor_cmd.py")}
    finally:
        imports.cache_clear()
    assert found == {
        "cli/doctor_cmd.py worlds.llm.case", "cli/doctor_cmd.py planners.alpaserve", "cli/doctor_cmd.py 'serving'",
    }  # fmt: skip


def crowded() -> set[str]:
    """Folders with more files than one reads."""
    counts = Counter(str(path.parent) for path in files())
    return {folder for folder, count in counts.items() if count > MOST_FILES}


def stem(path: Path) -> str:
    """What a name says, but for ``test_``, which pytest wants."""
    return path.stem.removeprefix("test_")


def repeating() -> set[str]:
    """Files whose names begin with their folder's."""
    return {str(path) for path in files() if path.parent.name and stem(path).startswith(f"{path.parent.name}_")}


def alike() -> set[str]:
    """``folder/prefix`` where three names begin alike."""
    names = defaultdict[str, list[str]](list)
    for path in files():
        names[str(path.parent)].append(stem(path))
    found = set[str]()
    for folder, stems in names.items():
        if len(stems) > FEW_FILES:
            counts = Counter(name.partition("_")[0] for name in stems if name != "__init__")
            found |= {f"{folder}/{prefix}" for prefix, count in counts.items() if prefix and count >= 3}
    return found


def test_folders_can_be_read() -> None:
    assert crowded() <= set(CROWDED)


def test_no_name_repeats_its_folders() -> None:
    assert repeating() <= set(REPEATING)


def test_a_prefix_of_three_names_is_a_folder() -> None:
    assert alike() <= set(ALIKE)


@pytest.mark.parametrize(
    ("found", "listed"), [(crowded, CROWDED), (repeating, REPEATING), (alike, ALIKE), (naming, NAMING)]
)
def test_lists_only_shrink(found: Callable[[], set[str]], listed: dict[str, str]) -> None:
    """What is mended leaves its list, so that it cannot come back."""
    assert set(listed) <= found()


def test_tests_mirror_the_house() -> None:
    """Every folder of tests has one of the code's, or a verb of the command line or a paper, above it."""
    code = {str(path.parent) for path in files() if path.parts[0] not in NOT_CODE}
    tests = {path.parent.relative_to("tests") for path in files() if path.parts[0] == "tests" and len(path.parts) > 2}
    strangers = {
        str(folder)
        for folder in tests
        if folder.parts[0] not in OUTSIDE_THE_HOUSE and not {str(folder), str(folder.parent)} & code
    }
    assert strangers == set()


def test_helpers_of_tests_have_names_of_their_own() -> None:
    """They are imported by name from any folder (tests/conftest.py): of two alike, one would never be found."""
    tests = [path for path in files() if path.parts[0] == "tests" and path.parent.name != "planted"]
    helpers = [path for path in tests if not path.name.startswith(("test_", "conftest"))]
    assert {name for name, count in Counter(path.stem for path in helpers).items() if count > 1} == set()
