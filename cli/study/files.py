"""The folder that `meshwright study` leaves: tables, figures, the page, and what is not a function of the study."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import __version__

if TYPE_CHECKING:
    from ...studies import Session
    from ...studies.session import SessionFacts

__all__ = ["RUN", "Run", "now", "write_outputs"]

RUN = "run.json"
LIBRARIES = ("numpy", "scipy", "numba", "pandas", "pydantic", "dask", "ray")
MAX_RUNS = 100


@dataclass(frozen=True)
class Run:
    """One call of the command: nothing here is a function of the study, so nothing here is in the store.

    Parameters
    ----------
    began : str
        ISO 8601, UTC.
    seconds : float
        Of evaluating.
    executor, workers
        Where it ran.
    evaluated, kept, failed : int
        Points evaluated now; found in the store; failed.
    """

    began: str
    seconds: float
    executor: str
    workers: int
    evaluated: int
    kept: int
    failed: int

    @classmethod
    def of(cls, began: str, facts: SessionFacts) -> Run:
        """What a session did."""
        return cls(
            began, round(facts.elapsed_s, 3), facts.executor, facts.workers, facts.evaluated, facts.kept, facts.failed
        )


def now() -> str:
    """The time, ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def write_outputs(session: Session, out: Path, run: Run, *, report: bool) -> list[Path]:
    """Write everything beside the store, each file whole.

    Returns
    -------
    list of Path
        What is there now, the store first.
    """
    from ... import files
    from ...studies import report as page

    found = [path for path in (out / "store.sqlite",) if path.exists()]
    if report:
        found += page.write(session, out, _facts(run))
    files.write_text(out / RUN, json.dumps(_document(session, out / RUN, run), indent=2) + "\n")
    return [*found, out / RUN]


def _facts(run: Run) -> dict[str, str]:
    """What the report's last section says of the machine."""
    return {
        "date": run.began,
        "executor": f"{run.executor}, {run.workers} worker{'' if run.workers == 1 else 's'}",
        "seconds": f"{run.seconds:.1f} ({run.evaluated:,} points evaluated, {run.kept:,} found in the store)",
        **_machine(),
        **_versions(),
    }


def _machine() -> dict[str, str]:
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
    }


def _versions() -> dict[str, str]:
    found = {"meshwright": __version__, "python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _document(session: Session, path: Path, run: Run) -> dict[str, Any]:
    """`run.json`: this run after the earlier ones of the same store, and what it ran with."""
    return {
        "study": session.study.name,
        "digest": session.study.digest,
        "runs": [*_earlier(path, session.study.digest), asdict(run)][-MAX_RUNS:],
        "machine": _machine(),
        "versions": _versions(),
    }


def _earlier(path: Path, digest: str) -> list[Any]:
    """Runs that an earlier file of the same study tells of; none if it cannot be read."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return list(document["runs"]) if document["digest"] == digest else []
    except (OSError, ValueError, KeyError, TypeError):
        return []
