"""`kernel` and `inner`: how every function of ours is compiled, and where what was compiled is kept.

numba's own cache looks at the file of the function that it keeps, and at no other. A function into which a changed one
of another file was compiled would be run as it was. Here a kept function is found again only as long as nothing has
changed that it reaches: its code, the code of all functions that it calls, their options, the constants they read.

numba also gives up where no folder can be written. Here that costs a compilation in every run, and one line that says
so; what lies in a folder that can only be read is used.
"""

from __future__ import annotations

import hashlib
import inspect
import pickle
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numba
import numpy as np
from numba.core.caching import IndexDataCacheFile, _Cache
from numba.core.compiler import CompileResult

from .kept import Turn, folders, say
from .linked import Linked

__all__ = ["OPTIONS", "digest", "inner", "kernel"]

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "boundscheck": False, "no_cfunc_wrapper": True}
"""numpy's rule for a division by zero is a jump less, and indices are checked by tests, not at run time. Nobody takes
the address of a kernel, and the wrapper for that was a seventh of what a kernel takes to compile."""

BARE: dict[str, Any] = {"no_cpython_wrapper": True, "cache": False}
"""What Python never calls needs no wrapper for it, which takes as long to compile as a small function, and is kept with
the kernels that call it."""

RENT_S = 0.1
"""CPU seconds of Python; a kernel of the sizes that are rented takes 0.3 to 1 to compile."""

TORN = (pickle.UnpicklingError, EOFError, AttributeError, ImportError, IndexError, KeyError, ValueError, TypeError)
"""What pickle raises over a file that was cut off or written by another program."""


def kernel(function: Callable[..., Any] | None = None, /, *, plain: int = 0, **options: Any) -> Any:
    """Compile a function that Python calls: ``@kernel``, or ``@kernel(…)`` with options of `numba.njit` over `OPTIONS`.

    What is compiled is kept, and found again until something changes that the function reaches.

    Parameters
    ----------
    plain : int
        Up to so many elements in its arrays it is run as Python at first, see `Plain`; only for what calls no `inner`.
    """
    if function is None:
        return lambda function: kernel(function, plain=plain, **options)
    kept = options.pop("cache", True)
    dispatcher: Any = numba.njit(pipeline_class=Linked, **OPTIONS | options)(function)
    if kept:
        dispatcher._cache = KernelCache(dispatcher)
    return Plain(dispatcher, plain) if plain else dispatcher


def inner(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Compile a function that only kernels call: as `kernel`, without what Python needs for a call."""
    return kernel(function, **BARE | options)


class Plain:
    """A kernel that runs as Python until it pays to compile it.

    As with skis, which one rents until the rent has cost as much as a pair would: a call with few elements is run
    plainly until such calls have taken `RENT_S`. What lies compiled in a folder is used at once.
    """

    def __init__(self, dispatcher: Any, most: int) -> None:
        self.dispatcher, self.py_func, self._most = dispatcher, dispatcher.py_func, most
        self._spent_s: float | None = None
        self._bought = False

    def __call__(self, *args: Any) -> Any:
        """Call it, either way: the answer is the same."""
        if self._bought:
            return self.dispatcher(*args)
        if self._spent_s is None:
            self._spent_s = RENT_S if self._kept(args) else 0.0
        if self._spent_s >= RENT_S or _elements(args) > self._most:
            self._bought = True
            return self.dispatcher(*args)
        begin = time.thread_time()
        try:
            return self.py_func(*args)
        finally:
            self._spent_s += time.thread_time() - begin

    def _kept(self, args: tuple[Any, ...]) -> bool:
        known = self.dispatcher._cache
        return isinstance(known, KernelCache) and known.has(tuple(map(self.dispatcher.typeof_pyval, args)))


def _elements(args: tuple[Any, ...]) -> int:
    return sum(_elements(x) if isinstance(x, tuple) else getattr(x, "size", 1) for x in args)


class KernelCache(_Cache):
    """What was compiled of one function, by its signature: numba's files, with a stamp of all that it reaches."""

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher = dispatcher
        self._files: list[IndexDataCacheFile] | None = None
        self._writes = False
        self._turn: Turn | None = None
        compiler = dispatcher._compiler
        compiler.compile = self._or_give(compiler.compile)

    @property
    def cache_path(self) -> str | None:  # pyright: ignore[reportIncompatibleMethodOverride]  (numba's NullCache does it)
        """The folder that is written; `None` where none can be."""
        return folders(_file(self._dispatcher)).written

    def enable(self) -> None:
        """Nothing: it always is."""

    def disable(self) -> None:
        """Forget the folders: nothing is read or written from now on."""
        self._files, self._writes = [], False

    def flush(self) -> None:
        """Empty the index."""
        if self._open() and self._writes:
            self._open()[0].flush()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What was compiled for a signature; `None`: this process is to compile it, no other does meanwhile."""
        target_context.refresh()
        found = self._load(sig, target_context)
        if found is None and self._turn is not None:
            self._turn.take()
            found = self._load(sig, target_context)  # another process may have compiled it while this one waited
            if found is not None:
                self._turn.give()
        return found

    def _load(self, sig: Any, target_context: Any) -> Any:
        for file in self._open():
            try:
                found: Any = file.load((sig, target_context.codegen().magic_tuple()))
            except (OSError, *TORN) as error:
                say(f"what is kept of {self._dispatcher.__name__} cannot be read ({error}): it is compiled anew")
                continue
            if found is not None:
                return CompileResult._rebuild(target_context, *found)
        return None

    def has(self, types: tuple[Any, ...]) -> bool:
        """Whether it was compiled for arguments of such types."""
        key = (types, self._dispatcher.targetctx.codegen().magic_tuple())
        return any(key in file._load_index() for file in self._open())

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled, if there is a folder for it."""
        files = self._open()
        try:
            if self._writes and not data.library.has_dynamic_globals:  # addresses of this process
                files[0].save((sig, data.codegen.magic_tuple()), data._reduce())
        except OSError as error:  # the disk is full, the folder is gone: the work goes on
            self._writes = False
            say(f"compiled kernels cannot be kept ({error}): every run compiles them anew")
        finally:
            if self._turn is not None:
                self._turn.give()

    def _or_give(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """What cannot be compiled is not saved either: others need not wait for it."""

        def guarded(*args: Any) -> Any:
            try:
                return compiled(*args)
            except BaseException:
                if self._turn is not None:
                    self._turn.give()
                raise

        return guarded

    def _open(self) -> list[IndexDataCacheFile]:
        """Files of this function, the written one first. Late: what it calls is defined by now."""
        if self._files is None:
            function = self._dispatcher.py_func
            read, written, line = folders(_file(self._dispatcher))
            if line:
                say(line)
            cells = digest(tuple(cell.cell_contents for cell in function.__closure__ or ()))
            name = f"{Path(_file(self._dispatcher)).stem}.{function.__qualname__}".replace("<", "").replace(">", "")
            name = f"{name}-{function.__code__.co_firstlineno}-{cells[:8]}.{sys.implementation.cache_tag}"
            stamp = digest(self._dispatcher)
            self._writes = written is not None
            paths = (written, *read) if written else read
            self._turn = Turn(str(Path(written) / f"{name}.turn")) if written else None
            self._files = [IndexDataCacheFile(path, name, stamp) for path in paths]
        return self._files


def _file(dispatcher: Any) -> str:
    return inspect.getfile(dispatcher.py_func)


def digest(value: object) -> str:
    """A digest of a function and all that it reaches, or of a constant."""
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
    """Tell a function's own code, and give what it names: globals, cells, defaults, functions inside it."""
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
    """Names in a function and in those defined in it."""
    inside = [const for const in code.co_consts if isinstance(const, CodeType)]
    return set(code.co_names).union(*(_names(const) for const in inside))


def _ours(one: FunctionType | ModuleType) -> bool:
    """Whether it can change between two runs: not what numba, numpy and Python bring along, which have versions."""
    name = one.__name__ if isinstance(one, ModuleType) else one.__module__ or ""
    return name.split(".")[0] not in {"numba", "numpy", "llvmlite"} | sys.stdlib_module_names
