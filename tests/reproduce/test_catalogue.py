"""What can be made, and by which names: the catalogue, the modules on disk, the pages and the command line agree."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
from meshwright.errors import InputError
from meshwright.reproduce import FIGURES, PAPERS, Figure, resolve
from meshwright.reproduce.catalogue import completions

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "reproduce"
OLD = re.compile(r"(?<![\w/])(figure\d+(_\d+)?|table\d_\d|graphpipe(_table)?3_\d|themis_(figure|table)\d+)\b")


def path_of(figure: Figure) -> Path:
    return FOLDER.joinpath(*figure.module.split(".")[2:]).with_suffix(".py")


def test_every_module_of_a_figure_is_in_the_catalogue_and_the_other_way() -> None:
    found = {p for p in FOLDER.rglob("*.py") if re.fullmatch(r"(fig|table|note)\d+\.py", p.name)}
    assert found == {path_of(figure) for figure in FIGURES.values()}


@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
def test_a_module_writes_under_its_own_name(figure: Figure) -> None:
    """The name stands in the module twice, for its files and for ``python -m``; a copy would write another's files."""
    named = re.findall(r'"((?:{})/(?:fig|table|note)\d+)"'.format("|".join(PAPERS)), path_of(figure).read_text("utf-8"))
    assert {figure.name} == {n for n in named if n != figure.name} | {figure.name}
    assert f'main("{figure.name}")' in path_of(figure).read_text("utf-8")
    assert importlib.util.find_spec(figure.module) is not None


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["vllm/fig12"], ("vllm/fig12",)),
        (["vllm/5.12", "vllm/fig5.12", "vllm/figure12", "VLLM/fig012", "vllm/fig12"], ("vllm/fig12",)),
        (["vllm/5.2"], ("vllm/fig02",)),
        (["alpa/table3.5", "alpa/table5"], ("alpa/table5",)),
        (["alpa/fig13", "alpa/3.13"], ("alpa/fig12",)),
        (["graphpipe/3.6", "graphpipe/table3.1"], ("graphpipe/fig06", "graphpipe/table1")),
        (["cache-parallel/4.1"], ("cache_parallel/fig01",)),
        (["themis/note3"], ("themis/note3",)),
        (["themis/table3", "alpaserve/table4.1"], ("themis/table3", "alpaserve/table1")),
        (["vllm/fig12", "terapipe"], ("vllm/fig12", *(n for n in FIGURES if n.startswith("terapipe/")))),
        (["vllm/fig12", "all"], ("vllm/fig12", *(n for n in FIGURES if n != "vllm/fig12"))),
    ],
)
def test_what_words_stand_for(words: list[str], names: tuple[str, ...]) -> None:
    assert resolve(words) == names


def test_every_completion_is_understood_and_every_alias_is_one_figure() -> None:
    words = [word for word, _ in completions()]
    assert len(words) == len(set(words))
    assert all(resolve([word]) for word in words)
    for figure in FIGURES.values():
        assert resolve([figure.name]) == (figure.name,)
        assert figure.alias is None or resolve([figure.alias]) == (figure.name,)


@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
def test_a_number_of_another_chapter_is_no_alias(figure: Figure) -> None:
    kind = "" if figure.kind == "fig" else figure.kind
    for chapter in {2, 3, 4, 5, 6} - {PAPERS[figure.paper].chapter}:
        with pytest.raises(InputError, match="unknown figure"):
            resolve([f"{figure.paper}/{kind}{chapter}.{figure.number}"])


@pytest.mark.parametrize("bad", [{"paper": "nobody"}, {"kind": "plate"}, {"number": 0}, {"also": (0,)}, {"title": ""}])
def test_a_figure_is_checked(bad: dict[str, object]) -> None:
    good = {"paper": "vllm", "kind": "fig", "number": 3, "title": "x", "full": "seconds"}
    Figure(**good)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"unknown paper|start at 1"):
        Figure(**good | bad)  # type: ignore[arg-type]


def test_the_list_loads_no_figure_and_no_library() -> None:
    """Listing 70 figures by importing them took seconds; the catalogue and the kept verdicts are enough."""
    code = (
        "import sys; from meshwright.cli import run; assert run(['reproduce', '--list']) == 0\n"
        "heavy = {'numpy', 'pandas', 'matplotlib', 'numba', 'torch', 'scipy'} & set(sys.modules)\n"
        "made = [m for m in sys.modules if m.startswith('meshwright.reproduce.') and m.count('.') > 2]\n"
        "assert not heavy and not made, (heavy, made)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_no_code_keeps_an_old_spelling() -> None:
    files = [*FOLDER.rglob("*.py"), *(ROOT / "cli").rglob("*.py"), ROOT / "Makefile"]
    assert [p.name for p in files if OLD.search(p.read_text("utf-8"))] == []


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda p: p.name)
def test_pages_use_names_that_there_are(page: Path) -> None:
    text = page.read_text("utf-8")
    assert not OLD.findall(text)
    said = re.findall(r"`((?:{})/(?:fig|table|note)[\d.]+)`".format("|".join(PAPERS)), text)
    assert all(resolve([name]) for name in said)
    for module in re.findall(r"meshwright\.(reproduce(?:\.\w+)+)", text):
        assert (ROOT / module.replace(".", "/")).with_suffix(".py").is_file() or (
            ROOT / module.replace(".", "/")
        ).is_dir()
