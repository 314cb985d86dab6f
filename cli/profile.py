"""`meshwright profile`: list, show and check profile sets, plan one from graphs, and measure one for training."""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError

if TYPE_CHECKING:
    from ..profiles import ModelProfile, ProfileSet
    from ..profiles.graph import Graph
    from ..profiles.graph.costs.measured.profile import TrainingProfile

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


@app.command("list")
def list_sets(as_json: Json = False) -> None:
    """List the profile sets that come with the package."""
    from ..profiles import load, shipped

    sets = [load(name) for name in shipped()]
    if as_json:
        _print_json(
            [
                {"name": s.name, "device": s.device, "models": list(s), "digest": s.digest(), "source": _source(s)}
                for s in sets
            ]
        )
        return
    _print_table(("set", "device", "models", "source"), [(s.name, s.device, ", ".join(s), _source(s)) for s in sets])


@app.command("show")
def show(
    name: Annotated[str, typer.Argument(help="A shipped set (see list), or a profile file.")],
    model: Annotated[str | None, typer.Option("--model", "-m", help="Show one model in detail.")] = None,
    as_json: Json = False,
) -> None:
    """Show a profile set: its models, or every parallel configuration of one; or a profile of training."""
    from ..profiles import load
    from ..profiles.graph.costs.measured.profile import TrainingProfile, is_training_profile

    if model is None and not as_json and is_training_profile(name):
        typer.echo("\n".join(TrainingProfile.load(name).lines()))
        return
    profiles = load(name)
    if model is None:
        _show_set(profiles, as_json)
    else:
        _show_model(profiles, model, as_json)


@app.command("check")
def check(
    file: Annotated[Path, typer.Argument(help="A profile file (JSON).")],
    as_json: Json = False,
) -> None:
    """Check a profile file: exit 0 if it is sound, 1 if a figure looks wrong, 2 if it is not valid."""
    from ..profiles import ProfileWarning, doubts, load

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ProfileWarning)
        profiles = load(file)
    found = doubts(profiles)
    if as_json:
        _print_json({"file": str(file), "models": list(profiles), "digest": profiles.digest(), "doubts": found})
    else:
        cells = sum(len(s.latency) * c.pp for p in profiles.values() for c, s in p.stages.items())
        verdict = "looks wrong in places" if found else "sound"
        typer.echo(f"{file}: {verdict}: {len(profiles)} model(s), {cells} latencies, digest {profiles.digest()[:12]}")
        for doubt in found:
            typer.echo(f"  {doubt}")
    raise typer.Exit(1 if found else 0)


@app.command("plan")
def plan(
    models: Annotated[
        list[str], typer.Argument(help="Models of the zoo, graph files, or path/to/file.py:function that is traced.")
    ],
    out: Annotated[Path, typer.Option(help="Write the profile set here (JSON); its name is the file's.")],
    device: Annotated[str, typer.Option(help="Type of device that it is planned for.")] = "v100-16gb",
    ops: Annotated[str, typer.Option(help="Intra-op degrees, such as 1,2,4,8.")] = "1,2,4,8",
    batches: Annotated[str, typer.Option(help="Batch sizes, such as 1,2,4.")] = "1",
    most: Annotated[int, typer.Option("--max-devices", help="Largest op x pp.")] = 64,
    size: Annotated[
        list[str] | None, typer.Option(help="Another size of a model of the zoo, such as seq=2048; may be repeated.")
    ] = None,
    single_s: Annotated[
        float | None, typer.Option(help="Measured seconds of one request on one device, to which operators are scaled.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Plan a serving profile of graphs: Alpa's ILP without data parallelism, and AlpaServe's stage programme."""
    from ..files import check_target
    from ..planners.serving_profiles import plan_profiles
    from ..profiles import save

    check_target(out)
    degrees, wanted = _integers("--ops", ops), _integers("--batches", batches)
    sizes = dict(_size(word) for word in size or ())
    graphs = {}
    for word in models:
        graph = _graph(word, sizes)
        if graph.name in graphs:
            raise InputError(f"models: {word!r}: {graph.name!r} is given twice; name each model once")
        graphs[graph.name] = graph
    made = plan_profiles(
        graphs,
        device,
        name=out.stem,
        progress=lambda text: typer.echo(f"planning {text}", err=True),
        ops=degrees,
        batches=wanted,
        max_devices=most,
        single_s=single_s,
    )
    save(made, out)
    _show_set(made, as_json)


@app.command("measure")
def measure(
    model: Annotated[
        str, typer.Argument(help="A model of the zoo, a graph file, or path/to/file.py:function that is traced.")
    ],
    out: Annotated[Path, typer.Option(help="Write the profile here (JSON); one that is there goes on.")],
    training: Annotated[
        bool, typer.Option("--training", help="Operators, forward and backward, and collectives.")
    ] = False,
    batches: Annotated[str, typer.Option(help="Samples of a microbatch, such as 1,4.")] = "1",
    devices: Annotated[int | None, typer.Option(help="Most devices of a stage; else all that are here.")] = None,
    on: Annotated[str, typer.Option(help="cpu (one core is one device), or cuda.")] = "cpu",
    rounds: Annotated[int | None, typer.Option(help="Laps of each operator; 7, with --fast 3.")] = None,
    fast: Annotated[bool, typer.Option("--fast", help="Few laps, and few sizes of collectives.")] = False,
    most: Annotated[int, typer.Option(help="Most shapes that are measured; the others are scaled.")] = 5000,
    seed: Annotated[int, typer.Option(help="Seed of the operands.")] = 0,
    size: Annotated[
        list[str] | None, typer.Option(help="Another size of a model of the zoo, such as seq=2048; may be repeated.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure what training plans are made of on this machine; meshwright measure serving measures for serving."""
    from ..profiles.measure.training import Asked, measure_training
    from ..worlds.registry import names, world

    if not training:
        raise InputError("profile measure: say --training; profiles of serving: meshwright measure serving")
    laps = (3 if fast else 7) if rounds is None else rounds
    asked = Asked(_integers("--batches", batches), devices, on, laps, fast, most, seed)
    graph = _graph(model, dict(_size(word) for word in size or ()))
    found = measure_training(graph, asked, out, progress=_say)
    for name in names():
        found = getattr(world(name), "at_work", _unchanged)(found, graph, asked, _say)
    found.save(out)
    if as_json:
        _print_json({"file": str(out), "operators": len(found.operators), "own": found.own, "about": found.about})
        return
    typer.echo("\n".join(found.lines()))
    typer.echo(f"profile written: {out}; meshwright plan training --profile {out}")


def _say(text: str) -> None:
    typer.echo(text, err=True)


def _unchanged(profile: TrainingProfile, *_: object) -> TrainingProfile:
    """Of a world that adds nothing to it."""
    return profile


def _graph(word: str, sizes: dict[str, int]) -> Graph:
    from ..profiles.graph import build_graph, in_zoo
    from ..profiles.graph.named import graph_of

    if sizes and not in_zoo(word):
        raise InputError(f"--size: {word!r} is no model of the zoo; its sizes are its own")
    return build_graph(word, sizes=sizes) if sizes else graph_of(word, "models")


def _size(word: str) -> tuple[str, int]:
    key, equals, value = word.partition("=")
    if not equals or not value.isdecimal():
        raise InputError(f"--size: expected KEY=NUMBER, such as layers=24 (got {word!r})")
    return key, int(value)


def _integers(option: str, text: str) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() for word in words):
        raise InputError(f"{option}: expected integers with commas between, such as 1,2,4 (got {text!r})")
    return tuple(map(int, words))


def _show_set(profiles: ProfileSet, as_json: bool) -> None:
    rows: list[dict[str, Any]] = []
    for name, profile in profiles.items():
        least = min(profile.stages, key=lambda c: (c.op, c.pp))
        rows.append(
            {
                "model": name,
                "latency_s": profile.single_device_latency(),
                "weight_bytes": math.fsum(profile.weight_bytes(least)) * least.op,
                "configs": [str(c) for c in profile.configs],
                "batches": list(profile.batches(least)),
            }
        )
    if as_json:
        about = {"name": profiles.name, "device": profiles.device, "digest": profiles.digest()}
        _print_json({**about, "overhead_s": profiles.overhead_s, "source": _source(profiles), "models": rows})
        return
    typer.echo(f"{profiles.name} on {profiles.device or 'unknown device'}: {_source(profiles)}")
    if profiles.provenance.notes:
        typer.echo(profiles.provenance.notes)
    _print_table(
        ("model", "latency", "weights", "configurations", "batches"),
        [
            (
                row["model"],
                f"{row['latency_s'] * 1e3:.1f} ms",
                f"{row['weight_bytes'] / 1e9:.2f} GB",
                f"{len(row['configs'])}, {row['configs'][0]} to {row['configs'][-1]}",
                ", ".join(map(str, row["batches"])),
            )
            for row in rows
        ],
    )


def _show_model(profiles: ProfileSet, model: str, as_json: bool) -> None:
    if model not in profiles:
        raise InputError(f"--model: profile set {profiles.name!r} has no {model!r}; it holds {', '.join(profiles)}")
    profile = profiles[model]
    if as_json:
        _print_json({"model": profile.name, "set": profiles.name, "configs": _configs(profile)})
        return
    typer.echo(f"{profile.name} of {profiles.name}: {profile.provenance.source}")
    if profile.provenance.notes:
        typer.echo(profile.provenance.notes)
    _print_table(
        ("config", "devices", "latency", "slowest stage", "weights/device", "source"),
        [
            (
                row["config"],
                str(row["devices"]),
                f"{row['latency_s'] * 1e3:.1f} ms",
                f"{row['slowest_stage_s'] * 1e3:.2f} ms",
                f"{row['heaviest_device_bytes'] / 1e9:.2f} GB",
                row["source"],
            )
            for row in _configs(profile)
        ],
    )


def _configs(profile: ModelProfile) -> list[dict[str, Any]]:
    rows = []
    for config in profile.configs:
        stage = profile.stages[config]
        first = stage.latency[min(stage.latency)]
        rows.append(
            {
                "config": str(config),
                "devices": config.n_devices,
                "latency_s": math.fsum(first) + (config.pp - 1) * stage.hop_s,
                "slowest_stage_s": max(first),
                "heaviest_device_bytes": max(stage.weight_bytes),
                "stages_s": {str(b): list(row) for b, row in sorted(stage.latency.items())},
                "hop_s": stage.hop_s,
                "partition": list(stage.partition),
                "source": stage.source or profile.provenance.source,
            }
        )
    return rows


def _source(profiles: ProfileSet) -> str:
    """Where a set comes from, and when."""
    date = profiles.provenance.date
    return profiles.provenance.source + (f" ({date})" if date else "")


def _print_json(value: object) -> None:
    typer.echo(json.dumps(value, indent=1))


def _print_table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """Columns as wide as their widest cell; plain text, so that it pipes."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    for row in [head, tuple("-" * w for w in widths), *rows]:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
