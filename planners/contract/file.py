"""A planner in a file of the user's: ``path/to/file.py:name``.

The file's text, not its path, is what planning knows: it travels to workers and its digest stands for it in results.
So the file must be complete in itself, or import what is installed; what lies beside it is out of reach.
"""

from __future__ import annotations

import hashlib
import importlib.abc
import importlib.util
import sys
import threading
import traceback
from functools import lru_cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType

from ...errors import InputError
from ...wording import nearest

__all__ = ["FORM", "function_of", "line_of", "read", "split"]

FORM = "path/to/file.py:name"
_LOADING = threading.RLock()


def split(name: str) -> tuple[str, str] | None:
    """``"a/b.py:plan"`` -> ``("a/b.py", "plan")``; None if the name is none of a file."""
    file, _, function = name.rpartition(":")
    if name.endswith(".py"):
        return name, ""
    return (file, function.strip()) if file.endswith(".py") else None


def read(name: str, folder: Path) -> str:
    """The text of a planner's file, looked for from `folder`.

    Raises
    ------
    InputError
        If there is no such file, or it is no Python text.
    """
    file, _ = split(name) or ("", "")
    path = folder / file
    try:
        if path.is_dir() or (path.exists() and not path.is_file()):
            raise InputError(f"planner: {file}: expected a file (got a folder or device); write {FORM}")
        return importlib.util.decode_source(path.read_bytes())
    except (OSError, ValueError) as error:  # a NUL in the path is a ValueError
        if isinstance(error, InputError):
            raise
        if isinstance(error, FileNotFoundError):
            raise InputError(f"planner: {file}: no such file{_beside(path)}") from None
        why = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"planner: {str(file)[:200]}: cannot be read: {why}") from None
    except SyntaxError as error:  # a wrong coding line
        raise InputError(f"planner: {file}: cannot be read: {error.msg}; save it as UTF-8") from None


def function_of(name: str, code: str) -> object:
    """What a planner's file calls by the name after the colon.

    Raises
    ------
    InputError
        If the text cannot be run, or has nothing of that name that can be called; names the nearest.
    """
    file, function = split(name) or (name, "")
    module = _module(file, code)
    own = [
        key
        for key, value in vars(module).items()
        if callable(value) and getattr(value, "__module__", None) == module.__name__ and not key.startswith("_")
    ]
    has = f"{file} has {', '.join(own)}" if own else f"{file} defines no function"
    if not function:
        raise InputError(f"planner: {file}: expected {FORM}; {has}")
    if function not in vars(module):
        near = nearest(function, own)
        hint = f"did you mean {file}:{near}?" if near else has
        raise InputError(f"planner: {file}: no function {function!r} in it; {hint}")
    found = vars(module)[function]
    if not callable(found):
        raise InputError(
            f"planner: {name}: expected a function plan(problem) (got a value of type {type(found).__name__}); {has}"
        )
    return found


@lru_cache(maxsize=64)
def _module(file: str, code: str) -> ModuleType:
    """The file's text, run once in this process."""
    with _LOADING:  # two threads of one worker
        # A name of its own, which stands for the text: dataclasses and pickle look the module up by its name.
        name = "meshwright_planner_" + hashlib.sha256(f"{file}\0{code}".encode(errors="replace")).hexdigest()[:16]
        if name in sys.modules:
            return sys.modules[name]
        spec = ModuleSpec(name, _Text(code), origin=file)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            exec(_compiled(file, code), vars(module))
        except BaseException as error:
            del sys.modules[name]
            if isinstance(error, InputError) or not isinstance(error, Exception | SystemExit):
                raise
            raise InputError(
                f"planner: {line_of(error, file)}: {type(error).__name__}: {_first_line(error)}{_mend(error)}"
            ) from error
        return module


class _Text(importlib.abc.InspectLoader):
    """A loader that knows the text, so that tracebacks show the lines of a file that is not here."""

    def __init__(self, code: str) -> None:
        self._code = code

    def get_source(self, fullname: str) -> str:
        """The text."""
        return self._code


def _compiled(file: str, code: str) -> CodeType:
    try:
        return compile(code, file, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise InputError(f"planner: {file}:{error.lineno or 1}: {error.msg}: not Python") from None
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        raise InputError(f"planner: {file}: not Python: {_first_line(error)}") from None


def line_of(error: BaseException, file: str) -> str:
    """``file:line`` where an error was raised: the innermost line of `file`, or of any file if it is not in that."""
    frames = traceback.extract_tb(error.__traceback__)
    mine = [frame for frame in frames if frame.filename == file] or frames[-1:]
    return f"{mine[-1].filename}:{mine[-1].lineno}" if mine else file


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "") or "no message"


def _mend(error: BaseException) -> str:
    if isinstance(error, ImportError) or (isinstance(error, NameError) and "__file__" in str(error)):
        return "; a planner's file must be complete in itself or import installed packages: it travels as text"
    return ""


def _beside(path: Path) -> str:
    """Which file of the same folder may have been meant."""
    try:
        others = [other.name for other in path.parent.glob("*.py")]
    except OSError:
        others = []
    near = nearest(path.name, others)
    return f"; did you mean {near}?" if near else f"; write {FORM}"
