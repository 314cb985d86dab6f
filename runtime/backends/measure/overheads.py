"""What a group costs besides its own call, and what it costs to lay a tensor out anew."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from statistics import median
from time import process_time_ns
from typing import Any

from ....profiles.backends import Backend, InferenceGraph, Node, Value
from ..program import Group, Program
from .job import Layout

__all__ = ["context_ms", "layout_ms"]

CHAIN, ROUNDS = 64, 15
"""Groups of the chain that a context is measured with, and rounds of it. Guesses: 15 rounds take about 10 ms."""


def context_ms(backend: Backend) -> float:
    """CPU time that a group takes besides its call, where the group before it is on another backend.

    Programs of groups that do nothing are timed as a whole, less the calls as they are timed in passes: what remains is
    the loop's own work. Where every second group is on the backend, entering and leaving its ``held`` comes on top.
    """
    loop = _besides_ns(nullcontext) / CHAIN
    return max(0.0, loop + (_besides_ns(backend.held) - loop * CHAIN) / (CHAIN / 2)) / 1e6


def _besides_ns(held: Callable[[], AbstractContextManager[object]]) -> float:
    """Time of a chain of groups that do nothing, every second one under ``held``, without their calls."""
    names = ["x", *(f"n{k}" for k in range(CHAIN))]
    nodes = tuple(Node(name, "nothing", (before,)) for before, name in pairwise(names))
    chain = InferenceGraph((Value("x", ()),), (), nodes, names[-1])

    def nothing(one: Any) -> tuple[Any]:
        return (one,)

    groups = [Group("timed" if k % 2 else "other", 1 << k, nothing) for k in range(CHAIN)]
    program = Program(chain, groups, {"timed": held})
    laps = list[float]()
    for _ in range(ROUNDS):
        begin = process_time_ns()
        program(0.0)
        whole = process_time_ns() - begin
        calls = sum(program.timed((0.0,), [-1], [-1] * CHAIN)) - CHAIN * _clock_ns()
        laps.append(whole - max(0.0, calls))
    return median(laps)


def layout_ms(layout: Layout) -> float:
    """CPU time to convert a 4-D tensor to channels last, or back."""
    import torch

    kind = getattr(torch, layout.dtype)
    last, usual = torch.channels_last, torch.contiguous_format
    to, origin = (last, usual) if layout.to == "channels_last" else (usual, last)
    given = torch.ones(layout.shape, dtype=kind).contiguous(memory_format=origin)
    laps = list[int]()
    for _ in range(ROUNDS):
        begin = process_time_ns()
        given.contiguous(memory_format=to)
        laps.append(process_time_ns() - begin)
    return median(laps) / 1e6


def _clock_ns() -> float:
    """What reading the clock twice takes."""
    laps = list[int]()
    for _ in range(ROUNDS):
        begin = process_time_ns()
        laps.append(process_time_ns() - begin)
    return median(laps)
