"""`kernel` and `inner`: the decorators that compile every numba function of the project, and the cache behind them.

numba's own cache only checks whether the file of the cached function has changed. If a function that it calls changes
in another file, numba would run the old code. Here a cached function is used only as long as nothing that it reaches
has changed: its code, the code of all functions that it calls, their options, and the constants that they read.

numba also raises an error if no cache folder can be written. Here the kernels are then compiled in every run, and one
line says so. Kernels in a folder that can only be read are used.
"""

from __future__ import annotations

import inspect
import pickle
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core.caching import IndexDataCacheFile, _Cache
from numba.core.compiler import Compiler, CompileResult
from numba.core.runtime.nrt import rtsys
from numba.extending import typeof_impl
from numba.np.numpy_support import FROM_DTYPE, from_dtype, map_layout

from .kept import Turn, folders, say
from .reached import digest

__all__ = ["OPTIONS", "inner", "kernel"]

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "boundscheck": False, "no_cfunc_wrapper": True}
"""Why these options: numpy's rule for a division by zero saves a jump. Indices are checked by tests, not at run time.
Nobody takes the address of a kernel, and the wrapper for that took a seventh of a kernel's compilation time."""

BARE: dict[str, Any] = {"no_cpython_wrapper": True, "cache": False}
"""Options of `inner`. A function that Python never calls needs no wrapper for Python, which takes as long to compile as
a small function. It needs no cache of its own either, because it is cached with the kernels that call it."""

KNOWN = (0, 68)
"""Version of numba whose inside `linked` and `lean` build upon. Others compile by their own rules: the same kernels, in
two to four times the time."""

if numba.version_info.short == KNOWN:
    from .linked import Linked, Rolled
else:
    Linked = Rolled = Compiler

RENT_S = 0.1
"""CPU seconds that a kernel may spend as plain Python before it is compiled (see `Plain`). The kernels that ask for
this take 0.3 to 1 s to compile. Renting for as long would bound the worst case best; renting for less is a guess that a
kernel which was called so often will be called on."""

NAMED_LATE, COUNTED = b"_numba_hashsecret", b"NRT_"
"""How the names begin that numba makes known to LLVM only with all that it can compile: keys for hashes of text; and
those of its counts of references, which it compiles first."""

TORN = (pickle.UnpicklingError, EOFError, AttributeError, ImportError, IndexError, KeyError, ValueError, TypeError)
"""What pickle raises when a file was cut off, or written by another program."""


def kernel(
    function: Callable[..., Any] | None = None, /, *, plain: int = 0, rolled: bool = False, **options: Any
) -> Any:
    """Decorator for a compiled function that Python calls: ``@kernel``, or ``@kernel(…)`` with numba's options.

    Given options override `OPTIONS`. The compiled function is cached until something that it reaches changes.

    Parameters
    ----------
    plain : int
        Run the function as plain Python at first if its arrays have at most this many elements in all (see `Plain`).
        Only for functions that call no `inner` one, which Python cannot call.
    rolled : bool
        Whether to leave loops as they are, neither unrolled nor vectorised (see `linked.Rolled`): for kernels whose
        loops go over few elements.
    """
    if function is None:
        return lambda function: kernel(function, plain=plain, rolled=rolled, **options)
    kept = options.pop("cache", True)
    dispatcher: Any = numba.njit(pipeline_class=Rolled if rolled else Linked, **OPTIONS | options)(function)
    if kept:
        dispatcher._cache = KernelCache(dispatcher)
    return Plain(dispatcher, plain) if plain else dispatcher


def inner(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Decorator for a compiled function that only kernels call: like `kernel`, but Python cannot call it."""
    return kernel(function, **BARE | options)


class Plain:
    """A kernel that runs as Python until it pays to compile it.

    This is the ski-rental problem: rent until the rent has cost as much as buying. Calls with few elements run as
    Python until they have taken `RENT_S` in all; then the kernel is compiled. If it is already in a cache folder, the
    compiled code is used at once.
    """

    def __init__(self, dispatcher: Any, most: int) -> None:
        self.dispatcher, self.py_func, self._most = dispatcher, dispatcher.py_func, most
        self._spent_s: float | None = None
        self._bought = False

    def __call__(self, *args: Any) -> Any:
        """Call the function, as Python or compiled; the result is the same."""
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
    """The cache of one function, by signature: numba's files, with a digest of everything that the function reaches."""

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher = dispatcher
        self._files: list[IndexDataCacheFile] | None = None
        self._writes = False
        self._turn: Turn | None = None
        compiler = dispatcher._compiler
        compiler.compile = self._or_give(compiler.compile)
        self._extend = lambda: None
        if numba.version_info.short == KNOWN:  # numba looks for its extensions at each first call; see `load_overload`
            self._extend = dispatcher._compilation_chain_init_hook
            dispatcher._compilation_chain_init_hook = lambda: None

    @property
    def cache_path(self) -> str | None:  # pyright: ignore[reportIncompatibleMethodOverride]  (numba's NullCache does it)
        """The folder that is written; `None` if none can be."""
        return folders(_file(self._dispatcher)).written

    def enable(self) -> None:
        """Do nothing: the cache is always enabled."""

    def disable(self) -> None:
        """Forget the folders: nothing is read or written from now on."""
        self._files, self._writes = [], False

    def flush(self) -> None:
        """Empty the index."""
        if self._open() and self._writes:
            self._open()[0].flush()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled code for a signature, or `None`.

        After `None` this process has the turn to compile it; other processes wait meanwhile. Installed extensions of
        numba are looked for then, and not before: what is kept needs none, and the search reads a file of each
        installed package.
        """
        found = self._load(sig, target_context)
        if found is None and self._turn is not None:
            self._turn.take()
            found = self._load(sig, target_context)  # another process may have compiled it while this one waited
            if found is not None:
                self._turn.give()
        if found is None:
            self._extend()
        return found

    def _load(self, sig: Any, target_context: Any) -> Any:
        for file in self._open():
            try:
                found: Any = file.load((sig, target_context.codegen().magic_tuple()))
            except (OSError, *TORN) as error:
                say(f"what is kept of {self._dispatcher.__name__} cannot be read ({error}): it is compiled anew")
                continue
            if found is not None:
                _prepare(target_context, found[0])
                return CompileResult._rebuild(target_context, *found)
        return None

    def has(self, types: tuple[Any, ...]) -> bool:
        """Whether the cache holds code for arguments of these types."""
        key = (types, self._dispatcher.targetctx.codegen().magic_tuple())
        return any(key in file._load_index() for file in self._open())

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write compiled code to the cache, if there is a folder for it."""
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
        """Give up the turn if compilation fails: nothing will be saved, so other processes need not wait for it."""

        def guarded(*args: Any) -> Any:
            try:
                return compiled(*args)
            except BaseException:
                if self._turn is not None:
                    self._turn.give()
                raise

        return guarded

    def _open(self) -> list[IndexDataCacheFile]:
        """The cache files of this function, the one that is written first.

        They are opened at the first call and not by the decorator, because only then all functions that it calls are
        defined, and the digest needs them.
        """
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


def _prepare(target_context: Any, kept: Any) -> None:
    """Make what compiled code may call known to LLVM: numba's counts of references; all else where it is named.

    numba refreshes the context here, which loads all that it can compile, and scipy's linear algebra: three quarters of
    the time of loading a kernel. Only what compiles needs that, and numba's compiler refreshes it itself.
    """
    _, kind, data = kept
    if numba.version_info.short != KNOWN or kind != "object" or NAMED_LATE in data[0]:
        target_context.refresh()
    elif COUNTED in data[0]:  # a loop that allocates nothing has none
        rtsys.initialize(target_context)


_typeof_array: Any = typeof_impl.dispatch(np.ndarray)


@typeof_impl.register(np.ndarray)
def _typeof(array: Any, context: Any) -> Any:
    """The type of an array, as numba says it.

    To see that it is not masked, numba loads NumPy's masked arrays: 0.07 s of each process that passes a tuple of
    arrays to a kernel.
    """
    dtype, flags = array.dtype, array.flags
    if type(array) is not np.ndarray or (dtype not in FROM_DTYPE and dtype.fields is None):
        return _typeof_array(array, context)
    return _array_type(dtype, dtype.isalignedstruct, array.ndim, map_layout(array), not flags.writeable)


@cache
def _array_type(dtype: np.dtype[Any], aligned: bool, dimensions: int, layout: str, readonly: bool) -> Any:
    """Made once: numba makes a type anew, only to find that it has it. Equal dtypes may differ in `aligned`."""
    return numba.types.Array(from_dtype(dtype), dimensions, layout, readonly=readonly)


def _file(dispatcher: Any) -> str:
    return inspect.getfile(dispatcher.py_func)
