"""`meshwright plan`: search a placement of models on a cluster for a trace."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError
from .status import status
from .trace_io import print_json
from .workload import check_device, cluster_from, profiles_from, trace_from, warn_of_hopeless

if TYPE_CHECKING:
    from ..profiles import ModelProfile, ParallelConfig

__all__ = ["plan"]


def plan(
    cluster: Annotated[str | None, typer.Option(help="NODESxDEVICES[:DEVICE], such as 8x8:v100-16gb.")] = None,
    devices: Annotated[int | None, typer.Option(help="Number of devices, instead of --cluster.")] = None,
    device: Annotated[str | None, typer.Option(help="Device type; by default the profile's.")] = None,
    models: Annotated[
        str | None, typer.Option(help="S1, S2, S3, S4, or names with commas, NAME=COUNT for instances; default all.")
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(help="Shipped profile set or file; default alpaserve-v100."),
    ] = None,
    trace: Annotated[Path | None, typer.Option(help="Trace file to plan for.")] = None,
    rate: Annotated[float | None, typer.Option(help="Generate traffic: requests per second, all models.")] = None,
    cv: Annotated[float | None, typer.Option(help="Generated traffic: CV of inter-arrival times; default 1.")] = None,
    duration: Annotated[float | None, typer.Option(help="Generated traffic: seconds; default 300.")] = None,
    split: Annotated[
        str | None, typer.Option(help="Generated traffic: uniform, power_law:EXPONENT or shares with commas.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of traffic and planner, >= 0.")] = 0,
    slo_scale: Annotated[
        float | None, typer.Option(help="SLO as a multiple of single-device latency; default 5 if generated.")
    ] = None,
    slo: Annotated[float | None, typer.Option(help="SLO of every request, seconds.")] = None,
    planner: Annotated[
        str,
        typer.Option(
            help="Planner: a shipped one, one that an installed package brings, or path/to/file.py:name; several with "
            "commas to compare; all: the shipped ones."
        ),
    ] = "alpaserve",
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            "-o",
            help="Planner option, NAME=VALUE, or how it is served: admission, overhead, max_batch; may be repeated.",
        ),
    ] = None,
    dispatch: Annotated[str, typer.Option(help="shortest_queue, earliest_finish or earliest_free.")] = "shortest_queue",
    out: Annotated[Path | None, typer.Option(help="Write the plan here (of several, the best).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Search a placement of models on a cluster for a trace."""
    from ..errors import InfeasibleError
    from ..files import check_target
    from ..planners import PLANNERS, PlannerSource, Problem
    from ..planners.contract.source import split_names
    from ..simulator import Plan

    named = split_names(planner)
    words = [[*PLANNERS] if word == "all" else [word] for word in named]
    with redirect_stdout(sys.stderr):  # what a planner prints is none of our output
        chosen = {name: PlannerSource.find(name) for names in words for name in names}
    options = _options(option or [])
    serving: dict[str, Any] = {
        name: options.pop(name) for name in ("admission", "overhead", "max_batch") if name in options
    }
    for source in chosen.values():
        source.check_options(options, "--option")
    if out is not None:
        check_target(out)
    profiles = profiles_from(models, profile)
    where = cluster_from(cluster, devices, device, profiles.device)
    check_device(profiles, where.spec.name)
    traffic, said = trace_from(
        trace, profiles, profiles, rate=rate, cv=cv, duration=duration, split=split, seed=seed, slo_scale=slo_scale,
        slo=slo,
    )  # fmt: skip
    warn_of_hopeless(traffic, profiles, {name: _within(profiles[name], where.n_devices) for name in profiles})
    serving.setdefault("overhead", profiles.overhead_s)
    problem = Problem(
        where, tuple(profiles), traffic, profiles, dispatch=dispatch, seed=seed, options=options, **serving
    )
    found: dict[str, Any] = {}
    failed: dict[str, InfeasibleError] = {}
    for name, search in chosen.items():
        with status(f"planning with {name}") as say, redirect_stdout(sys.stderr):
            try:
                found[name] = search.plan(problem, say, "--option")
            except InfeasibleError as error:
                if len(chosen) == 1:
                    raise
                failed[name] = error
    if not found:
        raise InfeasibleError("; ".join(f"{name}: {error}" for name, error in failed.items()))
    plans = {name: p for name, p in found.items() if isinstance(p, Plan)}
    best = max(plans or found, key=lambda name: found[name].predicted["attainment"])
    if out is not None:
        if best not in plans:
            raise InputError(f"--out: {best} changes its placement over time, which no plan file holds")
        plans[best].model_copy(update={"workload": _workload(plans[best], said)}).save(out)
    if as_json:
        print_json(_document(found, failed, best, out))
        return
    _print(found, failed)
    typer.echo(found[best].explain())
    if out is not None:
        typer.echo(f"plan written: {out}")


def _within(profile: ModelProfile, n_devices: int) -> list[ParallelConfig]:
    return [config for config in profile.configs if config.n_devices <= n_devices]


def _workload(plan: Any, source: str) -> Any:
    return None if plan.workload is None else plan.workload.model_copy(update={"source": source})


def _options(words: list[str]) -> dict[str, Any]:
    """``["beam=2", "selection=greedy"]`` -> values; JSON where it is JSON, else text."""
    options: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier():
            raise InputError(f"--option: expected NAME=VALUE (got {word!r})")
        if name in options:
            raise InputError(f"--option: {name} is given twice")
        try:
            options[name] = json.loads(value)
        except json.JSONDecodeError:
            options[name] = value
        except (RecursionError, ValueError):
            raise InputError(f"--option: {name}: expected a value of ordinary size (got {value[:40]!r}…)") from None
    return options


def _document(found: dict[str, Any], failed: dict[str, Any], best: str, out: Path | None) -> dict[str, Any]:
    rows = [
        {
            "planner": name,
            "predicted": dict(p.predicted),
            "seconds": p.planner.seconds,
            "evaluations": p.planner.evaluations,
        }
        for name, p in found.items()
    ]
    return {
        "plans": rows,
        "infeasible": {name: str(error) for name, error in failed.items()},
        "best": best,
        "plan": json.loads(found[best].to_json()) if hasattr(found[best], "to_json") else None,
        "out": None if out is None else str(out),
    }


def _print(found: dict[str, Any], failed: dict[str, Any]) -> None:
    if len(found) + len(failed) == 1:
        return
    typer.echo(f"{'planner':<24}{'attainment':>12}{'goodput/s':>12}{'mean ms':>10}{'gap':>8}{'seconds':>9}")
    for name, p in found.items():
        m = p.predicted
        mean = m.get("mean_latency", float("nan")) * 1e3
        gap = f"{m['gap']:.2%}" if "gap" in m else "—"  # no bound is known with batching
        typer.echo(
            f"{name:<24}{m['attainment']:>12.2%}{m['goodput']:>12.4g}{mean:>10.1f}{gap:>8}{p.planner.seconds:>9.2f}"
        )
    for name, error in failed.items():
        typer.echo(f"{name:<24}{'infeasible':>12}  {error}")
    typer.echo("")
