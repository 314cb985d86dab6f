"""A campaign part by part: what there is already is not measured again, and a kill loses no more than one part."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from .... import __version__
from ....errors import InfeasibleError, InputError, LimitError, MeshwrightError, RunError, install_hint
from ....profiles.backends.keys import Machine, this_cpu
from ..systems import ALL_NETWORKS, BACKENDS, BATCHES, FRAMEWORKS, NETWORKS, STEPS
from .records import Campaign, Made
from .store import load, save
from .timing import Watch, usable

__all__ = ["SWEPT", "Part", "every_part", "measured"]

SWEPT = "resnext-50"
"""The network of the batch sizes (Fig. 2.8)."""
PLANNED = ("torch-onednn", "torch-native", "torch-jit", "onnxruntime")
"""Backends of the planning times: as many as on the thesis' V100."""
SWEPT_BACKENDS = ("torch-onednn", "torch-jit", "onnxruntime")
SWEPT_ROUNDS = 7
"""Of other batches: fewer backends and rounds, for a call at batch 16 takes seconds."""

Kind = Literal["contest", "steps", "planning"]
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a campaign: a network's contest at a batch, its backends one by one, or its planning times."""

    kind: Kind
    model: str
    batch: int = 1

    def __str__(self) -> str:
        return f"{self.kind} of {self.model}" + (f" at batch {self.batch}" if self.batch > 1 else "")

    def within(self, campaign: Campaign) -> bool:
        """Whether it has been measured."""
        if self.kind == "contest":
            return campaign.contest(self.model, self.batch) is not None
        done = campaign.steps if self.kind == "steps" else campaign.plannings
        return any(one.model == self.model for one in done)


def every_part(networks: Sequence[str] = ALL_NETWORKS, batches: Sequence[int] = BATCHES) -> tuple[Part, ...]:
    """All parts, the quickest network first and our own ones last."""
    thesis = sorted((name for name in networks if name in NETWORKS), key=lambda name: name != "dcgan")
    kinds: tuple[Kind, ...] = ("contest", "steps", "planning")
    parts = [Part(kind, name) for kind in kinds for name in thesis]
    if SWEPT in networks:
        parts += [Part("contest", SWEPT, batch) for batch in batches if batch > 1]
    return (*parts, *(Part("contest", name) for name in networks if name not in NETWORKS))


def measured(
    path: Path, parts: Sequence[Part], *, kept: Path | None = None, watch: Watch | None = None,
    tell: Tell = lambda _: None,
) -> Campaign:  # fmt: skip
    """Measure those parts that a file does not have yet, and write it after each.

    Parameters
    ----------
    path : Path
        The campaign's file; the same call goes on where it was stopped.
    parts : sequence of Part
        What is wanted, in order.
    kept : Path, optional
        File of kept costs, as `meshwright measure inference --kept` writes it; by default beside the campaign.
    watch : Watch, optional
        Rounds of a contest, seconds of a search.
    tell : callable
        Told what is being done.

    Raises
    ------
    InputError
        If the file is of another machine or other versions, torch is missing, or there is no such network.
    LimitError, InfeasibleError, RunError
        The first of the parts that could not be measured, once all others are.
    """
    watch = watch or Watch()
    made = _here(watch)
    campaign = load(path) if path.exists() else Campaign(made)
    _same(campaign.made, made, path)
    kept = path.with_suffix(".costs.json") if kept is None else kept
    failed: list[MeshwrightError] = []
    for number, part in enumerate(parts):
        if part.within(campaign):
            continue
        where = f"{part}, {number + 1} of {len(parts)}"
        try:
            campaign = _with(campaign, part, kept, watch, lambda what, where=where: tell(f"{where}: {what}"))
        except (LimitError, InfeasibleError, RunError) as error:
            failed.append(type(error)(f"{part}: {error}"))
            tell(str(failed[-1]))
            continue
        campaign = load(save(campaign, path))  # rounded: the same now as later
    if failed:
        raise failed[0]
    return campaign


def _with(campaign: Campaign, part: Part, kept: Path, watch: Watch, tell: Tell) -> Campaign:
    from ....runtime.backends import MeasureOptions
    from .contests import contest, one_by_one, planning

    if part.kind == "planning":
        return replace(campaign, plannings=(*campaign.plannings, planning(part.model, usable(PLANNED), tell)))
    if part.kind == "steps":
        found = one_by_one(part.model, usable(STEPS), kept, watch, tell)
        return replace(campaign, steps=(*campaign.steps, found))
    names, how = usable(BACKENDS), None
    if part.model not in NETWORKS:
        watch = Watch(watch.rounds, 0.0)  # the thesis searches no others
    if part.batch > 1:
        names, how = usable(SWEPT_BACKENDS), MeasureOptions(least_rounds=5, most_rounds=SWEPT_ROUNDS)
        watch = Watch(SWEPT_ROUNDS, 0.0)
    found = contest(part.model, part.batch, names, kept, watch, tell, how)
    return replace(campaign, contests=(*campaign.contests, found))


def _here(watch: Watch) -> Made:
    """This machine, and what is on it."""
    try:
        import torch
    except ModuleNotFoundError:
        raise InputError(f"a campaign runs networks: torch is not installed: {install_hint('torch')}") from None
    from ....runtime.backends import available, backend

    known = available()
    names = tuple(dict.fromkeys((*BACKENDS, *FRAMEWORKS)))
    versions = {"meshwright": __version__, "python": platform.python_version(), "torch": torch.__version__}
    versions |= {name: backend(name).version() for name in names if not known[name]}
    return Made(
        this_cpu(), Machine(this_cpu()).threads, tuple(versions.items()),
        tuple((name, known[name]) for name in names if known[name]),
        datetime.now(UTC).date().isoformat(), watch.rounds, watch.search_s,
    )  # fmt: skip


def _same(was: Made, now: Made, path: Path) -> None:
    for what, before, here in (
        ("processor", was.cpu, now.cpu), ("versions", dict(was.versions), dict(now.versions)),
        ("rounds and seconds", (was.rounds, was.search_s), (now.rounds, now.search_s)),
    ):  # fmt: skip
        if before != here:
            raise InputError(f"{path}: was begun with other {what}: {before}, here {here}; measure into another file")
