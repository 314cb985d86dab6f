"""Operators and parameters of a plan, layer by layer, with layers that are run alike folded into one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .entries import OperatorEntry, StageEntry

if TYPE_CHECKING:
    from ....profiles.graph import Graph

__all__ = ["Block", "blocks", "layer_of"]

_NUMBER = re.compile(r"(?:(?<=[._/])|(?<=^)|(?<=[A-Za-z]))(\d+)(?=[._/]|$)")


@dataclass(frozen=True, slots=True)
class Block:
    """One operator outside layers, or all layers of a stage that are run alike.

    Parameters
    ----------
    layers : tuple of int
        Numbers of the layers, rising; empty for an operator outside layers.
    operators : tuple of (str, str, OperatorEntry)
        Full name in the first layer, name without the layer's number, how it is run.
    parameters : tuple of (str, str, str, str)
        Full name in the first layer, name without the number, spec it is kept in, spec of its gradient and optimiser
        state.
    """

    layers: tuple[int, ...]
    operators: tuple[tuple[str, str, OperatorEntry], ...]
    parameters: tuple[tuple[str, str, str, str], ...]

    @property
    def content(self) -> tuple[object, ...]:
        """What two layers that are run alike have in common."""
        return tuple(o[1:] for o in self.operators), tuple(p[1:] for p in self.parameters)

    @property
    def name(self) -> str:
        """``layer 3``, ``layers 3-46``, ``layers 1-11 by 2``, or empty."""
        if not self.layers:
            return ""
        return f"layer{'s' if len(self.layers) > 1 else ''} {_numbers(self.layers)}"


def layer_of(name: str, graph: Graph | None = None) -> int:
    """Layer that an operator or parameter belongs to: what the graph says, else the first number in its name; −1: none.

    A parameter belongs to the layer of the operators that read it, if they are all of one.
    """
    if graph is not None and name in graph.index:
        return graph.operators[graph.index[name]].layer
    if graph is not None and name in graph.tensors:
        layers = {graph.operators[i].layer for i, _ in graph.consumers[name]}
        return layers.pop() if len(layers) == 1 else -1
    match = _NUMBER.search(name)
    return int(match[1]) if match else -1


def blocks(stage: StageEntry, graph: Graph | None = None) -> tuple[Block, ...]:
    """The operators and parameters of a stage, in order, folded.

    Parameters
    ----------
    stage : StageEntry
        The stage.
    graph : Graph, optional
        Says which layer an operator belongs to; otherwise the first number in its name does.
    """
    found: list[Block] = []
    owner = _readers(stage, graph)
    rows: list[tuple[int, list[str]]] = []
    for name in stage.operators:
        layer = layer_of(name, graph)
        if rows and rows[-1][0] == layer and layer >= 0:
            rows[-1][1].append(name)
        else:
            rows.append((layer, [name]))
    kept = dict(stage.parameters)
    for layer, names in rows:
        if layer < 0:
            mine = [p for p in kept if owner.get(p) == names[0]]
        else:
            mine = [p for p in kept if owner.get(p) in names or (p not in owner and layer_of(p) == layer)]
        block = _block(stage, layer, names, {p: kept.pop(p) for p in mine})
        same = next((i for i, b in enumerate(found) if layer >= 0 and b.layers and b.content == block.content), None)
        if same is None:
            found.append(block)
        else:
            found[same] = replace(found[same], layers=(*found[same].layers, layer))
    if kept:
        found.append(_block(stage, -1, [], kept))
    return tuple(found)


def _readers(stage: StageEntry, graph: Graph | None) -> dict[str, str]:
    """Parameter -> the operator of the stage that reads it first; without a graph the one whose name it begins with."""
    found: dict[str, str] = {}
    for parameter in stage.parameters:
        if graph is not None and parameter in graph.tensors:
            readers = (graph.operators[i].name for i, _ in graph.consumers[parameter])
        else:
            readers = (o for o in stage.operators if parameter.startswith((o + ".", o + "_", o + "/")))
        reader = next((r for r in readers if r in stage.operators), None)
        if reader is not None:
            found[parameter] = reader
    return found


def _block(stage: StageEntry, layer: int, names: list[str], parameters: Mapping[str, str]) -> Block:
    prefix = _common(names) if layer >= 0 else ""

    def plain(name: str) -> str:
        inside = prefix and (name == prefix or name.startswith(prefix + "."))
        return f"*{name.removeprefix(prefix)}" if inside else name

    states = stage.optimizer_states
    return Block(
        () if layer < 0 else (layer,),
        tuple((name, plain(name), stage.operators[name]) for name in names),
        tuple((name, plain(name), spec, states.get(name, spec)) for name, spec in parameters.items()),
    )


def _common(names: list[str]) -> str:
    """Dotted beginning that all names of a layer have: ``layers.3``."""
    parts = [name.split(".") for name in names]
    kept = parts[0] if len(parts) > 1 else parts[0][:-1]
    for other in parts[1:]:
        kept = kept[: next((i for i, (a, b) in enumerate(zip(kept, other, strict=False)) if a != b), len(other))]
    return ".".join(kept)


def _numbers(layers: tuple[int, ...]) -> str:
    """Rising numbers as runs of one stride."""
    runs: list[list[int]] = []
    for x in layers:
        if runs and (len(runs[-1]) == 1 or x - runs[-1][-1] == runs[-1][1] - runs[-1][0]):
            runs[-1].append(x)
        else:
            runs.append([x])

    def text(run: list[int]) -> str:
        if len(run) < 3:
            return "-".join(map(str, run)) if run[-1] - run[0] < 2 else ", ".join(map(str, run))
        step = run[1] - run[0]
        return f"{run[0]}-{run[-1]}" + (f" by {step}" if step > 1 else "")

    return ", ".join(map(text, runs))
