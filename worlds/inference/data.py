"""What inference cases share: cost tables, read once and held against the case."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...errors import InputError
from ...files import readable
from ...profiles.backends.costs import CostTable
from ...profiles.backends.document import load_costs
from ...wording import nearest
from .case import InferenceCase
from .network import check_name
from .solve import MEASURING, PLANNERS

__all__ = ["InferenceData", "check_planner", "graphs_folder", "kept_file", "load_data", "table_of"]


@dataclass(frozen=True, slots=True)
class InferenceData:
    """What the points of a study share.

    Parameters
    ----------
    tables : dict of str to CostTable
        File -> what it holds.
    digests : dict of str to str
        File -> SHA-256 of its content.
    """

    tables: dict[str, CostTable] = field(default_factory=dict[str, CostTable])
    digests: dict[str, str] = field(default_factory=dict[str, str])

    def table(self, case: InferenceCase) -> CostTable:
        """The costs of a case, of its backends alone."""
        assert case.costs is not None
        return table_of(case, self.tables[case.costs])


def load_data(cases: Sequence[InferenceCase], folder: Path) -> InferenceData:
    """Read the cost tables that studies' cases name, and check the cases.

    Raises
    ------
    InputError
        Every problem, one a line, each beginning with the field that it is about.
    """
    data, wrong = InferenceData(), list[str]()
    for case in cases:
        try:
            check_planner(case)
            if case.planner.name in MEASURING:
                raise InputError(
                    f"planner.name: {case.planner.name} measures while it plans, so its points would not come out "
                    "alike; in a study take collage-op, or another that plans from costs alone"
                )
            if case.costs is None:
                raise InputError(
                    "costs: is missing; a study plans from measured costs: meshwright measure inference --out FILE"
                )
            if case.costs not in data.tables:
                path = folder / case.costs
                data.tables[case.costs] = load_costs(path)
                data.digests[case.costs] = hashlib.sha256(readable(path).read_bytes()).hexdigest()
            data.table(case)
        except InputError as error:
            wrong += [line for line in str(error).splitlines() if line not in wrong]
    if wrong:
        raise InputError("\n".join(wrong))
    return data


def check_planner(case: InferenceCase) -> None:
    """Refuse planners and networks that are not there.

    Raises
    ------
    InputError
        Naming the nearest.
    """
    name = case.planner.name
    if name not in PLANNERS:
        near = nearest(name, PLANNERS)
        hint = f"did you mean {near!r}?" if near else f"known: {', '.join(PLANNERS)}"
        raise InputError(f"planner.name: unknown planner {name!r}; {hint}")
    check_name(case.model)


def table_of(case: InferenceCase, table: CostTable) -> CostTable:
    """A cost table held against a case, with the case's backends alone.

    Raises
    ------
    InputError
        If it is of another network or batch, or lacks a backend; or an operator is left that none of them takes.
    """
    made = table.provenance
    if made.model != case.model:
        raise InputError(f"costs: {case.costs} is of {made.model}, the case of {case.model}")
    if made.batch != case.workload.batch:
        raise InputError(
            f"costs: {case.costs} was measured at batch {made.batch}, the case asks for {case.workload.batch}; measure "
            "that batch: a placement is for one"
        )
    missing = [name for name in case.backends if name not in table.backends]
    if missing:
        known = ", ".join(table.backends)
        raise InputError(f"backends: {missing[0]!r} was not measured in {case.costs}: it has {known}")
    wanted = set(case.backends)
    used = tuple(table.backends[name] for name in case.backends)
    matches = tuple(match for match in table.matches if match.backend in wanted)
    refused = tuple(one for one in table.refused if one.backend in wanted)
    return replace(table, used=used, matches=matches, refused=refused).check_covered()


def kept_file() -> Path:
    """Where costs are kept between plans if nobody says: the user's folder for what can be made again."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / "meshwright" / "backend-costs.json"


def graphs_folder(kept: Path | None) -> Path:
    """Where graphs of networks are kept: beside the costs."""
    return (kept_file() if kept is None else kept).with_suffix(".graphs")
