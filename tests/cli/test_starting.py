"""A command loads what it needs, and leaves the process's environment as it was."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from meshwright.cli.doors.single import THREADS

NEEDLESS = (
    "matplotlib", "meshwright.planners.vllm.planner", "meshwright.simulator.llm.reference",
    "meshwright.simulator.serving", "numpy.ma", "pandas", "scipy.linalg", "simpy",
)  # fmt: skip
"""What a simulation of an LLM plan does without; each takes some ten milliseconds to load, or more."""

RUN = f"""
import os, sys
sys.argv = ["meshwright", *{{words}}]
from meshwright.__main__ import main
try:
    main()
except SystemExit as done:
    print(done.code, os.environ.get({THREADS!r}), [name for name in {NEEDLESS} if name in sys.modules])
"""


def ran(folder: Path, words: list[str], **environment: str) -> str:
    """What the process says in the end: its exit code, how many threads NumPy may have, what is loaded."""
    done = subprocess.run(
        [sys.executable, "-c", RUN.format(words=words)], cwd=folder, capture_output=True, text=True, check=True,
        env={k: v for k, v in os.environ.items() if k != THREADS} | environment,
    )  # fmt: skip
    return done.stdout.splitlines()[-1]


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    words = "plan llm --planner fixed --model llama-3.1-8b --device h100-80gb --devices 1 --lengths alpaca --rate 2"
    assert ran(tmp_path, [*words.split(), "--duration", "5", "--out", "p.json"]).startswith("0 None")
    return tmp_path


def test_an_llm_simulation_loads_what_it_needs(plan: Path) -> None:
    """The kernel may have to be compiled first, which needs more."""
    words = ["simulate", "p.json", "--duration", "5"]
    ran(plan, words)
    assert ran(plan, words) == "0 None []"
    assert ran(plan, words, **{THREADS: "3"}) == "0 3 []"
