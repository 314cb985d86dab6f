"""Every field of every world's case says what it is; every number has two ends, and names its unit."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator, Mapping
from typing import Any

import annotated_types
import pytest
from meshwright.planners import batches
from meshwright.worlds import WORLDS, limits, world
from meshwright.worlds.names import check_names
from pydantic import BaseModel
from pydantic.fields import FieldInfo

UNITS = re.compile(
    r"number of|numbers of|seconds|samples|tokens|bytes|requests|factor|share|ratio|price|devices|microbatches|"
    r"whole number"
)
"""Words of which the description of a number has one: what is counted or measured, or that it has no unit."""


def every_field(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """All fields, those of sections and of what lists hold among them."""
    for name, field in model.model_fields.items():
        inner = [kind for kind in kinds(field.annotation) if isinstance(kind, type) and issubclass(kind, BaseModel)]
        if not inner:
            yield prefix + name, field
        for kind in inner:
            yield from every_field(kind, f"{prefix}{name}.")


def kinds(annotation: Any) -> Iterator[Any]:
    """Types that an annotation is made of; of a mapping those of its values."""
    inner = typing.get_args(annotation)
    origin = typing.get_origin(annotation)
    if origin is typing.Literal:
        return
    if isinstance(origin, type) and issubclass(origin, Mapping):
        inner = inner[1:]
    elif origin is typing.Annotated:
        inner = inner[:1]
    if not inner:
        yield annotation
    for each in inner:
        yield from kinds(each)


def marks(annotation: Any) -> Iterator[Any]:
    """What `Annotated` says, at any depth."""
    for each in typing.get_args(annotation):
        yield from marks(each)
    if typing.get_origin(annotation) is typing.Annotated:
        for mark in typing.get_args(annotation)[1:]:
            yield from mark.metadata if isinstance(mark, FieldInfo) else [mark]


FIELDS = [(name, path, field) for name in WORLDS for path, field in every_field(world(name).case)]
NAMES = [f"{name}: {path}" for name, path, _ in FIELDS]


@pytest.mark.parametrize(("name", "path", "field"), FIELDS, ids=NAMES)
def test_it_says_what_it_is_with_unit_and_bounds(name: str, path: str, field: FieldInfo) -> None:
    said = field.description or ""
    assert len(said) > 5, "a sentence for help and documentation"
    assert not said.endswith("."), "descriptions are parts of tables"
    if not {int, float} & set(kinds(field.annotation)) or path == "workload.split":  # shares of any sum
        return
    assert UNITS.search(said), f"its unit, in: {said}"
    if path == "seed":
        return  # the contract's own: replications count it up
    found = [*field.metadata, *marks(field.annotation)]
    assert any(isinstance(m, annotated_types.Gt | annotated_types.Ge) for m in found), "a lower bound"
    assert any(isinstance(m, annotated_types.Lt | annotated_types.Le) for m in found), "an upper bound"


def test_there_are_fields_of_all_worlds() -> None:
    assert {name for name, _, _ in FIELDS} == set(WORLDS)
    paths = {path for name, path, _ in FIELDS if name == "sharing"}
    assert {"apps.jobs.gang", "failures.machines.repair", "apps.slowdown.rack"} <= paths


def test_limits_are_those_of_the_rooms_below() -> None:
    assert limits.MAX_BATCH == batches.MAX_BATCH


@pytest.mark.parametrize("name", WORLDS)
def test_names_of_shipped_worlds_clash_with_none(name: str) -> None:
    """Worlds from outside are checked when they are opened."""
    check_names(world(name))
