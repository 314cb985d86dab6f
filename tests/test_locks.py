"""The locks: what pyproject.toml asks for, at the versions of constraints.txt, with hashes, and of no address."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOCKS = {"run.txt": ("torch", "serve"), "dev.txt": ("dev",)}
OTHERWISE = {"torch"}
"""Installed beside the locks: which build it is depends on where it comes from."""


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return {plain(n): v for n, _, v in (line.partition("==") for line in lines if "==" in line and line[0] != "#")}


@cache
def locked(name: str) -> dict[str, list[tuple[str, list[str]]]]:
    """Package -> for each of its entries (there may be one for each Python) version and hashes."""
    found: dict[str, list[tuple[str, list[str]]]] = {}
    text = (ROOT / "locks" / name).read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        match = re.fullmatch(
            r"([A-Za-z0-9_.-]+)(?:\[[^]]*\])?==([^ ;]+)( *;[^\\]*?)?((?: +--hash=sha256:[0-9a-f]{64})+) *", line
        )
        assert match is not None, f"{name}: {line[:100]}"
        hashes = re.findall(r"sha256:([0-9a-f]{64})", match[4])
        assert len(set(hashes)) == len(hashes)
        found.setdefault(plain(match[1]), []).append((match[2], hashes))
    return found


def asked(extras: tuple[str, ...]) -> set[str]:
    """Packages that pyproject.toml names for some extras, those that these bring in included."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    words, seen = list(project["dependencies"]), set[str]()
    waiting = list(extras)
    while waiting:
        extra = waiting.pop()
        if extra not in seen:
            seen.add(extra)
            for word in optional[extra]:
                own = re.fullmatch(r"meshwright\[([^]]+)\]", word)
                if own is not None:
                    waiting += [one.strip() for one in own[1].split(",")]
                else:
                    words.append(word)
    names = [re.match(r"[A-Za-z0-9_.-]+", word) for word in words]
    return {plain(name[0]) for name in names if name is not None}


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_holds_all_that_is_asked_for_at_the_pinned_versions(name: str) -> None:
    entries = locked(name)
    assert not (asked(LOCKS[name]) - OTHERWISE) - entries.keys(), "make locks"
    assert not OTHERWISE & entries.keys()
    for package, found in entries.items():
        for version, hashes in found:
            assert hashes, package
            assert pins().get(package, version) == version, f"{package}: make locks"


def test_every_pin_is_locked() -> None:
    assert not (pins().keys() - OTHERWISE) - locked("dev.txt").keys()


def test_the_locks_agree_with_each_other() -> None:
    run, dev = locked("run.txt"), locked("dev.txt")
    assert {name: found for name, found in run.items() if dev.get(name) != found} == {}


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_names_no_address(name: str) -> None:
    """Nor a local file: where packages come from is each machine's own."""
    text = (ROOT / "locks" / name).read_text(encoding="utf-8")
    assert "//" not in text
    assert not re.search(r"^\s*-", text.replace("    --hash=", ""), re.MULTILINE), "no option but hashes"


def test_make_installs_by_the_locks() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    installs = [line.strip() for line in text.splitlines() if line.startswith("\t$(") and "venv" not in line]
    lines = [line for line in installs if line.startswith(("$(LOCKED)", "$(PIP)", "$(OWN)"))]
    assert [line for line in lines if line.startswith("$(PIP)")] == ["$(PIP) -c constraints.txt torch"] * 2
    assert [line for line in lines if line.startswith("$(LOCKED)")] == [
        "$(LOCKED) locks/run.txt",
        "$(LOCKED) locks/dev.txt",
    ]
    assert "--require-hashes" in text
