"""No door takes ten things: what is rare stands in a frozen options object."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import meshwright

ROOT = Path(meshwright.__file__).parent
MOST = 9

KERNELS = ("jit", "njit", "kernel", "part", "whole", "inner", "compiled", "overload")
"""A compiled function takes arrays one by one: numba types each, and an object would be opened at every call."""
COMPILED = ("kernels", "compiled")
"""Folders of such functions, and of Triton's."""

HEAD = re.compile(r"\bdef\s+\w+[^(\n]*\((.*?)\)\s*(?:->[^\n]*?)?:(?=\s)", re.DOTALL)
"""From a function's name to the colon after its parameters: commas between them, and within what they say."""

OUTSIDE = ("tests", "cli", "build", "docs", "locks")


def arguments(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    given = function.args
    names = [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return names[1:] if names[:1] in (["self"], ["cls"]) else names


def is_compiled(path: Path, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    marks = [ast.unparse(mark) for mark in function.decorator_list]
    return any(word in mark for mark in marks for word in KERNELS) or any(p in COMPILED for p in path.parts)


def wide(root: Path) -> Iterator[tuple[str, int]]:
    """Functions that take more than `MOST`: where, and how many."""
    # The command line's functions are what typer reads its flags from: a flag is a parameter there.
    rooms = [f for f in root.iterdir() if f.is_dir() and f.name not in OUTSIDE and not f.name.startswith(".")]
    for path in sorted([*root.glob("*.py"), *(path for room in rooms for path in room.rglob("*.py"))]):
        inside = path.relative_to(root)
        text = path.read_text(encoding="utf-8")
        if not any(len(found[1].split(",")) > MOST for found in HEAD.finditer(text)):
            continue  # parsing all files takes ten times as long
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or is_compiled(inside, node):
                continue
            if len(arguments(node)) > MOST:
                yield f"{inside}::{node.name}", len(arguments(node))


def test_doors_take_nine_things_at_most() -> None:
    found = dict(wide(ROOT))
    assert not found, f"put what is rare into a frozen options object: {found}"


def test_the_walk_sees_a_wide_function(tmp_path: Path) -> None:
    names = ", ".join(f"a{k}" for k in range(10))
    (tmp_path / "door.py").write_text(f"def f({names}): ...\nclass C:\n    def g(self, {names}): ...\n")
    (tmp_path / "kernel.py").write_text(f"@njit(cache=True)\ndef f({names}): ...\ndef g(self, {names[4:]}): ...\n")
    assert dict(wide(tmp_path)) == {"door.py::f": 10, "door.py::g": 10}
