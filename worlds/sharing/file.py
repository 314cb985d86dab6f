"""`SharingFile`: a world file, which says a shared cluster, its apps and the planners to compare: policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import Field, model_validator

from ...errors import InputError
from ...simulator.sharing import App, Policy, SharingWorld
from ...traces import ClusterLog
from ...wording import nearest
from ..file.yaml import YamlDocument, parse, problems, read, validate
from .build import apps_of, complaints, policy_of, world_of
from .case import PolicyCase, PolicyEntry, SharingCase, SharingWorkloadCase
from .logs import log_files, read_log
from .part import Some
from .policies import POLICIES, has_option

__all__ = ["LoadedWorld", "SharingFile", "load_world"]

VERSION = 1


class SharingFile(SharingCase):
    """The keys of a world file: those of a case, but several planners instead of one."""

    sharing: int = Field(description="version of this form: 1")
    name: str = Field(default="", description="what tables call it; the file's name if left out")
    planners: Annotated[tuple[PolicyEntry, ...], Some] = Field(
        default=tuple(PolicyCase(name=name) for name in ("themis", "gandiva", "tiresias", "srtf", "fifo")),
        description="policies to compare: names, or mappings with name, label and options",
    )

    @model_validator(mode="after")
    def _this_form(self) -> SharingFile:
        if self.sharing != VERSION:
            raise ValueError(f"sharing: this Meshwright reads version {VERSION} (got {self.sharing})")
        if "planner" in self.model_fields_set:
            raise ValueError("planner: is for a case; write planners: [...]")
        called = [planner.called for planner in self.planners]
        if len(set(called)) < len(called):
            raise ValueError(f"planners: one stands twice (got {', '.join(called)}); keep one, or give labels")
        if self.seed < 0:
            raise ValueError(f"seed: expected an integer >= 0 (got {self.seed})")
        return self


@dataclass(frozen=True)
class LoadedWorld:
    """A world file, read and checked.

    Parameters
    ----------
    file : SharingFile
        What it says.
    path : Path
        Where it is.
    apps : tuple of App
        Its apps, by arrival.
    log : ClusterLog, optional
        The job log that they are from.
    instead : mapping of str to value
        Options that planners have instead of the file's.
    """

    file: SharingFile
    path: Path
    apps: tuple[App, ...]
    log: ClusterLog | None = None
    instead: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def name(self) -> str:
        """What tables call it."""
        return self.file.name or self.path.stem

    @property
    def world(self) -> SharingWorld:
        """What is simulated."""
        return world_of(self.file, self.apps)

    @property
    def planners(self) -> Mapping[str, PolicyCase]:
        """The planners to compare, by what tables call them."""
        return {planner.called: planner for planner in self.file.planners}

    def planner(self, called: str) -> PolicyCase:
        """A planner of the file by what tables call it, or a policy by its name with the options that it has anyway.

        Raises
        ------
        InputError
            If there is none; names the nearest.
        """
        if called in self.planners:
            return self.planners[called]
        known = tuple(dict.fromkeys((*self.planners, *POLICIES)))
        if called not in known:
            near = nearest(called, known)
            hint = f"did you mean {near!r}?" if near else f"known: {', '.join(known)}"
            raise InputError(f"unknown sharing policy {called!r}; {hint}")
        return PolicyCase(name=called, options=self.instead_for(called))

    def instead_for(self, name: str) -> Mapping[str, Any]:
        """Of the options that were said instead of the file's, those that a policy has."""
        return {key: value for key, value in self.instead.items() if has_option(name, key)}

    def policy(self, called: str) -> Policy:
        """What decides, of a planner by what tables call it.

        Raises
        ------
        InputError
            As `planner`.
        """
        return policy_of(self.file, self.planner(called))


def load_world(
    path: str | Path,
    changed: Mapping[Sequence[str], Any] | None = None,
    options: Mapping[str, Any] | None = None,
) -> LoadedWorld:
    """Read a world file.

    Parameters
    ----------
    path : path
        The file. Traces that it names are relative to its folder.
    changed : mapping of sequence of str to value, optional
        Fields to have instead of the file's: ``{("overheads", "checkpoint"): 5}``.
    options : mapping of str to value, optional
        Options that every planner which has them takes instead of the file's: ``{"fairness": 0.5}``.

    Raises
    ------
    InputError
        All that is wrong, at once: file, line, field, what was found and what is expected.
    """
    where = Path(path)
    document = parse(read(where), str(path))
    if "study" in document.data and "sharing" not in document.data:
        raise InputError(f"{path}: is a study file, not a world file; meshwright study {path}")
    for steps, value in (changed or {}).items():
        _place(document.data, steps, value)
    file = validate(document, SharingFile)
    if found := list(complaints(file)):
        raise problems(document, found)
    instead = dict(options or {})
    if instead:
        own = {p.called: {k: v for k, v in instead.items() if has_option(p.name, k)} for p in file.planners}
        planners = tuple(
            p.model_copy(update={"options": {**p.options, **own[p.called]}}) for p in file.planners
        )  # fmt: skip
        file = file.model_copy(update={"planners": planners})
    work = file.workload
    log = None if work is None or not log_files(work) else _log(document, work, where.parent)
    try:
        apps = apps_of(
            file, where.parent, None if work is None or log is None else {(work.kind, *log_files(work)): log}
        )
        world_of(file, apps)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return LoadedWorld(file, where, apps, log, instead)


def _log(document: YamlDocument, work: SharingWorkloadCase, folder: Path) -> ClusterLog:
    """Read the log of a world file; what is wrong with it stands behind the line that names it."""
    try:
        return read_log(work, folder)
    except InputError as error:
        raise problems(document, [(("workload", "trace"), line) for line in str(error).splitlines()]) from None


def _place(data: dict[str, Any], steps: Sequence[str], value: Any) -> None:
    *sections, last = steps
    for step in sections:
        inner = data.setdefault(step, {})
        if not isinstance(inner, dict):
            return  # the reader says so
        data = cast("dict[str, Any]", inner)
    data[last] = value
