"""The arbiter's journal: done again, it makes the same books and the same policy; damaged ones say so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError, RunError
from meshwright.planners.themis import Themis
from meshwright.runtime.sharing.dozen import dozen
from meshwright.runtime.sharing.journal import Journal, KeptLedger, read_journal
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


def test_a_line_cut_short_is_taken_off(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    journal = Journal(path)
    journal.note("task", task=1)
    journal.note("advance", now_s=5.0)
    journal.close()
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"op": "advance", "now')
    assert [line["op"] for line in read_journal(path)] == ["task", "advance"]
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no journal: it does not begin with a task"),
        ('{"op": "advance", "now_s": 1}\n', "no journal: it does not begin with a task"),
        ('{"op": "task"}\nnonsense\n', "line 2: no line of a journal"),
        ('{"op": "task"}\n[]\n', "line 2: no line of a journal"),
        (None, "cannot be read: No such file"),
    ],
)
def test_what_is_no_journal_says_so(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "j.jsonl"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=said):
        read_journal(path)


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
