"""`meshwright share`: many training apps on one cluster, under each of several policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError
from .status import status
from .trace_io import print_json

if TYPE_CHECKING:
    from ..simulator.sharing import SharingResult

__all__ = ["share"]

FORMATS = (".json", ".csv")
EXAMPLES = {"cluster": "sharing.yaml", "here": "sharing-here.yaml"}
"""Name of an example -> its file: the testbed of the paper; a few GPUs, which `meshwright run` runs for real."""


def share(
    file: Annotated[
        Path | None, typer.Argument(metavar="WORLD", help="World file (YAML); or a file of bids: one auction.")
    ] = None,
    planner: Annotated[
        str | None, typer.Option(help="Policies to compare, with commas; by default the file's planners.")
    ] = None,
    lease: Annotated[float | None, typer.Option(help="Lease in seconds instead of the file's.")] = None,
    fairness: Annotated[float | None, typer.Option(help="f of Themis in [0, 1] instead of the file's.")] = None,
    placement: Annotated[
        str | None, typer.Option(help="near or blind instead of the file's: GPUs that policies but themis give.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed instead of the file's, >= 0.")] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=2,
            max=1000,
            help="Draw the workload under so many seeds, from the file's on: means with 95 % intervals.",
        ),
    ] = None,
    engine: Annotated[str, typer.Option(help="auto, compiled, or simpy (the reference).")] = "auto",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write results here: .json (all), or .csv (a row per app).")
    ] = None,
    timeline: Annotated[
        Path | None, typer.Option(help="Write who had which GPU when here: .png, .svg, .csv, or .json (Perfetto).")
    ] = None,
    per_app: Annotated[bool, typer.Option("--per-app", help="Print a table by app for each policy.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check the file, say what is in it, and stop.")] = False,
    example: Annotated[
        bool, typer.Option("--example", help="Print a world file to start from; of 'here', one for meshwright run.")
    ] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of world files, for editors.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Share a training cluster among apps: Themis, and every scheduler that it is compared with, on the same apps."""
    if example:
        from .study_examples import shipped

        name = "cluster" if file is None else str(file)
        if name not in EXAMPLES:
            raise InputError(f"--example: no example {name!r}; expected none, or one of {', '.join(EXAMPLES)}")
        typer.echo(shipped(EXAMPLES[name]), nl=False)
        return
    if schema:
        from ..worlds.sharing.schema import schema_text

        typer.echo(schema_text(), nl=False)
        return
    if file is None:
        raise InputError("share: expected a world file; 'meshwright share --example > world.yaml' writes one")
    from ..files import check_target
    from ..simulator.sharing import simulate
    from ..worlds.sharing.bids import is_bids, load_bids
    from ..worlds.sharing.build import in_file_words
    from ..worlds.sharing.file import load_world
    from .share_auction import print_auction
    from .share_seeds import estimates, print_estimates
    from .share_timeline import check_timeline, write_timeline
    from .share_words import document, frame, print_apps, print_policies, say_world, write

    if engine not in ("auto", "compiled", "simpy"):
        raise InputError(f"--engine: expected auto, compiled or simpy (got {engine!r})")
    if out is not None:
        if out.suffix not in FORMATS:
            raise InputError(f"--out: expected a name that ends in .json or .csv (got {out})")
        check_target(out)
    if timeline is not None:
        engine = check_timeline(timeline, engine)
    instead = {"lease": lease, "seed": seed}
    changed: dict[Sequence[str], Any] = {(k,): value for k, value in instead.items() if value is not None}
    knobs = {"fairness": fairness, "placement": placement}
    options = {k: value for k, value in knobs.items() if value is not None}
    if is_bids(file):
        given = {"planner": planner, **instead, **knobs, "seeds": seeds, "out": out, "timeline": timeline}
        given |= {"per-app": per_app or None, "engine": None if engine == "auto" else engine}
        said = [name for name, value in given.items() if value is not None]
        print_auction(load_bids(file), file, as_json, said, dry_run)
        return
    names = [] if planner is None else [name.strip() for name in planner.split(",")]
    _check_options(lease, fairness, placement, seed, names)
    loaded = load_world(file, changed, options)
    for name in names:
        try:
            loaded.planner(name)
        except InputError as error:
            raise InputError(f"--planner: {error}") from None
    chosen = tuple(names) or tuple(loaded.planners)
    if dry_run:
        typer.echo(say_world(loaded, chosen))
        typer.echo("dry run: everything was checked, nothing was simulated")
        return
    if seeds is not None:
        given = {"--out": out, "--timeline": timeline, "--per-app": per_app or None}
        if wrong := [name for name, value in given.items() if value is not None]:
            raise InputError(f"{wrong[0]}: is of one draw, and --seeds takes {seeds}; leave one of the two out")
        figures = estimates(
            file,
            changed,
            options,
            seeds,
            chosen,
            lambda drawn, name: simulate(drawn.world, drawn.policy(name), engine=_engine(engine)),
        )
        if as_json:
            print_json(
                {"seeds": seeds, "policies": {n: {m: asdict(e) for m, e in f.items()} for n, f in figures.items()}}
            )
            return
        typer.echo(f"{say_world(loaded, chosen)}; means over {seeds} draws, ± half the 95 % interval")
        print_estimates(figures)
        return
    world, results = loaded.world, dict[str, "SharingResult"]()
    with status("sharing") as say:
        for number, name in enumerate(chosen, 1):
            say(f"{name}, {number} of {len(chosen)}")
            try:
                results[name] = simulate(world, loaded.policy(name), engine=_engine(engine))
            except InputError as error:  # of an app that never ends
                raise InputError(f"{file}: {in_file_words(error)}") from None
    if out is not None:
        write(out, loaded, results)
    if timeline is not None:
        write_timeline(timeline, results)
    if as_json:
        print_json(document(loaded, results))
        return
    typer.echo(say_world(loaded, chosen))
    print_policies(results)
    if per_app:
        for name, result in results.items():
            print_apps(name, frame(name, result))
    for written in (out, timeline):
        if written is not None:
            typer.echo(f"written: {written}")


def _engine(name: str) -> Any:
    return name


def _check_options(
    lease: float | None, fairness: float | None, placement: str | None, seed: int | None, names: list[str]
) -> None:
    """What came by the command line is named by its option, and not by a line of the file.

    Raises
    ------
    InputError
        If something is out of its range, or a policy stands twice.
    """
    from ..simulator.sharing.world import SHORTEST_LEASE_S

    if lease is not None and not SHORTEST_LEASE_S <= lease < float("inf"):
        raise InputError(f"--lease: expected finite seconds >= {SHORTEST_LEASE_S:g} (got {lease:g})")
    if fairness is not None and not 0 <= fairness <= 1:
        raise InputError(f"--fairness: f is a share of the apps, in [0, 1] (got {fairness:g})")
    if placement not in (None, "near", "blind"):
        raise InputError(f"--placement: expected near or blind (got {placement!r})")
    if seed is not None and not 0 <= seed < 1 << 63:
        raise InputError(f"--seed: expected an integer >= 0 and below 2^63 (got {seed})")
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"--planner: {name!r} stands twice; keep one")
