"""`Study`: a base case, what varies, and what is asked; as a file that a person writes, or as an object."""

from __future__ import annotations

# pyright: reportMissingTypeStubs=false
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..errors import InputError
from ..reprs import Shown
from ..wording import dotted
from ..worlds import Case, World
from ..worlds.cases import settled
from ..worlds.fields import checked, find_field, place, plain, set_fields, steps, value_at
from ..worlds.file.document import YamlDocument, problems
from ..worlds.file.errors import Location
from ..worlds.file.located import located
from ..worlds.file.text import to_yaml
from ..worlds.file.yaml import parse, read
from .design.axes import Axis, Values
from .design.designs import Design, Listed
from .file.build import build
from .file.document import VERSION
from .point import Point
from .questions.kinds import Question

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Study", "load"]

MANY = 100_000
"""More points than this are run only when asked for twice."""


@dataclass(frozen=True, repr=False)
class Study(Shown):
    """A checked study.

    Parameters
    ----------
    name : str
        What the report calls it.
    world : World
        What it is about.
    base : Case
        The base case, under the first planner.
    planners : mapping of str to mapping
        Label -> fields of the case's `planner`.
    axes : tuple of Axis
        What varies.
    design : Design
        Which combinations are evaluated.
    questions : tuple of Question
        What is asked; answered by points of their own beside the design's.
    replications, seed, confidence
        Replication r of every point has seed ``seed + r``; intervals cover with `confidence`.
    folder : Path
        Where files that the study names are looked for.
    text : str
        The file, for the report.
    where : str
        Its name, for errors; empty for a study without one.
    """

    name: str
    world: World = field(compare=False)
    base: Case
    planners: Mapping[str, Mapping[str, Any]]
    axes: tuple[Axis, ...]
    design: Design
    questions: tuple[Question, ...]
    replications: int
    seed: int
    confidence: float
    folder: Path
    text: str = ""
    where: str = field(default="", compare=False)

    @classmethod
    def from_dict(cls, said: Mapping[str, Any], folder: str | Path = ".") -> Study:
        """A study without a file: the same keys as in one, and the same checks.

        Parameters
        ----------
        said : mapping
            What a study file says: text, numbers, booleans, lists, mappings; numpy's numbers too.
        folder : path
            Where files that the study names are looked for.

        Raises
        ------
        InputError
            All that is wrong, each with its path.
        """
        try:
            data = cast("dict[str, Any]", plain(said))
        except RecursionError:
            raise InputError("study: holds itself, or is nested too deep; flatten it") from None
        return cls._of(YamlDocument(data, "study"), "study", Path(folder), None)

    @classmethod
    def from_text(cls, text: str, where: str = "study.yaml", folder: str | Path = ".") -> Study:
        """From the text of a study file; `where` is its name, for errors."""
        return cls._of(parse(text, where), Path(where).stem, Path(folder), text)

    @classmethod
    def _of(cls, document: YamlDocument, name: str, folder: Path, text: str | None) -> Study:
        parts = build(document)
        said = parts.document
        asked = {} if said.question is None else {("question",): said.question}
        asked |= {("questions", i): question for i, question in enumerate(said.questions)}
        base = settled(parts.world, parts.base, folder)
        study = cls(
            said.name or name, parts.world, base, parts.planners, parts.axes, parts.design, tuple(asked.values()),
            said.replications, said.seed, said.confidence, folder, text or "", "" if text is None else document.where,
        )  # fmt: skip
        study._check_questions(document, tuple(asked))
        return study if text is not None else replace(study, text=study.to_yaml())

    def _check_questions(self, document: YamlDocument, locs: tuple[Location, ...]) -> None:
        from . import questions

        wrong: list[tuple[Location, str]] = []
        for loc, question in zip(locs, self.questions, strict=True):
            try:
                for _ in questions.cases(replace(self, questions=(question,))):
                    pass
            except InputError as error:
                wrong += [(loc, line) for line in str(error).splitlines()]
        if wrong:
            raise problems(document, wrong)

    def located(self, error: InputError) -> InputError:
        """An error that begins with a field's path, such as a file that is not there, with the study file's line."""
        return located(error, parse(self.text, self.where), self.world.case) if self.where else error

    def document(self) -> dict[str, Any]:
        """The study as plain data: what `from_dict` takes."""
        base = self.base.model_dump(mode="json", exclude_unset=True, exclude={"planner", "seed"})
        said: dict[str, Any] = {"study": VERSION, "name": self.name, "world": self.world.name, **base}
        said["planners"] = [
            fields["name"] if set(fields) == {"name"} else dict(fields) for fields in self.planners.values()
        ]
        if isinstance(self.design, Listed):
            said["points"] = [dict(values) for values in self.design]
        elif self.axes:
            said["axes"] = {axis.path: axis.document() for axis in self.axes}
            said["design"] = self.design.document()
        if self.questions:
            said["questions"] = [q.model_dump(mode="json", by_alias=True, exclude_unset=True) for q in self.questions]
        return said | {"replications": self.replications, "seed": self.seed, "confidence": self.confidence}

    def to_yaml(self) -> str:
        """The study as a file says it; reading it gives the same study."""
        return to_yaml(self.document())

    def but(self, **keys: Any) -> Study:
        """The same study with other top-level keys, checked anew: ``study.but(planners=["greedy"], replications=3)``;
        None leaves a key out.

        Raises
        ------
        InputError
            If that makes no study.
        """
        said = {key: value for key, value in (self.document() | keys).items() if value is not None}
        return Study.from_dict(said, self.folder)

    def _headline(self) -> str:
        axes = ", ".join(axis.path for axis in self.axes[:4]) + (" …" if len(self.axes) > 4 else "")
        asked = f", {len(self.questions)} questions" if self.questions else ""
        return f"{self.name or 'study'} of {self.world.name}: {len(self)} points over {axes or 'no axis'}{asked}"

    def __len__(self) -> int:
        """Points of the design: combinations x planners x replications."""
        return len(self.design) * len(self.planners) * self.replications

    def points(self) -> Iterator[Point]:
        """The points of the design, in order; drawn as they are asked for, so that a million take no memory."""
        index = 0
        for values in self.design:
            for planner in self.planners:
                for replication in range(self.replications):
                    yield Point(index, values, planner, replication)
                    index += 1

    def point(self, index: int) -> Point:
        """The point of the design at an index, as `points` gives it."""
        index = range(len(self))[index]
        rest, replication = divmod(index, self.replications)
        i, planner = divmod(rest, len(self.planners))
        return Point(index, self.design[i], next(islice(self.planners, planner, None)), replication)

    def check_size(self, yes: bool) -> None:
        """Refuse a study of more than 100,000 points that nobody has said yes to.

        Raises
        ------
        InputError
            If it is that large, and not `yes`.
        """
        if len(self) > MANY and not yes:
            raise InputError(
                f"{self.name}: the study has {len(self):,} points ({len(self.design):,} combinations x "
                f"{len(self.planners)} planners x {self.replications} replications); "
                "take fewer values, or a Latin hypercube, or say --yes to run them all"
            )

    def case(self, point: Point) -> Case:
        """What a point says in full.

        Raises
        ------
        InputError
            If the values make no valid case together.
        """
        kind = self.world.case
        said = {**self._said, "planner": self.planners[point.planner], "seed": self.seed + point.replication}
        for path, value in point.values:
            said = place(said, steps(kind, path), value)
        built, wrong = checked(kind, said)
        if built is None:
            raise InputError("; ".join(f"{dotted(loc) or 'case'}: {what}" for loc, what in wrong))
        return built

    def values_of(self, values: Mapping[str, Any]) -> Values:
        """Values for a point, by the fields' paths or unique last words: checked, with full paths, in one order.

        Raises
        ------
        InputError
            On a field that does not exist, is named twice, or makes no valid case with the base.
        """
        kind = self.world.case
        named = [(find_field(kind, name), name) for name in values]
        found = {path: plain(values[name]) for path, name in named}
        if len(found) < len(named):
            raise InputError(f"the same field twice: {', '.join(name for _, name in named)}; keep one")
        case = set_fields(self.base, found)
        order = [axis.path for axis in self.axes]
        ranked = sorted(found, key=lambda path: (order.index(path) if path in order else len(order), path))
        return tuple((path, value_at(case, path)) for path in ranked)

    def reach(self) -> list[Case]:
        """Cases that together name every file, device and planner that points can."""
        from .design.reach import reach  # which knows the questions, which know studies

        return reach(self)

    def share(self) -> Any:
        """Load and check what the points share.

        Raises
        ------
        InputError
            If anything that the study names is missing or wrong, with the line that names it.
        """
        try:
            return self.world.share(self.reach(), self.folder)
        except InputError as error:
            raise self.located(error) from None

    @cached_property
    def _said(self) -> dict[str, Any]:
        """The base case as plain data, what it leaves to defaults left out."""
        return self.base.model_dump(mode="json", exclude_unset=True)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything that decides what its points are; a store belongs to one study."""
        said = {
            "world": self.world.name, "base": self.base.identity(),
            "planners": list(self.planners.items()),
            "axes": [(a.path, a.document()) for a in self.axes], "design": self.design.document(),
            "points": list(self.design) if isinstance(self.design, Listed) else None,
            "questions": [q.model_dump(mode="json") for q in self.questions],
            "replications": self.replications, "seed": self.seed, "confidence": self.confidence,
        }  # fmt: skip
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()

    def run(self, store: str | Path | None = None, **options: Any) -> pd.DataFrame:
        """Evaluate all points, and the question's, and give them as a tidy frame, a row per point.

        Parameters
        ----------
        store : path, optional
            Where results are kept as they come; the same call goes on from there. In memory if not given.
        **options
            See `Session.open`: executor, workers, progress, retry_failed.
        """
        from .session import Session

        with Session.open(self, store, **options) as session:
            session.run()
            return session.frame()


def load(path: str | Path) -> Study:
    """Read a study file.

    Raises
    ------
    InputError
        All errors of the file at once, each with its line: ``file:line: field: what is wrong (got value); how to
        mend``.
    """
    file = Path(path)
    return Study.from_text(read(file), str(file), file.parent)
