"""Rooms whose names are loaded when they are asked for (`later`) have all that they promise."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
from typing import Any

import pytest

ROOMS = ("meshwright.planners.vllm", "meshwright.simulator", "meshwright.simulator.llm", "meshwright.traces")


@pytest.mark.parametrize("room", ROOMS)
def test_every_name_is_what_its_module_defines(room: str) -> None:
    package: Any = importlib.import_module(room)
    for name, origin in package._ORIGINS.items():
        assert getattr(package, name) is getattr(importlib.import_module(f"{room}.{origin}"), name)
    assert set(package._ORIGINS) <= set(package.__all__) <= set(dir(package))
    with pytest.raises(AttributeError, match=f"module '{room}' has no attribute 'nothing'"):
        _ = package.nothing


@pytest.mark.parametrize("room", ROOMS)
def test_no_module_hides_what_it_defines(room: str) -> None:
    """A module that is loaded becomes an attribute of its package: a function of its name would be found no more."""
    package: Any = importlib.import_module(room)
    assert [name for name in package._ORIGINS if importlib.util.find_spec(f"{room}.{name}") is not None] == []


STARTED = """
import sys
from meshwright import simulator
assert "meshwright.simulator.serving" not in sys.modules
simulator.serving.simulate, simulator.simulate
from meshwright.simulator import *
print(Plan.__name__, callable(simulate), "meshwright.simulator.serving" in sys.modules)
"""


def test_a_room_loads_another_when_it_is_named() -> None:
    done = subprocess.run([sys.executable, "-c", STARTED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["Plan", "True", "True"]
