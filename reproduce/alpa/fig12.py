"""Figures 12 and 13 (Alpa; thesis 3.12 and 3.13): how Wide-ResNet is cut on 4, 8 and 16 GPUs, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ...planners.alpa import AlpaOptions
from ..claims import Claim, Expectation, at_least, between
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import canvas
from .picture import Layer, draw_stage, layers
from .points import FAST
from .prices import seconds_with
from .systems import AS_SAID, FAMILIES, OPTIONS, cluster_of, graph_of, plan_of

if TYPE_CHECKING:
    from ...simulator.training.plan.file import TrainingPlan

EXPECTED = {
    "stages 16": Expectation(
        "on 16 GPUs: stages", "§3.8.6, Fig. 12", "3", between(3, 3, partly=(2, 4)), "{:.0f}",
    ),
    "meshes 16": Expectation(
        "on 16 GPUs: stages that have the paper's number of devices (4, 4, 8), in order", "§3.8.6", "3 of 3",
        at_least(3, partly=2), "{:.0f} of 3",
    ),
    "data first": Expectation(
        "on 16 GPUs: share of the convolutions in all stages but the last that are cut by the batch alone (data "
        "parallelism is preferred in the first stages)", "§3.8.6", "all", at_least(0.9, partly=0.6), "{:.0%}",
    ),
    "last stage": Expectation(
        "on 16 GPUs: kinds of cut in the last stage (a non-trivial way of partitioning the convolutions)", "§3.8.6",
        "several", at_least(2), "{:.0f}",
    ),
    "stages 4": Expectation(
        "on 4 GPUs: stages (only intra-operator parallelism)", "§3.8.6, Fig. 13a", "1", between(1, 1), "{:.0f}",
    ),
    "switch": Expectation(
        "on 4 GPUs: the first dozens of layers are cut by the batch, the last few by channels (share of layers that "
        "agree with one such switch, which is not at an end)", "§3.8.6", "all", at_least(0.9, partly=0.75), "{:.0%}",
    ),
    "meshes 8": Expectation(
        "on 8 GPUs: stages that have the paper's number of devices (4, 4), in order", "Fig. 13b", "2 of 2",
        at_least(2, partly=1), "{:.0f} of 2",
    ),
}  # fmt: skip

PAPER = {4: (4,), 8: (4, 4), 16: (4, 4, 8)}
"""GPUs -> devices of each stage."""


def devices(plan: TrainingPlan) -> tuple[int, ...]:
    """Devices of each stage."""
    return tuple(plan.mesh(s).n_devices for s in range(len(plan.stages)))


def agreeing(parts: tuple[Layer, ...]) -> float:
    """Largest share of layers that agree with: batch alone up to some layer, channels from there on, both there."""
    early = [x.activation.kind == "batch" for x in parts]
    late = [x.activation.columns != () or x.weight.rows != () for x in parts]
    splits = range(1, len(parts))
    return max((sum(early[:k]) + sum(late[k:])) / len(parts) for k in splits if any(late[k:])) if any(late[1:]) else 0.0


def judged(plans: Mapping[int, TrainingPlan], cuts: Mapping[int, tuple[Layer, ...]]) -> list[Claim]:
    """Judge our numbers against every claim of the paper."""
    found = {n: devices(plan) for n, plan in plans.items()}
    same = {n: sum(a == b for a, b in zip(found[n], PAPER[n], strict=False)) for n in plans}
    last = len(plans[16].stages) - 1
    first = [x for x in cuts[16] if x.stage < last or last == 0]
    kinds = {(x.activation.kind, x.weight.kind) for x in cuts[16] if x.stage == last}
    listed = ", ".join(f"{a} (weight {_side(b)})" for a, b in sorted(kinds))
    shown = {n: ", ".join(map(str, x)) for n, x in found.items()}
    data = sum(x.activation.kind == "batch" and x.weight.kind == "replicated" for x in first) / max(1, len(first))
    return [
        EXPECTED["stages 16"].judge(len(found[16]), why=WHY),
        EXPECTED["meshes 16"].judge(same[16], shown=f"{shown[16]} devices", why=WHY),
        EXPECTED["data first"].judge(data),
        EXPECTED["last stage"].judge(len(kinds), shown=f"{len(kinds)}: {listed}"),
        EXPECTED["stages 4"].judge(len(found[4]), why=WHY),
        EXPECTED["switch"].judge(agreeing(cuts[4]), why=SWITCH),
        EXPECTED["meshes 8"].judge(same[8], shown=f"{shown[8]} devices", why=WHY),
    ]


WHY = (
    "a note says what the paper's stages take in our model. Tried alone: convolutions at half of their share at small "
    "sides, or at large ones; plans that fill half of the memory; no recomputation; 16 layers; a third of NVLink's "
    "rate; 10 Gb/s between nodes. 8 GPUs stay in one stage, 16 in two of 8. With a tenth of NVLink's rate 8 GPUs are "
    "two stages of 4, as in the paper. The paper prints no times that could tell where costs differ"
)
SWITCH = (
    "from the third group of blocks on, the widest convolutions are cut by output channels, too, while those between "
    "them are still cut by the batch alone"
)


def table(cuts: Mapping[int, tuple[Layer, ...]]) -> Frame:
    """One row a layer: GPUs, stage, how activation and weight are cut."""
    import pandas as pd

    return pd.DataFrame(
        [
            {
                "gpus": n,
                "stage": x.stage,
                "layer": x.name,
                "activation": x.activation.kind,
                "weight": _side(x.weight.kind),
                "activation_axes": f"{_axes(x.activation.rows)}|{_axes(x.activation.columns)}",
                "weight_axes": f"{_axes(x.weight.rows)}|{_axes(x.weight.columns)}",
            }
            for n, parts in cuts.items()
            for x in parts
        ]
    )


def _side(kind: str) -> str:
    """The kind of a weight's cut in words of its own."""
    return {"batch": "input", "hidden": "output"}.get(kind, kind)


def _axes(axes: tuple[int, ...]) -> str:
    return "".join(map(str, axes)) or "-"


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the pictures. Fast: the numbers of microbatches are given. Nothing in it is random."""
    session = Session("alpa/fig12", fast, out, seed)
    counts = FAST if fast else {}
    plans: dict[int, TrainingPlan] = {}
    cuts: dict[int, tuple[Layer, ...]] = {}
    for k, n in enumerate((4, 8, 16)):
        progress(k, 3, f"Wide-ResNet on {n} GPUs")
        plans[n] = plan_of("resnet", "Alpa", n, counts=counts.get(n, ()))
        cuts[n] = layers(plans[n], graph_of("resnet", n, plans[n].microbatch))
    progress(3, 3, "")
    session.table(table(cuts))
    for n, plan in plans.items():
        with canvas(len(plan.stages), 1, width=9.0, height=1.5) as (figure, axes):
            for s, (ax, stage) in enumerate(zip(axes[:, 0], plan.stages, strict=True)):
                parts = tuple(x for x in cuts[n] if x.stage == s)
                grid = f"{stage.logical[0]} × {stage.logical[1]}"
                draw_stage(
                    ax, stage, parts, f"Stage {s + 1}: {plan.mesh(s).n_devices} GPUs ({grid}), {len(parts)} layers"
                )
            axes[-1, 0].set_xlabel(LEGEND, fontsize=7)
            session.figure(figure, f"_{n}gpus")
    return session.finish(judged(plans, cuts), notes=notes(plans, counts))


LEGEND = (
    "a colour for each GPU; rows: parts of the batch (of a weight: of its input channels), columns: of the channels "
    "(output channels)\ndark grey: whole on every GPU; light with spots: a part that those GPUs hold"
)


def notes(plans: Mapping[int, TrainingPlan], counts: Mapping[int, tuple[int, ...]]) -> tuple[str, ...]:
    """What our plans take, and what the paper's stages would in our model."""
    family = FAMILIES["resnet"]
    found: list[str] = []
    for n, plan in plans.items():
        stages = ", ".join(
            f"{d} GPUs ({s.last - s.first} operators)" for d, s in zip(devices(plan), plan.stages, strict=True)
        )
        ours = plan.predicted["dp_seconds"]
        model, b = family.models[n], plan.microbatches
        line = f"{model} on {n} GPUs: {ours:.1f} s an iteration by Eq. 2, {b} microbatches; {stages}"
        if devices(plan) != PAPER[n]:
            cluster, options = cluster_of(n), AlpaOptions(**OPTIONS)
            costs = AS_SAID.costs("resnet", cluster)
            theirs = min(
                seconds_with(graph_of("resnet", n, family.batch // b), cluster, b, options, PAPER[n], costs)
                for b in counts.get(n, family.microbatches[n])
            )
            line += (
                f". The paper's stages of {', '.join(map(str, PAPER[n]))} GPUs, best cut and number of microbatches: "
                f"{theirs:.1f} s ({theirs / ours - 1:+.1%})"
            )
        found.append(line)
    return tuple(found)


if __name__ == "__main__":
    main("alpa/fig12")
