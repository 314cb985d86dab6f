"""`regress`: a suite planned, scored, and held against its baseline."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path

from ..errors import InputError, RunError
from ..planners import PlannerSource
from ..studies.worlds.serving import WORLD
from ..studies.worlds.serving_data import ServingData
from .baseline import Baseline
from .decision import Decision
from .scoring import CaseRun, Shared, run_case
from .suite import Suite, SuiteCase, matches
from .verdict import UPDATE, CaseReport, Finding, judge

__all__ = ["Report", "default_baseline", "held_against", "regress", "run_suite"]

OnCase = Callable[[int, int, str], None]
"""Called with how many cases are done, how many there are, and the name of the last one."""


@dataclass(frozen=True)
class Report:
    """What the gate says.

    Parameters
    ----------
    suite : Suite
        What was run.
    cases : tuple of CaseReport
        In the order of the suite; then those that only the baseline has.
    runs : tuple of CaseRun
        What came of each case of the suite.
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
    planner: PlannerSource | None = None,
    workers: int = 1,
    only: Sequence[str] = (),
    progress: OnCase | None = None,
) -> Report:
    """Plan all cases of a suite and hold the plans against a baseline.

    Parameters
    ----------
    suite : Suite
        The cases.
    baseline : Baseline
        What they are held against.
    planner : PlannerSource, optional
        Plans every case, instead of the planner that the case names.
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
        If a worker process dies.
    """
    chosen = suite.only(only)
    runs = run_suite(chosen, baseline, planner=planner, workers=workers, progress=progress)
    return held_against(suite, runs, baseline, only)


def run_suite(
    suite: Suite,
    baseline: Baseline | None,
    *,
    planner: PlannerSource | None = None,
    workers: int = 1,
    progress: OnCase | None = None,
) -> tuple[CaseRun, ...]:
    """Plan and score all cases of a suite; the baseline's plans too, on the same traffic. See `regress`."""
    shared = Shared(_data(suite, planner), planner)
    kept = {} if baseline is None else baseline.cases
    jobs: list[tuple[SuiteCase, Decision | None]] = []
    for case in suite.cases:
        entry = kept.get(case.name)
        same = entry is not None and entry.problem == case.problem()
        jobs.append((case, entry.decision if entry is not None and same else None))
    runs: list[CaseRun] = []
    for run in _runs(shared, jobs, min(workers, len(jobs))):
        runs.append(run)
        if progress is not None:
            progress(len(runs), len(jobs), run.case)
    return tuple(runs)


def _data(suite: Suite, planner: PlannerSource | None) -> ServingData:
    """Load and check what the cases name; where another planner plans, theirs need not be there.

    Raises
    ------
    InputError
        A line for each thing that is wrong, with the first case that it is wrong in.
    """
    cases = list(suite.cases)
    if planner is not None:
        cases = [case.model_copy(update={"planner": type(case.planner)()}) for case in cases]
    try:
        return WORLD.share(cases, suite.folder)
    except InputError:
        found: dict[str, list[str]] = {}
        for case in cases:
            try:
                WORLD.share([case], suite.folder)
            except InputError as error:
                for line in str(error).splitlines():
                    found.setdefault(line, []).append(case.name)
        if not found:
            raise
    lines: list[str] = []
    for what, names in found.items():
        more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
        lines.append(f"{suite.where or suite.name}:{suite.lines.get(names[0], 1)}: case {names[0]!r}{more}: {what}")
    raise InputError("\n".join(lines))


def held_against(suite: Suite, runs: Sequence[CaseRun], baseline: Baseline, only: Sequence[str] = ()) -> Report:
    """Judge what came of the cases; a case of the baseline that the suite has no more is a finding too."""
    cases = {case.name: case for case in suite.cases}
    reports = [judge(cases[run.case], run, baseline.cases.get(run.case)) for run in runs]
    for name, entry in baseline.cases.items():
        if name not in cases and matches(name, only):
            found = Finding("missing", f"the baseline has it and the suite has not; drop it: {UPDATE}")
            reports.append(CaseReport(name, entry.planner, evaluations=(entry.evaluations, None), findings=(found,)))
    ran = {run.case for run in runs}
    return Report(replace(suite, cases=tuple(c for c in suite.cases if c.name in ran)), tuple(reports), tuple(runs))


def _runs(shared: Shared, jobs: Sequence[tuple[SuiteCase, Decision | None]], workers: int) -> Iterator[CaseRun]:
    """What comes of each job, in order."""
    if workers <= 1:
        yield from (run_case(shared, case, decision) for case, decision in jobs)
        return
    packed = pickle.dumps(shared)  # our own objects, to our own processes: never read from a file
    with _pool(workers) as pool:
        waiting = [pool.submit(_in_worker, packed, case, decision) for case, decision in jobs]
        for (case, _), future in zip(jobs, waiting, strict=True):
            try:
                yield future.result()
            except BrokenProcessPool:
                raise RunError(
                    f"regress: a worker process died, at the latest in case {case.name!r}; run it again with "
                    "--workers 1, or give it more memory"
                ) from None


@contextlib.contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that do not go on with the rest when one case, or the user, ends the run."""
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def _in_worker(packed: bytes, case: SuiteCase, decision: Decision | None) -> CaseRun:
    return run_case(_unpack(packed), case, decision)


@lru_cache(maxsize=1)
def _unpack(packed: bytes) -> Shared:
    return pickle.loads(packed)


def default_baseline(suite: Suite) -> Path:
    """Where a suite's baseline is looked for if none is named: shipped with the shipped suite, else beside it."""
    if not suite.where:
        return Path(__file__).parent / "data" / f"{suite.name}.baseline.json"
    return Path(suite.where).with_suffix(".baseline.json")
