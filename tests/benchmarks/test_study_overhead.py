"""What a study costs beyond its points' own work. Run by `make bench`; prints figures, asserts none of wall-clock.

The promise: at most 2 ms per point locally, 10,000 points fine, memory flat. What is asserted is what does not depend
on the machine: that memory does not grow with the number of points, and that every point is there.
"""

import ast
import gc
import os
import resource
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from meshwright.studies import Session, Study

STUDIES = Path(__file__).parent.parent / "studies"
from tiny_world import tiny_study  # noqa: E402

Clock = Callable[[], float]
POINTS = 10_000
SERVING = """
study: 1
cluster: {devices: 8}
models: S1
workload: {duration: 1}
planners: [round-robin]
axes:
  rate: {from: 1, to: 10, points: 60}
"""


def run(study: Study, store: Path, workers: int, clock: Clock = time.perf_counter) -> tuple[float, int]:
    """Seconds of a run, and its rows; the workers' start is not counted."""
    with Session.open(study, store, workers=workers) as session:
        for _ in session.evaluate([p for p, _ in zip(study.points(), range(2 * workers), strict=False)]):
            pass
        began = clock()
        session.run()
        return clock() - began, len(session.store)


@pytest.mark.parametrize("workers", [1, 2])
def test_ten_thousand_trivial_points(tmp_path: Path, workers: int) -> None:
    study = tiny_study(tmp_path, POINTS, how="quiet")
    tiny_study(tmp_path, 10, how="quiet").run()  # imports
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds, rows = run(study, tmp_path / "s", workers)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    began = time.perf_counter()
    run(study, tmp_path / "s", 1)
    again = time.perf_counter() - began
    size = os.path.getsize(tmp_path / "s") / 1e6
    print(
        f"\n{rows:,} trivial points, {workers} worker(s): {1e3 * seconds / rows:.3f} ms per point (promised: 2), peak "
        f"memory +{grown:.1f} MiB, store {size:.1f} MB; resumed when complete: {1e3 * again / rows:.3f} ms per point"
    )
    assert rows == POINTS


@pytest.mark.parametrize("workers", [1, 2])
def test_memory_does_not_grow_with_the_number_of_points(tmp_path: Path, workers: int) -> None:
    study = tiny_study(tmp_path, 3_000, how="quiet")
    held: list[int] = []
    with Session.open(study, tmp_path / "s", workers=workers) as session:
        for i, _ in enumerate(session.evaluate(study.points())):
            if i == 500:
                tracemalloc.start()
            if i in (1_000, 2_900):
                gc.collect()
                held.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
    print(f"\nthe driver's memory with {workers} worker(s): {held[1] - held[0]:+,} bytes over 1,900 points")
    assert held[1] - held[0] < 50_000  # a list of the points alone would be 400,000


def test_overhead_of_a_serving_study(tmp_path: Path) -> None:
    """In processor time, the same points with and without a study around them, in turns."""
    study = Study.from_text(SERVING)
    with Session.open(study) as session:
        data = session.shared.data
    cases = [study.case(p) for p in study.points()]
    own = whole = float("inf")
    for i in range(4):  # the first round warms up
        began = time.process_time()
        for case in cases:
            study.world.evaluate(case, data)
        if i:
            own = min(own, time.process_time() - began)
            whole = min(whole, run(study, tmp_path / str(i), 1, time.process_time)[0])
    rows = len(cases)
    print(
        f"\na serving study of {rows} points: {1e3 * whole / rows:.2f} ms per point, of which its own work "
        f"{1e3 * own / rows:.2f} ms; overhead {1e3 * (whole - own) / rows:.2f} ms (promised: 2)"
    )


def test_importing_studies_is_light() -> None:
    heavy = ("pandas", "matplotlib", "dask", "distributed", "ray", "scipy", "ortools")
    code = f"import sys, meshwright.studies; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    print(f"\nimported with meshwright.studies: {found.strip()}")
    assert not {"pandas", "matplotlib", "dask", "distributed", "ray", "ortools"} & set(ast.literal_eval(found))
