"""The sharing world in studies: many training apps on one cluster, under a policy."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from ...errors import InputError
from ...files import readable
from ...simulator.sharing import App, simulate
from ...traces import ClusterLog
from ...wording import dotted
from ..guard import Guard
from ..outcome import Outcome
from ..world import Panel
from .build import apps_of, complaints, in_file_words, policy_of, world_of
from .case import SharingCase, SharingWorkloadCase
from .logs import log_files, read_log, travelling
from .measures import METRICS, study_measures

__all__ = ["WORLD", "SharingData", "SharingStudyWorld"]


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


class SharingStudyWorld:
    """A shared training cluster."""

    name = "sharing"
    case = SharingCase
    metrics = METRICS

    def share(self, cases: Sequence[SharingCase], folder: Path) -> SharingData:
        """Check every case, and read the traces that they name."""
        data, wrong = SharingData(folder), list[str]()
        for case in cases:
            found = [f"{dotted(loc)}: {what}" for loc, what in complaints(case)]
            if not found:
                try:
                    _read(case.workload, data)
                    built = world_of(case, data.apps(case))
                    if policy_of(case).preempts:
                        built.check_leases()
                except OSError as error:
                    found = [f"workload.trace: {error.filename}: {error.strerror}"]
                except InputError as error:
                    found = [_placed(str(error))]
            wrong += [line for line in found if line not in wrong]
        if wrong:
            raise InputError("\n".join(wrong))
        return data

    def digests(self, case: SharingCase, shared: SharingData) -> Mapping[str, str]:
        """SHA-256 of the traces that a case reads."""
        return {name: shared.digests[name] for name in log_files(case.workload)}

    def evaluate(self, case: SharingCase, shared: SharingData) -> Outcome:
        """Simulate. `attainment` is the share of apps with ρ ≤ 1, `fair_share`: what questions ask for."""
        world = world_of(case, shared.apps(case))
        try:
            found = study_measures(simulate(world, policy_of(case)))
        except InputError as error:
            raise in_file_words(error) from None
        notes = () if found["completed"] else ("no app was completed: nothing is known of ρ",)
        known = {name: value for name, value in found.items() if math.isfinite(value)}
        return Outcome(metrics=known, notes=notes, decision=f"{policy_of(case).name} on {world.cluster}")

    def panels(self, case: SharingCase, shared: SharingData) -> Sequence[Panel]:
        """The cluster and the apps in words, and ρ of the worst."""
        world = world_of(case, shared.apps(case))
        result = simulate(world, policy_of(case))
        worst = sorted((-r, a.name) for r, a in zip(result.rho, world.apps, strict=True) if math.isfinite(r))[:10]
        lines = [f"{world.cluster}; {len(world.apps)} apps under {result.policy}", "", "the largest ρ:"]
        lines += [f"{-rho:8.3f}  {name}" for rho, name in worst]
        body = f"<pre>{escape(chr(10).join(lines))}</pre>"
        return (Panel("Apps", "The cluster, and whom sharing served worst.", "html", body),)

    def guard(self) -> Guard:
        """The world as the gate sees it."""
        from .guard import SharingGuard

        return SharingGuard(self)


def _read(case: SharingWorkloadCase | None, data: SharingData) -> None:
    """Read the log that a case names, unless another case has named it."""
    names = log_files(case)
    if case is None or not names or (case.kind, *names) in data.logs:
        return
    for name in names:
        data.digests[name] = hashlib.sha256(readable(data.folder / name).read_bytes()).hexdigest()
    data.logs[case.kind, *names] = travelling(read_log(case, data.folder))


def _placed(text: str) -> str:
    """An error with the field that it is about in front."""
    line = " ".join(text.split())
    own = ("failures", "cluster", "apps", "app_failures", "machine_failures", "lease", "SharingWorld")
    return line if line.startswith(own) else f"workload: {line.removeprefix('workload: ')}"


WORLD = SharingStudyWorld()
"""The object that studies use."""
