"""`meshwright configure`: the fastest way to train a decoder on a cluster, among all combinations of the means."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InfeasibleError, InputError
from .status import status
from .trace_io import print_json
from .workload import cluster_from

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..planners.megatron import Configuration, DeviceCount, SearchResult
    from ..simulator import Cluster

__all__ = ["configure"]

DEFAULT_DEVICE = "a100-80gb"
GIB = 2**30
MEANS = "Means (one value, or several with commas; all by default)"
SIZES = "Cluster sizes"


def configure(
    model: Annotated[
        str, typer.Option(help="gpt3-175b, llama-3.1-8b, …, or layers=96,hidden=12288,heads=96,vocab=51200,seq=2048.")
    ],
    batch: Annotated[int, typer.Option(help="Samples of one iteration.")],
    cluster: Annotated[str | None, typer.Option(help="NODESxDEVICES:DEVICE, such as 8x8:a100-80gb.")] = None,
    devices: Annotated[int | None, typer.Option(help="Number of devices, instead of --cluster.")] = None,
    device: Annotated[str | None, typer.Option(help=f"Device of --devices; default {DEFAULT_DEVICE}.")] = None,
    seq: Annotated[int | None, typer.Option(help="Tokens of a sample; default the model's.")] = None,
    dtype: Annotated[str, typer.Option(help="bf16, fp16 or fp32.")] = "bf16",
    memory: Annotated[float | None, typer.Option(help="GiB that may be used of each device; default all.")] = None,
    software: Annotated[str, typer.Option(help="core, megatron-2022, or both with a comma.")] = "core",
    top: Annotated[int, typer.Option(help="Configurations to list.")] = 10,
    tp: Annotated[str | None, typer.Option(rich_help_panel=MEANS, help="Tensor-parallel degrees.")] = None,
    pp: Annotated[str | None, typer.Option(rich_help_panel=MEANS, help="Pipeline stages.")] = None,
    dp: Annotated[str | None, typer.Option(rich_help_panel=MEANS, help="Data-parallel degrees.")] = None,
    microbatch: Annotated[str | None, typer.Option(rich_help_panel=MEANS, help="Samples of a microbatch.")] = None,
    interleave: Annotated[str | None, typer.Option(rich_help_panel=MEANS, help="Model chunks per stage.")] = None,
    recompute: Annotated[str | None, typer.Option(rich_help_panel=MEANS, help="none, selective, full.")] = None,
    sequence_parallel: Annotated[
        bool | None, typer.Option("--sequence-parallel/--no-sequence-parallel", rich_help_panel=MEANS, help="Or not.")
    ] = None,
    zero: Annotated[str | None, typer.Option(rich_help_panel=MEANS, help="0, 1, 2, 3.")] = None,
    sweep: Annotated[
        str | None, typer.Option(rich_help_panel=SIZES, help="Search these numbers of devices, such as 64,128,256.")
    ] = None,
    days: Annotated[
        float | None, typer.Option(rich_help_panel=SIZES, help="Find the fewest devices that finish in so many days.")
    ] = None,
    tokens: Annotated[float | None, typer.Option(rich_help_panel=SIZES, help="Length of the run for --days.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write everything that was evaluated.")] = None,
    plan: Annotated[
        Path | None, typer.Option(help="Write the fastest as a training plan, to be simulated and drawn.")
    ] = None,
    flags: Annotated[bool, typer.Option("--flags", help="Print the fastest as arguments of Megatron-LM.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Search every combination of tensor, pipeline and data parallelism, microbatch, interleaving, recomputation,
    sequence parallelism and ZeRO for the fastest that fits."""
    from ..files import check_target
    from ..planners.megatron import devices_for, model_shape, search, sweep_devices

    for target in (csv, plan):
        if target is not None:
            check_target(target)
    if flags and (as_json or sweep is not None or days is not None):
        raise InputError("--flags: does not go with --json, --sweep or --days; it prints one configuration")
    if (days is None) != (tokens is None):
        raise InputError("--days, --tokens: give both or none: how long the run may take, and how long it is")
    shape, where = model_shape(model, seq), cluster_from(cluster, devices, device, DEFAULT_DEVICE)
    options: dict[str, Any] = {
        "tp": _numbers("tp", tp), "pp": _numbers("pp", pp), "dp": _numbers("dp", dp),
        "microbatch": _numbers("microbatch", microbatch), "interleave": _numbers("interleave", interleave),
        "recompute": None if recompute is None else [word.strip() for word in recompute.split(",")],
        "sequence_parallel": sequence_parallel, "zero": _numbers("zero", zero), "dtype": dtype,
        "memory": None if memory is None else memory * GIB, "stack": _stacks(software), "top": top,
    }  # fmt: skip
    sizes = None if sweep is None else _numbers("sweep", sweep)
    with status("searching") as say:
        options["progress"] = say
        if days is not None:
            if csv is not None or plan is not None:
                raise InputError("--csv, --plan: do not go with --days, which searches several clusters; take --sweep")
            found = devices_for(shape, where, batch, days=days, tokens=tokens, devices=sizes, **options)
            return _say_count(found, where, as_json)
        if sizes is not None:
            if (csv is not None or plan is not None) and len(sizes) > 1:
                raise InputError("--csv, --plan: expected one number of devices in --sweep (got several)")
            several = sweep_devices(shape, where, batch, sizes, **options)
        else:
            several = {where.n_devices: search(shape, where, batch, **options)}
    results = [result for result in several.values() if result is not None]
    if csv is not None and results:
        results[0].to_csv(csv)
    if plan is not None and results and results[0].best:
        _write_plan(results[0], model, options, plan)
    if flags:
        _say_flags(results[0], options)
    elif sizes is None:
        _say_search(results[0], as_json)
    else:
        _say_sweep(several, as_json)
    if not any(result.best for result in results):
        raise InfeasibleError(f"--sweep: nothing fits on any of {', '.join(map(str, several))} devices")
    return None


def _say_flags(result: SearchResult, options: dict[str, Any]) -> None:
    from ..planners.megatron import megatron_flags

    best, (dtype, stack) = result.best[0], _software(result, options)
    for flag in megatron_flags(best, result.model, result.global_batch, dtype=dtype, stack=stack):
        typer.echo(flag)


def _software(result: SearchResult, options: dict[str, Any]) -> tuple[str, Any]:
    """The type and the training software of the fastest."""
    return options["dtype"], next(one for one in options["stack"] if one.name == result.best[0].stack)


def _write_plan(result: SearchResult, model: str, options: dict[str, Any], path: Path) -> None:
    from ..planners.megatron import training_plan

    best, (dtype, stack) = result.best[0], _software(result, options)
    made = training_plan(
        result.model, result.cluster, result.global_batch, dtype=dtype, stack=stack,
        name=model if "=" not in model else "decoder", **best.settings,
    )  # fmt: skip
    made.save(path)


def _numbers(name: str, text: str | None) -> list[int] | None:
    if text is None:
        return None
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if not re.fullmatch(r"\d{1,9}", word):
            raise InputError(f"--{name}: expected whole numbers with commas (got {text!r})")
    return [int(word) for word in words]


def _stacks(text: str) -> list[Any]:
    from ..simulator.training import CORE, MEGATRON_2022

    known = {"core": CORE, "megatron-2022": MEGATRON_2022}
    found: list[Any] = []
    for word in (w.strip() for w in text.split(",")):
        if word not in known:
            raise InputError(f"--software: expected core, megatron-2022 or both (got {text!r})")
        found.append(known[word])
    return found


def _row(one: Configuration) -> dict[str, Any]:
    return {
        **one.settings, "stack": one.stack, "seconds": one.seconds, "peak_bytes": one.peak_bytes,
        "device_bytes": one.breakdown.memory.device, "mfu": one.mfu,
    }  # fmt: skip


def _parts(one: Configuration) -> dict[str, Any]:
    time, held = one.breakdown.time, one.breakdown.memory
    return {
        **_row(one),
        "time": {name: getattr(time, name) for name in time.__slots__},
        "memory": {name: getattr(held, name) for name in held.__slots__},
    }


def _say_search(result: SearchResult, as_json: bool) -> None:
    if not as_json:
        typer.echo(result.explain())
        return
    print_json({
        "combinations": result.combinations, "impossible": dict(result.impossible), "repeats": result.repeats,
        "evaluated": result.evaluated, "out_of_memory": result.out_of_memory, "fit": result.fit,
        "memory_bytes": result.memory_bytes, "seconds": result.seconds, "best": [_parts(one) for one in result.best],
        "front": [_row(one) for one in result.front],
    })  # fmt: skip


def _say_sweep(several: Mapping[int, SearchResult | None], as_json: bool) -> None:
    best = {size: result.best[0] if result and result.best else None for size, result in several.items()}
    if as_json:
        print_json({str(size): None if one is None else _parts(one) for size, one in best.items()})
        return
    typer.echo("devices  s/iteration    MFU    peak GiB  configuration")
    for size, one in best.items():
        if one is None:
            why = "no combination is possible" if several[size] is None else "nothing fits"
            typer.echo(f"{size:>7}            -      -           -  {why}")
        else:
            typer.echo(f"{size:>7}  {one.seconds:>11.4g}  {one.mfu:>5.1%}  {one.peak_bytes / GIB:>10.1f}  {one}")


def _say_count(found: DeviceCount, cluster: Cluster, as_json: bool) -> None:
    if as_json:
        print_json({
            "devices": found.devices, "days": found.days, "iterations": found.iterations, "price": found.price,
            "tried": found.tried, "configuration": _parts(found.configuration),
        })  # fmt: skip
        return
    typer.echo(
        f"{found.devices} x {cluster.spec.name}: {found.iterations:,} iterations in {found.days:.4g} days"
        + (f", {found.price:,.0f} at {cluster.spec.price_per_hour:g} per device-hour" if found.price else "")
    )
    for size, took in found.tried.items():
        typer.echo(f"  {size:>6} devices: " + ("nothing fits" if took is None else f"{took:.4g} days"))
    typer.echo(f"{found.configuration}\n{found.configuration.estimate.explain()}")
