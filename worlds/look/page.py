"""One HTML page that needs nothing beside it: its frame, and the parts that every page has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template

__all__ = ["document", "held", "items", "pairs", "section"]

_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>$title</title>
<style>
$css</style>
</head>
<body>
<header>
<p class="eyebrow">$eyebrow</p>
<h1>$title</h1>
$hero
</header>
<main>
$sections
</main>
<footer><p>$footer</p></footer>
<script>
$js</script>
</body>
</html>
""")


def document(title: str, eyebrow: str, hero: str, sections: Sequence[str], footer: str) -> str:
    """The whole page.

    Parameters
    ----------
    title, eyebrow, footer : str
        Plain text: what it is called, of what kind it is, and what stands at its end.
    hero : str
        HTML of the answer, below the title.
    sections : sequence of str
        HTML; empty ones are left out.
    """
    return _PAGE.substitute(
        title=escape(title), eyebrow=escape(eyebrow), css=_data("page.css"), js=_data("page.js"), hero=hero,
        sections="\n".join(s for s in sections if s), footer=escape(footer),
    )  # fmt: skip


def _data(name: str) -> str:
    return files(__spec__.parent).joinpath(name).read_text(encoding="utf-8")


def section(title: str, body: str) -> str:
    """A section with its heading; `body` is HTML."""
    return f"<section>\n<h2>{escape(title)}</h2>\n{body}\n</section>"


def items(texts: Sequence[str]) -> str:
    """Items of a list, of plain text."""
    return "".join(f"<li>{escape(t)}</li>" for t in texts)


def pairs(facts: Mapping[str, str]) -> str:
    """Terms and what they are, of plain text."""
    return "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in facts.items())


def held(text: str) -> str:
    """Escaped, with numbers held to their signs."""
    return escape(text).replace(" %", "\u00a0%").replace(" ± ", "\u00a0±\u00a0").replace(" × ", "\u00a0×\u00a0")
