"""What sharing cases share: job logs, read once; and everything that is wrong with a case, before it is simulated."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import InputError
from ...files import readable
from ...simulator.sharing import App
from ...traces import ClusterLog
from ...wording import dotted
from .build import apps_of, complaints, policy_of, world_of
from .case import SharingCase, SharingWorkloadCase
from .logs import log_files, read_log, travelling
from .varying import drawn_world

__all__ = ["SharingData", "load_data"]


@dataclass(frozen=True, slots=True)
class SharingData:
    """What the points of a study share.

    Parameters
    ----------
    folder : Path
        What traces are relative to.
    digests : mapping of str to str
        Trace -> SHA-256 of its content.
    logs : mapping
        What is in the traces, read once for all points.
    """

    folder: Path
    digests: dict[str, str] = field(default_factory=dict[str, str])
    logs: dict[tuple[str, ...], ClusterLog] = field(default_factory=dict[tuple[str, ...], ClusterLog])

    def apps(self, case: SharingCase) -> tuple[App, ...]:
        """The apps of a case, by arrival."""
        return apps_of(case, self.folder, self.logs)


def load_data(cases: Sequence[SharingCase], folder: Path) -> SharingData:
    """Check every case, and read the traces that they name.

    Raises
    ------
    InputError
        Every problem, one a line, each beginning with the field that it is about.
    """
    data, wrong = SharingData(folder), list[str]()
    for case in cases:
        found = [f"{dotted(loc)}: {what}" for loc, what in complaints(case)]
        if not found:
            try:
                _read(case.workload, data)
            except (OSError, InputError) as error:
                found = [f"workload.trace: {line}" for line in _lines(error)]
        if not found:
            try:
                built = world_of(case, data.apps(case))
                if policy_of(case).preempts:
                    built.check_leases()
                drawn_world(case, built)
            except InputError as error:
                found = [_placed(str(error))]
        wrong += [line for line in found if line not in wrong]
    if wrong:
        raise InputError("\n".join(wrong))
    return data


def _read(case: SharingWorkloadCase | None, data: SharingData) -> None:
    """Read the log that a case names, unless another case has named it."""
    names = log_files(case)
    if case is None or not names or (case.kind, *names) in data.logs:
        return
    for name in names:
        data.digests[name] = hashlib.sha256(readable(data.folder / name).read_bytes()).hexdigest()
    data.logs[case.kind, *names] = travelling(read_log(case, data.folder))


def _lines(error: OSError | InputError) -> list[str]:
    return [f"{error.filename}: {error.strerror}"] if isinstance(error, OSError) else str(error).splitlines()


def _placed(text: str) -> str:
    """An error with the field that it is about in front."""
    line = " ".join(text.split())
    own = ("failures", "cluster", "apps", "app_failures", "machine_failures", "lease", "SharingWorld", "spread")
    return line if line.startswith(own) else f"workload: {line.removeprefix('workload: ')}"
