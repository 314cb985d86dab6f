"""The page on training graphs says what is so: its tables, the functions that it lists."""

from __future__ import annotations

import re
from pathlib import Path

from meshwright.kernels.networks import network_spec
from meshwright.kernels.training import FUNCTIONS
from meshwright.profiles.graph import INFERENCE, KINDS, PAPER_PARAMS, ZOO, zoo_graph

PAGE = Path(__file__).parents[3] / "docs" / "training-graphs.md"
TEXT = PAGE.read_text(encoding="utf-8")


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


def test_the_table_of_networks_is_the_networks() -> None:
    text = PAGE.with_name("inference-graphs.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| `([a-z0-9-]+)` \| (\d+) \| ([\d.]+) \| ([\d.]+) \| [^|]+ \| [\d]+ \| ([^|]+) \|$", text)
    assert [row[0] for row in rows] == list(INFERENCE)
    for name, operators, params, flops, sizes in rows:
        graph = zoo_graph(name)
        assert len(graph.operators) == int(operators)
        assert f"{graph.params / 1e6:.2f}" == params
        assert f"{graph.forward_flops / 1e9:.2f}" == flops
        assert sorted(sizes.replace("`", "").split()) == sorted(network_spec(name).sizes)
