"""The accuracy page: lines as Markdown, and as a table for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .line import Line
from .make import Accuracy

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["markdown", "row", "table"]

COMMAND = "meshwright reproduce accuracy --out docs/accuracy.md"

HEADINGS = {
    "published": (
        "Held against what others published",
        "Computed anew by the command; a test computes them and reads this page. A paper's ratios and latencies are "
        "measurements of other people's, on hardware that nobody here has.",
    ),
    "here": (
        "Held against this machine",
        "Measured while the command ran. Short comparisons, so that the whole page takes minutes: a handful of cells "
        "says little about how often an interval holds. The longer ones are the commands that each line names.",
    ),
    "files": (
        "Held against files of yours",
        "Tables of measured engines and recorded runs, which cannot be shipped: `--silicon FILE --kernels FOLDER`, "
        "`--vllm-run FOLDER`.",
    ),
}

COLUMNS = ("world", "predicted", "measured by", "on", "when", "in sample", "n", "median", "worst", "signed", "inside")

INTRO = """# How wrong it is

Each line holds one kind of prediction against something that was measured. This page is written by

<!-- run: slow -->
```bash
{command}
```

and by nothing else: every figure below is what that command found. `--no-here` leaves out what is measured on the
machine, `--json` prints everything for programs.

- *median* and *worst*: of the errors, predicted less measured, without their sign (*worst* shows the sign); *signed*:
  the median with its sign, above 0 if predictions are too high. In percent of what was measured, or in percentage
  points where a share is predicted.
- *inside*: how many measurements lie in the prediction's interval, where there is one. Of 95 % intervals one in twenty
  may miss.
- *in sample*: *out*, nothing was chosen with these measurements in view; *in*, the prediction was fitted to them;
  *partly*, something was chosen with some of them, or with errors, in view. Below the table it says what.
"""


def row(line: Line) -> str:
    """A line as a row of a Markdown table."""
    facts = (line.world, line.what, line.measured_by, line.on, line.date, line.sample)
    if line.errors is None:
        cells = (*facts, "–", line.missing, "", "", "")
    else:
        cells = (*facts, str(line.errors.n), *line.errors.words())
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"


def note(line: Line) -> str:
    """What a line rests on, as an item of a list."""
    return f"- *{line.world}, {line.what}.* With {line.model}. {line.sample.capitalize()}: {line.why}. {line.source}."


def markdown(found: Accuracy) -> str:
    """The whole page."""
    blocks = [INTRO.format(command=COMMAND).rstrip(), found.circumstances()]
    for kind, (title, text) in HEADINGS.items():
        mine = [line for line in found.lines if line.kind == kind]
        if not mine:
            blocks.append(f"## {title}\n\n{text}\n\nNone were given.")
            continue
        head = "| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|"
        rows = "\n".join(row(line) for line in mine)
        notes = "\n".join(note(line) for line in mine if line.errors is not None)
        blocks.append(f"## {title}\n\n{text}\n\n{head}\n{rows}" + (f"\n\n{notes}" if notes else ""))
    return "\n\n".join(blocks) + "\n"


def table(found: Accuracy) -> Table:
    """Lines for a terminal."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE, show_edge=False, pad_edge=False)
    for name in ("world", "predicted", "measured", "sample", "n", "median", "worst", "signed", "inside"):
        made.add_column(name, ratio=2 if name == "predicted" else None, no_wrap=name in ("median", "worst", "signed"))
    for line in found.lines:
        who = f"{line.measured_by}; {line.on}; {line.date}"
        if line.errors is None:
            made.add_row(line.world, f"{line.what}: [dim]{line.missing}[/dim]", who, line.sample, "", "", "", "", "")
        else:
            made.add_row(line.world, line.what, who, line.sample, str(line.errors.n), *line.errors.words())
    return made
