"""The gate: plan and score a suite of planning cases of any world, and compare the scores with a baseline.

Begin with `regress`, which does all of that. `load_suite` and `read_baseline` read its inputs; `text`, `markdown`,
`junit` and `github_annotations` write its report. ``meshwright regress`` is the same on the command line, and
docs/gate.md explains how it decides.
"""

from __future__ import annotations

from .baseline import Baseline, BaselineCase, Update, read_baseline, updated
from .github import github_annotations
from .junit_xml import junit
from .run import Report, default_baseline, held_against, regress, run_suite
from .scoring import CaseRun
from .suite import Suite, SuiteCase, load_suite
from .verdict import CaseReport, Difference, Finding, judge
from .words import markdown, text

__all__ = [
    "Baseline",
    "BaselineCase",
    "CaseReport",
    "CaseRun",
    "Difference",
    "Finding",
    "Report",
    "Suite",
    "SuiteCase",
    "Update",
    "github_annotations",
    "default_baseline",
    "held_against",
    "judge",
    "junit",
    "load_suite",
    "markdown",
    "read_baseline",
    "regress",
    "run_suite",
    "text",
    "updated",
]
