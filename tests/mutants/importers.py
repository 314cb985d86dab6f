"""Which modules take something from a module, directly or by way of others.

numba keeps compiled functions on disk and looks only at their own file: a function into which another file's function
or constant was compiled would be run as it was. `importers` says whose compiled functions a change makes stale.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

__all__ = ["importers", "module_name"]

COMMENT = re.compile(r"#[^\n]*")
FROM = re.compile(r"^[ \t]*from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n(]+)", re.MULTILINE)
PLAIN = re.compile(r"^[ \t]*import[ \t]+([\w.][\w., \t]*)$", re.MULTILINE)
NUMBERS = "#"
"""After a module's name: the numbers and texts that stand in it, which nothing that it imports can change."""
SKIPPED = ("tests", "docs", "build", "dist", "examples")


def module_name(path: str) -> str:
    """``simulator/llm/__init__.py`` is ``meshwright.simulator.llm``."""
    parts = Path(path).with_suffix("").parts
    return ".".join(("meshwright", *(parts[:-1] if parts[-1] == "__init__" else parts)))


def importers(root: Path, files: tuple[str, ...]) -> frozenset[str]:
    """Files, by their paths under `root`, that depend on any of `files`, those included."""
    where, taken = _modules(root), _takers(root)
    names = [module_name(file) for file in files]
    found, open_ = set[str](), [*names, *(f"{name}{NUMBERS}" for name in names)]
    while open_:
        module = open_.pop()
        if module not in found:
            found.add(module)
            open_ += taken.get(module, ())
    return frozenset(where[module] for module in found if module in where)


@cache
def _takers(root: Path) -> dict[str, set[str]]:
    """For each module, those that import something that it defines."""
    taken: dict[str, set[str]] = {}
    for module, path in _modules(root).items():
        for source in _sources(root, module, path):
            taken.setdefault(source, set()).add(module)
    return taken


@cache
def _modules(root: Path) -> dict[str, str]:
    """Each module and its file."""
    folders = [p for p in root.iterdir() if p.is_dir() and p.name not in SKIPPED and not p.name.startswith(".")]
    paths = [*root.glob("*.py"), *(path for folder in folders for path in folder.rglob("*.py"))]
    return {module_name(str(p)): str(p) for p in (path.relative_to(root) for path in paths)}


@cache
def _text(root: Path, path: str) -> str:
    return COMMENT.sub("", (root / path).read_text(encoding="utf-8"))


@cache
def _bound(root: Path, path: str) -> tuple[tuple[str, str, str], ...]:
    """Names that a file imports, wherever in it, and what they are there: (name, module, its name in that module).

    By their text: a thousand files are read in a second. What only looks like an import does no harm.
    """
    package = module_name(path).split(".")
    package = package if path.endswith("__init__.py") else package[:-1]
    text = _text(root, path)
    made: list[tuple[str, str, str]] = []
    for dots, module, names in FROM.findall(text):
        base = package[: len(package) - len(dots) + 1] if dots else []
        origin = ".".join([*base, *([module] if module else [])])
        for name in names.strip("() \t\n").split(","):
            real, _, alias = name.strip().partition(" as ")
            made.append((alias.strip() or real, origin, real))
    for names in PLAIN.findall(text):
        made += [(name, name, "") for name in (part.split()[0] for part in names.split(",") if part.strip())]
    return tuple(made)


def _sources(root: Path, module: str, path: str) -> set[str]:
    """Modules that define what a module imports: names are followed through those that hand them on."""
    where = _modules(root)
    found, seen = set[str](), set[tuple[str, str]]()
    open_ = [(origin, name) for _, origin, name in _bound(root, path)]
    while open_:
        origin, name = open_.pop()
        if (origin, name) in seen:
            continue
        seen.add((origin, name))
        if f"{origin}.{name}" in where:
            found.add(f"{origin}.{name}")
        elif origin in where:
            handed_on = [(a, b) for known, a, b in _bound(root, where[origin]) if known == name]
            open_ += handed_on
            if not handed_on:
                found.add(f"{origin}{NUMBERS}" if _is_literal(root, where[origin], name) else origin)
    return found - {module}


def _is_literal(root: Path, path: str, name: str) -> bool:
    """Whether a file says what a name is in digits, or in quotes."""
    said = re.search(rf"^{re.escape(name)}(?::[^=\n]+)?[ \t]*=[ \t]*([^\n]+)$", _text(root, path), re.MULTILINE)
    return said is not None and re.fullmatch(r"[-+*/()\d_.e<,\s]+|\"[^\"]*\"", said[1]) is not None
