"""The pages on LLM serving: their examples run and print what the pages show; links lead somewhere; options exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main
from meshwright.cli.main import app
from meshwright.reproduce import FIGURES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
LLM_PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*llm*.md")), DOCS / "export.md", DOCS / "concepts.md"]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text("utf-8"), re.DOTALL)


def test_parallel_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    (block,), (shown,) = blocks("llm-parallel.md", "python"), blocks("llm-parallel.md", "text")
    exec(block, {})
    assert capsys.readouterr().out == shown


def test_cost_runs(capsys: pytest.CaptureFixture[str]) -> None:
    first, experts = blocks("llm-cost.md", "python")
    said: dict[str, Any] = {}
    exec(first, said)
    assert "roofline" in capsys.readouterr().out
    assert 0.005 < said["cost"].seconds(said["step"]) < 1.0
    exec(experts, {})
    found = re.match(r"([\d.]+) billion weights, ([\d.]+) at work", capsys.readouterr().out)
    assert found is not None
    assert [float(figure) for figure in found.groups()] == pytest.approx([30.5, 3.3], abs=0.11)  # the model's card


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        there = page.parent / path if path else page
        assert there.exists(), f"{page.name}: {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", there.read_text("utf-8"), re.MULTILINE)
            assert anchor in {_anchor(heading) for heading in headings}, f"{page.name}: {target}"


def _anchor(heading: str) -> str:
    """As GitHub makes them."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", LLM_PAGES, ids=lambda page: page.name)
def test_commands_have_the_options_that_pages_use(page: Path) -> None:
    """Every ``meshwright …`` line of a block names a verb, options of that verb, and figures that there are."""
    text = page.read_text("utf-8")
    code = "\n".join(re.findall(r"```(?:bash)?\n(.*?)```", text, re.DOTALL))
    code += "\n" + "\n".join(re.findall(r"^    (meshwright .*)$", text, re.MULTILINE))
    lines = code.replace("\\\n", " ").replace("; meshwright", "\nmeshwright").splitlines()
    for line in (line.strip() for line in lines):
        if not line.startswith("meshwright ") or "…" in line:
            continue
        said = re.split(r"  #| \| | > ", line)[0]
        words = shlex.split(said.replace("[", " ").replace("]", " "))[1:]
        command = typer.main.get_command(app)
        while hasattr(command, "get_command") and words and not words[0].startswith("-"):
            command = command.get_command(None, words.pop(0))  # type: ignore[attr-defined, arg-type]
            assert command is not None, f"{page.name}: {line}"
        known = {name for p in command.params for name in (*p.opts, *p.secondary_opts)} | {"--help", "--debug"}
        for word in words:
            if re.match(r"--?[a-z]", word):
                assert word.partition("=")[0] in known, f"{page.name}: {line}"
        if command.name == "reproduce":
            figures = [w for w in words if not w.startswith("-") and w != "all"]
            assert set(figures) <= set(FIGURES), f"{page.name}: {line}"
