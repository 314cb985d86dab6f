"""`meshwright graph`: show a graph of training or of inference, trace one from a torch module, write it to a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError
from ..profiles.graph.named import graph_of
from .trace_io import print_json

if TYPE_CHECKING:
    from ..profiles.graph import Graph, Operator

__all__ = ["graph"]


def graph(
    model: Annotated[
        str | None, typer.Argument(help="A model of the zoo, a graph file, or path/to/file.py:function that is traced.")
    ] = None,
    batch: Annotated[int | None, typer.Option(help="Samples of a microbatch that the figures are for.")] = None,
    operators: Annotated[bool, typer.Option("--operators", help="List the operators, equal layers once.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the graph here (JSON).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Show a graph of training or of inference: operators, FLOPs, parameters. Without a model: the zoo."""
    from ..files import check_target
    from ..profiles.graph import save_graph

    if out is not None:
        check_target(out)
    if model is None:
        if out is not None:
            raise InputError("--out: which model? Say: meshwright graph MODEL --out FILE")
        _zoo(as_json)
        return
    found = graph_of(model, "graph")
    if batch is not None:
        if batch < 1:
            raise InputError(f"--batch: expected a positive integer (got {batch})")
        found = found.with_batch(batch)
    if out is not None:
        save_graph(found, out)
    if as_json:
        print_json(_document(found, out))
        return
    _print(found)
    if operators:
        typer.echo("")
        for line in _listing(found):
            typer.echo(line)
    if out is not None:
        typer.echo(f"graph written: {out}")


def _zoo(as_json: bool) -> None:
    from ..profiles.graph import INFERENCE, ZOO, zoo_graph

    rows: list[dict[str, Any]] = []
    for name in (*ZOO, *INFERENCE):
        found = zoo_graph(name)
        rows.append({"model": name, "operators": len(found.operators), "parameters": found.params,
                     "forward_flops": found.forward_flops, "items_per_sample": found.items_per_sample,
                     "items": found.items, "results": list(found.results), "source": found.source})  # fmt: skip
    if as_json:
        print_json(rows)
        return
    typer.echo(f"{'model':<20}{'operators':>10}{'parameters':>12}{'forward FLOP':>14}  of a sample")
    for row in rows:
        typer.echo(
            f"{row['model']:<20}{row['operators']:>10}{count_text(row['parameters']):>12}"
            f"{count_text(row['forward_flops']):>14}  {row['items_per_sample']:g} {row['items']}; "
            f"{'inference; ' if row['results'] else ''}{row['source']}"
        )


def count_text(value: float) -> str:
    """``39.1 G``, ``12.3 M``, ``456``."""
    for unit, scale in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value:.3g}"


def _kinds(found: Graph) -> list[dict[str, Any]]:
    kinds = dict.fromkeys(op.kind for op in found.operators)
    return [
        {
            "kind": kind,
            "operators": len(mine := [op for op in found.operators if op.kind == kind]),
            "heavy": sum(op.heavy for op in mine),
            "forward_flops": sum(op.flops for op in mine),
            "result_bytes": sum(op.bytes for op in mine),
        }
        for kind in kinds
    ]


def _document(found: Graph, out: Path | None) -> dict[str, Any]:
    return {
        "name": found.name, "batch": found.batch, "source": found.source, "digest": found.digest,
        "operators": len(found.operators), "parameters": found.params, "forward_flops": found.forward_flops,
        "items_per_sample": found.items_per_sample, "items": found.items, "results": list(found.results),
        "layers": _layers(found),
        "kinds": _kinds(found), "out": None if out is None else str(out),
    }  # fmt: skip


def _layers(found: Graph) -> int:
    return len({op.layer for op in found.operators if op.layer >= 0})


def _print(found: Graph) -> None:
    typer.echo(
        f"{found.name}: {count_text(found.params)} parameters, {len(found.operators)} operators, "
        f"{_layers(found)} layers"
    )
    samples = f"{found.batch} sample{'s' if found.batch > 1 else ''} of {found.items_per_sample:g} {found.items}"
    typer.echo(f"microbatch of {samples}: forward {count_text(found.forward_flops)}FLOP")
    if found.inference:
        typer.echo(f"inference, no loss; results: {', '.join(found.results)}")
    if found.source:
        typer.echo(f"source: {found.source}")
    typer.echo(f"\n{'kind':<14}{'operators':>10}{'heavy':>7}{'forward FLOP':>14}{'share':>8}{'results':>12}")
    for row in sorted(_kinds(found), key=lambda row: -row["forward_flops"]):
        share = row["forward_flops"] / found.forward_flops if found.forward_flops else 0.0
        typer.echo(
            f"{row['kind']:<14}{row['operators']:>10}{row['heavy']:>7}{count_text(row['forward_flops']):>14}"
            f"{share:>8.1%}{count_text(row['result_bytes']) + 'B':>12}"
        )


def _listing(found: Graph) -> list[str]:
    """Operators in order; layers whose operators are the same are listed once."""
    groups: list[tuple[int, list[Operator]]] = []
    for op in found.operators:
        if groups and groups[-1][0] == op.layer and op.layer >= 0:
            groups[-1][1].append(op)
        else:
            groups.append((op.layer, [op]))
    said: dict[tuple[Any, ...], int] = {}
    same: dict[int, list[int]] = {}
    for layer, ops in groups:
        if layer >= 0:
            first = said.setdefault(tuple((op.kind, op.formula, op.loops) for op in ops), layer)
            same.setdefault(first, []).append(layer)
    lines: list[str] = []
    for layer, ops in groups:
        if layer >= 0 and layer not in same:
            continue
        if layer >= 0:
            alike = same[layer]
            lines.append(f"layer {layer}" + (f" (and {len(alike) - 1} like it, to {alike[-1]})" if alike[1:] else ""))
        for op in ops:
            shape = " ".join(f"{x.name}={x.size}{'*' if x.batch else ''}" for x in op.loops)
            lines.append(f"  {op.name:<28}{op.kind:<13}{op.formula:<34}{shape}")
    return lines
