"""The campaign that a figure shows: the shipped one, or what is measured here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...errors import InputError
from ..report import Progress
from .campaign.parts import Part, measured
from .campaign.records import Campaign
from .campaign.store import SHIPPED, load
from .systems import TITLES

__all__ = ["complete", "notes", "of_figure"]


def of_figure(fast: bool, out: Path, parts: Sequence[Part], progress: Progress) -> Campaign:
    """What a figure is drawn from.

    Parameters
    ----------
    fast : bool
        Read the shipped campaign; otherwise measure here, into ``collage/campaign.json`` of `out`, which all of
        Collage's figures share.
    out : Path
        Folder of the figures.
    parts : sequence of Part
        What the figure needs.
    progress : callable
        Told of every step.

    Raises
    ------
    InputError
        If a part is missing, or what is there is of another machine.
    """
    if fast:
        return complete(load(), parts, SHIPPED)
    path = out / "collage" / "campaign.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    return measured(path, parts, tell=lambda what: progress(0, len(parts), what))


def complete(campaign: Campaign, parts: Sequence[Part], path: Path) -> Campaign:
    """A campaign that has all of some parts.

    Raises
    ------
    InputError
        Naming the first that is missing.
    """
    missing = [part for part in parts if not part.within(campaign)]
    if missing:
        raise InputError(
            f"{path}: lacks {missing[0]} (and {len(missing) - 1} other parts); go on with it: "
            f"python -m meshwright.reproduce.collage.campaign --out {path}"
        )
    return campaign


def notes(campaign: Campaign, fast: bool) -> list[str]:
    """Where the numbers are from; whose frameworks are missing."""
    made = campaign.made
    versions = ", ".join(f"{name} {version.split()[0]}" for name, version in made.versions)
    lines = [
        f"{made.said}{': not on this machine (the full version measures here)' if fast else ', this machine'}; "
        "CPU time of one core, all ways of a network by turns in rotated order",
        f"versions: {versions}",
        "weights and inputs are random, batch 1 unless said; TensorFlow, XLA, TVM, MKL alone and TensorRT are not "
        "among frameworks and backends: these are what runs on a CPU from Python packages",
    ]
    lines += [f"{name}: {reason}" for name, reason in made.missing]
    lines += [
        f"{TITLES.get(one.model, one.model)}, batch {one.batch}: {way.name} does not run: {way.reason}"
        for one in campaign.contests
        for way in one.ways
        if way.reason
    ]
    return lines
