"""Cost tables and kept costs as files: the same again, and one line for what is damaged."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from meshwright.errors import InputError
from meshwright.profiles.backends import (
    Conversion,
    CostTable,
    InferenceGraph,
    Kept,
    Machine,
    Match,
    Node,
    Provenance,
    Refused,
    Used,
    Value,
    cost_key,
    load_costs,
    load_kept,
    merge_kept,
    save_costs,
    unit_key,
)

GRAPH = InferenceGraph(
    (Value("x", (2, 3), "float32", (3, 1)),),
    (Value("w", (3, 3)),),
    (
        Node("a", "linear", ("x", "w"), (("scale", 0.5), ("sizes", (1, 2)), ("flag", None)), Value("a", (2, 3))),
        Node("b", "relu", ("a",), (), Value("b", (2, 3))),
    ),
    "b",
)
TABLE = CostTable(
    GRAPH,
    (Used("one", "operator library", "1", 0.002), Used("all", "graph library", "2", 0.005)),
    (Match("one", ("a",), "a", 0.5, 0.01, 5, 0.0), Match("one", ("b",), "b", 0.25, 0.2, 50, 0.0),
     Match("all", ("a", "b"), "b", 0.6, 0.1, 5, 1e-6)),
    (Refused("all", ("b",), "b", "wrong: it differs", 0.1),),
    (Conversion((1, 2, 3, 4), "float32", "channels_last", 0.01),),
    Provenance("tiny", 2, Machine("a cpu", 1), (("torch", "2"),), "2026-11-28T00:00:00+00:00", 3, 0, 1.5),
)  # fmt: skip


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert load_costs(save_costs(TABLE, tmp_path / "costs.json")) == TABLE


def test_a_table_needs_no_torch(tmp_path: Path) -> None:
    path = save_costs(TABLE, tmp_path / "costs.json")
    code = "import sys; from meshwright.profiles.backends import load_costs; load_costs(sys.argv[1]).instance(); "
    code += "print(sorted({'torch', 'numba', 'pandas'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_planners_get() -> None:
    """Positions for ids; what a backend's context costs above the least is in its matches."""
    instance = TABLE.instance()
    assert instance["nodes"] == [{"id": 0, "op": "linear", "inputs": [-1]}, {"id": 1, "op": "relu", "inputs": [0]}]
    assert [one["cost"] for one in instance["matches"]] == pytest.approx([0.5, 0.25, 0.603])
    assert [one["nodes"] for one in instance["matches"]] == [[0], [1], [0, 1]]
    assert instance["eps"] == 0.002
    assert list(TABLE.whole()) == ["all"]


def test_an_operator_that_nobody_takes() -> None:
    alone = replace(TABLE, matches=TABLE.matches[:1])
    with pytest.raises(InputError, match=r"takes operator 'b' \(relu\) \(all: wrong: it differs\), 1 operators in all"):
        alone.check_covered()


def _damage(text: str, how: str) -> str:
    document = json.loads(text)
    if how == "half":
        return text[: len(text) // 2]
    if how == "format":
        document["format"] = "other"
    if how == "version":
        document["version"] = 7
    if how == "missing":
        del document["matches"][0]["cost_ms"]
    if how == "negative":
        document["matches"][0]["cost_ms"] = -1.0
    if how == "type":
        document["matches"][0]["cost_ms"] = "fast"
    if how == "stranger":
        document["matches"][0]["backend"] = "nobody"
    if how == "node":
        document["matches"][0]["nodes"] = ["z", "a"]
    if how == "list":
        document["used"] = {}
    return json.dumps(document)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("half", "damaged: not JSON"), ("format", "expected what says the format"), ("version", "expected version 1"),
        ("missing", r"matches\[0\]: 'cost_ms' is missing"), ("negative", "cost_ms: expected >= 0"),
        ("type", r"matches\[0\].cost_ms: expected float \(got 'fast'\)"), ("stranger", "on backend 'nobody'"),
        ("node", "no node is called 'z'"), ("list", "used: expected a list"),
    ],
)  # fmt: skip
def test_a_damaged_table(tmp_path: Path, how: str, words: str) -> None:
    path = save_costs(TABLE, tmp_path / "costs.json")
    path.write_text(_damage(path.read_text(), how))
    with pytest.raises(InputError, match=words) as caught:
        load_costs(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_kept_costs(tmp_path: Path) -> None:
    path, cost, no = tmp_path / "kept.json", Kept(0.5, 0.1, 5, 0.0), Kept(error=0.1, reason="wrong")
    assert load_kept(path) == {}
    merge_kept(path, {"a": cost})
    merge_kept(path, {"b": no})
    assert load_kept(path) == {"a": cost, "b": no}
    path.write_text(path.read_text().replace("0.5", '"x"'))
    with pytest.raises(InputError, match="damaged: cost_ms: expected float"):
        load_kept(path)
    with pytest.raises(InputError, match="or a reason"):
        Kept(0.5)


def test_units_are_known_by_what_they_compute() -> None:
    """Names and weights do not matter; attributes, shapes, strides and what is read outside do."""

    def of(setting: int = 1, shape: tuple[int, ...] = (2, 3), strides: tuple[int, ...] = (3, 1), twice: bool = False):
        nodes = (
            Node("a", "scale", ("x",), (("by", setting),), Value("a", shape)),
            Node("b", "relu", ("a",), (), Value("b", shape)),
            Node("c", "add", ("b", "a") if twice else ("b", "x"), (), Value("c", shape)),
        )
        graph = InferenceGraph((Value("x", shape, "float32", strides),), (), nodes, "c")
        return unit_key(graph, 0b11)

    keys = {of(), of(setting=2), of(shape=(2, 4)), of(strides=(1, 2)), of(twice=True)}
    assert len(keys) == 5
    same = InferenceGraph(
        (Value("y", (2, 3), "float32", (3, 1)),), (),
        (
            Node("p", "scale", ("y",), (("by", 1),), Value("p", (2, 3))),
            Node("q", "relu", ("p",), (), Value("q", (2, 3))),
        ),
        "q",
    )  # fmt: skip
    assert unit_key(same, 0b11) == of()
    here = [
        cost_key("u", "b", v, Machine(c, t)) for v, c, t in [("1", "x", 1), ("2", "x", 1), ("1", "y", 1), ("1", "x", 2)]
    ]
    assert len(set(here)) == 4
