"""README and every page: each block of code runs as it stands, and what is shown as printed is printed.

`pages.py` says what the marks above blocks mean; docs/testing.md how to write them.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import PAGES, ROOT, Block, MarkError, blocks
from run_page import BlockError, Reader, logical_lines, own_commands

IDS = [page.name for page in PAGES]


def followed(found: list[Block], folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What went wrong where, of all blocks in their order."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "200")
    reader = Reader(folder)
    wrong: list[str] = []
    for block in found:
        try:
            reader.follow(block)
        except BlockError as error:
            wrong.append(f"{block.place}: {error}")
    return wrong


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    """What a page registers is gone after it: tests that come later in this process know the shipped names alone."""
    from meshwright.simulator.llm import POLICIES
    from meshwright.simulator.llm.plan.entries import MEMORY_OPTION

    before = [(table, dict(table)) for table in (POLICIES, MEMORY_OPTION)]
    yield
    for table, shipped in before:
        for name in set(table) - set(shipped):
            del table[name]  # type: ignore[attr-defined]


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_block_runs_or_says_why_not(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [block for block in blocks(page) if not block.slow]
    assert followed(found, tmp_path, monkeypatch) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in PAGES if "<!-- run: slow -->" in page.read_text(encoding="utf-8")], ids=lambda p: p.name
)
def test_slow_blocks_too(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert followed(blocks(page), tmp_path, monkeypatch) == []


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_links_and_pictures_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    lost: list[str] = []
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(#[^)\s]*)?\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        there = page if not target else (page.parent / target).resolve()
        if not there.exists() or (anchor and there.suffix == ".md" and anchor[1:] not in anchors(there)):
            lost.append(target + anchor)
    assert not lost


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ +(.*?) *$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_what_is_to_be_installed_can_be() -> None:
    """No page, hint, workflow or example installs Meshwright from an index, which has none, or an extra that is not."""
    extras = set(
        tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    )
    listed = os.popen(f"git -C {ROOT} ls-files '*.py' '*.md' '*.yml' '*.yaml'").read().split()
    files = [ROOT / name for name in listed if (ROOT / name).exists() and name != "CHANGELOG.md"]
    assert len(files) > 500 or not (ROOT / ".git").exists()
    wrong: list[str] = []
    for path in [*files, *PAGES]:
        for words in re.findall(r"pip install[^\n`]*", path.read_text(encoding="utf-8")):
            if re.search(r"[' ]meshwright\b", words) and path.name != "test_pages.py":
                wrong.append(f"{path.relative_to(ROOT)}: {words}")
            named = re.search(r"\.\[([a-z,]+)\]", words)
            if named and not set(named[1].split(",")) <= extras:
                wrong.append(f"{path.relative_to(ROOT)}: no such extra: {words}")
    assert not wrong


def page(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "page.md"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<!-- run: fast -->\n```bash\nls\n```\n", "run: expected 'slow'"),
        ("<!-- not run: too hard -->\n```bash\nls\n```\n", "not run: expected one of"),
        ("<!-- not run: an excerpt -->\n```bash\nls\n```\n", "commands without a word IN CAPITALS"),
        ("<!-- runs: slow -->\n```bash\nls\n```\n", "unknown mark 'runs'"),
        ("<!-- run: slow -->\ntext\n", "marks stand directly above"),
        ("```text\nshown\n```\n", "what is shown is not compared"),
        ("```\nshown\n```\n", "a block of ''"),
        ("```yaml\na: 1\n```\n", "name the file"),
        ("words\n\n    meshwright plan\n", "code that is only indented"),
        ("<!-- holds: 1 -->\n", "holds: stands below"),
    ],
)
def test_marks_that_nobody_can_follow(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(MarkError, match=re.escape(said)):
        blocks(page(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("```bash\nmeshwright no-such-verb\n```\n", "exit 2"),
        ("```bash\nfalse | cat\n```\n", "exit 1"),
        ("```bash\nmeshwright doctor --no-such\nmeshwright trace --help\n```\n", "exit 2"),
        ("<!-- exits: 1 -->\n```bash\ntrue\n```\n", "exit 0"),
        ("```python\nprint(1)\nraise KeyError('x')\n```\n", "KeyError: 'x'"),
        ("```python\nprint('a 1.25 b')\n```\n\n<!-- prints -->\n```text\na 1.26 b\n```\n", "a 1.26 b"),
        (
            "```python\nprint('b')\nprint('a')\n```\n\n<!-- prints -->\n```text\na\nb\n```\n",
            "not printed, or not there",
        ),
        ("```python\nx = 1\n```\n<!-- holds: x == 2 -->\n", "does not hold: x == 2"),
    ],
)
def test_what_is_wrong_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str) -> None:
    (wrong, *_) = followed(blocks(page(tmp_path, text)), tmp_path, monkeypatch)
    assert said in wrong


def test_what_is_right_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
<!-- before: given = 3 -->
```python
print("seconds", 1.5)
print("more", given)
```
<!-- holds: "seconds" in printed -->

<!-- prints: but for 1\\.[0-9] -->
```text
seconds   1.7
…
```

<!-- file: a.txt -->
```text
words
```

```bash
cat a.txt | tr w W > b.txt     # a comment
echo "two \\
lines"
```
<!-- holds: Path("b.txt").read_text() == "Words\\n" and printed == "two lines\\n" -->
"""
    assert followed(blocks(page(tmp_path, text)), tmp_path, monkeypatch) == []


def test_lines_and_commands() -> None:
    code = "meshwright a --b 'c;d' \\\n    --e f > out.txt   # y\n# no\nmeshwright g && meshwright h; meshwright i\n"
    first, second = logical_lines(code)
    assert own_commands(first) == [(["a", "--b", "c;d", "--e", "f"], "out.txt")]
    assert own_commands(second) == [(["g"], ""), (["h"], ""), (["i"], "")]
    assert own_commands("meshwright a | head") is None
    assert own_commands('meshwright a --m "$(x)"') is None
