"""Plans problems in a fresh process, so that the planner contract can see that nothing hidden decides."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from . import door
from .checks import decided
from .file import function_of
from .problem import Problem
from .source import PlannerSource

__all__ = ["Reach", "Unreachable", "plan_afresh", "reach_of"]

TIMEOUT_S = 600.0


class Unreachable(Exception):
    """A planner cannot be found again by another process."""


@dataclass(frozen=True)
class Reach:
    """How another process finds a planner: by its source, or a module and a name in it, or the file and the name."""

    name: str
    source: PlannerSource | None = None
    module: str = ""
    file: str = ""

    def function(self) -> Callable[..., object]:
        """The planner, found again."""
        why: Exception | None = None
        try:
            found = importlib.import_module(self.module)
            if inspect.getsourcefile(found) == self.file:
                return getattr(found, self.name)
        except Exception as error:  # a test's module, say: its file may still do
            why = error
        try:
            text = Path(self.file).read_text(encoding="utf-8")
            return cast("Callable[..., object]", function_of(f"{self.file}:{self.name}", text))
        except Exception as error:
            raise error from why


def reach_of(planner: PlannerSource | Callable[..., object]) -> Reach:
    """How to find a planner again.

    Raises
    ------
    Unreachable
        If it is no function at the top of a file.
    """
    if isinstance(planner, PlannerSource):
        return Reach(planner.name, planner)
    name = str(getattr(planner, "__qualname__", "")), getattr(planner, "__module__", "")
    file = inspect.getsourcefile(planner) if inspect.isroutine(planner) else None
    if not name[0].isidentifier() or file is None or not file.endswith(".py"):
        raise Unreachable("it is no function at the top of a .py file")
    return Reach(name[0], None, name[1], file)


def plan_afresh(reach: Reach, problems: Mapping[str, Problem]) -> dict[str, str]:
    """What a planner decides on each problem in a fresh process that hashes text in another way.

    Raises
    ------
    Unreachable
        If the planner was not found there, or failed; says why.
    """
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
        "PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1",
    }
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__],
            input=pickle.dumps((reach, dict(problems))), env=env, capture_output=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Unreachable(f"no answer within {TIMEOUT_S:g} s") from None
    lines = done.stdout.decode(errors="replace").splitlines()
    if not lines or not lines[-1].startswith("{"):
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise Unreachable(said[-1] if said else "the process ended early")
    return cast("dict[str, str]", json.loads(lines[-1]))


def _main() -> None:
    reach, problems = cast("tuple[Reach, dict[str, Problem]]", pickle.load(sys.stdin.buffer))
    if reach.source is None:
        function = reach.function()
        answers = {case: decided(door.call(function, problem, reach.name)) for case, problem in problems.items()}
    else:
        answers = {case: decided(reach.source.plan(problem)) for case, problem in problems.items()}
    print()  # whatever the planner printed ends here
    print(json.dumps(answers))


if __name__ == "__main__":
    _main()
