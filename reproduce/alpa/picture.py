"""Pictures of a training plan, tensor by tensor: how each convolution and dense layer is cut (Alpa, Fig. 12, 13)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...profiles.graph import Graph
from ...simulator.palette import CYCLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ...simulator.training.plan.file import StageEntry, TrainingPlan

__all__ = ["Cut", "Layer", "draw_stage", "layers"]

REPLICATED, SHARED = "#A9A9A9", "#E9E9E9"
SIDE = 0.85
"""Width of a tensor's square, of the distance between two."""
DEVICES = (*CYCLE[:6], "#882255", CYCLE[7])
"""Colour of a device: grey is for what is replicated."""
LAYERS = ("convolution", "contraction")


@dataclass(frozen=True, slots=True)
class Cut:
    """How a tensor lies on a logical mesh, seen as a square: rows are its batch or input axis, columns the other.

    Parameters
    ----------
    rows, columns : tuple of int
        Mesh axes that cut the batch axis (of a weight: its inputs), and the hidden axis (its outputs).
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]

    @property
    def kind(self) -> str:
        """``replicated``, ``batch``, ``hidden`` or ``both``."""
        return ("both" if self.columns else "batch") if self.rows else ("hidden" if self.columns else "replicated")

    def pieces(self, shape: tuple[int, int]) -> tuple[int, int]:
        """Pieces along rows and columns."""
        return math.prod(shape[a] for a in self.rows), math.prod(shape[a] for a in self.columns)

    def piece(self, shape: tuple[int, int], device: int) -> tuple[int, int]:
        """The row and column of the piece that one device of the mesh holds."""
        at = divmod(device, shape[1])
        return _index(self.rows, at, shape), _index(self.columns, at, shape)


def _index(axes: tuple[int, ...], at: tuple[int, int], shape: tuple[int, int]) -> int:
    index = 0
    for axis in axes:
        index = index * shape[axis] + at[axis]
    return index


@dataclass(frozen=True, slots=True)
class Layer:
    """One convolution or dense layer of a plan: what it makes, and its weight."""

    name: str
    stage: int
    activation: Cut
    weight: Cut


def layers(plan: TrainingPlan, graph: Graph) -> tuple[Layer, ...]:
    """Layers with weights, in order, with how the plan computes them.

    The weight is cut as it is computed with, not as it is kept (that may be cut further: ZeRO).
    """
    found: list[Layer] = []
    parameters = {tensor.name for tensor in graph.parameters}
    for s, stage in enumerate(plan.stages):
        axes = tuple(a for a in (0, 1) if stage.logical[a] > 1)
        for op in graph.operators[stage.first : stage.last]:
            entry = stage.operators.get(op.name)
            if op.kind not in LAYERS or entry is None or len(op.inputs) < 2 or op.inputs[1] not in parameters:
                continue
            grows = {x.name for x in op.loops if x.batch}
            result = {x for dims in op.parsed.result for x in dims}
            mapped = {a: entry.axes[a] for a in axes if entry.axes[a]}
            outputs, inputs = _weight_loops(op.parsed.operands[1], result)
            activation = Cut(
                tuple(a for a, x in mapped.items() if x in grows), tuple(a for a, x in mapped.items() if x in outputs)
            )
            weight = Cut(
                tuple(a for a, x in mapped.items() if x in inputs), tuple(a for a, x in mapped.items() if x in outputs)
            )
            found.append(Layer(op.name, s, activation, weight))
    return tuple(found)


def _weight_loops(dims: tuple[tuple[str, ...], ...], result: set[str]) -> tuple[set[str], set[str]]:
    """Loops of a weight that are in the result (outputs) and those that are summed over (inputs)."""
    loops = {x for group in dims for x in group}
    return loops & result, loops - result


def draw_stage(ax: Axes, stage: StageEntry, parts: tuple[Layer, ...], title: str) -> Axes:
    """A column for each layer: its activation above, its weight below, every piece in the colour of its device.

    Dark grey: all devices hold the whole. A piece that several devices hold is light, with a spot for each of them.
    """
    for k, layer in enumerate(parts):
        for y, cut in ((1.15, layer.activation), (0.0, layer.weight)):
            _draw_cut(ax, k, y, cut, stage.logical)
    ax.set(xlim=(-0.2, max(len(parts), 1)), ylim=(-0.1, 2.25), title=title)
    ax.set_yticks([0.5, 1.65], ["weight", "activation"])
    ax.set_xticks([])
    for side in ("top", "right", "bottom", "left"):
        ax.spines[side].set_visible(False)
    ax.tick_params(length=0)
    ax.grid(visible=False)
    return ax


def _draw_cut(ax: Axes, x: float, y: float, cut: Cut, shape: tuple[int, int]) -> None:
    from matplotlib.patches import Rectangle

    rows, columns = cut.pieces(shape)
    holders: dict[tuple[int, int], list[int]] = {}
    for device in range(shape[0] * shape[1]):
        holders.setdefault(cut.piece(shape, device), []).append(device)
    width, height = SIDE / columns, 1.0 / rows
    for (r, c), held in holders.items():
        left, bottom = x + c * width, y + 1.0 - (r + 1) * height
        whole = len(holders) == 1 and len(held) > 1
        colour = _colour(held[0]) if len(held) == 1 else REPLICATED if whole else SHARED
        ax.add_patch(Rectangle((left, bottom), width, height, facecolor=colour, edgecolor="white", linewidth=0.4))
        if len(held) == 1 or whole:
            continue
        for j, device in enumerate(held):  # spots from the upper left to the lower right
            at = ((j + 0.5) / len(held), 1 - (j + 0.5) / len(held))
            w, h = 0.8 * width / len(held), 0.8 * height / len(held)
            corner = (left + at[0] * width - w / 2, bottom + at[1] * height - h / 2)
            ax.add_patch(Rectangle(corner, w, h, facecolor=_colour(device), linewidth=0))


def _colour(device: int) -> str:
    return DEVICES[device % len(DEVICES)]
