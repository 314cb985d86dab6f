"""The accuracy page: lines as Markdown, and as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from .gather import Accuracy
from .line import Line

__all__ = ["markdown", "row", "text"]

COMMAND = "meshwright reproduce accuracy --out docs/accuracy.md"

HEADINGS = {
    "published": (
        "Held against what others published",
        "Computed anew by the command; a test computes them and reads this page. A paper's ratios and latencies are "
        "measurements of other people's, on hardware that is not at hand.",
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

SAMPLED = {"out": "out of sample", "in": "in sample", "partly": "partly in sample"}

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


def notes(lines: Iterable[Line]) -> list[str]:
    """What lines rest on, as items of a list; those that rest on the same are one."""
    alike: dict[tuple[str, str, str, str], list[Line]] = {}
    for line in lines:
        alike.setdefault((line.world, line.model, line.sample, line.why), []).append(line)
    return [
        f"- *{world}, {'; '.join(line.what for line in mine)}.* With {model}. {SAMPLED[sample].capitalize()}: {why}. "
        f"Source: {'; '.join(dict.fromkeys(line.source for line in mine))}."
        for (world, model, sample, why), mine in alike.items()
    ]


def markdown(found: Accuracy) -> str:
    """The whole page."""
    blocks = [INTRO.format(command=COMMAND).rstrip(), found.circumstances()]
    for kind, (title, about) in HEADINGS.items():
        mine = [line for line in found.lines if line.kind == kind]
        if not mine:
            blocks.append(f"## {title}\n\n{about}\n\nNone were given.")
            continue
        head = "| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|"
        rows = "\n".join(row(line) for line in mine)
        rests = "\n".join(notes(line for line in mine if line.errors is not None))
        blocks.append(f"## {title}\n\n{about}\n\n{head}\n{rows}" + (f"\n\n{rests}" if rests else ""))
    return "\n\n".join(blocks) + "\n"


def text(found: Accuracy) -> str:
    """Lines for a terminal: what is predicted, then who measured it and the errors."""
    said: list[str] = []
    for line in found.lines:
        who = f"{line.measured_by}, {line.on}, {line.date}"
        if line.errors is None:
            errors = line.missing
        else:
            median, worst, bias, inside = line.errors.words()
            errors = f"{line.errors.n} errors: median {median}, worst {worst}, signed {bias}"
            errors += f"; {inside} inside" if inside else ""
        said += [f"{line.world:<9}{line.what}", f"{'':<9}{who}; {SAMPLED[line.sample]}", f"{'':<9}{errors}", ""]
    return "\n".join([*said, found.circumstances()])
