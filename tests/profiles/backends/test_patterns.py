"""The pattern language, and where patterns fit."""

from __future__ import annotations

import pytest
from meshwright.errors import InputError
from meshwright.profiles.backends import Backend, InferenceGraph, Node, Value, is_op, matches_at, offers, wildcard

SHAPE = (1, 8, 4, 4)


def graph(*rows: tuple[str, str, str], output: str | None = None, **settings: dict[str, object]) -> InferenceGraph:
    """Rows of a node's id, its op and what it reads; ``x`` is the input, ``w…`` are parameters."""
    read = {name for _, _, names in rows for name in names.split()}
    parameters = tuple(Value(name, (8, 8, 3, 3)) for name in sorted(read) if name[0] == "w")
    nodes = tuple(
        Node(
            id, op, tuple(names.split()), tuple(settings.get(id, {}).items()), Value(id, SHAPE),
            tuple((8, 8, 3, 3) if name[0] == "w" else SHAPE for name in names.split()),
        )
        for id, op, names in rows
    )  # fmt: skip
    return InferenceGraph((Value("x", SHAPE),), parameters, nodes, output or rows[-1][0])


RESIDUAL = graph(
    ("a", "conv2d", "x w1"), ("b", "batch_norm", "a w2 w3 w4 w5"), ("c", "add", "b x"), ("d", "relu", "c"),
    a={"stride": (1, 1), "groups": 1},
)  # fmt: skip


def found(pattern, of: InferenceGraph = RESIDUAL) -> list[str]:
    """All matches, as the ids of their nodes."""
    sets = [bits for root in range(len(of.nodes)) for bits in matches_at(of, pattern, root)]
    return ["".join(node.id for k, node in enumerate(of.nodes) if bits >> k & 1) for bits in sets]


CONV = is_op("conv2d")(wildcard(), wildcard())


@pytest.mark.parametrize(
    ("pattern", "nodes"),
    [
        (CONV, ["a"]),
        (is_op("conv2d"), ["a"]),
        (is_op("conv2d")(wildcard()), ["a"]),  # its weight is a parameter at the end
        (is_op("conv2d")(wildcard(), wildcard(), wildcard()), []),  # it has no bias
        (is_op("batch_norm")(CONV), ["ab"]),
        (is_op("relu")(is_op("add")(is_op("batch_norm")(CONV), wildcard())), ["abcd"]),
        (is_op("relu")(is_op("add")(wildcard(), is_op("batch_norm")(CONV))), ["abcd"]),  # additions commute
        (is_op("add")(wildcard(), wildcard()), ["c"]),
        (is_op("relu")(is_op("add") | is_op("batch_norm")), ["cd"]),
        (CONV | is_op("relu"), ["a", "d"]),
        (CONV.has_attr({"groups": 1, "stride": [1, 1]}), ["a"]),
        (CONV.has_attr({"groups": 2}), []),
        (CONV.has_attr({"ndim": 4, "dtype": "float32", "shape": lambda shape: shape[1] == 8}), ["a"]),
        (CONV.has_attr({"shapes": lambda shapes: shapes[1][2:] == (1, 1)}), []),
        (CONV.has_attr({"no_such": None}), ["a"]),
    ],
)
def test_where_patterns_fit(pattern, nodes) -> None:
    assert found(pattern) == nodes


def test_operands_keep_their_order() -> None:
    """Only what commutes may be turned round."""
    turned = graph(("a", "relu", "x"), ("b", "sub", "x a"))
    assert found(is_op("sub")(wildcard(), is_op("relu")), turned) == ["ab"]
    assert found(is_op("sub")(is_op("relu"), wildcard()), turned) == []


def test_a_match_that_waits_for_itself_is_none() -> None:
    """a → b → c and a → c: without b, the set of a and c would need b's value before it has given its own."""
    diamond = graph(("a", "relu", "x"), ("b", "tanh", "a"), ("c", "add", "a b"))
    assert found(is_op("add")(is_op("relu"), wildcard()), diamond) == []
    assert found(is_op("add")(is_op("relu"), is_op("tanh")(is_op("relu"))), diamond) == ["abc"]


def test_values_inside_may_be_read_outside() -> None:
    """They are results, too."""
    forked = graph(("a", "relu", "x"), ("b", "tanh", "a"), ("c", "add", "b a"))
    assert found(is_op("tanh")(is_op("relu")), forked) == ["ab"]
    assert forked.results(forked.bits("ab")) == ("a", "b")
    assert forked.reads(forked.bits("bc")) == ("a",)


class Two(Backend):
    name = "two"
    patterns = ((is_op("relu"), is_op("tanh")),)  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: is_op(""), "expected an operator's name"),
        (lambda: is_op("relu")("x"), "expected patterns as arguments"),
        (lambda: is_op("relu")()(wildcard()), "given its arguments twice"),
        (lambda: is_op("relu") | "x", "either side of |"),
        (lambda: offers(RESIDUAL, [Two()]), "a pattern has one root, whose value is the result (got 2)"),
        (lambda: offers(RESIDUAL, [_with(wildcard())]), "begin with is_op"),
        (lambda: offers(RESIDUAL, [_with("relu")]), "expected a pattern such as"),
        (lambda: offers(RESIDUAL, [_with(is_op("relu"), kind="gpu")]), "expected kind 'operator library' or"),
        (lambda: offers(RESIDUAL, [Backend()]), "expected a name"),
        (lambda: offers(RESIDUAL, [_with()]), "it takes nothing"),
        (lambda: offers(RESIDUAL, [_with(is_op("relu"))], {"three": [is_op("relu")]}), "not among two"),
        (lambda: found(CONV.has_attr({"groups": lambda g: g.x})), "the condition on 'groups' of 'conv2d' raised"),
    ],
)
def test_what_is_malformed_is_said(wrong, words) -> None:
    with pytest.raises(InputError) as caught:
        wrong()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def _with(*patterns, kind: str = "operator library") -> Backend:
    backend = Backend()
    backend.name, backend.kind, backend.patterns = "two", kind, patterns  # type: ignore[assignment]
    return backend


def test_a_pattern_is_added_in_one_line() -> None:
    pool = is_op("add")(wildcard(), wildcard())
    of_two = offers(RESIDUAL, [_with(is_op("relu"))], {"two": [pool]})
    assert [one.nodes for one in of_two] == [("c",), ("d",)]


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: graph(("a", "relu", "b"), ("b", "relu", "x")), "give nodes in topological order"),
        (lambda: graph(("a", "relu", "x"), ("a", "relu", "x")), "the name is taken"),
        (lambda: graph(("a", "relu", "x"), ("b", "relu", "x")), "nobody reads node 'a'"),
        (lambda: graph(("a", "relu", "x"), output="c"), "expected a node as output"),
    ],
)
def test_graphs_that_are_none(build, words) -> None:
    with pytest.raises(InputError, match=words):
        build()
