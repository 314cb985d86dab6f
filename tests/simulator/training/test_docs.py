"""docs/training-simulation.md: the ranges that it states are what comes out."""

import re
from pathlib import Path

from meshwright.seeds import generator
from meshwright.simulator.training import Timing, make_program
from meshwright.simulator.training.compiled import run_compiled
from meshwright.simulator.training.timing import prepared

PAGE = Path(__file__).resolve().parents[3] / "docs" / "training-simulation.md"
PAGE_TEXT = PAGE.read_text(encoding="utf-8")


def test_equation_2_on_unequal_stages():
    """The ranges on the page: simulated seconds over Eq. 2's, of 500 random pipelines under each schedule."""
    draw = generator(0, "unequal stages")
    ranges = []
    for schedule in ("1f1b", "gpipe"):
        ratios = []
        for _ in range(500):
            p = int(draw.integers(2, 9))
            m = int(draw.integers(p, 40))
            f = draw.uniform(0.2, 1.0, p)
            b = draw.uniform(0.2, 2.0, p)
            program = make_program(schedule, p, m)
            seconds = run_compiled(program, prepared(program, Timing(f, b))).finish.max()
            ratios.append(seconds / (sum(f + b) + (m - 1) * max(f + b)))
        ranges += [min(ratios), max(ratios)]
    said = re.search(
        r"1F1B took ([\d.]+) to ([\d.]+) times as long.*?GPipe ([\d.]+) to ([\d.]+) times", PAGE_TEXT, re.DOTALL
    )
    assert [float(x) for x in said.groups()] == [float(f"{x:.3g}") for x in ranges]
