"""Reads README and the pages: their blocks of code in order, each with the marks that stand above it.

A mark is an HTML comment, which readers do not see. Above a block stand, a line each:

    <!-- run: slow -->              takes more than a few seconds: `make test-all` runs it, `make test` does not
    <!-- not run: REASON -->        one of `REASONS`
    <!-- file: NAME -->             the block is that file, beside what follows on the page
    <!-- before: PYTHON -->         what a reader of the block has: run first, in its folder; `sh("…")` runs a command
    <!-- serves: WORDS URL -->      the command with WORDS in it runs for ever: started, asked at URL, then stopped
    <!-- exits: CODE -->            the block's last command says no
    <!-- prints -->                 a text block: what the block before it printed; … stands for anything
    <!-- prints: but for REGEX -->  what is measured may differ

and below a block, as often as there is something to say, `<!-- holds: PYTHON -->`: an expression that must be true. It
sees the names of the page's Python and `printed`, what the block wrote to standard output.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))

REASONS = frozenset(
    {
        "needs a GPU",
        "needs a cluster",
        "needs Docker",
        "needs the network",
        "needs data that may not be shipped",
        "takes hours",
        "takes many minutes",
        "an excerpt",  # of a file, or a form with words in capitals: nothing that could be run
    }
)
WRITTEN = re.compile(r"<!-- (verdicts: \w+|end of verdicts) -->$")
"""Around what is written by a program: ``python -m meshwright.reproduce.pages``."""
RUN = ("bash", "python", "yaml")
SHOWN = ("text", "json", "toml", "dockerfile")
SINGLE = ("run", "not run", "file", "before", "serves", "exits", "prints")
CODE = re.compile(
    r"\s*(\$ )?(meshwright|python3?|pip|make|curl|sqlite3|dask|bash|docker|kubectl|from \w[\w.]* import|import \w)\b"
)
MARK = re.compile(r"^<!-- (?P<key>[a-z ]+?)(?:: (?P<value>.*?))? ?-->$", re.DOTALL)


class MarkError(ValueError):
    """A mark, or a block without one, that nobody can follow."""


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code on a page.

    Parameters
    ----------
    page : str
        Its file's name.
    line : int
        Where its first line of code stands.
    language : str
        As the fence says; "" if it says none.
    code : str
        What stands between the fences.
    marks : dict
        What stands above, by key.
    holds : tuple of str
        What stands below: expressions.
    """

    page: str
    line: int
    language: str
    code: str
    marks: dict[str, str] = field(default_factory=dict)
    holds: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def slow(self) -> bool:
        return self.marks.get("run") == "slow"

    @property
    def runs(self) -> bool:
        return self.language in RUN and "not run" not in self.marks

    def check(self) -> None:
        """That the block runs, is compared with what was printed, or says why not."""
        marks = self.marks
        for key in marks:
            if key not in SINGLE:
                raise MarkError(f"{self.place}: unknown mark {key!r}; tests/docs/pages.py lists them")
        if marks.get("run", "slow") != "slow":
            raise MarkError(f"{self.place}: run: expected 'slow' (got {marks['run']!r})")
        reason = marks.get("not run")
        if reason is not None and reason not in REASONS:
            raise MarkError(f"{self.place}: not run: expected one of {', '.join(sorted(REASONS))} (got {reason!r})")
        if reason == "an excerpt" and self.language == "bash" and not re.search(r"(?<=[ =])[A-Z]{3,}\b", self.code):
            raise MarkError(
                f"{self.place}: commands without a word IN CAPITALS are no form; write them so that they run"
            )
        if self.language not in (*RUN, *SHOWN):
            raise MarkError(f"{self.place}: a block of {self.language!r}; expected one of {', '.join((*RUN, *SHOWN))}")
        if self.language in SHOWN and not marks.keys() & {"prints", "not run", "file"}:
            raise MarkError(
                f"{self.place}: what is shown is not compared: mark it 'prints', or 'not run' with the reason"
            )
        if self.language == "yaml" and not marks.keys() & {"file", "not run"}:
            raise MarkError(
                f"{self.place}: name the file that this is (file: NAME), or say why it is none (not run: …)"
            )
        if "prints" in marks and self.language in RUN:
            raise MarkError(f"{self.place}: prints: stands above the text that shows what was printed")


def blocks(page: Path) -> list[Block]:
    """The blocks of a page in their order, checked.

    Raises
    ------
    MarkError
        If a mark is unknown, a block has none that it needs, or code stands where it would not be found.
    """
    lines = page.read_text(encoding="utf-8").splitlines()
    found: list[Block] = []
    marks: dict[str, str] = {}
    i = 0
    while i < len(lines):
        line = lines[i]
        place = f"{page.name}:{i + 1}"
        if WRITTEN.match(line):
            i += 1
        elif line.startswith("<!--"):
            last = next((j for j in range(i, len(lines)) if lines[j].endswith("-->")), None)
            if last is None:
                raise MarkError(f"{place}: a comment without end")
            mark = MARK.match("\n".join(lines[i : last + 1]))
            if mark is None:
                raise MarkError(f"{place}: a comment that is no mark (got {line!r})")
            key, value = mark["key"], (mark["value"] or "").strip()
            if key == "holds":
                if not found or marks:
                    raise MarkError(f"{place}: holds: stands below the block that it is about")
                found[-1] = Block(**{**_fields(found[-1]), "holds": (*found[-1].holds, value)})
            elif key in marks:
                raise MarkError(f"{place}: {key}: said twice")
            else:
                marks[key] = value
            i = last + 1
        elif fence := re.match(r"( *)```(\w*)$", line):
            end = next(j for j in range(i + 1, len(lines)) if lines[j].strip() == "```")
            code = "\n".join(text.removeprefix(fence[1]) for text in lines[i + 1 : end]) + "\n"
            found.append(Block(page.name, i + 2, fence[2], code, marks))
            found[-1].check()
            marks, i = {}, end + 1
        else:
            if marks:
                raise MarkError(f"{place}: marks stand directly above a block ({', '.join(marks)})")
            if line.startswith("    ") and not lines[i - 1].strip() and CODE.match(line):
                raise MarkError(f"{place}: code that is only indented: fence it, so that it is run")
            i += 1
    if marks:
        raise MarkError(f"{page.name}: marks without a block ({', '.join(marks)})")
    return found


def _fields(block: Block) -> dict[str, object]:
    return {name: getattr(block, name) for name in Block.__slots__}
