"""The page on training graphs says what is so: its tables, its example, the functions that it lists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from meshwright.kernels.training import FUNCTIONS
from meshwright.profiles.graph import KINDS, PAPER_PARAMS, ZOO, load_graph, zoo_graph
from torch import nn

PAGE = Path(__file__).parents[2] / "docs" / "training-graphs.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = re.findall(r"(?m)(?:^    .*\n|^\n(?=    ))+", TEXT)


def test_the_first_example_runs() -> None:
    names: dict[str, object] = {}
    exec("\n".join(line[4:] for line in BLOCKS[0].splitlines()), names)
    assert names["op"].formula == "b s h, h n d -> b s n d"  # type: ignore[attr-defined]
    assert names["op"].loop("b").batch  # type: ignore[attr-defined]


def test_the_example_of_a_trace_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = [b for b in BLOCKS if "from_torch(" in b]
    monkeypatch.chdir(tmp_path)
    tokens = torch.zeros(2, 6, dtype=torch.int64)
    names = {"module": nn.Sequential(nn.Embedding(10, 8), nn.Linear(8, 10)), "tokens": tokens, "labels": tokens}
    exec("\n".join(line[4:] for line in block.splitlines()), names)
    assert load_graph("model.json") == names["graph"]


def test_the_table_of_the_zoo_is_the_zoo() -> None:
    rows = re.findall(r"(?m)^\| `([a-z0-9.-]+)` \| (\d+) \| ([\d.]+) \| ([\d.]*) \| ([\d.,]+) \|$", TEXT)
    assert [row[0] for row in rows] == [name for name in ZOO if not name.startswith("tiny")]
    for name, operators, params, paper, flops in rows:
        graph = zoo_graph(name)
        assert len(graph.operators) == int(operators)
        assert f"{graph.params / 1e9:.3f}" == params
        assert paper == (f"{PAPER_PARAMS[name] / 1e9:g}" if name in PAPER_PARAMS else "")
        assert f"{sum(op.flops for op in graph.operators if op.heavy) / 1e9:,.1f}" == flops


def test_every_kind_and_function_is_in_the_tables() -> None:
    table = TEXT[TEXT.index("## Operators") : TEXT.index("## Which loops")]
    assert set(re.findall(r"(?m)^\| `(\w+)` \|", table)) == set(KINDS)
    named = set(re.findall(r"`(\w+)`", table))
    assert set(FUNCTIONS) <= named
    used = {str(op.attributes["fn"]) for name in ZOO for op in zoo_graph(name).operators if op.kind == "elementwise"}
    assert used <= named
