"""`meshwright share` of a file of bids: one auction, with what each app pays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import InputError
from .trace_io import print_frame, print_json

if TYPE_CHECKING:
    from ..worlds.sharing.bids import BidsFile

__all__ = ["print_auction"]


def print_auction(file: BidsFile, path: Path, as_json: bool, given: Sequence[str], dry_run: bool = False) -> None:
    """Hold the auction and print a row for each app; with `dry_run` only say what is auctioned.

    Raises
    ------
    InputError
        If options are given that an auction by hand has no use for.
    """
    import pandas as pd

    if given:
        raise InputError(f"--{given[0]}: is for world files, and {path} holds bids; leave it out")
    if dry_run:
        typer.echo(_about(file, path))
        typer.echo("dry run: everything was checked, nothing was auctioned")
        return
    cluster, outcome = file.run()
    found = file.properties(cluster, outcome)
    rows: list[dict[str, Any]] = []
    for number, bid in enumerate(file.bids):
        row, kept = outcome.allocation.rows.get(number), outcome.gpus.get(number, ())
        won = 0 if row is None else row.gpus
        on = Counter(int(cluster.machine_of[g]) for g in kept)
        rows.append(
            {
                "app": bid.app, "won": won, "share": outcome.share.get(number, 1.0), "kept": len(kept),
                "paid": won - len(kept), "rho": found.rho[number],
                "machines": " ".join(f"{m}:{n}" for m, n in sorted(on.items())) or "-",
            }
        )  # fmt: skip
    if as_json:
        gpus = {bid.app: list(outcome.gpus.get(k, ())) for k, bid in enumerate(file.bids)}
        print_json(
            {
                "apps": rows, "gpus": gpus, "leftover": list(outcome.leftover), "gap": outcome.gap,
                "pareto": {"before_payments": found.pareto, "after_payments": found.pareto_after_payments},
                "envy": {
                    "before_payments": [[file.bids[a].app, file.bids[b].app] for a, b in found.envy],
                    "after_payments": [[file.bids[a].app, file.bids[b].app] for a, b in found.envy_after_payments],
                },
            }
        )  # fmt: skip
        return
    typer.echo(_about(file, path))
    print_frame(pd.DataFrame(rows))
    typer.echo(f"left over: {len(outcome.leftover)}; gap {outcome.gap:.2g}")
    fair, kept = ("yes" if holds else "no" for holds in (found.pareto, found.pareto_after_payments))
    typer.echo(f"Pareto efficient: {fair} before payments, {kept} after")
    envy, later = (_envy(file, pairs) for pairs in (found.envy, found.envy_after_payments))
    typer.echo(f"envy: {envy} before payments, {later} after")
    typer.echo(f"rho <= 1 with what they keep: {len(found.sharing_incentive)} of {len(rows)} apps")


def _about(file: BidsFile, path: Path) -> str:
    """The auction in a line."""
    from ..worlds.sharing.build import cluster_of

    cluster, n = cluster_of(file.cluster), len(file.bids)
    offered = cluster.n_gpus if file.offered is None else len(file.offered)
    return f"{file.name or path.stem}: {cluster}, {offered} on offer, {n} bidder{'' if n == 1 else 's'}"


def _envy(file: BidsFile, pairs: Sequence[tuple[int, int]]) -> str:
    """Who would rather have what another has."""
    return ", ".join(f"{file.bids[who].app} of {file.bids[whom].app}" for who, whom in pairs) or "none"
