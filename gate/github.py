"""GitHub's workflow commands: a line on the pull request for each case that fails or has improved."""

from __future__ import annotations

from pathlib import Path

from .run import Report
from .words import case_lines

__all__ = ["github_annotations"]


def github_annotations(report: Report, root: Path | None = None) -> list[str]:
    """The commands, a line each.

    Parameters
    ----------
    report : Report
        The gate's report.
    root : Path, optional
        The repository: file names are relative to it, and a suite outside it is not named.
    """
    file = _relative(report.suite.where, root)
    lines: list[str] = []
    for case in report.cases:
        kind = {"failed": "error", "better": "notice"}.get(case.status)
        if kind is None:
            continue
        about = {"title": f"{report.suite.name}: {case.case}"}
        if file:
            about = {"file": file, "line": str(report.suite.lines.get(case.case, 1))} | about
        said = ",".join(f"{key}={_property(value)}" for key, value in about.items())
        lines.append(f"::{kind} {said}::{_message(chr(10).join(case_lines(case)))}")
    return lines


def _relative(where: str, root: Path | None) -> str:
    """The suite's file as GitHub names it."""
    if not where:
        return ""
    try:
        return Path(where).resolve().relative_to((root or Path()).resolve()).as_posix()
    except ValueError:
        return ""


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
