"""`data_of`: what ``FILE.py:NAME`` of a user's file gives as data."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from typing import Any

from ....errors import InputError, MeshwrightError

__all__ = ["data_of"]

FORM = "FILE.py:NAME, a function without arguments that gives batches, or the batches themselves"


def data_of(word: str, option: str = "data") -> Any:
    """An iterable or dataset: what the function returns, or the object of that name.

    Raises
    ------
    InputError
        If there is no such file or name, or the user's code fails; with its line.
    """
    file, colon, name = word.rpartition(":")
    path = Path(file if colon else word)
    if not colon or path.suffix != ".py":
        raise InputError(f"{option}: expected {FORM} (got {word!r})")
    if not path.is_file():
        raise InputError(f"{option}: {path}: no such file; expected {FORM}")
    known = f"meshwright_data_{path.stem}"
    spec = importlib.util.spec_from_file_location(known, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{option}: {path}: cannot be read as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[known] = module  # dataclasses and pickles of the user's look their module up by name
    try:
        spec.loader.exec_module(module)
        if not hasattr(module, name):
            own = [key for key, value in vars(module).items() if not key.startswith("_") and callable(value)]
            raise InputError(f"{option}: {path}: has no {name!r}; it has {', '.join(own) or 'no functions'}")
        found = getattr(module, name)
        return found() if callable(found) and not hasattr(found, "__getitem__") else found
    except MeshwrightError:
        raise
    except Exception as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).name == path.name]
        line = frames[-1].lineno if frames else getattr(error, "lineno", None)
        text = " ".join(str(error).split()) or "no reason given"
        raise InputError(f"{option}: {path}{f':{line}' if line else ''}: {type(error).__name__}: {text}") from error
