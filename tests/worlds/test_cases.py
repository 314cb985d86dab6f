"""Cases from files, names and examples; leaves; the page of fields: the same for every world."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from meshwright.errors import InputError
from meshwright.worlds import WORLDS, open_world
from meshwright.worlds.cases import CaseFile, build, example, read_case, said_by_name
from meshwright.worlds.file.case_schema import json_schema
from meshwright.worlds.file.tables import fields_page
from meshwright.worlds.leaves import Leaf, leaves, parse

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", WORLDS)
def test_the_example_is_a_case_that_says_every_field(name: str, tmp_path: Path) -> None:
    world = open_world(name)
    text = example(world, world.sample)
    file = tmp_path / "case.yaml"
    file.write_text(text, encoding="utf-8")
    case = read_case(file)
    assert type(case) is world.case
    said = {leaf.path for leaf in leaves(world.case)}
    assert set(world.sample) <= said
    for path in said:
        assert f"{path.rpartition('.')[2]}:" in text, path
    # What is commented out holds anyway: the case is that of its uncommented lines alone.
    assert case == build(world, {k: v for k, v in yaml.safe_load(text).items() if k != "world"}, {})


@pytest.mark.parametrize("name", WORLDS)
def test_names_are_unambiguous_and_lead_to_their_fields(name: str) -> None:
    found = leaves(open_world(name).case)
    assert len({leaf.flag for leaf in found}) == len(found)
    for leaf in found:
        assert said_by_name(open_world(name), {leaf.name: leaf.default}) == {leaf.path: _plain(leaf.default)}


def _plain(value: object) -> object:
    return json.loads(json.dumps(value, default=list))


@pytest.mark.parametrize("name", WORLDS)
def test_no_option_of_a_door_is_called_as_a_field_that_it_takes(name: str) -> None:
    world = open_world(name)
    assert set(world.essentials) <= {leaf.path for leaf in leaves(world.case)}
    for door in world.doors.values():
        for leaf in leaves(door.options):
            assert leaf.says, f"{name}: {leaf.path}: says nothing"


@pytest.mark.parametrize("name", WORLDS)
def test_the_schema_takes_the_sample_and_no_other_world(name: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    world = open_world(name)
    schema = json_schema(world)
    said = yaml.safe_load(example(world, world.sample))
    jsonschema.validate(said, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**said, "world": "other"}, schema)


def test_the_page_of_fields_is_what_the_models_say() -> None:
    written = (ROOT / "docs" / "fields.md").read_text(encoding="utf-8")
    assert written == fields_page(), "write it again: python -m meshwright.worlds.file.tables > docs/fields.md"


def leaf_of(*kinds: str) -> Leaf:
    return Leaf("a.b", "b", "", kinds, (), "", None, False, False)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kinds", "text", "value"),
    [
        (("text",), "12", "12"),
        (("whole number",), "8", 8),
        (("number",), "8", 8.0),
        (("number",), "95 %", "95 %"),
        (("list",), "1,8", [1, 8]),
        (("list",), "1", [1]),
        (("text", "list"), "a,b", ["a", "b"]),
        (("text", "list"), "a", "a"),
        (("text", "list", "mapping"), "a=2,b", {"a": 2, "b": 1}),
        (("mapping",), "beam=2,tp=1,8,fast=true", {"beam": 2, "tp": [1, 8], "fast": True}),
        (("mapping",), "tp=[1,2],pp=[1]", {"tp": [1, 2], "pp": [1]}),
        (("mapping",), '{"tp": [1, 2]}', {"tp": [1, 2]}),
        (("list",), "[0.5, 1]", [0.5, 1]),
    ],
)
def test_text_becomes_what_the_field_takes(kinds: tuple[str, ...], text: str, value: object) -> None:
    found = parse(leaf_of(*kinds), text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("kinds", "text", "what"),
    [
        (("mapping",), "beam", "expected NAME=VALUE"),
        (("mapping",), "=2", "expected NAME=VALUE"),
        (("mapping",), "a=1,a=2", "a is given twice"),
        (("mapping",), "a=[1,2", "as JSON writes it"),
        (("list",), "[" * 100_000, "as JSON writes it"),
        (("list",), "1,0x10", "decimal"),
    ],
)
def test_text_that_is_no_value(kinds: tuple[str, ...], text: str, what: str) -> None:
    with pytest.raises(InputError, match=what):
        parse(leaf_of(*kinds), text)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("cluster: {devices: 1}\n", r"world: is missing; write one of serving, "),
        ("world: servin\n", r"case.yaml:1: world: unknown world \(got 'servin'\); did you mean 'serving'"),
        ("study: 1\nworld: llm\n", r"is a study, .*meshwright study"),
        ("world: llm\ncluster: {devices: 1}\nmodle: x\n", r"case.yaml:3: modle: unknown key.*did you mean 'model'"),
        ("world: llm\ncluster: {devices: many}\n", r"case.yaml:2: cluster.devices: should be a whole number"),
        ("world: llm\nplanners: []\n", r"planners: should be a list of names"),
        ("world: llm\nplanner: {name: vllm}\nplanners: [vllm]\n", r"planners: planner says one already"),
        ("world: llm\nplanners: [vllm, vllm]\n", r"planners: 'vllm' stands twice"),
        ("world: llm\nmodel: x\n", r"cluster.devices: is missing"),
    ],
)
def test_what_is_wrong_with_a_file(text: str, what: str, tmp_path: Path) -> None:
    file = tmp_path / "case.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=what):
        read_case(file)


def test_a_file_lists_planners(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(
        "world: serving\nname: both\ncluster: {devices: 1}\nworkload: {rate: 1}\n"
        "planners: [alpaserve, {name: alpaserve, label: other}]\n",
        encoding="utf-8",
    )
    found = CaseFile(file)
    assert found.name == "both"
    assert found.planners == [{"name": "alpaserve"}, {"name": "alpaserve", "label": "other"}]
