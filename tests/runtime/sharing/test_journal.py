"""The arbiter's journal: done again, it makes the same books and the same policy; damaged ones say so."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError, RunError
from meshwright.planners.themis import Themis
from meshwright.runtime.sharing import PolicyChoice, RunOptions, Task
from meshwright.runtime.sharing.arbiter.journal import Journal, KeptLedger, read_journal
from meshwright.runtime.sharing.arbiter.lines import Place, line_of, parse
from meshwright.runtime.sharing.documents import to_document
from meshwright.runtime.sharing.dozen import dozen
from meshwright.runtime.sharing.messages import JobState, State
from meshwright.simulator.sharing import Policy, SharingWorld, baseline

BOOKS = ("now_s", "active", "records", "granted", "owner", "lapsed", "down", "_lease", "_integral")


def books(ledger: KeptLedger) -> dict[str, Any]:
    bound = sorted(lease for lease in ledger._leases if ledger._bound(lease))  # others are forgotten when looked at
    return {name: getattr(ledger, name) for name in BOOKS} | {"leases": bound}


def policies() -> tuple[Policy, ...]:
    return Themis(seed=3), baseline("srsf", placement="blind", seed=1), baseline("tiresias")


def fresh(world: SharingWorld, which: int, journal: Journal) -> KeptLedger:
    return KeptLedger(world, policies()[which], journal)


def drive(ledger: KeptLedger, moves: list[tuple[int, int, float]]) -> None:
    """Any moves that an arbiter may make of its books."""
    apps, now = ledger.world.apps, 0.0
    for kind, who, amount in moves:
        now = ledger.now_s + amount
        app = who % len(apps)
        if app not in ledger.active and app not in ledger.records:
            phase = apps[app].phases[0]
            jobs = tuple(JobState(job=j, left_s=100.0 * n + 1) for n, j in enumerate(phase.jobs))
            ledger.arrive(app, State(at_s=max(now, apps[app].arrival_s), phase=0, jobs=jobs))
        elif kind == 0:
            ledger.advance(now)
        elif kind == 1 and app in ledger.active:
            mine = sorted(ledger.active[app].gpus)
            state = ledger.active[app].state
            first = state.jobs[0].model_copy(update={"gpus": tuple(mine[: who % 3]), "left_s": 1.0 + amount})
            others = tuple(j.model_copy(update={"gpus": ()}) for j in state.jobs[1:])
            ledger.update(app, State(at_s=now, phase=0, jobs=(first, *others)))
        elif kind == 2 and app in ledger.active:
            ledger.update(app, State(at_s=now, phase=0, over=True))
        elif kind == 3 and app in ledger.active:
            ledger.leave(app, completed=False)
        elif kind == 4:
            machine = who % len(ledger.cluster.machines)
            hit = ledger.switch(machine, up=who % 2 == 0)
            for one in hit & ledger.active.keys():
                ledger.take(one, ledger.active[one].gpus & ledger.down)
        elif kind == 5:
            ledger.lapse(now)
        elif ledger.active and ledger.offered():
            ledger.decide()


@settings(max_examples=40, deadline=None)
@given(
    which=st.integers(0, 2), seed=st.integers(0, 9),
    moves=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 11), st.floats(0.0, 900.0)), max_size=40),
)  # fmt: skip
def test_a_journal_done_again_makes_the_same_books_and_the_same_policy(
    tmp_path_factory: pytest.TempPathFactory, which: int, seed: int, moves: list[tuple[int, int, float]]
) -> None:
    path = tmp_path_factory.mktemp("journal") / "j.jsonl"
    world = dozen(seed, apps=4)
    journal = Journal(path)
    journal.note("task")
    first = fresh(world, which, journal)
    drive(first, moves)
    second = fresh(world, which, Journal())
    for line in read_journal(path):
        second.redo(line)
    assert books(second) == books(first)
    # What the policy remembers (cached bids, how often it drew lots) decides what comes next.
    drive(first, moves)
    drive(second, moves)
    assert books(second) == books(first)


def test_a_line_cut_short_is_taken_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "j.jsonl"
    journal = Journal(path)
    journal.note("task", task=1)
    journal.note("advance", now_s=5.0)
    whole = path.read_bytes()
    journal.note("advance", now_s=6.0)
    journal.close()
    last = path.read_bytes()[len(whole) :]
    for cut in range(1, len(last)):
        path.write_bytes(whole + last[:cut])
        assert [line["op"] for line in read_journal(path)] == ["task", "advance"]
        assert path.read_bytes() == whole
        said = f"{path}:3: cut short when its arbiter ended; taken off, the line before it counts\n"
        assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "j.jsonl:1: no journal: it does not begin with a task"),
        ('{"n": 1, "su', "j.jsonl:1: no journal: it does not begin with a task"),
        ("nonsense\n", "j.jsonl:1: damaged: no line of a journal"),
        ("nonsense", "j.jsonl:1: damaged: not the beginning of line 1"),
        ('{"op": "task", "port": 1}\n', r"j.jsonl:1: written by an older version \(format 1, now 2\)"),
        (None, "cannot be read: No such file"),
    ],
)
def test_what_is_no_journal_says_so(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "j.jsonl"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=said):
        read_journal(path)
    if text is not None:
        assert path.read_text() == text


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([{"op": "advance", "now_s": 1.0}], "j:1: no journal: it does not begin with a task"),
        ([{"op": "task", "format": 3}], r"j:1: format: expected 2 \(got 3\)"),
        ([{"op": "task"}], "j:1: task.format: is missing"),
        ([{"op": "task", "format": 2}] * 2, "j:2: no journal: a second task"),
        ([{"op": "task", "format": 2}, {"op": "nap"}], "j:2: .*nap"),
        ([{"op": "task", "format": 2}, {"op": "advance", "now_s": "x"}], "j:2: advance.now_s"),
        ([{"op": "task", "format": 2}, {"op": "advance", "now_s": 1.0, "why": 1}], "j:2: advance.why"),
        ([{"op": "task", "format": 2}, {"op": "leave", "app": -1, "completed": True}], "j:2: leave.app"),
    ],
)
def test_lines_of_other_versions_say_so(lines: list[dict[str, Any]], said: str) -> None:
    """Undamaged, numbered and summed, but nothing that this version writes."""
    with pytest.raises(InputError, match=said):
        parse(written(lines), "j")


def written(lines: list[dict[str, Any]]) -> bytes:
    text, end = b"", Place()
    for line in lines:
        more, end = line_of(line, end)
        text += more
    return text


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """Journals of two arbiters with every kind of line, as one writes them; each world has a clock of its own."""
    texts: list[bytes] = []
    for number in (0, 1):
        path = tmp_path_factory.mktemp("real") / "j.jsonl"
        world = dozen(2, apps=4)
        journal = Journal(path)
        task = Task(world, PolicyChoice("tiresias"), RunOptions())
        journal.note("task", task=to_document(task), limit_s=99.0, port=8900)
        for app in world.apps:
            journal.note("hello", app=0, hello={"app": app.name, "step_s": 1e-3 + number * 1e-5})
        journal.note("begin", epoch=-123.5 - number)
        ledger = KeptLedger(world, baseline("tiresias"), journal)
        drive(ledger, [(9, app, 10.0 * app + number) for app in range(4)])
        moves = [(6, 0, 1.0), (5, 0, 700.0), (6, 0, 1.0), (1, 0, 5.0), (4, 1, 1.0), (4, 0, 1.0), (3, 1, 1.0)]
        drive(ledger, [*moves, (0, 0, 3.0), (6, 0, 2.0), (2, 2, 9.0)])
        journal.note("said", app=3, state={"at_s": 900.0, "phase": 0, "over": True})
        journal.note("lost", app="x", at_s=901.0, why="killed by SIGKILL")
        journal.close()
        texts.append(path.read_bytes())
    kinds = {json.loads(line)["op"] for line in texts[0].splitlines()}
    assert kinds == {
        "task", "hello", "begin", "said", "arrive", "update", "lost", "advance", "lapse", "leave", "switch", "take",
        "decide",
    }  # fmt: skip
    return texts[0], texts[1]


def mutated(data: st.DataObject, text: bytes, other: bytes) -> tuple[str, bytes]:
    """A journal that something happened to."""
    lines, theirs = text.splitlines(keepends=True), other.splitlines(keepends=True)
    n = len(lines)
    which = st.integers(0, n - 1)
    how = data.draw(
        st.sampled_from(("delete", "double", "swap", "flip", "byte", "cut", "splice", "insert", "edit", "head", "end"))
    )
    i, j = data.draw(which), data.draw(which)
    if how == "delete":
        del lines[i : i + data.draw(st.integers(1, 3))]
    elif how == "double":
        lines.insert(j, lines[i])
    elif how == "swap":
        lines[i], lines[j] = lines[j], lines[i]
    elif how == "splice":
        lines = lines[: i + 1] + theirs[j:]
    elif how == "insert":
        lines.insert(
            i, data.draw(st.sampled_from((b"\n", b"{}\n", b"null\n", b"nonsense\n", b"\xff\x00\n", theirs[j])))
        )
    elif how == "edit":
        old, new = data.draw(
            st.sampled_from(((b"1", b"2"), (b"true", b"false"), (b'"', b"'"), (b" ", b""), (b"}", b"}}"), (b"\n", b"")))
        )
        lines[i] = lines[i].replace(old, new, 1)
    elif how == "head":
        lines = lines[i:]
    whole = b"".join(lines)
    at = data.draw(st.integers(0, len(text) - 1))
    if how == "flip":
        whole = text[:at] + bytes([text[at] ^ (1 << data.draw(st.integers(0, 7)))]) + text[at + 1 :]
    elif how == "byte":
        whole = text[:at] + data.draw(st.binary(max_size=3)) + text[at + data.draw(st.integers(0, 2)) :]
    elif how == "cut":
        whole = text[:at]
    elif how == "end":
        whole = text + data.draw(st.binary(min_size=1, max_size=40))
    return how, whole


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_whatever_happens_to_a_journal_is_one_error_or_the_state_before_its_torn_line(
    tmp_path_factory: pytest.TempPathFactory, real: tuple[bytes, bytes], data: st.DataObject
) -> None:
    text, other = real
    how, changed = mutated(data, text, other)
    path = tmp_path_factory.mktemp("mutated") / "j.jsonl"
    path.write_bytes(changed)
    good = [json.loads(line) for line in text.splitlines()]
    for line in good:
        del line["n"], line["sum"]
    try:
        lines = read_journal(path)
    except InputError as error:
        message = str(error)
        assert "\n" not in message
        assert re.match(re.escape(f"{path}:") + r"\d+: ", message), message
        assert path.read_bytes() == changed, "what is damaged is left as it is, for whoever looks into it"
        at = len(changed) and next((k for k, (a, b) in enumerate(zip(text, changed, strict=False)) if a != b), None)
        if at is not None and how != "cut":
            first = changed[:at].count(b"\n") + 1
            said = int(message[len(str(path)) + 1 :].partition(":")[0])
            assert said in (first, first + 1), "it names the line where the journal stops being what was written"
        return
    assert lines == good[: len(lines)], "no line is read that was not written, and none is left out"
    assert text.startswith(path.read_bytes())
    if changed != text:
        assert text.startswith(changed) or changed.startswith(text), how
        assert len(lines) == changed.count(b"\n")


def test_two_arbiters_cannot_write_one_journal(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    first = Journal(path)
    first.note("task")
    with pytest.raises(InputError, match="another arbiter writes this journal"):
        Journal(path)
    first.close()
    again = Journal(path)
    again.note("advance", now_s=1.0)
    assert [line["op"] for line in read_journal(path)] == ["task", "advance"]


def test_a_disk_that_is_full_ends_the_run() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")
    journal = Journal()
    journal._file = os.open(full, os.O_WRONLY)
    for _ in range(2):  # and nothing is done after it, either
        with pytest.raises(RunError, match="the journal cannot be written: No space left on device"):
            journal.note("advance", now_s=1.0)
    journal.close()


def resumed(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    from meshwright.runtime.sharing.__main__ import main

    code = main(["serve", "--resume", str(path)])
    return code, capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        {"op": "update", "app": 1, "state": {"at_s": 1.0, "phase": 0}},
        {"op": "update", "app": 0, "state": {"at_s": 1.0, "phase": 7, "jobs": [{"job": 9, "left_s": 1, "gpus": [99]}]}},
        {"op": "arrive", "app": 12, "state": {"at_s": 1.0, "phase": 0}},
        {"op": "leave", "app": 2, "completed": True},
        {"op": "take", "app": 0, "gpus": [400]},
        {"op": "said", "app": 9, "state": {"at_s": 1.0, "phase": 0, "over": True}},
        {"op": "switch", "machine": 0, "up": True},
    ],
)
def test_lines_that_cannot_follow_those_before_them_are_one_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: dict[str, Any]
) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("uvicorn")
    path = tmp_path / "j.jsonl"
    task = Task(dozen(0, apps=3), PolicyChoice("fifo"), RunOptions())
    arrived = {"op": "arrive", "app": 0, "state": {"at_s": 0.5, "phase": 0}}
    first = {"op": "task", "format": 2, "task": to_document(task), "limit_s": 9.0, "port": 0}
    path.write_bytes(written([first, {"op": "begin", "epoch": time.monotonic() - 1e4}, arrived, line]))
    code, said = resumed(path, capsys)
    *_, last = said.strip().splitlines()
    assert code == 2
    assert last.startswith(f"error: {path}:4: {line['op']!r} cannot be done again on the books"), said
    assert said.count("error:") == 1


@pytest.mark.parametrize("task", [None, 7, {}, {"world": 1, "policy": 2, "options": 3}])
def test_a_task_that_is_none_is_one_error(tmp_path: Path, capsys: pytest.CaptureFixture[str], task: Any) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("uvicorn")
    path = tmp_path / "j.jsonl"
    path.write_bytes(written([{"op": "task", "format": 2, "task": task, "limit_s": 9.0, "port": 0}]))
    code, said = resumed(path, capsys)
    assert code == 2
    assert said.startswith(f"error: {path}:1: task: ")
    assert said.count("\n") == 1


def test_a_policy_that_decides_otherwise_is_not_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    world = dozen(0, apps=2)
    first = KeptLedger(world, baseline("fifo"), Journal(path))
    for app in (0, 1):
        jobs = (JobState(job=0, left_s=10.0 - app),)
        first.arrive(app, State(at_s=world.apps[app].arrival_s, phase=0, jobs=jobs))
    first.decide()
    second = KeptLedger(world, baseline("srsf"), Journal())  # the second has less left
    *before, decided = (json.loads(line) for line in path.read_text().splitlines())
    for line in before:
        second.redo(line)
    with pytest.raises(RunError, match=r"policy srsf decides otherwise at .* than its journal says"):
        second.redo(decided)
