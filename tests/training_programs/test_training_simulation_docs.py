"""The examples of docs/training-simulation.md run, and say what the page says."""

import re
from pathlib import Path

import pytest
from meshwright.seeds import generator
from meshwright.simulator.training import Timing, make_program
from meshwright.simulator.training.compiled import run_compiled
from meshwright.simulator.training.timing import prepared

PAGE = Path(__file__).resolve().parents[2] / "docs" / "training-simulation.md"
PAGE_TEXT = PAGE.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """All blocks in order, in one namespace."""
    space = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("docs"))
        for block in re.findall(r"```python\n(.*?)```", PAGE_TEXT, re.DOTALL):
            exec(compile(block, str(PAGE), "exec"), space)
        assert Path("iteration.json").exists()
    return space


def test_program(names):
    assert str(names["program"]).startswith("mesh 0: F0.0 SEND_F0~1.0 SEND_F0~2.0 F0.1 ")
    assert str(names["program"].actions[0][1]) == "SEND_F0~1.0"


def test_stages_with_their_own_microbatches_and_slices(names):
    line = str(names["uneven"]).splitlines()[2]
    assert line.startswith("mesh 2: RECV_F2~1.0 RECV_F2~1.1 F2.0 B2.0 SEND_B2~1.0 RECV_F2~1.2 ")
    assert names["uneven"].microbatches_of == (4, 8, 4)
    assert names["by_hand"].microbatches_of == (2, 4)
    assert str(names["sliced"].actions[1][4]) == "B1.0/1"
    assert names["times"].finish.max() == (5 + 2 - 1) * (1.0 + 2.0)  # equal slices: as under `terapipe`, Eq. 2.5


def test_seconds_of_resharding(names):
    way = names["way"]
    said = re.search(r"# ([\d.]+) ms, ([\d.]+) ms; send_recv takes ([\d.]+) ms", PAGE_TEXT)
    naive = names["reshard_across"](64e6, names["two"], "S1R", names["four"], "S1R", method="send_recv")
    for text, seconds in zip(said.groups(), (way.seconds, way.gather_s, naive.seconds), strict=True):
        assert text == f"{seconds * 1e3:.1f}"


def test_the_plan_fits(names):
    assert names["result"].fits
    assert names["result"].seconds > names["result"].pipeline_s


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
