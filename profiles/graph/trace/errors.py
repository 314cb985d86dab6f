"""Why a module cannot be traced, in one line, and which line of it that is."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

__all__ = ["line_of", "why_not"]

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in ')


def why_not(error: Exception, source: str, module: Any) -> str:
    """One line: what stops the export, and where in the module."""
    modules = {id(part): name for name, part in module.named_modules()}
    where, walk = "", error.__traceback__
    while walk is not None:
        path = modules.get(id(walk.tb_frame.f_locals.get("self")))
        if path is not None and not (where and walk.tb_frame.f_code.co_filename.startswith(_torch_root())):
            where = f" in module {path or '(root)'!r}"  # of torch's own inside it only where no other is known
        walk = walk.tb_next
    where += _innermost(error)
    text = f"{type(error).__name__}: {error}"
    dependent = ("data-dependent", "DataDependent", "unbacked", "GuardOnData", "aten._local_scalar_dense", "aten.equal",
                 "is_nonzero", "item() on", "Meta tensors", "SymInt")  # fmt: skip
    if any(word in text for word in dependent):
        return (f"{source}: control flow or shapes that depend on data{where}; expected a static module: choose by "
                "torch.where or a mask, or give the branch as an option of the module")  # fmt: skip
    line = next((part.strip() for part in str(error).splitlines() if part.strip()), "no reason given")
    return f"{source}: cannot be traced{where}: {type(error).__name__}: {line[:200]}"


def _innermost(error: Exception) -> str:
    """The last line on the way to the error that is neither torch's, Python's nor ours."""
    here, walk, ours = "", error.__traceback__, __name__.partition(".")[0]
    while walk is not None:
        name, code = str(walk.tb_frame.f_globals.get("__name__")), walk.tb_frame.f_code
        if name.partition(".")[0] not in {"torch", ours, *sys.stdlib_module_names} and not code.co_filename.startswith(
            "<"
        ):
            here = f" ({Path(code.co_filename).name}:{walk.tb_lineno})"
        walk = walk.tb_next
    return here


def line_of(node: Any) -> str:
    """The innermost line that is neither torch's nor ours and made a call, as ``file.py:12``; "" if unknown.

    Torch keeps lines of `forward` only: a call in a function below is known by the line that calls the function.
    """
    own = str(Path(__file__).parent)
    for path, line in reversed(_FRAME.findall(str(node.meta.get("stack_trace") or ""))):
        if not path.startswith((_torch_root(), own)):
            here = Path(path)
            return f"{here.relative_to(Path.cwd()) if here.is_relative_to(Path.cwd()) else here}:{line}"
    return ""


def _torch_root() -> str:
    import torch

    return str(torch.__file__).rsplit("/", 1)[0]
