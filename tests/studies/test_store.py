"""The store: what it keeps, what it refuses, and that its bytes depend on its content alone."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError, RunError
from meshwright.studies import Outcome, Point
from meshwright.studies.storage.store import Store
from meshwright.studies.storage.store_file import Identity

OURS = Identity("mine", "d1", "study: 1\nrate: 10\n", "0.1.0")

ROWS = [
    (Point(0, (("x", 1), ("split", {"b": 0.5, "a": 0.1 + 0.2})), "p"), Outcome(metrics={"m": 1 / 3, "a": 2.0})),
    (Point(1, (("x", 2),), "p", 1), Outcome("infeasible", error="nothing fits")),
    (Point(2, (("x", "wörd"),), "q\"u'o", 1), Outcome("failed", error="ValueError: no")),
    (Point(7, (("y", None),), "p"), Outcome(metrics={"b": -0.0}, notes=("n1", "n2"), decision="→")),
]


def fill(path: Path | None, rows: list[tuple[Point, Outcome]] = ROWS) -> Store:
    store = Store(path, OURS)
    for point, outcome in rows:
        store.put(point, outcome, f"key{point.index}", {"file": "abc"})
    return store


def sealed(path: Path, rows: list[tuple[Point, Outcome]] = ROWS) -> bytes:
    store = fill(path, rows)
    store.seal()
    store.close()
    return path.read_bytes()


@pytest.mark.parametrize("on_disk", [True, False])
def test_rows_come_back_as_they_went_in_and_in_order(tmp_path: Path, on_disk: bool) -> None:
    store = fill(tmp_path / "s" if on_disk else None, ROWS[::-1])
    assert list(store.rows()) == ROWS
    assert (len(store), store.failed) == (4, 1)
    assert store.find("key7") == ROWS[3]
    assert store.find("key3") is None
    store.seal()
    assert list(store.rows()) == ROWS
    store.close()


@settings(max_examples=20, deadline=None)
@given(order=st.permutations(range(4)), sessions=st.integers(1, 3), failed_first=st.booleans())
def test_sealed_bytes_depend_on_content_alone(
    tmp_path_factory: pytest.TempPathFactory, order: list[int], sessions: int, failed_first: bool
) -> None:
    folder = tmp_path_factory.mktemp("store")
    want = sealed(folder / "want")
    path = folder / "other-name"
    for part in range(sessions):
        store = Store(path, OURS)
        for i in order[part::sessions]:
            point, outcome = ROWS[i]
            if failed_first and outcome.status == "ok":
                store.put(point, Outcome("failed", error="bad luck"), f"key{point.index}", {"file": "abc"})
                store.put(point, outcome, f"key{point.index}", {"file": "abc"}, replace=True)
            else:
                store.put(point, outcome, f"key{point.index}", {"file": "abc"})
        store.close()
    store = Store(path, OURS)
    store.seal()
    store.close()
    assert path.read_bytes() == want
    assert sorted(p.name for p in folder.iterdir()) == ["other-name", "want"]


def test_a_sealed_store_is_opened_again_without_a_change(tmp_path: Path) -> None:
    path = tmp_path / "s"
    before = sealed(path)
    stamp = path.stat().st_mtime_ns
    store = Store(path, OURS)
    assert len(list(store.rows())) == 4
    store.seal()
    store.close()
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (before, stamp)


def test_one_point_more_after_sealing(tmp_path: Path) -> None:
    sealed(tmp_path / "s", ROWS[:2])
    store = fill(tmp_path / "s", ROWS[2:])
    store.seal()
    store.close()
    assert (tmp_path / "s").read_bytes() == sealed(tmp_path / "whole")


@pytest.mark.parametrize("seal", [True, False])
def test_people_read_a_column_for_each_field_and_metric(tmp_path: Path, seal: bool) -> None:
    """Also while the study runs."""
    store = fill(tmp_path / "s")
    if seal:
        store.seal()
    reader = sqlite3.connect(tmp_path / "s")
    seen = reader.execute("SELECT id, x, y, m, b, status, decision FROM results ORDER BY id").fetchall()
    reader.close()
    store.close()
    assert seen[0] == (0, 1, None, 1 / 3, None, "ok", "")
    assert seen[3] == (7, None, None, None, 0.0, "ok", "→")


def test_a_point_is_told_once(tmp_path: Path) -> None:
    store = fill(tmp_path / "s", ROWS[:1])
    for point, key in ((ROWS[0][0], "other"), (Point(9, (), "p"), "key0")):
        with pytest.raises(InputError, match="is there already"):
            store.put(point, ROWS[0][1], key, {})
    with pytest.raises(InputError, match="is there already"):  # only what failed is replaced
        store.put(*ROWS[0], "key0", {}, replace=True)
    assert list(store.rows()) == ROWS[:1]
    store.close()


def test_one_run_at_a_time(tmp_path: Path) -> None:
    store = fill(tmp_path / "s", ROWS[:1])
    with pytest.raises(InputError, match="another run is at it; wait for it to end, or give another --out"):
        Store(tmp_path / "s", OURS)
    store.close()
    Store(tmp_path / "s", OURS).close()
    assert [p.name for p in tmp_path.iterdir()] == ["s"]


def test_another_program_that_has_the_file_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost, and the file is sealed as soon as it can be."""
    monkeypatch.setattr("meshwright.studies.storage.store.BUSY_MS", 10)
    want = sealed(tmp_path / "want")
    store = fill(tmp_path / "s")
    reader = sqlite3.connect(tmp_path / "s")
    assert reader.execute("SELECT count(*) FROM results").fetchone() == (4,)
    store.seal(patient=False)
    with pytest.raises(RunError, match="another program has it open; 4 points kept; close it, then the same command"):
        store.seal()
    assert list(store.rows()) == ROWS
    reader.close()
    store.seal()
    store.close()
    assert (tmp_path / "s").read_bytes() == want
    assert sorted(p.name for p in tmp_path.iterdir()) == ["s", "want"]


def folder(path: Path) -> None:
    path.mkdir()


def words(path: Path) -> None:
    path.write_text("id,x\n1,2\n")


def strangers(path: Path) -> None:
    sqlite3.connect(path).execute("CREATE TABLE t (x)").connection.commit()


def newer(path: Path) -> None:
    sealed(path)
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 9")
    db.commit()
    db.close()


def cut(path: Path) -> None:
    path.write_bytes(sealed(path)[:-4096])


def scribbled(path: Path) -> None:
    whole = bytearray(sealed(path))
    whole[4096 * 3 : 4096 * 3 + 2000] = np.random.default_rng(0).bytes(2000)
    path.write_bytes(whole)


@pytest.mark.parametrize(
    ("make", "identity", "what"),
    [
        (folder, OURS, "a folder"),
        (words, OURS, "no SQLite database"),
        (strangers, OURS, "another program"),
        (newer, OURS, "newer format 9; this meshwright reads format 1"),
        (cut, OURS, "damaged"),
        (scribbled, OURS, "damaged"),
        (sealed, Identity("mine", "d1", "", "0.2.0"), "meshwright 0.1.0; this is 0.2.0"),
        (sealed, Identity("yours", "d2", "", "0.1.0"), "study 'mine'"),
        (sealed, Identity("mine", "d2", "study: 1\nrate: 20\n", "0.1.0"), "line 2 was 'rate: 10', is 'rate: 20'"),
    ],
)  # fmt: skip
def test_what_is_no_store_of_this_study_is_refused(tmp_path: Path, make, identity: Identity, what: str) -> None:
    path = tmp_path / "s"
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(InputError) as caught:
        Store(path, identity)
    message = str(caught.value)
    assert what in message
    assert message.startswith(f"{path}: expected")
    assert message.endswith("give another --out")
    assert "\n" not in message
    assert (path.read_bytes() if path.is_file() else b"") == before
    assert [p.name for p in tmp_path.iterdir()] == ["s"]


def test_what_a_killed_start_leaves_is_a_new_store(tmp_path: Path) -> None:
    (tmp_path / "s").touch()
    (tmp_path / ".s.lock").touch()
    (tmp_path / ".s.sealing").write_bytes(b"half of it")
    assert sealed(tmp_path / "s") == sealed(tmp_path / "t")


def fill_up(store: Store) -> None:
    while True:
        i = len(store)
        store.put(Point(i, (("x", i),), "p"), Outcome(decision="d" * 500), f"k{i}", {})


def test_a_full_disk_keeps_what_was_written(tmp_path: Path) -> None:
    """SQLite's own limit on pages stands for the disk's."""
    store = Store(tmp_path / "s", OURS)
    store._db.execute("PRAGMA max_page_count = 12")
    with pytest.raises(RunError, match=r"disk full \(.* bytes free\); \d+ points kept; free some space, then the same"):
        fill_up(store)
    done = len(store)
    assert done > 10
    store.close()
    store = Store(tmp_path / "s", OURS)
    assert [p.index for p, _ in store.rows()] == list(range(done))
    store.put(Point(done, (("x", done),), "p"), Outcome(), f"k{done}", {})
    store.close()


@pytest.fixture
def small_disk(tmp_path: Path):
    place = tmp_path / "disk"
    place.mkdir()
    mount = shutil.which("mount")
    made = mount and subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(place)], capture_output=True, text=True
    )
    if not made or made.returncode:
        pytest.skip(f"a small file system cannot be mounted: {made.stderr.strip() if made else 'no mount command'}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_is_really_full(small_disk: Path) -> None:
    store = Store(small_disk / "s", OURS)
    with pytest.raises(RunError, match=r"disk full \(.* bytes free\); \d+ points kept"):
        fill_up(store)
    done = len(store)
    with pytest.raises(RunError, match="disk full"):
        store.seal()
    store.close()
    assert done > 10
    subprocess.run(["mount", "-o", "remount,size=8m", str(small_disk)], check=True)
    store = Store(small_disk / "s", OURS)
    assert [p.index for p, _ in store.rows()] == list(range(done))
    store.put(Point(done, (("x", done),), "p"), Outcome(), f"k{done}", {})
    store.seal()
    assert len(list(store.rows())) == done + 1
    store.close()
