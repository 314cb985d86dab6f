"""`Session`: a study under way. Run it whole, or ask and tell, so that one's own optimiser can drive it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .outcome import Outcome
from .point import Point
from .store import Row, Store
from .study import Study
from .work import Shared, evaluate

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Session"]


class Session:
    """A study, its store and what evaluates its points. Made by `Session.open`, used as a context."""

    def __init__(self, study: Study, store: Store) -> None:
        self.study = study
        self.store = store
        self.shared = Shared(study, study.world.share(_cases(study), study.folder))

    @classmethod
    def open(cls, study: Study, store: str | Path | None = None, **options: Any) -> Session:
        """Check everything and get ready; no point is evaluated yet."""
        return cls(study, Store(store))

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()

    def run(self) -> None:
        """Evaluate what is missing of the design, then answer the question."""
        for _ in self.evaluate(self.study.points()):
            pass

    def evaluate(self, points: Iterable[Point]) -> Iterator[Row]:
        """Evaluate the points that the store lacks; all of them, in the order in which they come to be known."""
        for point in points:
            outcome = evaluate(self.shared, point)
            self.tell(point, outcome)
            yield point, outcome

    def tell(self, point: Point, outcome: Outcome) -> None:
        """Put a point's outcome into the store."""
        case = self.study.case(point)
        digests = dict(self.study.world.digests(case, self.shared.data))
        said = json.dumps([self.study.world.name, case.model_dump(mode="json"), digests], sort_keys=True)
        self.store.put(point, outcome, hashlib.sha256(said.encode()).hexdigest(), digests)

    def frame(self) -> pd.DataFrame:
        """A row per point: values of the axes, planner, replication, status, metrics, notes, decision, error."""
        import pandas as pd

        return pd.DataFrame(
            {
                **{path: value for path, value in p.values},
                "planner": p.planner,
                "replication": p.replication,
                "status": o.status,
                **o.metrics,
                "notes": "; ".join(o.notes),
                "decision": o.decision,
                "error": o.error,
            }
            for p, o in self.store.rows()
        )


def _cases(study: Study) -> list[Any]:
    """The base case under every planner and every value of every axis: all names of files that points can say."""
    from .fields import set_fields

    found = [study.case(Point(0, (), planner)) for planner in study.planners]
    return found + [set_fields(case, {a.path: v}) for case in found for a in study.axes for v in a.values]
