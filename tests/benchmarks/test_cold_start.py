"""CPU seconds of every command of the README, with nothing compiled (cold) and once more (warm); only printed.

The difference is what a first user waits for: at most 10 s, 20 s where Themis shares, on a machine at rest. Commands
run in their order, in one folder for each section, each cold one with an empty `NUMBA_CACHE_DIR` of its own.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOR_EVER = ("--serve", "meshwright compare")
"""A server, and a comparison that measures this machine for minutes."""

SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
BLOCK = re.compile(r"```bash\n(.*?)```", re.DOTALL)


def sections() -> dict[str, list[str]]:
    """Commands of the README's shell blocks, by the heading above them."""
    parts = SECTION.split((ROOT / "README.md").read_text(encoding="utf-8"))
    found: dict[str, list[str]] = {"help": ["meshwright --help"]}
    for title, text in zip(parts[1::2], parts[2::2], strict=True):
        lines = "".join(BLOCK.findall(text)).replace("\\\n", " ").splitlines()
        commands = [re.sub(r"\s+#.*", "", line).strip() for line in lines if line.startswith("meshwright ")]
        if commands := [line for line in commands if not any(word in line for word in FOR_EVER)]:
            found[title.lower().replace(" ", "-")] = commands
    return found


def cpu_s(command: str, folder: Path, kept: Path) -> tuple[float, int]:
    """CPU seconds of a command and its processes, and its exit code."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = os.environ | {"PATH": path, "NUMBA_CACHE_DIR": str(kept)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=env, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        print(done.stderr[-2000:])
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.returncode


def test_the_readme_has_commands() -> None:
    assert {"training", "llm-serving", "sharing-a-cluster"} <= set(sections())


@pytest.mark.parametrize("section", sections())
def test_commands_cold_and_warm(section: str, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    rows: list[str] = []
    for at, command in enumerate(sections()[section]):
        kept = tmp_path / f"kept-{at}"
        kept.mkdir()
        (cold, first), (warm, second) = (cpu_s(command, tmp_path, kept) for _ in range(2))
        rows.append(f"{cold:7.2f} {warm:7.2f} {cold - warm:7.2f}  {command}")
        assert (first, second) == (0, 0), command
    print("\n   cold    warm    more  CPU s\n" + "\n".join(rows))
