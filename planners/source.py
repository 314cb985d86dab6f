"""`PlannerSource`: a planner by name, so that it can be found here and again in another process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError
from ..simulator.plan import Plan
from .problem import Problem

__all__ = ["PlannerSource"]


@dataclass(frozen=True, slots=True)
class PlannerSource:
    """A planner that can travel to a worker: a name that is installed there too, or the text of a file.

    Parameters
    ----------
    name : str
        What the user said.
    code : str
        Text of the planner's file; empty for a planner that is installed.
    digest : str
        SHA-256 of `code`; empty for a shipped planner.
    """

    name: str
    code: str = ""
    digest: str = ""

    @classmethod
    def find(cls, name: str, folder: Path | None = None) -> PlannerSource:
        """Look a planner up: shipped, by entry point, or ``path/to/file.py:name`` relative to `folder`.

        Raises
        ------
        InputError
            If there is none.
        """
        from . import planner

        planner(name)
        return cls(name)

    def plan(self, problem: Problem) -> Plan:
        """Run the planner on a problem."""
        from . import planner

        p = problem
        try:
            return planner(self.name)(
                p.cluster, p.models, p.trace, p.profiles, dispatch=p.dispatch, admission=p.admission,
                overhead=p.overhead, seed=p.seed, **p.options,
            )  # fmt: skip
        except TypeError as error:
            unknown = [key for key in p.options if f"'{key}'" in str(error)]
            if not unknown:
                raise
            raise InputError(f"options: planner {self.name!r} has no option {unknown[0]!r}") from None
