"""YAML that people write: lines, duplicate keys, and text that YAML reads as something else than it looks like."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from meshwright import studies
from meshwright.errors import InputError
from meshwright.worlds.file import yaml as yamlfile
from meshwright.worlds.file.document import validate
from meshwright.worlds.file.text import to_yaml
from pydantic import BaseModel, ConfigDict

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i + 1}: &a{i + 1} [{', '.join([f'*a{i}'] * 9)}]\n" for i in range(8)
)


def refused(text: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        yamlfile.parse(text, "f.yaml")
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: 1\na: 2\n", "f.yaml:2: a: this key stands twice (first on line 1); keep one"),
        ("a:\n  - {b: 1,\n     b: 2}\n", "f.yaml:3: a[0].b: this key stands twice (first on line 2)"),
        ("a: no\n", 'f.yaml:1: a: YAML reads no as a boolean; write "no" in quotes, or false'),
        ("a: [1, On]\n", 'f.yaml:1: a[1]: YAML reads On as a boolean; write "On" in quotes, or true'),
        ("b: 1\non: 5\n", 'f.yaml:2: a key: YAML reads on as a boolean; write "on" in quotes'),
        ("a: 1e5\n", "f.yaml:1: a: YAML reads 1e5 as text; write 1.0e+5 or 100000,"),
        ("a: -2.5E3\n", "write -2.5e+3 or -2500,"),
        ("a: 1e-3\n", "write 1.0e-3,"),
        ("a: 1_000\n", "write 1000,"),
        ("a: 12:30\n", "a: YAML reads 12:30 as a number to base 60"),
        ("a: 2024-01-31\n", "a: YAML reads 2024-01-31 as a date"),
        ("a: 2024-01-31T10:00:00Z\n", "as a date"),
        ("a: 010\n", "a: YAML reads 010 as octal or as text; write 10 if it is decimal"),
        ("a: 0o17\n", "as octal"),
        ("a: 08\n", "write 8 if it is decimal"),
        ("a: 0x1f\n", "a: expected a decimal number (got 0x1f)"),
        ("a: .inf\n", "a: expected a finite number (got .inf)"),
        ("a: -.INF\n", "finite"),
        ("a: .NaN\n", "finite"),
        ("a: 1.0e+999\n", "a: too large a number"),
        ("a: 9223372036854775808\n", "a: expected a whole number below 2^63"),
        (f"a: {'9' * 5000}\n", "a: expected a whole number below 2^63"),
        ("1: 2\n", 'f.yaml:1: a key must be text (got 1); write "1"'),
        ("a: {true: 2}\n", "a: a key must be text (got true)"),
        ("? [1, 2]\n: 3\n", "a key must be text (got a list or mapping)"),
        ("b: &b {c: 1}\na:\n  <<: *b\n", "f.yaml:3: a: merge keys are not read"),
        ("a: !!python/object/apply:os.system [ls]\n", "f.yaml:1: not YAML as this reads it: tags are not read"),
        ('a: !!int "5"\n', "tags are not read"),
        ("a: 1\n---\nb: 2\n", "f.yaml:2: not YAML as this reads it: a second document (---)"),
        ("a:\n\tb: 1\n", "f.yaml:2: not YAML as this reads it: a tab; indent and separate with spaces"),
        ("name: a: b\n", "f.yaml:1: not YAML as this reads it: a second colon in one line"),
        ("a: 1\nb\nc: 2\n", "a line without its colon"),
        ("a: [1, 2\nb: 3\n", "f.yaml:2: not YAML as this reads it: a list that is never closed"),
        ("a: 'x\nb: 3", "a quote or bracket that is never closed"),
        ("a: *b\n", "an alias (*) of an anchor (&) that is not there"),
        ("a: &a [*a]\n", "f.yaml:1: an anchor (&) that holds itself"),
        (BOMB, "f.yaml: anchors (&) make it"),
        ("a: " + "[" * 100_000, "nested more than 40 deep"),
        ("a: " + "{b: " * 5000, "nested more than 40 deep"),
        (
            "".join(f"{' ' * i}a:\n" for i in range(500)),
            "f.yaml:40: not YAML as this reads it: nested more than 40 deep",
        ),
        ('a: "\\ud800"\n', "a: text must not hold NUL or half a character"),
        ("a: b\x01\n", "a character that no text holds"),
        ("- a\n- b\n", "f.yaml:1: expected `key: value` lines at the top (got a list)"),
        ("a:1\nb:2\n", "expected `key: value` lines at the top (got a single value)"),
        ("", "f.yaml: the file is empty"),
        ("# only a comment\n", "f.yaml: the file is empty"),
    ],
)
def test_trap_is_refused_in_one_line_that_says_what_to_write(text: str, says: str) -> None:
    (line,) = refused(text)
    assert says in line
    assert line.startswith("f.yaml")


def test_all_traps_of_a_file_are_said_at_once_in_its_order() -> None:
    assert [line.split(": ")[0] for line in refused("a: no\nb: 1\nc: 1e5\nb: 2\nd: [12:30]\n")] == [
        "f.yaml:1", "f.yaml:3", "f.yaml:4", "f.yaml:5",
    ]  # fmt: skip


def test_what_no_version_of_yaml_disputes_is_read() -> None:
    text = """\ufeff%YAML 1.2
---
text: a word, 1/3, 10.0.0.0 and v100-16gb   # a comment
quoted: ["no", '1e5', "12:30", "010"]
block: |
  no
numbers: [1, -2, +3, 1.5, -.5, 5., 1.0e+5, 1.5E-3, 0]
words: [true, False, null, ~, y, n]
nothing:
shared: &shared [1, 2]
again: *shared
flow: {a: 1, b: [2]}
"""
    assert yamlfile.parse(text, "f").data == {
        "text": "a word, 1/3, 10.0.0.0 and v100-16gb",
        "quoted": ["no", "1e5", "12:30", "010"],
        "block": "no\n",
        "numbers": [1, -2, 3, 1.5, -0.5, 5.0, 100000.0, 0.0015, 0],
        "words": [True, False, None, None, "y", "n"],
        "nothing": None,
        "shared": [1, 2],
        "again": [1, 2],
        "flow": {"a": 1, "b": [2]},
    }


def test_lines_are_those_of_keys_and_of_what_encloses() -> None:
    document = yamlfile.parse("a:\n  b:\n    - 1\n    - c: 2\n      d: 3\n", "f")
    places = [(), ("a",), ("a", "b"), ("a", "b", 0), ("a", "b", 1, "d"), ("a", "b", 7), ("a", "x"), ("x",)]
    assert [document.line(loc) for loc in places] == [1, 1, 2, 3, 5, 2, 1, 1]


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    count: int
    rate: float = 1.0


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")
    inner: Inner
    names: str | tuple[str, ...] = ""
    parts: dict[str, Inner] = {}


def test_validate_says_everything_with_path_line_value_and_nearest_name() -> None:
    text = "inner:\n  cuont: 3\n  rate: fast\nnames: 5\nparts:\n  a:\n    count: 2.5\n  b: {count: '3', rate: true}\n"
    with pytest.raises(InputError) as caught:
        validate(yamlfile.parse(text, "f.yaml"), Outer)
    assert str(caught.value).splitlines() == [
        "f.yaml:1: inner.count: is missing",
        "f.yaml:2: inner.cuont: unknown key; did you mean 'count'?",
        "f.yaml:3: inner.rate: should be a number (got 'fast')",
        "f.yaml:4: names: should be text or a list (got 5); write [5]",
        "f.yaml:7: parts.a.count: should be a whole number (got 2.5)",
        "f.yaml:8: parts.b.count: should be a whole number (got '3')",
        "f.yaml:8: parts.b.rate: should be a number (got True)",
    ]


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
    | st.sampled_from(["no", "1e5", "010", "12:30", "1_000", "=", "<<", "~", "", ".inf", "2024-01-01", "a: b", "# x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abno1_", min_size=1), inner, max_size=3),
    max_leaves=8,
)


@given(PLAIN)
def test_what_we_write_is_what_we_read(value: object) -> None:
    assert yamlfile.parse(to_yaml({"value": value}), "f").data == {"value": value}


@given(st.text("abn01:-[]{}#&*!|>'\"%@`,?.e_ \n\t\r\ufeff\x85", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    said = ["f.yaml"]
    try:
        yamlfile.parse(text, "f.yaml")
    except InputError as error:
        said = str(error).splitlines()
    assert all(line.startswith("f.yaml") for line in said)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    latin, folder, missing = tmp_path / "latin.yaml", tmp_path, tmp_path / "missing.yaml"
    latin.write_bytes("study: 1\nname: Zürich\n".encode("latin-1"))
    for path, says in [
        (latin, f"{latin}:2: not UTF-8 (byte 0xfc)"),
        (folder, f"{folder}: cannot be read: Is a directory"),
        (missing, f"{missing}: cannot be read: No such file"),
        ("a\0b", "cannot be read"),
    ]:
        with pytest.raises(InputError) as caught:
            studies.load(path)
        assert says in str(caught.value)
