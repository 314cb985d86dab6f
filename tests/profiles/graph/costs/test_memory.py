"""Bytes of parameters and of saved values."""

from __future__ import annotations

import pytest
from meshwright.errors import InputError
from meshwright.profiles.graph import Graph, Loop, Operator, Tensor
from meshwright.profiles.graph.memory import parameter_bytes, saved, saved_bytes, state_bytes


def test_adam_keeps_sixteen_bytes_a_parameter():
    assert parameter_bytes("float16", "adam") == (2, 2, 12)
    assert parameter_bytes("float32", "adam") == (4, 4, 8)
    assert parameter_bytes("bfloat16", "sgd") == (2, 2, 4)
    assert parameter_bytes("float32", "sgd") == (4, 4, 0)
    with pytest.raises(InputError, match="unknown 'lion'"):
        parameter_bytes("float16", "lion")
    with pytest.raises(InputError, match="got 'int8'"):
        parameter_bytes("int8")


def graph() -> Graph:
    loops = (Loop("b", 4, batch=True), Loop("h", 8), Loop("n", 8))
    mm = Operator("mm", "contraction", "b h, h n -> b n", ("x", "w"), loops, saves=(0, 1))
    relu = Operator("relu", "elementwise", "b n -> b n", ("mm",), (loops[0], loops[2]), saves=(-1,))
    again = Operator("again", "contraction", "b h, h n -> b n", ("relu", "u"), loops, saves=(0, 1))
    loss = Operator("loss", "reduction", "b n -> ", ("again",), (loops[0], loops[2]))
    tensors = (Tensor("w", (8, 8)), Tensor("u", (8, 8), trainable=False))
    return Graph("two", 4, (Tensor("x", (4, 8), batch_dims=(0,)),), tensors, (mm, relu, again, loss))


def test_values_are_kept_once_and_parameters_are_not():
    assert list(saved(graph(), range(4))) == ["x", "relu"]
    assert list(saved(graph(), range(2, 4))) == ["relu"]
    assert saved_bytes(graph().operators[1], {"b": 2}) == {"relu": 2 * 8 * 2}
    assert state_bytes(graph()) == 64 * 16 + 64 * 2
