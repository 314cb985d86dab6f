"""`BidsFile`: one auction by hand: GPUs on offer, and a table of bids for each app."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from ...errors import InputError
from ...planners.themis import Bid, Outcome, Place, Properties, Row, auction, properties
from ...simulator.sharing import SharedCluster
from ..file.document import problems, validate
from ..file.json_schema import Generate, proper
from ..file.yaml import parse, read
from .build import cluster_of
from .case import SharedClusterCase
from .part import Part, Some

__all__ = ["BidCase", "BidsFile", "OneAuctionCase", "RowCase", "load_bids", "bids_schema"]

UNBOUNDED = "unbounded"
PLACES = {"anywhere": Place.ANYWHERE, "machines": Place.MACHINES, "rack": Place.RACK}


class RowCase(Part):
    """GPUs, and what ρ is with them."""

    gpus: int = Field(ge=0, description="GPUs beside those that it keeps; 0: none")
    rho: float | Literal["unbounded"] = Field(
        description="ρ with them until it is done; unbounded where it could not run"
    )
    place: Literal["anywhere", "machines", "rack"] = Field(default="anywhere", description="where they must be")
    group: int = Field(default=0, ge=0, description="with machines: how many at a time are on one")

    @model_validator(mode="after")
    def _is_a_ratio(self) -> RowCase:
        if self.rho != UNBOUNDED and not float(self.rho) > 0:
            raise ValueError(f"rho: should be greater than 0 (got {self.rho})")
        if self.place != "machines" and self.group:
            raise ValueError(f"group: goes with place: machines (got {self.place}); leave it out")
        return self

    def row(self) -> Row:
        """As the auction takes it."""
        return Row(self.gpus, math.inf if self.rho == UNBOUNDED else float(self.rho), PLACES[self.place], self.group)


class BidCase(Part):
    """An app's table."""

    app: str = Field(min_length=1, description="its name")
    rows: Annotated[tuple[RowCase, ...], Some] = Field(description="allocations, with one of 0 GPUs")

    @model_validator(mode="after")
    def _has_the_empty_one(self) -> BidCase:
        if all(row.gpus for row in self.rows):
            raise ValueError("rows: missing the empty allocation; add {gpus: 0, rho: ...}, ρ without what is on offer")
        return self


class OneAuctionCase(Part):
    """The knobs of an `AuctionCase` that one auction has: who takes part, and what becomes of leftovers, is the
    policy's."""

    payments: bool = Field(default=True, description="whether winners pay")
    rounding: Literal["random", "nearest", "floor"] = Field(default="random", description="of c·n GPUs kept")


class BidsFile(Part):
    """One auction."""

    world: Literal["sharing"] = Field(description="sharing")
    name: str = Field(default="", description="what tables call it")
    cluster: SharedClusterCase
    offered: tuple[int, ...] | None = Field(default=None, description="numbers of the GPUs on offer; by default all")
    bids: Annotated[tuple[BidCase, ...], Some] = Field(description="of the apps that take part")
    auction: OneAuctionCase = OneAuctionCase()
    seed: int = Field(default=0, ge=0, description="of rounding by lot")

    def run(self) -> tuple[SharedCluster, Outcome]:
        """Hold the auction; apps have the numbers of their bids."""
        cluster, a = cluster_of(self.cluster), self.auction
        offered, bids = self._offered(cluster), self._tables()
        return cluster, auction(cluster, offered, bids, payments=a.payments, rounding=a.rounding, seed=self.seed)

    def properties(self, cluster: SharedCluster, outcome: Outcome) -> Properties:
        """What of sharing incentive, Pareto efficiency and envy-freeness holds of what `run` gave."""
        return properties(cluster, self._offered(cluster), self._tables(), outcome)

    def _offered(self, cluster: SharedCluster) -> tuple[int, ...]:
        return tuple(range(cluster.n_gpus)) if self.offered is None else self.offered

    def _tables(self) -> list[Bid]:
        return [Bid(number, tuple(row.row() for row in bid.rows)) for number, bid in enumerate(self.bids)]


def bids_schema() -> dict[str, Any]:
    """The JSON Schema of files of bids, for editors: ``meshwright new sharing --schema-of bids`` prints it."""
    said = proper(BidsFile.model_json_schema(schema_generator=Generate))
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:meshwright:schema:sharing-bids:1",
    }
    return {**head, **said}


def load_bids(path: str | Path) -> BidsFile:
    """Read a file of bids.

    Raises
    ------
    InputError
        All that is wrong, at once.
    """
    document = parse(read(path), str(path))
    file = validate(document, BidsFile)
    found: list[tuple[tuple[str | int, ...], str]] = []
    try:
        gpus = cluster_of(file.cluster).n_gpus
    except InputError as error:
        raise problems(document, [(("cluster",), str(error))]) from None
    seen: set[str] = set()
    for a, bid in enumerate(file.bids):
        if bid.app in seen:
            found.append((("bids", a, "app"), f"app {bid.app!r} bids twice; one table for each app"))
        seen.add(bid.app)
        for r, row in enumerate(bid.rows):
            if row.gpus > gpus:
                found.append((("bids", a, "rows", r, "gpus"), f"the cluster has {gpus} GPUs (got {row.gpus})"))
            if row.place == "machines" and row.gpus and not 1 <= row.group <= row.gpus:
                found.append((("bids", a, "rows", r), f"group: expected 1 … {row.gpus} on a machine (got {row.group})"))
    offered = file.offered or ()
    wrong = [g for g in offered if not 0 <= g < gpus]
    if wrong or len(set(offered)) < len(offered):
        what = f"GPU {wrong[0]} is not there" if wrong else "a GPU stands twice"
        found.append((("offered",), f"{what}; expected different numbers in 0 … {gpus - 1}"))
    if found:
        raise problems(document, found)
    return file
