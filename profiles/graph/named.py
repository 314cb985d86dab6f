"""The model that is trained: a graph of the zoo, a graph file, or a torch module that is traced."""

from __future__ import annotations

import importlib.util
import inspect
import io
import logging
import sys
import traceback
from contextlib import redirect_stderr
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

from ...errors import InputError, MeshwrightError
from ...wording import nearest
from .hf import arguments, is_hf

if TYPE_CHECKING:
    from . import Graph
    from .module_loss import ModuleLoss

__all__ = ["graph_of", "module_of"]

FORM = "path/to/file.py:function"


def graph_of(word: str, option: str = "model") -> Graph:
    """The graph that a word on the command line names.

    Parameters
    ----------
    word : str
        A name of the zoo, a graph file (``.json``), ``hf:CONFIG.json`` (a configuration of Hugging Face, or a folder
        with one; ``@2048`` behind it: positions of a sample), or ``path/to/file.py:function`` of a function without
        arguments that returns a torch module and example inputs (a tuple), or a dict of what
        `profiles.graph.from_torch` takes.
    option : str
        Name of the option that is read, for error messages.

    Raises
    ------
    InputError
        If there is no such model, file or function, the function fails, or the module cannot be traced.
    """
    from . import ZOO, in_zoo, load_graph, zoo_graph

    if is_hf(word) or word.endswith(".py") or ".py:" in word:
        return _traced(word, option)
    if in_zoo(word):
        return zoo_graph(word)
    if word.endswith(".json") or (word and Path(word).exists()):
        return load_graph(word)
    near = nearest(word, ZOO, cutoff=0.5)
    hint = f"did you mean {near}?" if near else f"the zoo has {', '.join(ZOO)}"
    raise InputError(
        f"{option}: unknown model {word!r}; {hint} Or give a graph file (.json), hf:CONFIG.json, or {FORM}"
    )


def module_of(word: str, option: str = "model") -> ModuleLoss | None:
    """The module, and its loss, of ``hf:CONFIG.json`` or ``path/to/file.py:function``; None where it makes a graph.

    Raises
    ------
    InputError
        As `graph_of`.
    """
    from .module_loss import ModuleLoss

    said = _arguments(word, option)
    if not isinstance(said, dict):
        return None
    return ModuleLoss(**{key: said[key] for key in ("module", "inputs", "loss", "labels") if key in said})


def _traced(word: str, option: str) -> Graph:
    from .. import graph as graphs

    said = _arguments(word, option)
    if not isinstance(said, dict):
        return said
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)  # torch logs and prints what it then raises; the error says it in one line
    try:
        with redirect_stderr(io.StringIO()):
            return graphs.from_torch(**said)
    finally:
        logging.disable(disabled)


def _arguments(word: str, option: str) -> dict[str, Any] | Graph:
    """What `from_torch` is to be called with; or the graph, where the function makes one."""
    from .. import graph as graphs

    if is_hf(word):
        return arguments(word, option)
    file, _, name = word.rpartition(":")
    if word.endswith(".py"):
        file, name = word, ""
    module = _module(Path(file), option)
    own = [k for k, v in vars(module).items() if callable(v) and getattr(v, "__module__", "") == module.__name__]
    if name not in own:
        near = nearest(name, own) if name else None
        hint = f"did you mean {file}:{near}?" if near else f"it has {', '.join(own) or 'none'}"
        raise InputError(f"{option}: {file}: expected {FORM}, no function {name!r} in it; {hint}")
    try:
        made: Any = getattr(module, name)()
    except MeshwrightError:
        raise
    except Exception as error:
        raise InputError(f"{option}: {_line(error, file)}: {type(error).__name__}: {_first(error)}") from error
    if isinstance(made, graphs.Graph):
        return made
    if isinstance(made, dict) and {"module", "inputs"} <= set(made):
        said: dict[str, Any] = {"name": name, **made}
    elif isinstance(made, tuple) and len(made) == 2 and isinstance(made[1], tuple):
        said = {"name": name, "module": made[0], "inputs": made[1]}
    else:
        raise InputError(
            f"{option}: {word}: expected a function that returns (module, (input, …)), the arguments of "
            f"profiles.graph.from_torch as a dict, or a Graph (got {type(made).__name__})"
        )
    known = inspect.signature(graphs.from_torch).parameters
    unknown = next((key for key in said if key not in known), None)
    if unknown is not None:
        raise InputError(f"{option}: {word}: from_torch takes no {unknown!r}; it takes {', '.join(known)}")
    return said


class Source(SourceFileLoader):
    """Compiles a file each time: Python's kept bytecode cannot tell two versions of one second and one length apart."""

    def get_code(self, fullname: str) -> CodeType:
        """The code as the file is now."""
        return self.source_to_code(self.get_data(self.path), self.path)


def _module(path: Path, option: str) -> ModuleType:
    if not path.is_file():
        raise InputError(f"{option}: {path}: no such file; expected {FORM}")
    name = f"meshwright_model_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path, loader=Source(name, str(path)))
    if spec is None or spec.loader is None:
        raise InputError(f"{option}: {path}: cannot be read as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up by name
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[spec.name]
        raise InputError(f"{option}: {_line(error, str(path))}: {type(error).__name__}: {_first(error)}") from error
    return module


def _line(error: Exception, file: str) -> str:
    """``file:line`` of the last frame in the user's file."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).name == Path(file).name]
    number = frames[-1].lineno if frames else getattr(error, "lineno", None)
    return f"{file}:{number}" if number else file


def _first(error: Exception) -> str:
    return (str(error).strip().splitlines() or ["no message"])[0]
