"""Planning: engines for language models on a cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

from ....errors import InputError
from ....files import write_text
from ....planners.vllm import Effort, Planning, SearchSpace, SharedPlanning, plan, plan_shared
from ....planners.vllm.mixes import MixPlanning, plan_fleet
from ...carried import said_by
from ...cases import called
from ...door import Answer, Asked
from ..case import LLMCase
from ..data import LLMData, load_data, planner_options, said_twice
from ..demands import demands_of
from ..fleet import cluster_of, fleet_of, mixes
from ..links import link_lines
from ..options import PlanOptions
from ..solve import mean_only, stated_space, tables_of

__all__ = ["decided"]

SHARED_TOKENS = (2048,)
"""Tokens of a batch that groups of models which share devices try, where nobody says which."""


def decided(asked: Asked) -> Answer:
    """Plan; of several planners the one with the highest goodput is the answer's plan.

    Raises
    ------
    InputError
        On what is wrong with a case.
    InfeasibleError
        If there is no plan, with the smallest change that makes one.
    """
    cases = cast("tuple[LLMCase, ...]", asked.cases)
    data = load_data(cases, asked.folder)
    options = cast(PlanOptions, asked.options)
    if options.html is not None and len(cases) > 1:
        raise InputError(f"html: is written of one planner (got {', '.join(called(case.planner) for case in cases)})")
    answers = [_one(case, data, options, asked) for case in cases]
    if len(answers) == 1:
        return answers[0]
    best = max(answers, key=lambda answer: cast(Any, answer.plan).predicted.get("goodput", 0.0))
    text = "\n\n".join(f"{called(case.planner)}\n{answer.text}" for case, answer in zip(cases, answers, strict=True))
    documents = {called(case.planner): answer.document for case, answer in zip(cases, answers, strict=True)}
    return Answer(text, {"plans": documents, **best.document}, [a.value for a in answers], best.plan)


def _one(case: LLMCase, data: LLMData, options: PlanOptions, asked: Asked) -> Answer:
    mean_only(case)
    if case.planner.name == "fixed":
        from ..solve import planned

        if options.html is not None:
            raise InputError("html: planner fixed tries nothing that a page could show; set planner vllm")

        made, _ = planned(case, data)
        made = made.model_copy(update={"case": said_by(case)})
        links = link_lines(made, case, data, tables_of(case, data))
        document = {"plan": json.loads(made.to_json()), "links": links}
        return Answer("\n".join([*links, made.explain()]), document, made, made)
    share = case.planner.options.get("share", False)
    if not isinstance(share, bool):
        raise InputError(f"planner.options.share: expected true or false (got {share!r})")
    space, effort = planner_options(case)
    demands = demands_of(case, data)
    specs = [demand.model for demand in demands]
    same: dict[str, Any] = {
        "tables": tables_of(case, data), "effort": Effort(**effort), "seed": case.seed, "progress": asked.progress,
    }  # fmt: skip
    if share:
        given = [name for name in ("objective", "target") if name in case.planner.model_fields_set]
        if options.workers > 1 or any(name != "objective" or case.planner.objective != "goodput" for name in given):
            raise InputError(
                "planner.options.share: maximises goodput in one process; leave objective, target, workers out"
            )
        group: dict[str, Any] = {"batched_tokens": SHARED_TOKENS, **space}
        found: Planning | SharedPlanning | MixPlanning = plan_shared(
            cluster_of(case, data), demands, space=SearchSpace(**stated_space(group, specs)), **same
        )
    elif mixes(case):
        found = plan_fleet(
            fleet_of(case, data), demands, space=SearchSpace(**stated_space(space, specs)),
            objective=case.planner.objective, target=case.planner.target, workers=options.workers, **same,
        )  # fmt: skip
    else:
        found = plan(
            cluster_of(case, data), demands, space=SearchSpace(**stated_space(space, specs)),
            objective=case.planner.objective, target=case.planner.target, workers=options.workers, **same,
        )  # fmt: skip
    found = replace(found, plan=found.plan.model_copy(update={"case": said_by(case)}))
    written: tuple[Path, ...] = ()
    if options.html is not None:
        from ..page import page, told

        written = (write_text(options.html, page(told(found, case.planner.target))),)
    links, twice = link_lines(found.plan, case, data, tables_of(case, data)), said_twice(case)
    text = "\n".join([*links, *twice, found.explain()])
    document = {**_document(found), "links": links, "said_twice": twice}
    return Answer(text, document, found, found.plan, written=written)


def _document(found: Planning | SharedPlanning | MixPlanning) -> Mapping[str, Any]:
    who = found.plan.planner
    said: dict[str, Any] = {
        "plan": json.loads(found.plan.to_json()), "simulations": who.evaluations, "seconds": who.seconds,
    }  # fmt: skip
    if isinstance(found, MixPlanning):
        return said | {
            "front": {model: [p.to_dict() for p in found.front(model)] for model in found.levels},
            "one_type": {
                model: {name: p and p.to_dict() for name, p in found.one_type(model).items()} for model in found.levels
            },
            "one_less": {model: list(found.one_less(model)) for model in found.levels},
            "assumptions": list(found.assumptions()),
            "rejected": {
                model: {name: [asdict(r) for r in rows] for name, rows in each.items()}
                for model, each in found.rejected.items()
            },
        }
    if not isinstance(found, Planning):
        return said | {"shared": found.shared_good, "dedicated": found.dedicated_good, "tried": found.tried}
    return said | {
        "front": {f.model: [asdict(p) for p in found.devices_front(f.model)] for f in found.fronts},
        "latency_front": {f.model: [asdict(p) for p in found.latency_front(f.model)] for f in found.fronts},
        "rejected": {name: [asdict(r) for r in rows] for name, rows in found.rejected.items()},
    }
