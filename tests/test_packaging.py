"""The package as it is shipped: every folder of code, the data files, the license, the version."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import meshwright
import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
NOT_CODE = {"tests", "docs", "examples", "build", "dist"}


def code_folders() -> set[str]:
    """Packages that the folders make, by their dotted names."""
    found = {"meshwright"}
    for init in ROOT.rglob("__init__.py"):
        parts = init.relative_to(ROOT).parts[:-1]
        if parts and parts[0] not in NOT_CODE and not any(part.startswith(".") for part in parts):
            found.add(".".join(("meshwright", *parts)))
    return found


def test_package_list_is_complete() -> None:
    """A forgotten sub-package would vanish from the wheel."""
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == code_folders()


def test_every_python_folder_is_a_package() -> None:
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT).parts[:-1]
        if parts and parts[0] not in NOT_CODE and not any(part.startswith(".") for part in parts):
            assert (path.parent / "__init__.py").exists(), f"{path.parent} holds code but is no package"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel, built from a copy: a build leaves folders behind."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout: cannot tell the project's files from others")
    for name in filter(None, listed.stdout.decode().split("\0")):
        folder = name.split("/")[0]
        wanted = folder not in NOT_CODE or (folder == "examples" and name.endswith(".yaml"))
        if not wanted or not (ROOT / name).is_file():
            continue
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet", "-w", out, source]
    subprocess.run(command, check=True, capture_output=True)
    (built,) = out.glob("*.whl")
    return built


def test_wheel_holds_all_code_and_data_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    code = {n for n in names if n.endswith(".py")}
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    expected = {
        f"meshwright/{n}"
        for n in tracked.split("\0")
        if n.endswith(".py") and n.split("/")[0] not in NOT_CODE and (ROOT / n).is_file()
    }
    assert code == expected
    assert "meshwright/py.typed" in names
    assert "meshwright/runtime/export/triton_model.py.txt" in names
    shipped = {p.name for p in (ROOT / "profiles/data").iterdir() if p.is_file()}
    assert shipped
    assert {f"meshwright/profiles/data/{n}" for n in shipped} <= names
    examples = {f"meshwright/examples/{p.name}" for p in (ROOT / "examples").glob("*.yaml")}
    assert {n for n in names if "/examples/" in n} == examples, "what `meshwright study --example` prints"
    assert all(n.startswith(("meshwright/", "meshwright-")) for n in names), "nothing outside our names"
    assert not [n for n in names if "/tests/" in n or "__pycache__" in n]


def test_wheel_says_version_license_and_command(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    info = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA")).rsplit("/", 1)[0]
    metadata = archive.read(f"{info}/METADATA").decode()
    assert f"\nVersion: {meshwright.__version__}\n" in metadata
    assert "\nLicense-Expression: Apache-2.0\n" in metadata
    assert "\nRequires-Python: >=3.11\n" in metadata
    assert any(n.endswith("LICENSE") for n in archive.namelist())
    assert "meshwright = meshwright.__main__:main" in archive.read(f"{info}/entry_points.txt").decode()


def test_version_is_one() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", meshwright.__version__)
    done = subprocess.run([sys.executable, "-m", "meshwright", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"meshwright {meshwright.__version__}\n"


def test_license_is_the_one_that_we_name() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert PROJECT["project"]["license"] == "Apache-2.0"


def test_root_package_imports_nothing() -> None:
    """pytest and others import it under the checkout folder's name: an eager one would load every class twice."""
    done = subprocess.run(
        [sys.executable, "-c", "import sys, meshwright; print([m for m in sys.modules if 'meshwright.' in m])"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "[]\n"
