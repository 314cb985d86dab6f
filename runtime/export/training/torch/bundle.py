"""`bundle`: the executor of plans as plain files, with all that it imports, for a machine that has torch alone.

The files are the package's own, byte for byte: what an exported program runs is what the tests hold against one device.
Two modules, of the plan file and of programs, have stand-ins, since the real ones check and compile and need pydantic
and numba for it. A package's ``__init__`` names there just what the bundled files import from it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files as package_files
from pathlib import Path

from ...tree import File

__all__ = ["ENTRY", "bundle"]

Module = tuple[str, ...]
"""A module's name below the package, in parts."""

ENTRY: Module = ("runtime", "export", "training", "elastic")
"""What an exported program starts."""

STAND_INS: Mapping[Module, str] = {
    ("simulator", "training", "plan", "file"): "plan.py.txt",
    ("simulator", "training", "program", "actions"): "actions.py.txt",
}
"""Module -> what stands in for it."""

INIT = '''"""Part of Meshwright's executor of plans; names are looked up when they are first asked for."""

from importlib import import_module

_NAMES = {names!r}


def __getattr__(name):
    if name not in _NAMES:
        raise AttributeError(f"module {{__name__!r}} has no attribute {{name!r}}")
    return getattr(import_module(_NAMES[name], __name__), name)
'''


@dataclass(frozen=True, slots=True)
class _Import:
    """``from module import names`` of a file, absolute below the package."""

    module: Module
    names: tuple[str, ...]


@dataclass
class _Found:
    """What is bundled so far: the text of each module, and the names that each package must have."""

    texts: dict[Module, str] = field(default_factory=dict[Module, str])
    names: dict[Module, dict[str, str]] = field(default_factory=dict[Module, dict[str, str]])


@lru_cache(maxsize=1)
def bundle(folder: str) -> Mapping[str, File]:
    """All files of the executor, below `folder`."""
    root = Path(str(package_files("meshwright")))
    found, todo = _Found(), [ENTRY]
    while todo:
        module = todo.pop()
        if module in found.texts:
            continue
        text = found.texts[module] = _text(root, module)
        for one in _imports(text, module[:-1]):
            for name in one.names:
                source = _source(root, one.module, name)
                if source != one.module and (*one.module, name) != source:
                    # The name of a package that comes from one of its modules.
                    relative = _relative(one.module, source)
                    found.names.setdefault(one.module, {})[name] = relative
                todo.append(source)
    files = {"/".join(module) + ".py": text for module, text in found.texts.items()}
    packages = {module[:k] for module in found.texts for k in range(len(module))}
    for package in packages:
        names = dict(sorted(found.names.get(package, {}).items()))
        files["/".join((*package, "__init__.py"))] = INIT.format(names=names)
    return {f"{folder}/{name}": File(text) for name, text in sorted(files.items())}


def _text(root: Path, module: Module) -> str:
    if module in STAND_INS:
        here = package_files("meshwright.runtime.export.training.torch")
        return here.joinpath(STAND_INS[module]).read_text(encoding="utf-8")
    return root.joinpath(*module).with_suffix(".py").read_text(encoding="utf-8")


def _imports(text: str, package: Module) -> Iterator[_Import]:
    """Relative imports of a file, those within functions too; those for type checkers not."""

    def walk(node: ast.AST) -> Iterator[_Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                continue
            if isinstance(child, ast.ImportFrom) and child.level:
                base = package[: len(package) - (child.level - 1)]
                parts = tuple(child.module.split(".")) if child.module else ()
                yield _Import(base + parts, tuple(alias.name for alias in child.names))
            yield from walk(child)

    return walk(ast.parse(text))


def _source(root: Path, module: Module, name: str) -> Module:
    """The module that defines a name which is imported from a module or package."""
    path = root.joinpath(*module)
    if path.with_suffix(".py").is_file() or module in STAND_INS:
        return module
    for one in _imports((path / "__init__.py").read_text(encoding="utf-8"), module):
        if name in one.names and one.module != module:
            return _source(root, one.module, name)
    if (path / f"{name}.py").is_file():
        return (*module, name)
    raise LookupError(f"{'.'.join(module)} has no {name!r} that could be bundled")


def _relative(package: Module, module: Module) -> str:
    """A module as ``importlib.import_module`` takes it from a package."""
    shared = 0
    while shared < min(len(package), len(module)) and package[shared] == module[shared]:
        shared += 1
    return "." * (len(package) - shared + 1) + ".".join(module[shared:])
