"""The job log that a case names: read once, and the apps in it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from ...errors import InputError
from ...simulator.sharing import App, AppOptions, apps_of_log
from ...traces import ClusterLog, read_alibaba, read_helios, read_philly
from .case import SharingWorkloadCase

__all__ = ["Logs", "log_files", "logged_apps", "read_log", "travelling"]

HOUR_S = 3600.0
Logs = Mapping[tuple[str, ...], ClusterLog]
"""Kind and files -> what is in them."""


def log_files(case: SharingWorkloadCase | None) -> tuple[str, ...]:
    """Names of the files that a case reads."""
    if case is None:
        return ()
    return tuple(name for name in (case.trace, case.trace_tasks, case.trace_instances) if name is not None)


def read_log(case: SharingWorkloadCase, folder: Path, known: Logs | None = None) -> ClusterLog:
    """The log that a case names, from `known` if it is there.

    Raises
    ------
    InputError
        If a file cannot be read, or something in one is wrong: all with file and line.
    """
    found = (known or {}).get((case.kind, *log_files(case)))
    if found is not None:
        return found
    paths = [folder / name for name in log_files(case)]
    try:
        return _parsed(case.kind, tuple((path, *_stamp(path)) for path in paths))
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be read: {error.strerror}") from None


def _stamp(path: Path) -> tuple[int, int]:
    """What tells a file from what it was before."""
    found = path.stat()
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=1)
def _parsed(kind: str, files: tuple[tuple[Path, int, int], ...]) -> ClusterLog:
    """A log, read once: each policy is planned, and every draw made, from the same."""
    paths = [path for path, _, _ in files]
    if kind == "alibaba":
        return read_alibaba(*paths)
    return read_philly(*paths) if kind == "philly" else read_helios(*paths)


def logged_apps(case: SharingWorkloadCase, log: ClusterLog, seed: int) -> tuple[App, ...]:
    """The apps of a log, as a case groups, chooses and scales them; by arrival, the first `apps` of them.

    Raises
    ------
    InputError
        If nothing is left.
    """
    return apps_of_log(
        log,
        AppOptions(scale=case.scale, network_intensive=case.network_intensive, error=case.error, rigid=case.rigid),
        by=case.by or "user and group", window_s=HOUR_S if case.window is None else case.window,
        ended=case.ended or ("done", "failed", "killed"), start_s=case.start or 0.0,
        stop_s=math.inf if case.stop is None else case.stop, seed=seed,
    )[: case.apps]  # fmt: skip


def travelling(log: ClusterLog) -> ClusterLog:
    """A log that can be sent to another process: without what was left out."""
    return replace(log, left_out={})
