"""`SharingFile`: a world file, which says a shared cluster, its apps and the policies to compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import Field, model_validator

from ...errors import InputError
from ...simulator.sharing import App, Policy, SharingWorld
from ...traces import ClusterLog
from ..file.yaml import YamlDocument, parse, problems, read, validate
from .build import apps_of, complaints, policy_of, world_of
from .case import PolicyName, SharingCase, SharingWorkloadCase, Some
from .logs import log_files, read_log

__all__ = ["LoadedWorld", "SharingFile", "load_world"]

VERSION = 1


class SharingFile(SharingCase):
    """The keys of a world file: those of a case, but several policies instead of one."""

    sharing: int = Field(description="version of this form: 1")
    name: str = Field(default="", description="what tables call it; the file's name if left out")
    policies: Annotated[tuple[PolicyName, ...], Some] = Field(
        default=("themis", "gandiva", "tiresias", "srtf", "fifo"), description="to compare"
    )

    @model_validator(mode="after")
    def _this_form(self) -> SharingFile:
        if self.sharing != VERSION:
            raise ValueError(f"sharing: this Meshwright reads version {VERSION} (got {self.sharing})")
        if "planner" in self.model_fields_set:
            raise ValueError("planner: is for studies; write policies: [...]")
        if len(set(self.policies)) < len(self.policies):
            raise ValueError(f"policies: one stands twice (got {', '.join(self.policies)}); keep one")
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
    """

    file: SharingFile
    path: Path
    apps: tuple[App, ...]
    log: ClusterLog | None = None

    @property
    def name(self) -> str:
        """What tables call it."""
        return self.file.name or self.path.stem

    @property
    def world(self) -> SharingWorld:
        """What is simulated."""
        return world_of(self.file, self.apps)

    def policy(self, name: str) -> Policy:
        """A policy with the file's knobs."""
        return policy_of(self.file, name)


def load_world(path: str | Path, changed: Mapping[Sequence[str], Any] | None = None) -> LoadedWorld:
    """Read a world file.

    Parameters
    ----------
    path : path
        The file. Traces that it names are relative to its folder.
    changed : mapping of sequence of str to value, optional
        Fields to have instead of the file's: ``{("auction", "fairness"): 0.5}``.

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
    work = file.workload
    log = None if work is None or not log_files(work) else _log(document, work, where.parent)
    try:
        apps = apps_of(
            file, where.parent, None if work is None or log is None else {(work.kind, *log_files(work)): log}
        )
        world_of(file, apps)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return LoadedWorld(file, where, apps, log)


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
