"""What the first run of a world compiles: few kernels, each part once, and nothing that only one policy needs twice."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from meshwright.jit import kernel
from meshwright.simulator.sharing.compiled import record
from meshwright.simulator.sharing.compiled.record import Record

FIRST = """
import collections, sys
from numba.core import event

compiled = collections.Counter()

class Listener(event.Listener):
    def on_start(self, event): pass
    def on_end(self, event):
        function = event.data["dispatcher"].py_func
        compiled[f"{function.__module__}.{function.__qualname__}"] += 1

event.register("numba:compile", Listener())
from meshwright.planners.themis import Themis
from meshwright.simulator.sharing import SharingWorld, WorkloadOptions, baseline, simulate, themis_testbed, workload2

world = SharingWorld(themis_testbed(), workload2(WorkloadOptions(apps=3, scale=0.01)))
for policy in (Themis(), baseline("gandiva"), baseline("tiresias"), baseline("optimus")):
    simulate(world, policy, engine="compiled")
ours = {name: n for name, n in compiled.items() if name.startswith("meshwright.")}
print(sum(compiled.values()), len(ours), *(name for name, n in ours.items() if n > 1))
"""


class Some(NamedTuple):
    """Of each kind that records hold."""

    counts: np.ndarray
    table: np.ndarray
    share: float
    number: int
    yes: bool


@kernel(cache=False)
def add_up(some, k):  # type: ignore[no-untyped-def]
    """Read every kind, write one."""
    some.counts[k] += some.number
    total = some.share if some.yes else -some.share
    for i in range(some.table.shape[0]):
        for j in range(some.table.shape[1]):
            total += some.table[i, j] * (i + 1)
    return total + some.counts.sum(), some.table.size


def test_a_record_is_read_and_written_like_its_tuple() -> None:
    some = Some(np.array([3, 4]), np.arange(6.0).reshape(2, 3), 0.25, 5, True)
    assert add_up(Record(some), 1) == (0.25 + 3.0 + 24.0 + 3 + 9, 6)
    assert some.counts.tolist() == [3, 9]
    other = some._replace(table=np.ones((1, 4)), yes=False, share=1.5)
    assert add_up(Record(other), 0) == (-1.5 + 4.0 + 8 + 9, 4)
    assert len(add_up.signatures) == 1  # lengths are no part of the type


def test_a_record_in_another_order_is_refused() -> None:
    with pytest.raises(ValueError, match="C order"):
        Record(Some(np.array([1]), np.ones((2, 3)).T, 0.0, 0, True))


@pytest.mark.parametrize("name", ["_field", "_words", "_unbox"])
def test_what_was_kept_for_another_layout_is_not_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept is found by its types' names; another layout's kernels would read past a record's end."""
    now = record._layout()
    assert now[:8] in str(Record(Some(np.array([1]), np.ones((2, 3)), 0.0, 0, True))._numba_type_)
    record._layout.cache_clear()
    monkeypatch.setattr(record, name, lambda *args: args)
    assert record._layout() != now
    record._layout.cache_clear()
    monkeypatch.undo()
    assert record._layout() == now


@pytest.mark.slow
def test_the_first_run_compiles_each_part_once(tmp_path: Path) -> None:
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", FIRST], env=env, capture_output=True, text=True, check=True)
    every, ours, *twice = done.stdout.split()
    kept = sorted(path.name.split("-")[0] for path in tmp_path.rglob("*.nbi"))
    assert kept == ["allocation.allocate", "loop.go_on", "policies.assign", "rounds.award", "rounds.bids_of"]
    # parts of arrays of several kinds; nothing is compiled once for a literal and once for a variable
    assert set(twice) <= {f"meshwright.simulator.sharing.compiled.plain.{name}" for name in (
        "copied", "falling_order", "fill_with", "largest", "overwrite", "positive", "stable_order", "total",
    )}  # fmt: skip
    assert int(ours) <= 140  # 137 with rounds of leases and who has waited longest
    assert int(every) < 200  # 286 when each of the forty arrays was an argument
