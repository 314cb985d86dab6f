"""Graphs as JSON, formulas and operators: what comes back, and one clear line for what is wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.profiles.graph import (
    ZOO,
    Builder,
    Graph,
    Loop,
    Operator,
    Tensor,
    from_json,
    load_graph,
    parse,
    save_graph,
    zoo_graph,
)


def document() -> dict[str, Any]:
    return json.loads(zoo_graph("tiny-mlp").to_json())


def test_formulas_say_what_runs_over_what() -> None:
    formula = parse("b s h, h (n d) -> b s n d")
    assert formula.operands == ((("b",), ("s",), ("h",)), (("h",), ("n", "d")))
    assert formula.result == (("b",), ("s",), ("n",), ("d",))
    assert formula.loops == ("b", "s", "n", "d", "h")
    assert formula.reduced == ("h",)
    assert str(formula) == "b s h, h (n d) -> b s n d"
    assert parse("b ->").result == ()
    assert parse("b () -> b").operands == ((("b",), ()),)
    assert parse("-> s").operands == ()
    assert parse(". -> ").operands == ((),)
    assert parse("b, . -> b").operands == ((("b",),), ())


names = st.lists(st.sampled_from("abcdefgh"), max_size=4, unique=True)


@given(st.lists(st.tuples(names, st.integers(0, 3)), min_size=1, max_size=3), names)
def test_formulas_come_back_from_their_text(operands: list[tuple[list[str], int]], result: list[str]) -> None:
    from meshwright.profiles.graph import Formula

    def dims(loops: list[str], merged: int) -> tuple[tuple[str, ...], ...]:
        return tuple(g for g in (tuple(loops[:merged]), *((x,) for x in loops[merged:])) if g)

    formula = Formula(tuple(dims(*o) for o in operands), dims(result, 0))
    assert parse(str(formula)) == formula


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("b s h", "expected one '->' (got 'b s h')"),
        ("a -> b -> c", "expected one '->'"),
        ("a b, b [c] -> a", "unexpected '['"),
        ("(a (b c)) -> a", "unexpected '('"),
        ("(a 1b) -> a", "'1b' is no name of a loop"),
        ("a a -> a", "loop 'a' is named twice in one tensor"),
    ],
)
def test_wrong_formulas_have_one_clear_line(text: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


def test_operators_know_their_sizes_flops_and_what_can_be_cut() -> None:
    loops = (Loop("b", 2, batch=True), Loop("n", 4), Loop("d", 8), Loop("h", 32))
    op = Operator("q", "contraction", "b h, h (n d) -> b n d", ("x", "w"), loops)
    assert op.shape == (2, 4, 8)
    assert op.shape_of(op.parsed.operands[1]) == (32, 32)
    assert op.flops == 2 * 2 * 4 * 8 * 32
    assert op.bytes == 2 * 4 * 8 * 2
    assert op.cuttable == ("b", "n", "h")  # d is the minor part of a dimension of the weight
    norm = Operator("n", "norm", "b h -> b h", ("x",), (Loop("b", 2), Loop("h", 4, split="statistic")))
    assert norm.cuttable == ("b", "h")
    whole = Operator("v", "view", "b h -> b k", ("x",), (Loop("b", 1), Loop("h", 4, split="whole"), Loop("k", 2)))
    assert whole.cuttable == ("k",)  # a loop of one has nothing to cut


def test_convolutions_do_not_count_the_inputs_space() -> None:
    loops = [Loop(n, s) for n, s in {"b": 2, "c": 3, "k": 5, "i": 9, "j": 9, "y": 7, "x": 7, "p": 3, "q": 3}.items()]
    op = Operator("c", "convolution", "b c i j, k c p q -> b k y x", ("x", "w"), tuple(loops))
    assert op.flops == 2 * 2 * 5 * 7 * 7 * 3 * 3 * 3


@pytest.mark.parametrize("name", ZOO)
def test_graphs_come_back_from_their_text(name: str, tmp_path: Path) -> None:
    graph = zoo_graph(name, 4)
    assert from_json(graph.to_json()) == graph
    assert load_graph(save_graph(graph, tmp_path / "g.json")) == graph


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "plan"}, "not a Meshwright graph; expected an object with kind 'meshwright/graph'"),
        ({"version": 2}, "version: expected 1 (got 2)"),
        ({"name": 3}, "name: expected text (got 3)"),
        ({"batch": 1.5}, "batch: expected an integer (got 1.5)"),
        ({"batch": True}, "batch: expected an integer (got True)"),
        ({"batch": 0}, "batch: expected a positive integer (got 0)"),
        ({"items_per_sample": "many"}, "items_per_sample: expected a number (got 'many')"),
        ({"items_per_sample": -1}, "items_per_sample: expected a positive number"),
        ({"operators": []}, "no operators"),
        ({"operators": {}}, "operators: expected a list (got {})"),
        ({"parameters": [7]}, "parameters[0]: expected an object (got 7)"),
    ],
)
def test_wrong_documents_have_one_clear_line(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        from_json(json.dumps(document() | change), "g.json")
    assert str(caught.value).startswith("g.json: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "magic"}, "operators[1]: operator 'layers.0.add': unknown kind 'magic'; known: contraction"),
        ({"dtype": "float8"}, "unknown dtype 'float8'; known: float64"),
        ({"formula": "b f -> b f"}, "formula 'b f -> b f' has 1 operands"),
        ({"formula": 3}, "formula: expected text (got 3)"),
        ({"loops": "b=1*"}, "expected loops ('b', 'f') (got ('b',))"),
        ({"loops": "b=1* f=x"}, "loops: expected name=size with marks *, ~ or ! (got 'f=x')"),
        ({"loops": "b=1* f=0"}, "loop 'f': expected a positive size (got 0)"),
        ({"loops": "b=1* f=31"}, "operand 'layers.0' has shape (1, 32), the formula 'b f, f -> b f' says (1, 31)"),
        ({"inputs": "layers.0"}, "inputs: expected a list (got 'layers.0')"),
        ({"inputs": ["layers.0", 4]}, "inputs: expected names"),
        ({"inputs": ["layers.0", "nowhere"]}, "operator 'layers.0.add' reads 'nowhere', which is not defined"),
        ({"inputs": ["layers.0", "loss"]}, "operator 'layers.0.add' is in or after a cycle: loss <- "),
        ({"name": "layers.0"}, "'layers.0' is defined twice"),
        ({"saves": [2]}, "saves: expected operand positions or −1 (got (2,))"),
        ({"saves": [0.5]}, "saves: expected integers (got [0.5])"),
        ({"flops": "few"}, "flops: expected a number (got 'few')"),
        ({"attributes": {"fn": None}}, "attribute 'fn': expected text, a finite number or integers (got None)"),
        ({"attributes": {"fn": [1.5]}}, "attribute 'fn': expected text, a finite number or integers (got (1.5,))"),
        ({"layer": "first"}, "layer: expected an integer (got 'first')"),
    ],
)
def test_wrong_operators_have_one_clear_line(change: dict[str, Any], message: str) -> None:
    wrong = document()
    wrong["operators"][1] |= change
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        from_json(json.dumps(wrong), "g.json")
    assert "\n" not in str(caught.value)


def test_a_missing_field_is_named() -> None:
    wrong = document()
    del wrong["operators"][3]["loops"]
    with pytest.raises(InputError, match=re.escape("g.json: operators[3]: loops: missing; expected text")):
        from_json(json.dumps(wrong), "g.json")
    wrong = document()
    wrong["inputs"][0]["batch_dims"] = [2]
    with pytest.raises(InputError, match=re.escape("tensor 'features': batch_dims: expected dimensions of (1, 16)")):
        from_json(json.dumps(wrong))


def test_truncated_and_foreign_files_have_one_clear_line(tmp_path: Path) -> None:
    text = zoo_graph("tiny-mlp").to_json()
    for cut in (0, 1, len(text) // 2, len(text) - 3):
        with pytest.raises(InputError, match=r"g.json: not JSON"):
            from_json(text[:cut], "g.json")
    for foreign in ("[]", "3", "null", '"graph"', "[" * 100_000):
        with pytest.raises(InputError, match=r"g.json: not"):
            from_json(foreign, "g.json")
    path = tmp_path / "g.json"
    with pytest.raises(InputError, match="cannot read the graph"):
        load_graph(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not UTF-8 text"):
        load_graph(path)


def test_operators_out_of_order_are_no_cycle() -> None:
    graph = zoo_graph("tiny-mlp")
    first, second, *rest = graph.operators
    with pytest.raises(InputError, match=r"reads 'layers.0' before it is made; operators must be in topological order"):
        Graph(graph.name, 1, graph.inputs, graph.parameters, (second, first, *rest))


def test_a_cycle_is_shown() -> None:
    x = Tensor("x", (1, 4), "float32", (0,))
    loops = (Loop("b", 1, batch=True), Loop("h", 4))
    ops = [Operator(n, "elementwise", "b h, b h -> b h", ("x", m), loops) for n, m in ("ac", "ba", "cb")]
    with pytest.raises(InputError, match="operator 'a' is in or after a cycle: c <- b <- a <- c"):
        Graph("ring", 1, (x,), (), tuple(ops))


def test_a_batch_that_does_not_divide_is_refused() -> None:
    b = Builder("merged", batch=4, dtype="float32")
    x = b.input("x", 6, dtype="float32")
    y = b.add("y", "view", "(b c) h -> b c h", x, sizes={"c": 2})
    b.add("loss", "reduction", "b c h ->", y, fn="mean")
    graph = b.graph(1, "samples", "test")
    assert graph.with_batch(6).operators[0].shape == (3, 2, 6)
    with pytest.raises(InputError, match=r"graph 'merged': y.b of size 2 does not scale from batch 4 to 3"):
        graph.with_batch(3)


def test_builders_say_what_does_not_fit() -> None:
    b = Builder("wrong")
    x = b.input("x", 6)
    for formula, inputs, message in (
        ("b h, h k -> b k", (x,), "has 2 operands"),
        ("b h -> b h", ("z",), "reads 'z', which is not defined"),
        ("b h -> b k", (x,), "no size for loop 'k'; give sizes"),
        ("b (n d) -> b n d", (x,), "no sizes for loops ['n', 'd']; give sizes"),
        ("b -> b", (x,), "an operand of shape (1, 6) has 1 dimensions"),
        ("b h, h b -> b h", (x, x), "run over a size of"),
    ):
        with pytest.raises(InputError, match=re.escape(message)):
            b.add("y", "elementwise", formula, *inputs)
    with pytest.raises(InputError, match=re.escape("loops ('n', 'd')")):
        b.add("y", "view", "b (n d) -> b n d", x, sizes={"n": 4, "d": 4})
    with pytest.raises(InputError, match=re.escape("expected a positive size")):
        b.add("y", "view", "b (n d) -> b n d", x, sizes={"n": 4})
