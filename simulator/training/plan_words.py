"""`explain`: a training plan in words: stages, what dominates, how each operator is run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from .plan_layers import Block, blocks

if TYPE_CHECKING:
    from ...profiles.graph import Graph
    from .plan import StageEntry, TrainingPlan

__all__ = ["dominates", "explain", "in_flight", "operator_lines", "seconds_text", "stage_rows"]

GIB = 2**30
Row = dict[str, str]


def explain(plan: TrainingPlan, graph: Graph | None, *, operators: Literal["none", "heavy", "all"]) -> str:
    """What `TrainingPlan.explain` gives."""
    who = plan.planner
    lines = [
        f"{who.name} {who.version}: {plan.model.name} on {plan.cluster_spec}",
        f"global batch {plan.global_batch}: {plan.microbatches} microbatch(es) of {plan.microbatch}, "
        f"{plan.schedule}, {plan.model.dtype}, {plan.model.optimizer}",
        "",
        *table(stage_rows(plan, graph)),
        "",
        *dominates(plan),
    ]
    lines += [f"{key}: {value:.6g}" for key, value in plan.predicted.items()]
    if plan.cost_source:
        lines.append(f"times: {plan.cost_source}")
    lines.append(f"planned in {who.seconds:.3g} s, {who.evaluations} evaluations")
    if operators != "none":
        lines += ["", *operator_lines(plan, graph, every=operators == "all")]
    return "\n".join(lines)


def table(rows: list[Row]) -> list[str]:
    """Rows as lines, columns as wide as their widest cell, numbers to the right."""
    heads = list(rows[0])
    widths = {h: max(len(h), *(len(row[h]) for row in rows)) for h in heads}
    right = {h for h in heads if all(row[h][:1].isdigit() or row[h] in ("", "-") for row in rows) and h not in TEXT}

    def line(cells: Row) -> str:
        return "  ".join(cells[h].rjust(widths[h]) if h in right else cells[h].ljust(widths[h]) for h in heads).rstrip()

    return [line({h: h for h in heads}), *(line(row) for row in rows)]


TEXT = ("devices", "layers", "operators")


def stage_rows(plan: TrainingPlan, graph: Graph | None = None) -> list[Row]:
    """A row for each stage: what it holds, where, how long, how much memory."""
    memory = plan.cluster_spec.spec.memory_bytes
    rows: list[Row] = []
    for s, stage in enumerate(plan.stages):
        flying = in_flight(plan, s)
        peak = None if flying is None else stage.state_bytes + flying * stage.activation_bytes + stage.work_bytes
        rows.append(
            {
                "stage": str(s),
                "layers": _layers(stage, graph),
                "devices": _range(plan.mesh(s).device_ids),
                "mesh": f"{stage.logical[0]}x{stage.logical[1]}",
                "forward": seconds_text(stage.forward_s),
                "backward": seconds_text(stage.backward_input_s + stage.backward_weight_s),
                "once": seconds_text(stage.reduce_s + stage.update_s),
                "state": _gib(stage.state_bytes),
                "activations": f"{'?' if flying is None else flying} x {_gib(stage.activation_bytes)}",
                "peak GiB": "-" if peak is None else f"{peak / GIB:.2f} ({peak / memory:.0%})",
                "recompute": stage.recompute,
            }
        )
    if all(row["recompute"] == "none" for row in rows):
        for row in rows:
            del row["recompute"]
    return rows


def in_flight(plan: TrainingPlan, stage: int) -> int | None:
    """Microbatches whose activations a stage keeps at once (Alpa §5.2); None where only a simulation can say."""
    if plan.schedule == "gpipe":
        return plan.microbatches
    if plan.schedule in ("1f1b", "zb_h1"):
        return min(plan.microbatches, len(plan.stages) - stage)
    return None


def dominates(plan: TrainingPlan) -> list[str]:
    """What the iteration's time is made of, by Alpa's Eq. 2: Σ t + (B − 1) · max t, and the work once an iteration."""
    times = [s.forward_s + s.backward_input_s + s.backward_weight_s for s in plan.stages]
    slow = max(range(len(times)), key=times.__getitem__)
    once = max(s.reduce_s + s.update_s for s in plan.stages)
    steady, fill = plan.microbatches * times[slow], sum(times) - times[slow]
    total = steady + fill + once
    if total <= 0:
        return ["all stages take no time"]
    lines = [
        f"Σ t + (B - 1) max t + once = {seconds_text(total)} an iteration:",
        f"  {steady / total:>6.1%}  stage {slow}, the slowest: {plan.microbatches} x {seconds_text(times[slow])}",
    ]
    if len(times) > 1:
        lines.append(f"  {fill / total:>6.1%}  filling and draining the pipeline: the other stages, once each")
    lines.append(f"  {once / total:>6.1%}  gradient reduction and update, once an iteration")
    if len(times) > 1 and times[slow] > 0:
        lines.append(f"balance: a stage takes {sum(times) / len(times) / times[slow]:.1%} of the slowest on average")
    return lines


def operator_lines(plan: TrainingPlan, graph: Graph | None = None, *, every: bool = False) -> list[str]:
    """How each operator is run, stage by stage; layers that are run alike are folded, and said once."""
    lines = [
        "operators: loop on mesh axis 0 or 1; operands -> result (Sk: that dimension is cut over axis k; R: whole)"
    ]
    said: dict[tuple[object, ...], str] = {}
    for s, stage in enumerate(plan.stages):
        a, b = stage.logical
        lines.append(f"stage {s}: devices {_range(plan.mesh(s).device_ids)} as {a} x {b}")
        if not stage.operators:
            lines.append("  the plan does not say how its operators are run")
        for block in blocks(stage, graph):
            key = (stage.logical, block.content)
            if block.layers and key in said:
                lines.append(f"  {block.name}: as {said[key]}")
                continue
            if block.layers:
                said[key] = f"{block.name} of stage {s}"
                lines.append(f"  {block.name}")
            lines += _block_lines(block, graph, "    " if block.layers else "  ", every)
    return lines


def _block_lines(block: Block, graph: Graph | None, indent: str, every: bool) -> list[str]:
    rows: list[tuple[str, ...]] = []
    hidden = 0
    for name, plain, entry in block.operators:
        formula = ""
        if graph is not None and name in graph.index:
            operator = graph.operators[graph.index[name]]
            if not operator.heavy and not every:
                hidden += 1
                continue
            formula = operator.formula
        specs = f"{', '.join(x or '()' for x in entry.operands)} -> {entry.result or '()'}"
        rows.append((plain, _cuts(entry.axes), specs, formula))
    for _, plain, kept, state in block.parameters:
        rows.append((f"[{plain}]", f"kept {kept}", "" if state == kept else f"gradient and optimiser {state}", ""))
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(4)]
    lines = [
        indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    if hidden and block.layers:
        lines.append(f"{indent}+ {hidden} that follow their operands")
    return lines


def _cuts(axes: tuple[str, str]) -> str:
    if axes[0] and axes[0] == axes[1]:
        return f"{axes[0]} on both"
    return ", ".join(f"{loop} on {k}" for k, loop in enumerate(axes) if loop) or "whole"


def _layers(stage: StageEntry, graph: Graph | None) -> str:
    numbers = sorted({x for b in blocks(stage, graph) if b.layers for x in b.layers})
    if not numbers:
        return f"operators {stage.first}-{stage.last - 1}"
    return f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"


def _range(devices: tuple[int, ...]) -> str:
    """``0-3,8-11``."""
    runs: list[list[int]] = []
    for d in devices:
        if runs and d == runs[-1][1] + 1:
            runs[-1][1] = d
        else:
            runs.append([d, d])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _gib(n_bytes: float) -> str:
    return f"{n_bytes / GIB:.2f}"


def seconds_text(seconds: float) -> str:
    """Seconds with a unit of its size: ``12.3 s``, ``4.56 ms``, ``78.9 us``."""
    for unit, scale in (("s", 1.0), ("ms", 1e3)):
        if seconds * scale >= 1 or seconds == 0:
            return f"{seconds * scale:.4g} {unit}"
    return f"{seconds * 1e6:.4g} us"
