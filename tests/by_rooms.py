"""Which worker of pytest-xdist takes which file of tests.

Files of a room call the same compiled functions. numba keeps those on disk, but only once they are compiled: two
workers that begin in one room compile all of it twice. So a worker stays in its room until that has no file left, then
opens the room with the most tests that nobody is in, and helps in another's only where there is none.
"""

from __future__ import annotations

from collections import Counter

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

__all__ = ["RoomScheduling", "chosen", "room_of", "unit_of"]

DEPTH = 3
"""``tests/simulator/llm`` is a room, whatever folders are in it."""

FIRST = ("simulator", "planners", "runtime")
"""Where functions are compiled that other rooms then find on disk; and where the longest runs are."""

APART = ("tests/docs/test_pages.py", "tests/docs/test_examples.py")
"""Files whose tests share nothing and take minutes together: one worker would run them while the others are done."""


def unit_of(test: str) -> str:
    """What goes to one worker with this test: its file, or the test alone."""
    file = test.partition("::")[0]
    return test if file in APART else file


def room_of(unit: str) -> str:
    """The room that a file of tests is about."""
    return "/".join(unit.partition("::")[0].split("/")[:-1][:DEPTH])


def chosen(waiting: dict[str, int], mine: str | None, others: set[str]) -> str:
    """The next file for a worker.

    Parameters
    ----------
    waiting : dict of str to int
        Files that nobody has, and how many tests each holds.
    mine : str, optional
        The room of the worker's last file.
    others : set of str
        Rooms of the other workers' last files.
    """
    sizes = Counter[str]()
    for file, tests in waiting.items():
        sizes[room_of(file)] += tests

    def rank(room: str) -> tuple[bool, bool, bool, int, str]:
        early = room.split("/")[1:2] and room.split("/")[1] in FIRST
        return room != mine, room in others, not early, -sizes[room], room

    room = min(sizes, key=rank)
    return max((file for file in waiting if room_of(file) == room), key=lambda file: (waiting[file], file))


class RoomScheduling(LoadFileScheduling):
    """Files go to one worker each, as with ``--dist loadfile``; `chosen` says which goes next."""

    def __init__(self, config: object, log: object = None) -> None:
        super().__init__(config, log)  # type: ignore[arg-type]
        self.rooms: dict[WorkerController, str] = {}

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        waiting = {file: len(tests) for file, tests in self.workqueue.items()}
        others = {room for worker, room in self.rooms.items() if worker is not node}
        file = chosen(waiting, self.rooms.get(node), others)
        self.rooms[node] = room_of(file)
        self.workqueue.move_to_end(file, last=False)
        super()._assign_work_unit(node)
