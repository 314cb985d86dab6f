"""`Study`: a base case, what varies, and what is asked; as a file that a person writes, or as an object."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .axes import Axis, Design, design_of
from .document import StudyDocument, read_document
from .fields import set_fields
from .point import Point
from .questions import Question
from .worlds import Case, World, world

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Study", "load"]


@dataclass(frozen=True)
class Study:
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
    """

    name: str
    world: World
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

    @classmethod
    def of(cls, document: StudyDocument, folder: Path = Path(), text: str = "") -> Study:
        """From a checked document."""
        axes = document.axis_list()
        return cls(
            document.name, world(document.world), document.base_case(), document.planner_fields(), axes,
            design_of(axes, document.design, document.points, document.seed), document.question_list(),
            document.replications, document.seed, document.confidence, folder, text,
        )  # fmt: skip

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

    def case(self, point: Point) -> Case:
        """What a point says in full.

        Raises
        ------
        InputError
            If the values make no valid case together.
        """
        values: dict[str, Any] = {"seed": self.seed + point.replication}
        values |= {f"planner.{name}": value for name, value in self.planners[point.planner].items()}
        return set_fields(self.base, values | dict(point.values))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything that decides what its points are; a store belongs to one study."""
        said = {
            "world": self.world.name, "base": self.base.model_dump(mode="json"), "planners": self.planners,
            "axes": [a.path for a in self.axes], "design": self.design.document(),
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
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return Study.of(read_document(text, str(file)), file.parent, text)
