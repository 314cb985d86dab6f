"""Calls that no handler says: what is written down of them, what is refused, what files may say, what they cost."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from meshwright.errors import InputError
from meshwright.profiles import device as device_spec
from meshwright.profiles.graph import Graph, Loop, Operator, from_torch, roofline
from meshwright.profiles.graph.compute import Local, compute
from meshwright.profiles.graph.document import from_json, to_json
from meshwright.profiles.graph.trace.fallback.probe import why_not_by_rows
from torch import Tensor, nn

ALONG = '{"self": {"operand": 0}, "dim": 1}'


class Once(nn.Module):
    """One function of a projection."""

    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.line, self.function = nn.Linear(6, 6), function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.line(x)).square().mean()


def traced(function: Callable[[Tensor], Any], batch: int = 4) -> Graph:
    torch.manual_seed(0)
    return from_torch(Once(function), (torch.zeros(batch, 3, 6),), name="once")


def call_of(graph: Graph) -> Operator:
    (found,) = (op for op in graph.operators if op.kind == "call")
    return found


def called(word: str = "cumprod.default", arguments: str = ALONG, **more: Any) -> Operator:
    loops = (Loop("b", 4, True), Loop("s", 6, False, "whole"))
    said = {"target": f"aten.{word}", "arguments": arguments, "rows": "b"} | more
    return Operator("it", "call", "b s -> b s", ("x",), loops, "float32", attributes=said)


def test_a_call_is_written_down() -> None:
    op = call_of(traced(lambda x: x.cumprod(-1)))
    assert dict(op.attributes) == {
        "target": "aten.cumprod.default", "arguments": '{"self": {"operand": 0}, "dim": -1}', "rows": "b"
    }  # fmt: skip
    assert (op.formula, op.cuttable) == ("b s h -> b s h", ("b",))
    assert set(op.saves) == {-1, 0}  # what autograd keeps of it


def test_a_size_that_grows_is_rows() -> None:
    """The end of half of the batch: a multiple of the rows of the operator, at any batch."""
    whole = traced(lambda x: x[: x.shape[0] // 2])
    part = call_of(whole)
    assert '{"rows": 1}' in str(part.attributes["arguments"])
    assert part.cuttable == ()
    grown = call_of(whole.with_batch(8))
    assert compute(Local.of(grown), [torch.arange(144.0).reshape(8, 3, 6)]).shape == (4, 3, 6)


@pytest.mark.parametrize(
    ("function", "whole"),
    [
        (lambda x: x.cumprod(1), ""),
        (lambda x: x.cumprod(0), "its rows depend on each other"),
        (lambda x: x.flip(0), "its rows depend on each other"),
        (lambda x: x[1:2], "its result does not grow with the batch"),
    ],
)
def test_only_rows_that_are_independent_are_cut(function: Callable[[Tensor], Any], whole: str) -> None:
    op = call_of(traced(function))
    assert op.attributes.get("whole", "") == whole
    assert bool(op.cuttable) == (not whole)


def test_a_large_call_is_probed_on_small_sizes() -> None:
    large = replace(called(), loops=(Loop("b", 64, True), Loop("s", 1 << 22, False, "whole")), flops=1e12)
    assert why_not_by_rows(large, ["float32"], [True]) == ""
    across = called(arguments='{"self": {"operand": 0}, "dim": 0}')
    across = replace(across, loops=large.loops, flops=1e12)
    assert why_not_by_rows(across, ["float32"], [True]) == "its rows depend on each other"


def test_positions_in_the_batch_are_no_rows() -> None:
    """Each row is computed of itself alone, but by where it stands."""
    at = called("triu.default", '{"self": {"operand": 0}}')
    assert why_not_by_rows(at, ["float32"], [True]) == "its rows depend on each other"


def test_a_refusal_names_the_line() -> None:
    with pytest.raises(InputError) as caught:
        traced(lambda x: x * torch.poisson(x.abs()))
    said = str(caught.value)
    assert said.startswith("aten.poisson.default in module '(root)': draws random numbers")
    line = re.search(r", at (\S+test_fallback\.py):(\d+); write it with", said)
    assert line is not None
    with open(line[1], encoding="utf-8") as file:  # torch keeps the line of the `forward` that made the call
        assert "self.function(self.line(x))" in file.read().splitlines()[int(line[2]) - 1]


@pytest.mark.parametrize(
    ("word", "arguments", "more", "message"),
    [
        ("from_file.default", "{}", {}, "'aten.from_file.default' may not be called"),
        ("relu_.default", '{"self": {"operand": 0}}', {}, "may not be called: only functions that make new values are"),
        ("cumprod.out", '{"self": {"operand": 0}}', {}, "may not be called"),
        ("cumprod.dimname_out", '{"self": {"operand": 0}}', {}, "may not be called"),
        ("x.y.z", "{}", {}, "target: expected aten.word.overload (got 'aten.x.y.z')"),
        ("__import__('os')", "{}", {}, "target: expected aten.word.overload"),
        ("cumprod.default", "[]", {}, "arguments: expected an object"),
        ("cumprod.default", "{", {}, "arguments: not JSON"),
        ("cumprod.default", '{"self": {"operand": 1}}', {}, "arguments: {'operand': 1}: expected an operand of 1"),
        ("cumprod.default", '{"self": {"file": "/etc/passwd"}}', {}, "arguments: {'file': '/etc/passwd'}"),
        ("cumprod.default", "{}", {}, "arguments: expected every operand of 1 to be read"),
        (
            "cumprod.default",
            '{"self": {"operand": 0}}',
            {"rows": "z"},
            "rows: expected a loop of the formula",
        ),
        ("cumprod.default", '{"self": {"operand": 0}}', {"result": -1}, "result: expected the position of a result"),
    ],
)
def test_files_may_not_say_everything(word: str, arguments: str, more: dict[str, Any], message: str) -> None:
    """Without torch: an operator that says so is none."""
    with pytest.raises(InputError, match=re.escape(message)):
        called(word, arguments, **more)


@pytest.mark.parametrize(
    ("word", "arguments", "message"),
    [
        ("no_such_word.default", '{"self": {"operand": 0}}', "has no such overload"),
        ("sort.values", '{"self": {"operand": 0}}', "writes into what it is given; it may not be called"),
        ("item.default", '{"self": {"operand": 0}}', "makes other things than tensors; it may not be called"),
        ("nonzero.default", '{"self": {"operand": 0}}', "makes shapes that depend on data; it may not be called"),
        ("bernoulli.default", '{"self": {"operand": 0}}', "draws random numbers; expected none"),
        ("cumprod.default", '{"self": {"operand": 0}, "dims": 1}', "expected arguments ['self', 'dim', 'dtype']"),
    ],
)
def test_torch_is_asked_what_may_be_called(word: str, arguments: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        compute(Local.of(called(word, arguments)), [torch.ones(4, 6)])


def test_a_graph_of_calls_is_a_file() -> None:
    graph = traced(lambda x: x.sort(-1)[0] + x.cumprod(-1))
    again = from_json(to_json(graph))
    assert again == graph
    assert again.digest == graph.digest
    broken = to_json(graph).replace("aten.cumprod.default", "aten.set_.source_Storage")
    with pytest.raises(InputError, match=re.escape("target: 'aten.set_.source_Storage' may not be called")):
        from_json(broken)


def test_what_it_costs() -> None:
    """Its bytes, or its FLOPs where torch counts them; twice that backward; a half of it on half of the rows."""
    device = device_spec("v100-16gb")
    costs = roofline(device)
    loops = (Loop("b", 1 << 14, True), Loop("s", 1 << 12, False, "whole"))
    op = replace(called(), loops=loops, flops=1.0)
    whole, half = costs.times(op, {}), costs.times(op, {"b": 2})
    bytes_s = 2 * 4 * 2.0**26 / costs.stream
    assert whole.forward_s == pytest.approx(bytes_s + costs.rates.kernel_s)
    assert whole.backward_s == pytest.approx(2 * whole.forward_s)
    assert half.forward_s - costs.rates.kernel_s == pytest.approx(bytes_s / 2)
    heavy = costs.times(replace(op, flops=1e15), {})
    assert heavy.forward_s > 1e15 / device.peak_flops


def test_flops_are_those_that_torch_counts() -> None:
    """Of a recurrent layer the products of its gates, at every step."""

    class Steps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.steps = nn.LSTM(6, 5, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            return self.steps(x)[0].square().mean()

    op = call_of(from_torch(Steps(), (torch.zeros(4, 3, 6),)))
    assert op.flops == 2 * 4 * 3 * (6 + 5) * 4 * 5


def test_a_line_of_torch_says_the_same() -> None:
    """What an exported program has for it: on half of the rows, with the second of several results."""
    from meshwright.runtime.export.training.torch.code import expression, plain_cut

    for function in (lambda x: x.cummax(1)[0], lambda x: x.clamp(max=9.0).topk(2, -1, largest=False)[0]):
        op = call_of(traced(function))
        cut = plain_cut(op, ("b", ""))
        x = torch.randn(2, 3, 6)
        line = expression(op, ["x"], cut, (2, 1))
        got = eval(line, {"torch": torch, "x": x})
        assert torch.equal(got, compute(Local(op, op.sizes | {"b": 2}), [x]))
    part = call_of(traced(lambda x: x[: x.shape[0] // 2]))
    assert "end=2" in expression(part, ["x"], ("", ""), (1, 1))
