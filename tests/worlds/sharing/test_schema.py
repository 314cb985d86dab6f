"""The published JSON Schema of world files: current, and of one mind with the reader of files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from meshwright.cli import run
from meshwright.errors import InputError
from meshwright.worlds.file.yaml import parse, validate
from meshwright.worlds.sharing.bids import BidsFile
from meshwright.worlds.sharing.file import SharingFile
from meshwright.worlds.sharing.schema import schema, schema_text

ROOT = Path(__file__).resolve().parents[3]
CHECK = jsonschema.Draft202012Validator(schema())
TEXTS = [
    block
    for page in ("sharing", "sharing-workloads", "sharing-run")
    for block in re.findall(r"```yaml\n(.*?)```", (ROOT / f"docs/{page}.md").read_text(encoding="utf-8"), re.DOTALL)
] + [path.read_text(encoding="utf-8") for path in sorted((ROOT / "examples").glob("*.yaml"))]
FILES = [parse(text, "file").data for text in TEXTS if text.startswith("sharing:") or "\nsharing: 1" in text]


def test_the_published_file_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--schema"]) == 0
    said = capsys.readouterr().out
    committed = (ROOT / "docs/schema/sharing-1.schema.json").read_text(encoding="utf-8")
    assert said == committed == schema_text(), "run: meshwright share --schema > that file"
    jsonschema.Draft202012Validator.check_schema(json.loads(said))


def test_it_takes_files_of_the_pages_and_examples() -> None:
    assert len(FILES) >= 6
    assert any("bids" in file for file in FILES)
    assert any("apps" in file for file in FILES)
    for file in FILES:
        CHECK.validate(file)


def _accepted(file: dict[str, Any]) -> bool:
    try:
        validate(parse(json.dumps(file), "file"), BidsFile if "bids" in file else SharingFile)
    except InputError:
        return False
    return True


def _changed(part: Any) -> list[Any]:
    """Every part of a file with one thing wrong in it: an unknown key, a value of another kind."""
    if isinstance(part, dict):
        return [{**part, "colour": 1}] + [{**part, key: new} for key, inner in part.items() for new in _changed(inner)]
    if isinstance(part, list):
        return [[*part[:i], new, *part[i + 1 :]] for i, inner in enumerate(part) for new in _changed(inner)] + [{}]
    return [[part], "some words", -1, True, 0.37, "90 %", "3 GPU h", "5 min", None]


@pytest.mark.parametrize("number", range(len(FILES)))
def test_what_it_refuses_the_reader_refuses(number: int) -> None:
    """And the other way, but for what only several keys together say."""
    stricter, looser, changed = [], [], _changed(FILES[number])
    for file in changed:
        if CHECK.is_valid(file) != _accepted(file):
            (looser if CHECK.is_valid(file) else stricter).append(file)
    assert stricter == []
    # Left to the reader: gang over gpus, two policies of one name, and the like.
    assert len(looser) <= 0.1 * len(changed), looser[:3]


@pytest.mark.parametrize(
    "wrong",
    [
        {"planners": ["themiss"]},
        {"planners": [{"name": "fifo", "options": {"farness": 0.5}}]},
        {"policies": ["themis"]},
        {"lease": "10 minutes"},
        {"lease": 0},
        {"planners": [{"name": "themis", "options": {"fairness": 1.2}}]},
        {"cluster": {"devices": 8, "preset": "themis-256"}},
        {"workload": {"kind": "themis-1"}},
        {"planner": {"name": "fifo"}},
        {"planners": [{"name": "fifo", "options": {"placement": "far"}}]},
        {"sharing": 2},
        {"seed": -1},
        {"bids": []},
    ],
)
def test_slips_are_seen_in_an_editor(wrong: dict[str, Any]) -> None:
    right = {"sharing": 1, "cluster": {"devices": 8}, "apps": [{"name": "a", "jobs": [{"work": "2 GPU h"}]}]}
    CHECK.validate(right)
    assert not CHECK.is_valid(right | wrong)
