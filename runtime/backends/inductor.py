"""TorchInductor: a graph library where a C++ compiler is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from typing import Any

from ...profiles.backends import GRAPH_LIBRARY, Backend, Compiled, TvmRule
from .dense import dense

__all__ = ["Inductor"]


class Inductor(Backend):
    """``torch.compile(fullgraph=True)`` with frozen weights on one thread; seconds for each unit that it compiles."""

    name = "inductor"
    kind = GRAPH_LIBRARY
    rule = TvmRule()

    def available(self) -> str:
        """Whether there is a C++ compiler."""
        asked = os.environ.get("CXX", "")
        found = shutil.which(asked) if asked else shutil.which("g++") or shutil.which("clang++")
        return "" if found else "no C++ compiler is found: install g++, or name one in CXX"

    def version(self) -> str:
        """Of torch."""
        import torch

        return torch.__version__

    def compile(self, subgraph: Any, example: Sequence[Any]) -> Compiled:
        """A compiled function, called once."""
        import torch

        options: dict[str, Any] = {"freezing": True, "cpp.threads": 1}
        run = dense(torch.compile(subgraph, fullgraph=True, dynamic=False, options=options), example)
        with torch.inference_mode(False), torch.no_grad():
            run(*(one.clone() for one in example))
        return run
