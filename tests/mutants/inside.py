"""A pytest plugin for runs in a copy of the tree: the package that is tested is the copy, and the mutant imports."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import pytest
from hypothesis import Phase, settings

MODULES = "MESHWRIGHT_MUTATED_MODULES"
"""Environment variable: modules that were changed, with commas between them."""


@pytest.hookimpl(trylast=True)  # after tests/conftest.py, whose drawn examples stay
def pytest_configure(config: pytest.Config) -> None:
    phases = (Phase.explicit, Phase.generate)  # that an example fails is enough: no minutes to make it small
    settings.register_profile("mutants", settings.default, phases=phases)
    settings.load_profile("mutants")
    copy = Path.cwd().resolve()
    for name in ("meshwright", *filter(None, os.environ.get(MODULES, "").split(","))):
        try:
            file = importlib.import_module(name).__file__
        except Exception as error:
            raise pytest.UsageError(f"mutants: {name} cannot be imported: {error!r}") from error
        if file is None or not Path(file).resolve().is_relative_to(copy):
            raise pytest.UsageError(f"mutants: {name} is {file}, which is not in the copy {copy}")
