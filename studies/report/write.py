"""`write`: everything that a study leaves for people, in one folder."""

from __future__ import annotations

import importlib.util
import platform
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from ... import __version__
from ...errors import MeshwrightError
from ...files import check_target, whole_file, write_bytes, write_text
from ...worlds import Panel
from ..point import Point
from .curve_charts import curves
from .headline import why_drawn
from .notes import warnings_of
from .page import Winner, page
from .probes import probe_charts
from .results import Frame, Results, gather

if TYPE_CHECKING:
    from ..session import Session

__all__ = ["write"]

MAX_WINNERS = 4


def write(session: Session, out: str | Path, facts: Mapping[str, str] | None = None) -> list[Path]:
    """Write the report of a session: tables, figures and ``report.html``.

    The files depend on the study's results and on `facts` alone: no time, no path, no machine.

    Parameters
    ----------
    session : Session
        Open; what it has in its store by now is reported.
    out : path
        Folder to write to; made if it is missing.
    facts : Mapping[str, str], optional
        What the last section says beside versions and digests, such as the date, the executor, how long it took.

    Returns
    -------
    list of Path
        What was written, the page last.

    Raises
    ------
    InputError
        If nothing can be written there.
    """
    folder = Path(out)
    check_target(folder / "report.html")
    results = gather(session)
    found = [
        write_text(folder / "points.csv", results.points.to_csv(index=False)),
        *_parquet(results.points, folder / "points.parquet"),
        write_text(folder / "summary.csv", results.summary.to_csv(index=False)),
    ]
    charts = [*probe_charts(results), *curves(results)]
    for chart in charts:
        found.append(write_bytes(folder / "figures" / f"{chart.name}.png", chart.png))
        found.append(write_text(folder / "figures" / f"{chart.name}.csv", chart.data.to_csv(index=False)))
    winners = list(_winners(session, results))
    warnings = warnings_of(results)
    known = _facts(session, [w.point for w in winners]) | dict(facts or {})
    return [*found, write_text(folder / "report.html", page(results, charts, winners, warnings, known))]


def _parquet(points: Frame, path: Path) -> list[Path]:
    """The points as Parquet, where pyarrow is there; columns of several types become text."""
    if importlib.util.find_spec("pyarrow") is None:
        return []
    plain = points.copy()
    for name in plain.columns:
        kinds = {type(v) for v in plain[name].dropna().tolist()}
        if plain[name].dtype == object and not kinds <= {str}:
            plain[name] = [None if v is None or v != v else str(v) for v in plain[name]]
    with whole_file(path) as temporary:
        plain.to_parquet(temporary, index=False)
    return [path]


def _winners(session: Session, results: Results) -> Iterator[Winner]:
    """What is drawn: the answers' points, or the best one."""
    chosen: dict[tuple[str, str], tuple[Point, str]] = {}
    for answer in results.answers:
        if answer.point is not None and answer.value is not None and not answer.part:
            why = f"The answer to: {answer.question}."
            chosen.setdefault((answer.point.planner, str(answer.point.values)), (answer.point, why))
    if not chosen and results.headline is not None:
        chosen["", ""] = results.headline.point, why_drawn(results.headline)
    hidden = len(chosen) - MAX_WINNERS
    for i, (point, why) in enumerate(list(chosen.values())[:MAX_WINNERS]):
        n = session.study.replications
        draw = f" Draw {point.replication + 1} of {n} is shown." if n > 1 else ""
        more = f" {hidden} more answers are not drawn." if hidden > 0 and i == MAX_WINNERS - 1 else ""
        yield Winner(point, f"{why}{draw}{more}", _panels(session, point))


def _panels(session: Session, point: Point) -> tuple[Panel, ...]:
    """A world's drawings; where they fail, the report is written all the same and says so."""
    study = session.study
    try:
        return tuple(study.world.panels(study.case(point), session.shared.data))
    except (MeshwrightError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())
        return (Panel("Not drawn", f"This point could not be drawn again: {text}", "html", ""),)


def _facts(session: Session, points: Sequence[Point]) -> dict[str, str]:
    """What made the numbers: versions, seeds, and the digests of all that was read."""
    study = session.study
    seeds = f"{study.seed}" if study.replications == 1 else f"{study.seed} … {study.seed + study.replications - 1}"
    found = {
        "study": study.digest,
        "seeds": f"{seeds} (one per replication)",
        "confidence": f"{100 * study.confidence:g} %",
        "meshwright": __version__,
        "python": platform.python_version(),
    }
    found |= {name: version(name) for name in ("numpy", "scipy", "numba", "pandas", "matplotlib")}
    for point in [*(Point(0, (), planner) for planner in study.planners), *points]:
        digests = study.world.digests(study.case(point), session.shared.data)
        found |= {f"digest of {name}": digest for name, digest in digests.items()}
    return found
