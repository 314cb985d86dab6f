"""Why a module cannot be traced, in one line, and which line of it that is."""

from __future__ import annotations

import re
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
        code = walk.tb_frame.f_code
        if path is not None and code.co_filename.startswith(_torch_root()):
            where = where or (f" in module {path!r}" if path else "")  # the user's own line says more
        elif path is not None:
            where = f" in module {path or '(root)'!r} ({code.co_filename.rsplit('/', 1)[-1]}:{walk.tb_lineno})"
        walk = walk.tb_next
    text = f"{type(error).__name__}: {error}"
    dependent = ("data-dependent", "DataDependent", "unbacked", "GuardOnData", "aten._local_scalar_dense", "aten.equal",
                 "is_nonzero", "item() on", "Meta tensors")  # fmt: skip
    if any(word in text for word in dependent):
        return f"{source}: control flow or shapes that depend on data{where}; expected a static module"
    line = next((part.strip() for part in str(error).splitlines() if part.strip()), "no reason given")
    return f"{source}: cannot be traced{where}: {type(error).__name__}: {line[:200]}"


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
