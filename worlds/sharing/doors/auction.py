"""A file of bids: one auction, with what each app pays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pandas as pd

from ....errors import InputError
from ...door import Answer
from ...words import table
from ..bids import BidsFile, load_bids
from ..build import cluster_of
from ..options import SimulateOptions

__all__ = ["auctioned"]

USED = ("bids", "dry_run")


def auctioned(options: SimulateOptions, out: Path | None) -> Answer:
    """Hold the auction of a file of bids: a row for each app; with `dry_run` only say what is auctioned.

    Raises
    ------
    InputError
        All that is wrong with the file; or if options are said that an auction by hand has no use for.
    """
    path = cast(Path, options.bids)
    unused = [n for n, f in SimulateOptions.model_fields.items() if n not in USED and getattr(options, n) != f.default]
    if out is not None:
        unused.append("out")
    if unused:
        raise InputError(f"{unused[0]}: is for cases, and {path} holds bids; leave it out")
    file = load_bids(path)
    if options.dry_run:
        about = _about(file, path)
        return Answer(f"{about}\ndry run: everything was checked, nothing was auctioned", {"auction": about})
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
    gpus = {bid.app: list(outcome.gpus.get(k, ())) for k, bid in enumerate(file.bids)}
    document = {
        "apps": rows, "gpus": gpus, "leftover": list(outcome.leftover), "gap": outcome.gap,
        "pareto": {"before_payments": found.pareto, "after_payments": found.pareto_after_payments},
        "envy": {
            "before_payments": [[file.bids[a].app, file.bids[b].app] for a, b in found.envy],
            "after_payments": [[file.bids[a].app, file.bids[b].app] for a, b in found.envy_after_payments],
        },
    }  # fmt: skip
    fair, kept = ("yes" if holds else "no" for holds in (found.pareto, found.pareto_after_payments))
    envy, later = (_envy(file, pairs) for pairs in (found.envy, found.envy_after_payments))
    text = [
        _about(file, path),
        table(pd.DataFrame(rows)),
        f"left over: {len(outcome.leftover)}; gap {outcome.gap:.2g}",
        f"Pareto efficient: {fair} before payments, {kept} after",
        f"envy: {envy} before payments, {later} after",
        f"rho <= 1 with what they keep: {len(found.sharing_incentive)} of {len(rows)} apps",
    ]
    return Answer("\n".join(text), document, outcome)


def _about(file: BidsFile, path: Path) -> str:
    """The auction in a line."""
    cluster, n = cluster_of(file.cluster), len(file.bids)
    offered = cluster.n_gpus if file.offered is None else len(file.offered)
    return f"{file.name or path.stem}: {cluster}, {offered} on offer, {n} bidder{'' if n == 1 else 's'}"


def _envy(file: BidsFile, pairs: Sequence[tuple[int, int]]) -> str:
    """Who would rather have what another has."""
    return ", ".join(f"{file.bids[who].app} of {file.bids[whom].app}" for who, whom in pairs) or "none"
