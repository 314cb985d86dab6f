"""A placement on its cluster: who runs on which device, which groups are alike, how busy each device was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import numpy.typing as npt

from ...profiles.profile import ModelProfile
from ...simulator.cluster import Cluster
from ...simulator.placement import Group, Placement, device_ranges, model_runs
from ...simulator.serving import SimulationResult
from ...simulator.serving.replay import stage_work

__all__ = ["Alike", "alike", "cluster_html", "device_use", "groups_html", "use_html"]

COLOURS = 8
MAX_DEVICES, MAX_ROWS, MAX_CHIPS = 256, 12, 10


@dataclass(frozen=True)
class Alike:
    """Groups with one configuration and the same models."""

    group: Group
    numbers: tuple[int, ...]
    devices: tuple[int, ...]


def alike(placement: Placement) -> list[Alike]:
    """The groups of a placement, equal ones together, in order of the first."""
    found: dict[tuple[object, tuple[str, ...]], list[int]] = {}
    for g, group in enumerate(placement.groups):
        found.setdefault((group.config, group.models), []).append(g)
    return [
        Alike(
            placement.groups[numbers[0]],
            tuple(numbers),
            tuple(d for g in numbers for d in placement.groups[g].devices or ()),
        )
        for numbers in found.values()
    ]


def device_use(result: SimulationResult, n_devices: int) -> npt.NDArray[np.float64]:
    """Busy share of each device until the last event, whatever placement held; shape ``(n_devices,)``."""
    busy = np.zeros(n_devices)
    for segment in result.segments:
        work = stage_work(segment, result)
        for g, group in enumerate(segment.placement.groups):
            for k in range(group.config.pp):
                busy[list(group.stage_devices(k))] += work[g, k]
    return busy / max(result.horizon, float(np.finfo(float).tiny))


def cluster_html(cluster: Cluster, placement: Placement, lost: Sequence[int] = ()) -> str:
    """Nodes as boxes, devices as cells: number, group and stage, in the group's colour."""
    cells = {d: f'<li class="dev idle" title="device {d}: unused"><b>{d}</b><i>–</i></li>' for d in _shown(cluster)}
    for g, group in enumerate(placement.groups):
        for k in range(group.config.pp):
            stage = f"<wbr>·s{k}" if group.config.pp > 1 else ""
            what = f"group {g}, stage {k + 1} of {group.config.pp}, {group.config}"
            look = "gone" if g in lost else f"g{g % COLOURS}"
            for d in group.stage_devices(k):
                cells[d] = (
                    f'<li class="dev {look}" title="device {d}: {escape(what)}{" (lost)" if g in lost else ""}">'
                    f"<b>{d}</b><i>g{g}{stage}</i></li>"
                )
    return _nodes(cluster, cells)


def use_html(cluster: Cluster, use: npt.NDArray[np.float64]) -> str:
    """The same cluster, devices coloured by how busy they were."""
    cells = {
        d: f'<li class="dev heat{" hot" if use[d] > 0.6 else ""}" style="--u:{min(use[d], 1):.2f}" '
        f'title="device {d}: busy {use[d]:.1%}"><b>{d}</b><i>{use[d]:.0%}</i></li>'
        for d in _shown(cluster)
    }
    return _nodes(cluster, cells)


def _shown(cluster: Cluster) -> range:
    return range(min(cluster.n_devices, MAX_DEVICES))


def _nodes(cluster: Cluster, cells: Mapping[int, str]) -> str:
    width = cluster.devices_per_node
    boxes: list[str] = []
    if width == 1:
        inner = "".join(cells[d] for d in _shown(cluster))
        boxes.append(
            f'<section class="node"><h4>{cluster.n_devices} nodes of one device</h4><ol>{inner}</ol></section>'
        )
    else:
        for node in range(cluster.nodes):
            mine = [d for d in _shown(cluster) if cluster.node_of(d) == node]
            if mine:
                inner = "".join(cells[d] for d in mine)
                columns = min(width, 8)
                boxes.append(
                    f'<section class="node" style="--n:{columns}"><h4>node {node}</h4><ol>{inner}</ol></section>'
                )
    more = cluster.n_devices - MAX_DEVICES
    note = f'<p class="note">{more} more devices are not drawn.</p>' if more > 0 else ""
    return f'<div class="nodes">{"".join(boxes)}</div>{note}'


def groups_html(
    cluster: Cluster, placement: Placement, profiles: Mapping[str, ModelProfile], lost: Sequence[int] = ()
) -> str:
    """A row for each kind of group: configuration, devices, how full the memory is, models as chips."""
    rows = [_row(kind, cluster, profiles, lost) for kind in alike(placement)]
    more = rows[MAX_ROWS:]
    rest = f"<details><summary>{len(more)} more kinds of groups</summary>{''.join(more)}</details>" if more else ""
    return f'<div class="groups">{"".join(rows[:MAX_ROWS])}{rest}</div>'


def _row(kind: Alike, cluster: Cluster, profiles: Mapping[str, ModelProfile], lost: Sequence[int]) -> str:
    config, numbers = kind.group.config, kind.numbers
    swatches = "".join(
        f'<span class="swatch {"gone" if g in lost else f"g{g % COLOURS}"}"></span>' for g in numbers[:8]
    )
    name = f"group {numbers[0]}" if len(numbers) == 1 else f"{len(numbers)} groups: {device_ranges(numbers)}"
    fullest = max(kind.group.memory_bytes(profiles), default=0.0)
    words = [
        f"<b>op {config.op} × pp {config.pp}</b>",
        f"device{'s' if len(kind.devices) > 1 else ''} {device_ranges(kind.devices)}",
        f"{fullest / 2**30:.3g} of {cluster.memory_bytes / 2**30:.3g} GiB filled",
    ]
    if any(g in lost for g in numbers):
        words.append("<b>lost</b>")
    chips = [f"<li>{escape(run)}</li>" for run in model_runs(kind.group.models)] or ["<li>no model</li>"]
    folded = ""
    if len(chips) > MAX_CHIPS + 1:
        folded = (
            f"<details><summary>{len(chips) - MAX_CHIPS} more models</summary>"
            f'<ul class="chips">{"".join(chips[MAX_CHIPS:])}</ul></details>'
        )
        chips = chips[:MAX_CHIPS]
    return (
        f'<section class="group"><h4>{swatches} {name}</h4><p>{" · ".join(words)}</p>'
        f'<ul class="chips">{"".join(chips)}</ul>{folded}</section>'
    )
