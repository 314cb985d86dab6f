"""`explain`: a training plan in words: stages, what dominates, how each operator is run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from ..result.memory_timeline import in_flight
from .fallback_words import fallback_lines
from .graph_words import stage_graph
from .layers import Block, blocks
from .program import plan_program
from .slice_words import slice_dominates, slice_lines

if TYPE_CHECKING:
    from ....profiles.graph import Graph
    from .file import StageEntry, TrainingPlan

__all__ = ["bytes_text", "dominates", "explain", "operator_lines", "seconds_text", "stage_rows", "table"]

Row = dict[str, str]


def explain(plan: TrainingPlan, graph: Graph | None, *, operators: Literal["none", "heavy", "all"]) -> str:
    """What `TrainingPlan.explain` gives."""
    who = plan.planner
    lines = [
        f"{who.name} {who.version}: {plan.model.name} on {' + '.join(map(str, plan.clusters))}",
        f"global batch {plan.global_batch}: {_batches(plan)}, {plan.schedule}, {plan.model.dtype}, "
        f"{plan.model.optimizer}",
        *stage_graph(plan).lines(),
        "",
        *slice_lines(plan),
        *table(stage_rows(plan, graph)),
        "",
        *(slice_dominates(plan) if plan.slices else dominates(plan)),
    ]
    lines += predicted_lines(plan)
    if plan.cost_source:
        lines.append(f"times: {plan.cost_source}")
    lines.append(f"planned in {who.seconds:.3g} s, {who.evaluations} evaluations")
    lines += fallback_lines(plan, graph)
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


TEXT = ("devices", "layers", "operators", "after")


def _batches(plan: TrainingPlan) -> str:
    """``8 microbatch(es) of 4``, or the range where stages differ."""
    sizes = sorted({plan.microbatch_of(s) for s in range(len(plan.stages))})
    if len(sizes) == 1:
        return f"{plan.global_batch // sizes[0]} microbatch(es) of {sizes[0]}"
    return f"microbatches of {sizes[0]} to {sizes[-1]} samples, stage by stage"


def stage_rows(plan: TrainingPlan, graph: Graph | None = None) -> list[Row]:
    """A row for each stage: what it holds, where, how long, how much memory."""
    rows: list[Row] = []
    before, together = stage_graph(plan).before, _flying(plan)
    for s, stage in enumerate(plan.stages):
        flying, memory = together[s], plan.mesh(s).cluster.spec.memory_bytes
        peak = None if flying is None else stage.state_bytes + flying * stage.activation_bytes + stage.work_bytes
        rows.append(
            {
                "stage": str(s),
                "after": ",".join(map(str, before[s])) or "-",
                "layers": _layers(stage, graph),
                "devices": _range(plan.mesh(s).device_ids),
                "mesh": f"{stage.logical[0]}x{stage.logical[1]}",
                "microbatch": str(plan.microbatch_of(s)),
                "k": str(stage.k),
                "forward": seconds_text(stage.forward_s),
                "backward": seconds_text(stage.backward_input_s + stage.backward_weight_s),
                "once": seconds_text(stage.reduce_s + stage.update_s),
                "state": bytes_text(stage.state_bytes),
                "activations": f"{'?' if flying is None else flying} x {bytes_text(stage.activation_bytes)}",
                "peak": "-" if peak is None else f"{bytes_text(peak)} ({peak / memory:.0%})",
                "recompute": stage.recompute,
            }
        )
    uniform = len({row["microbatch"] for row in rows}) == 1
    usual = {
        "after": all(sources == ((s - 1,) if s else ()) for s, sources in enumerate(before)),
        "microbatch": uniform,
        "k": all(stage.k == 1 for stage in plan.stages),
        "recompute": all(stage.recompute == "none" for stage in plan.stages),
    }
    hidden = {name for name, ordinary in usual.items() if ordinary}
    return [{name: cell for name, cell in row.items() if name not in hidden} for row in rows]


def _flying(plan: TrainingPlan) -> Sequence[int | None]:
    """Microbatches whose activations each stage keeps at once (Alpa §5.2); None where only a simulation can say."""
    if plan.schedule in ("gpipe", "terapipe"):
        return plan.microbatches_of
    if plan.schedule == "1f1b":
        return [min(n, d) for n, d in zip(plan.microbatches_of, stage_graph(plan).behind, strict=True)]
    if plan.schedule in ("kfkb", "explicit", "zb_h1"):
        return in_flight(plan_program(plan)).tolist()
    return [None] * len(plan.stages)


SAID = ("items_per_s", "about_seconds", "stages", "depth")
"""Predictions that other lines say, or that a search made use of on its way."""


def predicted_lines(plan: TrainingPlan) -> list[str]:
    """What the planner predicts, the usual metrics in one line, others a line each."""
    rest = {k: x for k, x in plan.predicted.items() if k not in SAID}
    gap, before, now = rest.pop("gap", 0.0), rest.pop("dp_seconds", 0.0), rest.get("seconds", 0.0)
    memory = " or ".join(bytes_text(n) for n in dict.fromkeys(c.spec.memory_bytes for c in plan.clusters))
    texts: dict[str, Callable[[float], str]] = {
        "seconds": lambda x: f"{seconds_text(x)} an iteration",
        "pflops": lambda x: f"{x:.4g} PFLOP/s",
        "mfu": lambda x: f"MFU {x:.1%}",
        "samples_per_s": lambda x: f"{x:.5g} samples/s",
        "tps": lambda x: f"{seconds_text(x)} a sample on the slowest stage",
        "bubble": lambda x: f"devices idle {x:.1%}",
        "peak_bytes": lambda x: f"peak {bytes_text(x)} of {memory}",
    }
    simulated = rest.pop("simulated_s", 0.0)
    said = [text(rest.pop(key)) for key, text in texts.items() if key in rest]
    lines = [f"predicted: {', '.join(said)}"] if said else []
    # Lines for differences that the four printed digits show.
    if simulated and abs(simulated - now) > 1e-3 * now:
        lines.append(f"simulated, with transfers between stages: {seconds_text(simulated)} an iteration")
    if before and abs(before - now) > 1e-3 * now:
        lines.append(f"the stage search counted on {seconds_text(before)}, before stages were solved exactly")
    if gap > 1e-6:  # the solvers' own tolerance
        lines.append(f"shardings are within {gap:.1%} of the proven bound, of the stage where that is largest")
    return lines + [f"{key}: {value:.6g}" for key, value in rest.items()]


def dominates(plan: TrainingPlan) -> list[str]:
    """What the iteration's time is made of, by Alpa's Eq. 2: Σ t + (B − 1) · max t.

    t is a microbatch's forward and backward pass, and its share of what is done once an iteration. Where stages share
    a mesh, the busiest mesh takes the slowest stage's place, and the first round of stages fills the pipeline. Where
    stages form a graph, Σ is over the longest path through the slowest stage, and each stage has its own B.
    """
    n, counts, graph = len(plan.meshes), plan.microbatches_of, stage_graph(plan)
    micro = graph.weight
    once = [s.reduce_s + s.update_s for s in plan.stages]
    whole = [m + o / b for m, o, b in zip(micro, once, counts, strict=True)]
    if len(plan.stages) > n:
        mine = [[s for s, stage in enumerate(plan.stages) if stage.mesh == m] for m in range(n)]
        slow = max(mine, key=lambda stages: sum(whole[s] for s in stages))
        name, filling = f"mesh {mine.index(slow)}, the busiest", sum(whole[:n]) - max(whole[:n])
        balance = sum(whole) / n / sum(whole[s] for s in slow) if sum(whole) else 1.0
    else:
        each = [w * b for w, b in zip(whole, counts, strict=True)]
        slow = [max(range(len(each)), key=each.__getitem__)]
        path = graph.path(slow[0])
        name, filling = f"stage {slow[0]}, the slowest", sum(whole[s] for s in path) - whole[slow[0]]
        balance = sum(each) / len(each) / each[slow[0]] if sum(each) else 1.0
    b = counts[slow[0]]
    steady, ends = sum(micro[s] for s in slow), sum(once[s] for s in slow)
    total = b * steady + ends + filling
    if total <= 0:
        return ["all stages take no time"]
    over = " over the longest path" if graph.branches else ""
    lines = [
        f"Σ t + (B - 1) max t{over} = {seconds_text(total)} an iteration:",
        f"  {b * steady / total:>6.1%}  {name}: {b} x {seconds_text(steady)}",
        f"  {ends / total:>6.1%}  its gradient reduction and update, once",
    ]
    if n > 1:
        lines.append(f"  {filling / total:>6.1%}  filling and draining the pipeline")
        lines.append(f"balance: on average {balance:.1%} of the slowest")
    return lines


def operator_lines(plan: TrainingPlan, graph: Graph | None = None, *, every: bool = False) -> list[str]:
    """How each operator is run, stage by stage; layers that are run alike are folded, and said once."""
    lines = [
        "operators: loop on mesh axis 0 or 1; operands -> result (Sk: that dimension is cut over axis k; R: whole)"
    ]
    said: dict[tuple[object, ...], str] = {}
    for s, stage in enumerate(plan.stages):
        a, b = stage.logical
        ids = plan.mesh(s).device_ids
        lines.append(f"stage {s}: device{'s' if ids[1:] else ''} {_range(ids)} as {a} x {b}")
        if not stage.operators:
            lines.append("  the plan does not say how its operators are run")
        elif a * b == 1:
            lines.append(f"  {len(stage.operators)} operators, nothing is cut")
            continue
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
        rows.append((plain.partition("*.")[2] or plain, _cuts(entry.axes), specs, formula))
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(4)]
    lines = [
        indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    if hidden and block.layers:
        lines.append(f"{indent}and {hidden} that follow their operands")
    return lines + [indent + line for line in _parameter_lines(block, every)]


def _parameter_lines(block: Block, every: bool) -> list[str]:
    """Where parameters are kept: each by itself, or those together that are cut over the same axes."""
    if every:
        return [
            f"[{plain.partition('*.')[2] or plain}] kept {kept}"
            + ("" if state == kept else f", gradient and optimiser {state}")
            for _, plain, kept, state in block.parameters
        ]
    groups: dict[tuple[str, str], list[str]] = {}
    for _, plain, kept, state in block.parameters:
        groups.setdefault((_over(kept), _over(state)), []).append(plain.partition("*.")[2] or plain)
    lines: list[str] = []
    for (kept, state), names in groups.items():
        who = ", ".join(names) if len(names) < 4 else f"{names[0]} and {len(names) - 1} more parameters"
        lines.append(f"[{who}] kept {kept}" + ("" if state == kept else f", gradient and optimiser state {state}"))
    return lines


def _over(spec: str) -> str:
    """``RS01`` -> ``cut over axes 0 and 1``."""
    axes = sorted({x for x in spec if x.isdigit()})
    return f"cut over ax{'es' if axes[1:] else 'is'} {' and '.join(axes)}" if axes else "whole"


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


def bytes_text(n_bytes: float) -> str:
    """Bytes with a unit of its size: ``12.3 GiB``, ``456 MiB``."""
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if n_bytes >= scale:
            return f"{n_bytes / scale:.3g} {unit}"
    return f"{n_bytes:.0f} B"


def seconds_text(seconds: float) -> str:
    """Seconds with a unit of its size: ``12.3 s``, ``4.56 ms``, ``78.9 us``."""
    for unit, scale in (("s", 1.0), ("ms", 1e3)):
        if seconds * scale >= 1 or seconds == 0:
            return f"{seconds * scale:.4g} {unit}"
    return f"{seconds * 1e6:.4g} us"
