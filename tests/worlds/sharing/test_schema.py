"""The published JSON Schemas of cases and of bids: current, and of one mind with the reader of files."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from how_many import examples
from meshwright.cli import run
from meshwright.errors import InputError
from meshwright.worlds.cases import CaseFile, build
from meshwright.worlds.file.case_schema import json_schema
from meshwright.worlds.file.document import validate
from meshwright.worlds.file.yaml import parse
from meshwright.worlds.sharing.bids import BidsFile, bids_schema
from meshwright.worlds.sharing.world import WORLD

ROOT = Path(__file__).resolve().parents[3]
PUBLISHED = ROOT / "docs/schema"
CHECK = jsonschema.Draft202012Validator(json_schema(WORLD))
BIDS = jsonschema.Draft202012Validator(bids_schema())
TEXTS = [
    block
    for page in ("sharing", "sharing-workloads", "sharing-run")
    for block in re.findall(r"```yaml\n(.*?)```", (ROOT / f"docs/{page}.md").read_text(encoding="utf-8"), re.DOTALL)
] + [path.read_text(encoding="utf-8") for path in sorted((ROOT / "examples").glob("*.yaml"))]
MOST = 100
"""Changes of a file that `make test` tries, drawn by the file's number; `make test-all` tries all, hundreds of each."""
READ = [parse(text, "file").data for text in TEXTS]
FILES = [said for said in READ if said.get("world") == "sharing" and "study" not in said]


def test_the_published_files_are_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["new", "sharing", "--schema"]) == 0
    said = capsys.readouterr().out
    committed = (PUBLISHED / "sharing-case-1.schema.json").read_text(encoding="utf-8")
    assert said == committed, "run: meshwright new sharing --schema > that file"
    bids = (PUBLISHED / "sharing-bids-1.schema.json").read_text(encoding="utf-8")
    assert run(["new", "sharing", "--schema-of", "bids"]) == 0
    assert capsys.readouterr().out == bids, "run: meshwright new sharing --schema-of bids > that file"
    for text in (said, bids):
        jsonschema.Draft202012Validator.check_schema(json.loads(text))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("new sharing --schema-of bid", "no option 'bid' takes files that have a schema; did you mean 'bids'?"),
        ("new llm --schema-of bids", "no option 'bids' takes files that have a schema; those of llm: none"),
    ],
)
def test_of_other_files_there_is_none(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words.split()) == 2
    assert capsys.readouterr().err == f"meshwright: --schema-of: {said}\n"


def _check(file: dict[str, Any]) -> Any:
    return BIDS if "bids" in file else CHECK


def test_they_take_files_of_the_pages_and_examples() -> None:
    assert len(FILES) >= 6
    assert any("bids" in file for file in FILES)
    assert any("apps" in file for file in FILES)
    for file in FILES:
        _check(file).validate(file)


def _accepted(file: dict[str, Any], folder: Path) -> bool:
    path = folder / "file.yaml"
    path.write_text(json.dumps(file))
    try:
        if "bids" in file:
            validate(parse(path.read_text(), "file"), BidsFile)
        else:
            case = CaseFile(path)
            for planner in case.planners or [None]:
                build(case.world, case.said if planner is None else {**case.said, "planner": planner}, {})
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
def test_what_it_refuses_the_reader_refuses(number: int, tmp_path: Path) -> None:
    """And the other way, but for what only several keys together say."""
    stricter, looser, changed = [], [], _changed(FILES[number])
    most = examples(MOST, anew=len(changed))
    changed = random.Random(number).sample(changed, min(most, len(changed)))
    for file in changed:
        valid = _check(FILES[number]).is_valid(file)
        if valid != _accepted(file, tmp_path):
            (looser if valid else stricter).append(file)
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
        {"planner": {"name": "fifo"}, "planners": ["fifo"]},
        {"planners": [{"name": "fifo", "options": {"placement": "far"}}]},
        {"world": "serving"},
        {"seed": -1},
        {"bids": []},
    ],
)
def test_slips_are_seen_in_an_editor(wrong: dict[str, Any]) -> None:
    right = {"world": "sharing", "cluster": {"devices": 8}, "apps": [{"name": "a", "jobs": [{"work": "2 GPU h"}]}]}
    CHECK.validate(right)
    assert not CHECK.is_valid(right | wrong)
