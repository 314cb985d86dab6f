"""The report as JUnit XML, which most CI systems read. It holds no times: the gate never judges by the clock."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from .run import Report
from .verdict import CaseReport
from .words import case_lines

__all__ = ["junit"]

FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, not even escaped."""


def junit(report: Report) -> str:
    """One test case for each case of the suite.

    A planner that crashed is an ``error``, everything else that makes a case fail a ``failure``.
    """
    errors = sum(_crashed(case) for case in report.cases)
    failures = len(report.failed) - errors
    counts = {
        "tests": str(len(report.cases)), "failures": str(failures), "errors": str(errors), "skipped": "0", "time": "0"
    }  # fmt: skip
    name = _clean(f"meshwright regress {report.suite.name}")
    root = ET.Element("testsuites", {"name": name} | {k: v for k, v in counts.items() if k != "skipped"})
    suite = ET.SubElement(root, "testsuite", {"name": name, **counts})
    for case in report.cases:
        entry = ET.SubElement(suite, "testcase", {
            "name": _clean(case.case), "classname": _clean(f"{report.suite.name}.{case.planner}"), "time": "0",
        })  # fmt: skip
        said = _clean("\n".join(case_lines(case)))
        if case.findings:
            kinds = ", ".join(dict.fromkeys(finding.kind for finding in case.findings))
            about = {"message": _clean(case.findings[0].text), "type": kinds}
            ET.SubElement(entry, "error" if _crashed(case) else "failure", about).text = said
        elif said:
            ET.SubElement(entry, "system-out").text = said
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=False).join(
        ('<?xml version="1.0" encoding="UTF-8"?>\n', "\n")
    )


def _crashed(case: CaseReport) -> bool:
    return any(finding.kind == "error" for finding in case.findings)


def _clean(text: str) -> str:
    """Text with what XML cannot hold replaced."""
    return FORBIDDEN.sub("\ufffd", text)
