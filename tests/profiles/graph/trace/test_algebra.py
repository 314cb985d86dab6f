"""Reshapes and transposes, any chain of them: what the trace says of dimensions moves elements as torch moves them."""

from __future__ import annotations

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from interpreter import execute
from meshwright.profiles.graph.trace.draft import Draft
from meshwright.profiles.graph.trace.step import Step
from meshwright.profiles.graph.trace.values import Value, atoms_of, reshaped, total, unified
from meshwright.profiles.graph.trace.views import HANDLERS

BATCH = 3  # a prime, so that sizes that grow are told from others


def grown(shape: list[int], twice: list[int]) -> tuple[tuple[int, int], ...]:
    return tuple(zip(shape, twice, strict=True))


@st.composite
def reshapes(draw: st.DrawFn, shape: list[int]) -> list[int]:
    """Another shape of as many elements: neighbours merged, or one dimension split, or ones put in or taken out."""
    shape, at = list(shape), draw(st.integers(0, len(shape) - 1))
    kind = draw(st.sampled_from(["merge", "split", "one", "none"]))
    if kind == "merge" and at + 1 < len(shape):
        return [*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :]]
    if kind == "split":
        parts = [d for d in range(1, shape[at] + 1) if shape[at] % d == 0]
        first = draw(st.sampled_from(parts))
        return [*shape[:at], first, shape[at] // first, *shape[at + 1 :]]
    return [*shape[:at], 1, *shape[at:]] if kind == "one" else [n for n in shape if n != 1] or [1]


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_chains_of_views_move_elements_as_torch_does(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4))
    draft = Draft({"x"})
    value = Value("x", tuple(atoms_of((n, n)) for n in shape), "float64", True)
    x = torch.arange(math.prod(shape), dtype=torch.float64).reshape(shape)
    made = {"x": x}
    for _ in range(data.draw(st.integers(1, 5))):
        if data.draw(st.booleans()):
            order = data.draw(st.permutations(range(len(shape))))
            x, shape = x.permute(order), [shape[d] for d in order]
            step = Step(draft, "permute.default", {"self": value, "dims": order}, [grown(shape, shape)], ["float64"])
        else:
            shape = data.draw(reshapes(shape))
            x = x.reshape(shape)
            step = Step(draft, "view.default", {"self": value}, [grown(shape, shape)], ["float64"])
        found = HANDLERS[step.word](step)
        assert isinstance(found, Value)
        value = found
        for op in draft.operators[len(made) - 1 :]:
            made[op.name] = execute(op, [made[name] for name in op.inputs])
        assert value.shape == tuple(shape)
        assert torch.equal(made[value.name].reshape(shape), x)
        assert made[value.name].shape == x.shape or value.name == "x"


@given(st.permutations(["b", "b2", 2, 4, 6]))
def test_the_batch_is_followed_through_merged_dimensions(order: list[object]) -> None:
    sizes = [(BATCH, 2 * BATCH) if n == "b" else (5, 5) if n == "b2" else (int(str(n)),) * 2 for n in order]
    lined = reshaped([(s,) for s in sizes], [total(sizes)])
    assert lined is not None
    assert lined[1] == (tuple(sizes),)  # one dimension, still known as all five
    assert reshaped(lined[1], sizes) == (lined[1], tuple((s,) for s in sizes))


def test_what_does_not_line_up_is_one_atom_or_nothing() -> None:
    assert reshaped([((6, 6),), ((4, 4),)], [(8, 8), (3, 3)]) is None
    assert unified([((6, 6), (4, 4)), ((8, 8), (3, 3))]) == ((24, 24),)
    assert unified([((24, 24),), ((2, 2), (12, 12)), ((4, 4), (6, 6))]) == ((2, 2), (2, 2), (6, 6))
    # A dimension that grows cannot be divided by another that grows into one that does.
    assert reshaped([((4, 8),)], [(2, 4), (2, 2)]) == ((((2, 4), (2, 2)),), (((2, 4),), ((2, 2),)))
    assert reshaped([((4, 8),)], [(2, 2), (2, 4)]) == ((((2, 2), (2, 4)),), (((2, 2),), ((2, 4),)))
