"""`redone`: which results of a stage are not kept for the backward pass but made again in it."""

from __future__ import annotations

from .stage_layout import StageLayout

__all__ = ["redone"]


def redone(layout: StageLayout, recompute: str) -> tuple[tuple[int, ...], ...]:
    """Groups of operators, by position in the stage, each made again as a whole.

    Parameters
    ----------
    layout : StageLayout
        The stage.
    recompute : {"none", "selective", "full"}
        Nothing; the attention core (scores, softmax, context); everything, so that only what the stage receives stays.
    """
    if recompute == "full":
        return (tuple(range(len(layout.operators))),)
    if recompute != "selective":
        return ()
    by_name = {run.op.name: i for i, run in enumerate(layout.operators)}
    found: list[tuple[int, ...]] = []
    for i, run in enumerate(layout.operators):
        if run.op.kind == "attention":
            found.append((i,))
        elif run.op.kind == "softmax" and run.op.attributes.get("query"):
            before = [by_name[name] for name in run.op.inputs if name in by_name]
            after = [j for j, other in enumerate(layout.operators) if run.op.name in other.op.inputs]
            found.append(tuple(sorted({*before, i, *after})))
    return tuple(found)
