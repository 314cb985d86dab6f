"""`digest`: a text that changes when a function changes, or anything that it reaches."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numba
import numpy as np

__all__ = ["digest"]


def digest(value: object) -> str:
    """A digest of a function and everything that it reaches, or of a constant."""
    digest, seen = hashlib.sha256(), set[int]()
    open_: list[object] = [value]
    while open_:
        one: Any = open_.pop()
        digest.update(type(one).__name__.encode())
        if hasattr(one, "py_func"):  # a compiled function
            digest.update(repr(sorted(one.targetoptions.items(), key=str)).encode())
            one = one.py_func
        one = getattr(one, "_defn", one)  # of an intrinsic
        if isinstance(one, FunctionType | CodeType | ModuleType):
            if id(one) not in seen:
                seen.add(id(one))
                open_ += _reached(one, digest.update)
        elif isinstance(one, tuple | list):
            digest.update(str(len(one)).encode())
            open_ += one
        elif isinstance(one, np.ndarray):
            digest.update(f"{one.dtype}{one.shape}".encode() + one.tobytes())
        elif isinstance(one, bool | int | float | complex | str | bytes | None | np.generic | np.dtype):
            digest.update(repr(one).encode())
        elif isinstance(one, frozenset):  # of `x in {…}`; its order is another in each process
            digest.update(repr(sorted(map(repr, one))).encode())
        elif isinstance(one, type):
            digest.update(f"{one.__module__}.{one.__qualname__}{getattr(one, '_fields', '')}".encode())
        elif isinstance(one, numba.types.Type):
            digest.update(str(one).encode())
    return digest.hexdigest()


def _reached(one: FunctionType | CodeType | ModuleType, update: Callable[[bytes], None]) -> list[object]:
    """Feed a function's own code to `update`, and return what it names: globals, cells, defaults, inner functions."""
    if isinstance(one, ModuleType):
        update(one.__name__.encode())
        return []
    if isinstance(one, CodeType):
        update(one.co_code + repr((one.co_names, one.co_varnames, one.co_flags)).encode())
        return list(one.co_consts)
    update(f"{one.__module__}.{one.__qualname__}".encode())
    if not _ours(one):
        return []
    found: list[object] = [one.__code__, one.__defaults__]
    for cell in one.__closure__ or ():
        found.append(cell.cell_contents)
    for name in sorted(_names(one.__code__)):
        value = one.__globals__.get(name)
        if isinstance(value, ModuleType) and _ours(value):  # `tables.WAITS`: what is named of it
            found += [vars(value).get(attribute) for attribute in sorted(_names(one.__code__))]
        elif name in one.__globals__:
            found.append(value)
    return found


def _names(code: CodeType) -> set[str]:
    """Names used in a function, and in the functions defined inside it."""
    inside = [const for const in code.co_consts if isinstance(const, CodeType)]
    return set(code.co_names).union(*(_names(const) for const in inside))


def _ours(one: FunctionType | ModuleType) -> bool:
    """Whether it can change between two runs. What numba, numpy and Python bring along cannot: numba's cache already
    looks at their versions."""
    name = one.__name__ if isinstance(one, ModuleType) else one.__module__ or ""
    return name.split(".")[0] not in {"numba", "numpy", "llvmlite"} | sys.stdlib_module_names
