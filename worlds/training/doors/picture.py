"""A picture of a plan as in the paper's Figs. 12 and 13: for every operator what its tensors are cut along."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ....files import write_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ....profiles.graph import Graph, Operator
    from ....simulator.training.plan.file import OperatorEntry, TrainingPlan

__all__ = ["picture_rows", "write_picture"]

COLOURS: Mapping[str, str] = MappingProxyType(
    {"batch": "#4C78A8", "channel": "#F58518", "expert": "#B279A2", "other": "#54A24B", "whole": "#D9D9D9"}
)
"""What is cut -> colour. Batch: samples. Channel: hidden sizes, heads, vocabulary, input and output channels."""

ROLES: Mapping[str, str] = MappingProxyType(
    {"batch": "batch", "column": "channel", "row": "channel", "head": "channel", "expert": "expert", "other": "other"}
)
"""Role of an operator's loop -> what it is called here."""

Row = tuple[str, list[tuple[str, dict[int, str]]]]
"""Name of an operator, and for each of its tensors a letter and, by mesh axis, what that axis cuts it along."""


def write_picture(plan: TrainingPlan, graph: Graph, path: Path) -> Path:
    """Draw a plan; a column of operators for each stage, layers that are run alike once."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    columns = picture_rows(plan, graph)
    most = max(len(rows) for _, rows in columns)
    figure = Figure(figsize=(max(6.0, 3.6 * len(columns)), 1.6 + 0.3 * most), layout="constrained")
    axes: Any = figure.subplots(1, len(columns), squeeze=False)[0]
    for ax, (title, rows) in zip(axes, columns, strict=True):
        _draw(ax, title, rows, most)
    patches = [
        Patch(facecolor=colour, label=f"{name}" if name != "whole" else "whole (replicated)")
        for name, colour in COLOURS.items()
    ]
    figure.legend(
        handles=patches,
        loc="outside lower center",
        ncols=len(patches),
        frameon=False,
        fontsize=7,
        title="x: inputs, w: weights, y: result",
        title_fontsize=7,
    )
    figure.suptitle(f"{plan.model.name}: what each mesh axis cuts (left half: axis 0, right half: axis 1)", fontsize=9)
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=150)
    return write_bytes(path, out.getvalue())


def picture_rows(plan: TrainingPlan, graph: Graph) -> list[tuple[str, list[Row]]]:
    """What the picture shows: for each stage a title and a row for each of its heavy and its fallback operators."""
    from ....simulator.training.plan.layers import blocks

    columns: list[tuple[str, list[Row]]] = []
    for s, stage in enumerate(plan.stages):
        rows: list[Row] = []
        for block in blocks(stage, graph):
            if block.name:
                rows.append((block.name, []))
            for name, plain, entry in block.operators:
                operator = graph.operators[graph.index[name]]
                if operator.heavy or entry.fallback:
                    said = (plain.partition("*.")[2] or plain) + (" (fallback)" if entry.fallback else "")
                    rows.append((said, _tensors(graph, operator, entry, stage.logical)))
        ids = plan.mesh(s).device_ids
        where = f"{len(ids)} device{'s' if ids[1:] else ''} as {stage.logical[0]} x {stage.logical[1]}"
        columns.append((f"stage {s}: {where}", rows))
    return columns


def _tensors(
    graph: Graph, operator: Operator, entry: OperatorEntry, logical: tuple[int, int]
) -> list[tuple[str, dict[int, str]]]:
    """For each operand and the result what every mesh axis of more than one device cuts it along."""
    from ....runtime.export.training.roles import role

    weights = {t.name for t in graph.parameters}
    found: list[tuple[str, dict[int, str]]] = []
    for name, dims, spec in zip(
        (*operator.inputs, ""), (*operator.parsed.operands, operator.parsed.result), (*entry.operands, entry.result),
        strict=True,
    ):  # fmt: skip
        cut = {axis: "whole" for axis in (0, 1) if logical[axis] > 1}
        for group, part in zip(dims, _parts(spec), strict=False):
            for axis in map(int, part[1:]):
                if logical[axis] > 1:
                    cut[axis] = ROLES[role(graph, operator, group[0])] if group else "other"
        found.append(("y" if not name else "w" if name in weights else "x", cut))
    return found


def _parts(spec: str) -> list[str]:
    return re.findall(r"R|S\d+", spec)


def _draw(ax: Axes, title: str, rows: list[Row], most: int) -> None:
    from matplotlib.patches import Rectangle

    for k, (name, tensors) in enumerate(rows):
        ax.text(-0.15, k, name, ha="right", va="center", fontsize=6.5, fontweight=None if tensors else "bold")
        for column, (letter, cut) in enumerate(tensors):
            wide = 0.8 / max(1, len(cut))
            for n, what in enumerate(cut.values() or ["whole"]):
                colour = COLOURS[what]
                ax.add_patch(Rectangle((column * 1.1 + n * wide, k - 0.4), wide, 0.8, facecolor=colour, ec="white"))
            ax.text(column * 1.1 + 0.84, k + 0.32, letter, fontsize=5.5, color="#444444")
    widest = max((len(tensors) for _, tensors in rows), default=3)
    ax.set_xlim(-0.2, max(3, widest) * 1.1)
    ax.set_ylim(most - 0.4, -0.8)
    ax.set_title(title, fontsize=8)
    ax.axis("off")
