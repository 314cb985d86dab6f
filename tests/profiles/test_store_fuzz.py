"""Whatever a profile file holds, loading it gives a profile or an `InputError`, never anything else."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from meshwright import profiles
from meshwright.errors import InputError
from meshwright.profiles import Layer, LayerTable, ModelProfile, ParallelConfig, ProfileSet, Provenance

SET = ProfileSet(
    "mine",
    "cpu-core",
    {"a": ModelProfile.from_stages("a", {ParallelConfig(2, 2): {1: [0.1, 0.2], 2: [0.2, 0.3]}})},
    Provenance("a stopwatch"),
)
TABLE = LayerTable("m", (Layer("a", {1: {1: 0.1}}, {1: 4.0}), Layer("b", {1: {1: 0.1}}, {1: 4.0}, block=0)))

junk = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from([10**400, -1, 0, [], {}, [[]], {"1": []}, "op2pp2", "1" * 5000]),
    st.lists(st.integers(), max_size=3),
)


def paths(value: Any, at: tuple = ()) -> list[tuple]:
    """Where a document can be broken: every key of every object and index of every list."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = []
    for key, inner in items:
        found += [(*at, key), *paths(inner, (*at, key))]
    return found


def broken(document: Any, data: st.DataObject) -> Any:
    out = copy.deepcopy(document)
    for _ in range(data.draw(st.integers(1, 3))):
        everywhere = paths(out)
        if not everywhere:
            break
        *way, last = data.draw(st.sampled_from(everywhere))
        inner = out
        for key in way:
            inner = inner[key]
        match data.draw(st.sampled_from(["replace", "delete", "rename"])):
            case "delete":
                del inner[last]
            case "rename" if isinstance(inner, dict):
                inner[data.draw(st.text(max_size=6))] = inner.pop(last)
            case _:
                inner[last] = copy.deepcopy(data.draw(junk))  # a drawn list must not come to lie in itself
    return out


@pytest.mark.filterwarnings("ignore::meshwright.profiles.ProfileWarning")
@pytest.mark.parametrize("kind", ["set", "layers"])
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_only_input_errors_escape(kind: str, tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "p.json"
    good = profiles.save(SET, path) if kind == "set" else profiles.save_layers(TABLE, path)
    document = broken(json.loads(good.read_text()), data)
    path.write_text(json.dumps(document))
    try:
        told = str(profiles.load(path) if kind == "set" else profiles.load_layers(path))
    except InputError as error:
        told = str(error)
        lines = told.splitlines()
        foreign = [line for line in lines if not line.startswith(f"{path}: ")]
        if foreign:
            pytest.fail(f"an error that does not name its file: {foreign[0]}")
    assert told


@pytest.mark.parametrize("text", ["[" * 100_000, '{"format": ' + "9" * 5000 + "}"])
def test_text_that_breaks_readers(tmp_path: Path, text: str) -> None:
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(InputError):
        profiles.load(tmp_path / "p.json")
