"""The difference of two plans in words: groups split, merged or reconfigured, replicas lost, gained and moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from .decision import Decision, GroupRecord, Window

__all__ = ["describe"]

SHOWN = 6
"""Things of a kind that are named one by one; of the others only how many there are is said."""


def describe(old: Decision, new: Decision) -> str:
    """What a planner decided differently, in a sentence; empty if the two are the same.

    Devices of one cluster are alike, so that groups that only bear other numbers count as moved, not as new ones.
    """
    if old == new:
        return ""
    if len(old.windows) == len(new.windows) == 1:
        return _window(old.windows[0], new.windows[0])
    if [w.start for w in old.windows] != [w.start for w in new.windows]:
        return f"the schedule has {_count(len(new.windows), 'window')} instead of {len(old.windows)}, or other starts"
    changed = [k for k, (a, b) in enumerate(zip(old.windows, new.windows, strict=True)) if a.groups != b.groups]
    if not changed:
        return "another rule at the boundaries of windows"
    k = changed[0]
    first = _window(old.windows[k], new.windows[k])
    return (
        f"{len(changed)} of {len(old.windows)} windows differ; the first of them (from "
        f"{old.windows[k].start:g} s): {first}"
    )


def _window(old: Window, new: Window) -> str:
    said = [*_partition(old.groups, new.groups), *_replicas(old.groups, new.groups)]
    if not said:
        said = _moved(old.groups, new.groups)
    return "; ".join(said) or "the same groups in another order or on other devices"


def _partition(old: Sequence[GroupRecord], new: Sequence[GroupRecord]) -> list[str]:
    """How the devices are grouped differently."""
    before, after = Counter(g.config for g in old), Counter(g.config for g in new)
    gone, come = before - after, after - before
    said: list[str] = []
    if gone or come:
        was, now = _configs(gone), _configs(come)
        n_gone, n_come = gone.total(), come.total()
        one = n_gone == 1
        if not n_come:
            said.append(f"{was} {'was' if one else 'were'} given up")
        elif not n_gone:
            said.append(f"{now} {'was' if n_come == 1 else 'were'} added")
        elif _devices(gone) != _devices(come) or (n_gone == n_come and _sizes(gone) != _sizes(come)):
            said.append(f"{was} became {now}")
        elif n_gone < n_come:
            said.append(f"{was} {'was' if one else 'were'} split into {now}")
        elif n_gone > n_come:
            said.append(f"{was} were merged into {now}")
        else:
            said.append(f"{was} {'was' if one else 'were'} reconfigured to {now}")
    used = sum(len(g.devices) for g in old), sum(len(g.devices) for g in new)
    if used[0] != used[1]:
        said.append(f"{_count(used[1], 'device')} used instead of {used[0]}")
    return said


def _replicas(old: Sequence[GroupRecord], new: Sequence[GroupRecord]) -> list[str]:
    """Which models have fewer or more replicas."""
    before, after = (Counter(m for g in groups for m in g.models) for groups in (old, new))
    names = sorted(before | after, key=_natural)
    fewer = [n for n in names if after[n] < before[n]]
    more = [n for n in names if after[n] > before[n]]
    none = [n for n in fewer if not after[n]]
    said: list[str] = []
    if none:
        said.append(f"without any replica now: {_listed(none)}")
    for verb, changed in (("fewer", [n for n in fewer if n not in none]), ("more", more)):
        if changed:
            said.append(f"{verb} replicas: {_listed([f'{n} ({before[n]} → {after[n]})' for n in changed])}")
    if said and before.total() != after.total():
        said.append(f"{_count(after.total(), 'replica')} in all instead of {before.total()}")
    return said


def _moved(old: Sequence[GroupRecord], new: Sequence[GroupRecord]) -> list[str]:
    """Where the same number of replicas of every model stand together differently."""
    gone = Counter((g.config, frozenset(g.models)) for g in old)
    come = Counter((g.config, frozenset(g.models)) for g in new)
    gone, come = gone - come, come - gone
    left = sorted(gone.elements(), key=_group_key)
    said: list[str] = []
    for config, models in sorted(come.elements(), key=_group_key):
        same = [g for g in left if g[0] == config]
        if not same:
            continue
        was = max(same, key=lambda g: len(g[1] & models))
        left.remove(was)
        lost, won = sorted(was[1] - models, key=_natural), sorted(models - was[1], key=_natural)
        parts = [f"{word} {_listed(names)}" for word, names in (("gives", lost), ("takes", won)) if names]
        said.append(f"a group of {config} " + " and ".join(parts))
    return [f"replicas moved between groups: {_listed(said, 4)}"] if said else []


def _configs(counts: Counter[str]) -> str:
    return " and ".join(f"{n} groups of {c}" if n > 1 else f"a group of {c}" for c, n in sorted(counts.items()))


def _size(config: str) -> int:
    op, _, pp = config.removeprefix("op").partition("pp")
    return int(op) * int(pp)


def _devices(counts: Counter[str]) -> int:
    return sum(_size(c) * n for c, n in counts.items())


def _sizes(counts: Counter[str]) -> list[int]:
    return sorted(_size(c) for c in counts.elements())


def _group_key(group: tuple[str, frozenset[str]]) -> tuple[str, list[str]]:
    return group[0], sorted(group[1])


def _natural(name: str) -> tuple[str, int, str]:
    """``m-2`` before ``m-10``."""
    stem, _, number = name.rpartition("-")
    return (stem, int(number), name) if number.isdecimal() else (name, -1, name)


def _listed(items: Iterable[str], shown: int = SHOWN) -> str:
    names = list(items)
    rest = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {rest} more" if rest > 0 else "")


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"
