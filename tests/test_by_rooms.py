"""Workers of pytest-xdist and the rooms that they take files from."""

from __future__ import annotations

from pathlib import Path

from by_rooms import APART, FIRST, chosen, room_of, unit_of

FILES = {
    "tests/simulator/llm/test_a.py": 5,
    "tests/simulator/llm/fleet/test_b.py": 9,
    "tests/simulator/sharing/test_c.py": 7,
    "tests/cli/test_d.py": 50,
    "tests/test_e.py": 90,
}


def order(rooms: dict[str, str | None]) -> list[tuple[str, str]]:
    """Who takes which file, where workers take turns."""
    waiting, taken = dict(FILES), list[tuple[str, str]]()
    while waiting:
        for worker in rooms:
            if waiting:
                others = {room for other, room in rooms.items() if other != worker and room}
                file = chosen(waiting, rooms[worker], others)
                rooms[worker] = room_of(file)
                del waiting[file]
                taken.append((worker, file.rpartition("/")[2]))
    return taken


def test_each_begins_in_a_room_of_its_own_and_stays_until_it_is_empty() -> None:
    assert order({"a": None, "b": None}) == [
        ("a", "test_b.py"), ("b", "test_c.py"), ("a", "test_a.py"), ("b", "test_e.py"), ("a", "test_d.py"),
    ]  # fmt: skip


def test_where_no_room_is_free_workers_share_one() -> None:
    waiting = {"tests/simulator/llm/test_a.py": 5}
    assert chosen(waiting, None, {"tests/simulator/llm"}) == "tests/simulator/llm/test_a.py"


def test_every_file_is_run_once() -> None:
    assert sorted(file for _, file in order({"a": None, "b": None, "c": None})) == [f"test_{x}.py" for x in "abcde"]


def test_pages_are_dealt_one_by_one() -> None:
    page, other = "tests/docs/test_pages.py::test_page[a/b.md]", "tests/cli/test_errors.py::test_error[a/b]"
    assert (unit_of(page), room_of(unit_of(page))) == (page, "tests/docs")
    assert (unit_of(other), room_of(unit_of(other))) == ("tests/cli/test_errors.py", "tests/cli")


def test_what_is_named_is_there() -> None:
    root = Path(__file__).resolve().parents[1]
    assert all((root / file).is_file() for file in APART)
    assert all((root / "tests" / room).is_dir() for room in FIRST)
