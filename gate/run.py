"""`regress`: plan and score a suite, and compare it with its baseline."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from ..errors import InputError
from ..reprs import Shown
from ..spawning import check_workers
from ..studies.execution.processes import Processes, start_worker
from ..studies.execution.work import Cargo, held
from .baseline import Baseline
from .scoring import CaseRun, Kept, Shared, run_case
from .suite import Suite, SuiteCase, matches
from .verdict import UPDATE, CaseReport, Finding, judge

__all__ = ["Report", "default_baseline", "held_against", "regress", "run_suite"]

Job = tuple[SuiteCase, Kept | None]
"""A case, and its entry in the baseline."""

OnCase = Callable[[int, int, str], None]
"""Called with how many cases are done, how many there are, and the name of the last one."""


@dataclass(frozen=True, repr=False)
class Report(Shown):
    """The report of the gate.

    Parameters
    ----------
    suite : Suite
        The suite that was run.
    cases : tuple of CaseReport
        In the order of the suite; then those that only the baseline has.
    runs : tuple of CaseRun
        The result of each case.
    """

    suite: Suite
    cases: tuple[CaseReport, ...]
    runs: tuple[CaseRun, ...]

    @property
    def failed(self) -> tuple[CaseReport, ...]:
        """The cases that fail."""
        return tuple(case for case in self.cases if case.findings)

    @property
    def ok(self) -> bool:
        """Whether none does."""
        return not self.failed

    def counts(self) -> str:
        """How many cases came out how, in words."""
        words = {"failed": "failed", "better": "better", "equal": "equally good by another plan", "same": "the same"}
        by = {status: sum(case.status == status for case in self.cases) for status in words}
        said = [f"{n} {words[status]}" for status, n in by.items() if n]
        return f"{len(self.cases)} case{'' if len(self.cases) == 1 else 's'}: {', '.join(said)}"


def regress(
    suite: Suite,
    baseline: Baseline,
    *,
    planner: str | None = None,
    workers: int = 1,
    only: Sequence[str] = (),
    progress: OnCase | None = None,
) -> Report:
    """Plan all cases of a suite, and compare the plans with a baseline.

    Parameters
    ----------
    suite : Suite
        The cases.
    baseline : Baseline
        The baseline to compare with.
    planner : str, optional
        Plans every case whose world has it, instead of the planner that the case names; the other cases are left out.
    workers : int
        Processes; the report does not depend on them.
    only : sequence of str
        Patterns of the names of cases to run; all if empty.
    progress : callable, optional
        Called after each case.

    Raises
    ------
    InputError
        If the suite names a file, profile or planner that is not there.
    RunError
        If no worker process can start.
    """
    chosen = suite.only(only)
    runs = run_suite(chosen, baseline, planner=planner, workers=workers, progress=progress)
    return held_against(suite, runs, baseline, only)


def run_suite(
    suite: Suite,
    baseline: Baseline | None,
    *,
    planner: str | None = None,
    workers: int = 1,
    progress: OnCase | None = None,
) -> tuple[CaseRun, ...]:
    """Plan and score all cases of a suite; the baseline's plans too, on the same traffic. See `regress`."""
    if planner is not None:
        suite = suite.planned_by(planner)
    shared = Shared(_data(suite), foreign=planner is not None)
    kept = {} if baseline is None else baseline.cases
    jobs: list[Job] = []
    for case in suite.cases:
        entry = kept.get(case.name)
        comparable = entry is not None and entry.decision is not None and entry.problem == case.problem()
        jobs.append((case, Kept(entry.decision, entry.scores) if entry is not None and comparable else None))
    count = min(check_workers(workers), len(jobs))
    runs: dict[int, CaseRun] = {}
    for number, run in _here(shared, jobs) if count <= 1 else _in_processes(shared, jobs, count):
        runs[number] = run
        if progress is not None:
            progress(len(runs), len(jobs), run.case)
    return tuple(runs[number] for number in range(len(jobs)))


def _data(suite: Suite) -> dict[str, Any]:
    """World -> what its cases share, loaded and checked.

    Raises
    ------
    InputError
        A line for each thing that is wrong, with the first case that it is wrong in.
    """
    of: dict[str, list[SuiteCase]] = {}
    for case in suite.cases:
        of.setdefault(case.world, []).append(case)
    data: dict[str, Any] = {}
    found: dict[str, list[str]] = {}
    for name, cases in of.items():
        guard = cases[0].guard
        try:
            data[name] = guard.share([case.case for case in cases], suite.folder)
        except InputError as whole:
            wrong = 0
            for case in cases:
                try:
                    guard.share([case.case], suite.folder)
                except InputError as error:
                    wrong += 1
                    for line in str(error).splitlines():
                        found.setdefault(line, []).append(case.name)
            if not wrong:
                raise whole
    if found:
        raise InputError("\n".join(_placed(suite, what, names) for what, names in found.items()))
    return data


def _placed(suite: Suite, what: str, names: Sequence[str]) -> str:
    more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
    return f"{suite.where or suite.name}:{suite.lines.get(names[0], 1)}: case {names[0]!r}{more}: {what}"


def held_against(suite: Suite, runs: Sequence[CaseRun], baseline: Baseline, only: Sequence[str] = ()) -> Report:
    """Judge the runs of the cases. A case that is in the baseline but no longer in the suite is a finding too."""
    cases = {case.name: case for case in suite.cases}
    reports = [judge(cases[run.case], run, baseline.cases.get(run.case)) for run in runs]
    for name, entry in baseline.cases.items():
        if name not in cases and matches(name, only):
            found = Finding("missing", f"the baseline has it and the suite has not; drop it: {UPDATE}")
            reports.append(CaseReport(name, entry.planner, evaluations=(entry.evaluations, None), findings=(found,)))
    ran = {run.case for run in runs}
    return Report(replace(suite, cases=tuple(c for c in suite.cases if c.name in ran)), tuple(reports), tuple(runs))


def _here(shared: Shared, jobs: Sequence[Job]) -> Iterator[tuple[int, CaseRun]]:
    """What comes of each job, with its number; in this process."""
    for number, (case, kept) in enumerate(jobs):
        yield number, run_case(shared, case, kept)


def _in_processes(shared: Shared, jobs: Sequence[Job], workers: int) -> Iterator[tuple[int, CaseRun]]:
    """The same in processes, as they finish; one that dies takes no case with it but its own.

    Raises
    ------
    RunError
        If none can start.
    """
    packed = pickle.dumps(shared)
    cargo = Cargo(hashlib.sha256(packed).hexdigest(), packed)
    pool = Processes(workers, start_worker, (cargo,))
    todo, waiting, ended = iter(_dealt(jobs)), dict[Future[CaseRun], int](), False
    try:
        while True:
            while len(waiting) < workers and (number := next(todo, None)) is not None:
                waiting[pool.submit(_in_worker, cargo.digest, *jobs[number])] = number
            if not waiting:
                break
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                number = waiting.pop(future)
                error = future.exception()
                how = "" if error is None else pool.died(future, error)
                if error is not None and not how:
                    raise error
                case = jobs[number][0]
                yield (
                    number,
                    CaseRun(case.name, case.planner, failure="error", why=how) if how else future.result(),
                )
        ended = True
    finally:
        pool.close(at_once=not ended)


def _dealt(jobs: Sequence[Job]) -> list[int]:
    """The order in which processes get the jobs: each world's first case, the last world's foremost; then the others.

    Cases of a world call the same compiled functions. The first one compiles them where nothing is cached yet, and a
    second one would wait for it; meanwhile the other processes have the cases of the other worlds.
    """
    first: dict[str, int] = {}
    for number, (case, _) in enumerate(jobs):
        first.setdefault(case.world, number)
    ahead = sorted(first.values(), reverse=True)
    return [*ahead, *(number for number in range(len(jobs)) if number not in ahead)]


def _in_worker(digest: str, case: SuiteCase, kept: Kept | None) -> CaseRun:
    return run_case(cast(Shared, held(digest)), case, kept)


def default_baseline(suite: Suite) -> Path:
    """Where a suite's baseline is looked for if none is named: shipped with the shipped suite, else beside it."""
    if not suite.where:
        return Path(__file__).parent / "data" / f"{suite.name}.baseline.json"
    return Path(suite.where).with_suffix(".baseline.json")
